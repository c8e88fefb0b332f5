"""Stopping rules that a request chooses, in the engine."""

from types import SimpleNamespace

import pytest

from gesso.diffusion.stopping import deadline
from gesso.engine.engine import Engine, Request
from gesso.engine.engine_core import EngineCore
from gesso.engine.output import OutputAssembler
from gesso.generation import GenerationConfig
from gesso.text.tool_calls import CALL


def test_an_answer_region_ends_a_canvas_while_the_rest_goes_on(tiny: Engine) -> None:
    base = {"seed": 2, "max_new_tokens": 8, "max_denoising_steps": 12, "confidence_threshold": 10.0}
    whole = tiny.generate("Sort: b, a", stability_threshold=3, **base)
    part = tiny.generate("Sort: b, a", stopping="answer_region", region_start=7, stability_threshold=3, **base)
    assert sum(part.denoising_steps) < sum(whole.denoising_steps)
    assert part.converged == (True,)


def test_a_stop_string_in_a_call_that_the_answer_ends_in_is_why_it_ends(tiny: Engine) -> None:
    """Such a call becomes text at the end, and the text is cut there."""
    tokens = [tiny.tokenizer.special[CALL], *tiny.tokenizer.encode("call:f{a:1} fig")]
    for stop, reason, text in (
        (("1",), "stop", "<|tool_call>call:f{a:"),
        (("2",), "length", "<|tool_call>call:f{a:1} fig"),
    ):
        output = OutputAssembler(GenerationConfig(max_new_tokens=len(tokens), stop=stop), tiny.tokenizer, (), -1, None)
        output.add(tokens)
        assert (output.finish_reason, output.parser.text) == (reason, text)


def test_prophet_reads_gaps_that_no_cut_has_widened(tiny: Engine) -> None:
    """The tiny model is sure of nothing, however few tokens a request draws from."""
    base = {"seed": 2, "max_new_tokens": 8, "max_denoising_steps": 4, "stopping": "prophet"}
    far = {"gap_early": 1e6, "gap_late": 1e6}
    for cut in ({}, {"top_k": 1}, {"top_p": 0.001}, {"min_p": 1.0}):
        assert tiny.generate("Sort: b, a", **base, **far, **cut).denoising_steps == (4,)


def test_time_before_the_first_step_is_none_of_a_canvas(tiny: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: now[0]))
    options = {"stopping": "deadline", "canvas_seconds": 0.5, "confidence_threshold": 0.0, "max_denoising_steps": 3}
    state = tiny.start(Request("Sort: b, a", {**options, "max_new_tokens": 8, "seed": 1}))
    now[0] += 60.0
    core = EngineCore(tiny.runner, max_running=1, chunk=128)
    core.scheduler.add(state)
    while not core.idle:
        core.step()
    core.close()
    assert state.result().denoising_steps == (3,)
