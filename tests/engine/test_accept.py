"""A function of the request that ends a canvas."""

import json
from typing import Any

import pytest

from engine.tiny import reciter
from gesso.diffusion.guidance import BlackBox
from gesso.engine.engine import Engine, Request
from gesso.errors import OptionError
from gesso.text.graded import graded_text
from gesso.text.output import Delta, OutputParser

PROMPT = "Sort: pear, fig"
BASE: dict[str, Any] = {"seed": 3, "max_denoising_steps": 7, "confidence_threshold": 0.0}


def test_it_is_asked_after_every_step_and_ends_the_canvas(tiny: Engine) -> None:
    seen: list[str] = []
    whole = tiny.generate(PROMPT, max_new_tokens=8, accept=lambda text: seen.append(text) or False, **BASE)  # type: ignore[func-returns-value]
    assert whole.denoising_steps == (7,)
    assert len(seen) == 7
    assert seen[-1] == whole.text
    wanted = seen[2]
    first = seen.index(wanted) + 1
    ended = tiny.generate(PROMPT, max_new_tokens=8, accept=lambda text: text == wanted, **BASE)
    assert (ended.text, ended.denoising_steps, ended.converged) == (wanted, (first,), (True,))


def test_it_sees_the_answer_from_its_beginning(tiny: Engine) -> None:
    seen: list[str] = []
    tiny.generate(PROMPT, begin="fig", max_new_tokens=20, accept=lambda text: seen.append(text) or False, **BASE)  # type: ignore[func-returns-value]
    result = tiny.generate(PROMPT, begin="fig", max_new_tokens=20, **BASE)
    assert all(text.startswith("fig") for text in seen)
    assert seen[-1] == result.text


def test_a_step_reads_its_own_canvas_and_not_the_answer_before_it(
    tiny: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed = 0
    feed = OutputParser.feed

    def counted(parser: OutputParser, token: int) -> Delta:
        nonlocal fed
        fed += 1
        return feed(parser, token)

    monkeypatch.setattr(OutputParser, "feed", counted)
    result = tiny.generate(PROMPT, max_new_tokens=80, ignore_eos=True, accept=lambda _: False, **BASE)
    assert len(result.denoising_steps) == 10
    assert fed <= 80 + 8 * sum(result.denoising_steps)


@pytest.mark.parametrize(("options", "option"), [({"accept": 5}, "accept"), ({"mode": "ar"}, "accept")])
def test_refusals(tiny: Engine, options: dict[str, Any], option: str) -> None:
    with pytest.raises(OptionError) as caught:
        tiny.generate(PROMPT, **{"accept": lambda _: True, **options})
    assert caught.value.option == option


@pytest.mark.parametrize("sampler", ["remdm", "block_refinement", "low_confidence", "discrete_ddim"])
def test_it_is_asked_about_the_text_that_is_emitted(tiny: Engine, sampler: str) -> None:
    for seed in range(5):
        seen: list[str] = []

        def third(text: str, seen: list[str] = seen) -> bool:
            seen.append(text)
            return len(seen) == 3

        options = {**BASE, "seed": seed, "temperature": 2.0, "sampler": sampler}
        assert tiny.generate(PROMPT, max_new_tokens=8, accept=third, **options).text == seen[-1]


def test_a_call_of_a_function_is_seen_as_json() -> None:
    engine = reciter('<|tool_call>call:f{a:<|"|>fig<|"|>}<tool_call|>', canvas=32)
    seen: list[str] = []
    result = engine.generate(PROMPT, seed=1, accept=seen.append)
    assert set(seen) == {graded_text(result)} == {json.dumps({"name": "f", "arguments": {"a": "fig"}})}


@pytest.mark.parametrize(
    "options", [{"accept": lambda _: True}, {"classifier": BlackBox(lambda _: 0.0)}, {"prediction": "fig"}]
)
def test_a_checkpoints_mode_ar_gives_way_to_what_needs_a_canvas(tiny: Engine, options: dict[str, Any]) -> None:
    defaults = tiny.defaults.override(mode="ar")
    engine = Engine(tiny.runner, tiny.tokenizer, tiny.template, defaults)
    assert engine.start(Request(PROMPT, {"max_new_tokens": 8})).config.mode == "ar"
    for given in ({}, {"mode": None}):
        assert engine.start(Request(PROMPT, {"max_new_tokens": 8, **given, **options})).config.mode == "canvas"
    with pytest.raises(OptionError, match="mode ar"):
        engine.start(Request(PROMPT, {"max_new_tokens": 8, "mode": "ar", **options}))


def test_what_fails_in_it_is_the_options_fault(tiny: Engine) -> None:
    for accept in (lambda: True, lambda text: 1 / 0):
        with pytest.raises(OptionError, match=r"^accept failed: (TypeError|ZeroDivisionError): ") as error:
            tiny.generate(PROMPT, max_new_tokens=8, seed=1, accept=accept)
        assert error.value.option == "accept"


def test_it_sees_reasoning_cut_where_the_budget_ends() -> None:
    """What stands behind the cut is not written."""
    engine = reciter("<|channel>thought\npear fig apple<channel|>kiwi", canvas=32)
    seen: list[str] = []
    options: dict[str, Any] = {"seed": 1, "thinking_budget": 3, "max_new_tokens": 64}
    engine.generate(PROMPT, accept=lambda text: seen.append(text) or bool(text), **options)  # type: ignore[func-returns-value]
    assert seen[0] == ""
