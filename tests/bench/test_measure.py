from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from engine.tiny import CANVAS

from gesso.bench import machine, measure
from gesso.bench.cells import Cell, Settings
from gesso.bench.machine import describe_machine, free_bytes, measure_rates
from gesso.bench.measure import Bench, Spread, TimedLoop, prompt_tokens
from gesso.diffusion.prediction import Prediction
from gesso.diffusion.step import StepInfo
from gesso.diffusion.stopping import STOPPING_RULES, StoppingRule
from gesso.engine.engine import Engine, Request
from gesso.options import option
from gesso.text.tokenizer import TokenIds

STEPS = 3


def test_canvases_take_exactly_the_steps_they_are_given(tiny: Engine) -> None:
    result = Bench(tiny, Settings(steps=STEPS, repeats=2)).measure(Cell(20, 2 * CANVAS, 2, "canvas"))
    assert result is not None
    assert result.repeats == 2
    assert result.steps_per_canvas == STEPS
    assert result.tokens_per_forward == CANVAS / STEPS
    assert result.step_rows == 2
    # 2 canvases of STEPS steps each take no longer than the whole.
    steps_s = 2 * STEPS * result.step_ms.low / 1e3
    assert 0 < steps_s < 2 * 2 * CANVAS / result.tokens_per_s.low
    assert result.joules is None


@pytest.fixture
def hasty(tiny: Engine) -> Iterator[Engine]:
    """`tiny` with the defaults of a checkpoint that has another stopping rule."""

    @STOPPING_RULES.register("hasty")
    @dataclass(frozen=True)
    class Hasty(StoppingRule):
        """Stops after so many steps."""

        enough_steps: int = option(1, "Steps after which a canvas ends.", minimum=1)

        def should_stop(self, info: StepInfo, prediction: Prediction, state: Any) -> tuple[bool, Any]:
            return info.step >= self.enough_steps, state

        def for_every_step(self) -> Mapping[str, Any]:
            return {"enough_steps": 99}

    try:
        defaults = tiny.defaults.override(stopping="hasty")
        yield Engine(tiny.model, tiny.tokenizer, tiny.template, defaults)
    finally:
        STOPPING_RULES.unregister("hasty")


def test_canvases_take_their_steps_whatever_the_stopping_rule(hasty: Engine) -> None:
    cell = Cell(20, CANVAS, 1, "canvas")
    settled = Bench(hasty, Settings(repeats=1, warmup=0)).measure(cell)
    given = Bench(hasty, Settings(steps=STEPS, repeats=1, warmup=0)).measure(cell)
    assert settled is not None
    assert given is not None
    assert (settled.steps_per_canvas, given.steps_per_canvas) == (1, STEPS)


def test_real_steps_are_those_of_the_checkpoints_settings(tiny: Engine) -> None:
    cell = Cell(20, CANVAS, 1, "canvas")
    result = Bench(tiny, Settings(repeats=1, warmup=0)).measure(cell)
    own = tiny.generate(prompt_tokens(tiny, 20, 0), max_new_tokens=CANVAS, ignore_eos=True, seed=measure.SEED)
    assert result is not None
    assert result.steps_per_canvas == own.denoising_steps[0]


def test_left_to_right_a_step_is_a_token(tiny: Engine) -> None:
    result = Bench(tiny, Settings(repeats=1)).measure(Cell(20, 6, 3, "ar"))
    assert result is not None
    assert (result.steps_per_canvas, result.tokens_per_forward, result.step_rows) == (1, 1, 3)
    loop = TimedLoop(tiny, 1)
    loop.scheduler.add(tiny.start(Request(prompt_tokens(tiny, 300, 0), {"mode": "ar", "max_new_tokens": 6})))
    while not loop.idle:
        loop.step()
    assert [rows for rows, _ in loop.passes] == [1] * 5  # the first token comes with the prompt


def test_a_run_that_is_stopped_keeps_whole_repeats(tiny: Engine) -> None:
    answers: Iterator[bool] = iter([False] * 5 + [True])
    bench = Bench(tiny, Settings(steps=2, repeats=9, warmup=0), lambda: next(answers))
    result = bench.measure(Cell(20, CANVAS, 1, "canvas"))
    assert result is not None
    assert result.repeats == 2  # of two iterations each
    assert Bench(tiny, Settings(), lambda: True).measure(Cell(20, CANVAS, 1, "canvas")) is None


def test_memory_is_that_of_the_passes(tiny: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    cell, ballast = Cell(20, CANVAS, 1, "canvas"), 300 * 2**20
    bench = Bench(tiny, Settings(steps=1, repeats=1))
    light = bench.measure(cell)
    step = TimedLoop.step

    def heavy(loop: TimedLoop) -> object:
        torch.ones(ballast // 4)
        return step(loop)

    monkeypatch.setattr(TimedLoop, "step", heavy)
    heavier = bench.measure(cell)
    assert light is not None
    assert heavier is not None
    assert 0.9 * ballast < heavier.peak_bytes - light.peak_bytes < 1.5 * ballast


def test_prompts_have_their_length_and_differ(tiny: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(prompt_tokens(tiny, 1000, 0)) == 1000
    assert prompt_tokens(tiny, 50, 0) != prompt_tokens(tiny, 50, 1)
    monkeypatch.setattr(tiny, "tokenizer", TokenIds())
    ids = prompt_tokens(tiny, 1000, 0)
    assert len(ids) == 1000
    assert not set(ids) & set(tiny.model.config.image_token_ids)
    assert prompt_tokens(tiny, 1000, 0) == ids


def test_a_spread() -> None:
    assert Spread.of(iter([3.0, 1.0, 2.0])) == Spread(2.0, 1.0, 3.0)


def test_rates_and_facts_of_this_machine(tiny: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "CPU_BUFFER", 2**22)
    monkeypatch.setattr(machine, "TRIALS", 2)
    cpu = torch.device("cpu")
    rates = measure_rates(tiny.model.config, 16, torch.float32, cpu)
    assert 1e7 < rates.operations < 1e14
    assert 1e7 < rates.bytes < 1e13
    facts = describe_machine(cpu)
    assert (facts["device"], facts["threads"]) == ("cpu", torch.get_num_threads())
    assert free_bytes(cpu) > 2**20
