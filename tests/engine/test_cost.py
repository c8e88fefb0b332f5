"""`mode: auto` takes what its estimates say is quicker, and tells what it reckoned."""

import pytest

from engine.tiny import CANVAS
from gesso.constraints.compile import compile_constraint
from gesso.engine import cost
from gesso.engine.cost import RUNS, STEPS, WARMUP, CostModel
from gesso.engine.engine import Engine


def costs(engine: Engine, token: float, step: float) -> CostModel:
    """With seconds that are given, not measured."""
    model = CostModel(engine.runner)
    model._token_seconds = token
    model._step_seconds[CANVAS] = step
    return model


def test_the_quicker_way_is_taken(tiny: Engine) -> None:
    assert costs(tiny, token=1.0, step=1.0).choose(CANVAS, 4).mode == "ar"
    assert costs(tiny, token=1.0, step=0.1).choose(CANVAS, 4).mode == "canvas"
    # Ten canvases of twelve steps against 80 tokens.
    long = costs(tiny, token=1.0, step=1.0)
    long.learn(None, 10 * CANVAS)
    assert long.choose(CANVAS, 10 * CANVAS).mode == "ar"
    assert f"10 canvases of {CANVAS} in {STEPS} steps each" in long.choose(CANVAS, 1000).reason


def test_what_was_seen_moves_the_estimates(tiny: Engine) -> None:
    model = costs(tiny, token=1.0, step=1.0)
    assert model.choose(CANVAS, 1000).mode == "ar"
    for _ in range(40):
        model.learn([2], CANVAS)
    assert model.choose(CANVAS, 1000).mode == "canvas"
    assert model.choose(CANVAS, 1).mode == "ar"


def test_seconds_are_measured_once(tiny: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    model = CostModel(tiny.runner)
    before = model.choose(CANVAS, 5)
    assert before.mode == "ar"
    assert before.reason.startswith("not measured yet, a token taken to cost what a step does: 5 tokens, or 1 canvas")
    assert model.wanted
    model.measure(CANVAS)
    assert not model.wanted
    assert " ms, or 1 canvas of 8 in 12.0 steps each in " in model.choose(CANVAS, 5).reason
    monkeypatch.setattr(tiny.runner, "measure", lambda *_: pytest.fail("measured again"))
    model.measure(CANVAS)


def test_an_interrupted_measurement_begins_anew(tiny: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    model = CostModel(tiny.runner)

    def interrupted(_: object) -> float:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(cost.statistics, "median", interrupted)  # behind the last pass
        with pytest.raises(KeyboardInterrupt):
            model.measure(CANVAS)
    seconds = iter([0.01] * 4 * (WARMUP + RUNS))  # more than it asks for; a measurement without end would use them up
    monkeypatch.setattr(tiny.runner, "measure", lambda *_: next(seconds))
    model.measure(CANVAS)
    assert " ms, or 1 canvas of 8 in 12.0 steps each in " in model.choose(CANVAS, 5).reason


def test_what_cannot_be_measured_is_not_tried_again(tiny: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    model = CostModel(tiny.runner)
    monkeypatch.setattr(tiny.runner, "measure", lambda *_: 1 / 0)
    model.measure(CANVAS)
    assert model.choose(CANVAS, 5).reason.startswith("not measured yet")
    assert not model.wanted
    monkeypatch.undo()
    model.measure(CANVAS)
    assert model.choose(CANVAS, 5).reason.startswith("not measured yet")


def test_the_result_says_what_was_chosen(tiny: Engine) -> None:
    tiny.costs = costs(tiny, token=1.0, step=50.0)
    result = tiny.generate("hi", seed=1, mode="auto", max_new_tokens=5)
    assert result.mode == "ar"
    assert result.decision.startswith("5 tokens in 5000 ms, or 1 canvas of 8")
    tiny.costs = costs(tiny, token=1.0, step=0.001)
    result = tiny.generate("hi", seed=1, mode="auto", max_new_tokens=5)
    assert (result.mode, result.denoising_steps != (1,) * 5) == ("canvas", True)
    assert tiny.generate("hi", seed=1, max_new_tokens=5).decision == ""
    pinned = tiny.generate("hi", seed=1, mode="auto", canvas=[None, 5], max_new_tokens=8)
    assert (pinned.mode, pinned.decision) == ("canvas", "what it asks for needs a canvas")


@pytest.mark.parametrize(
    ("pattern", "longest"),
    [("ab", 3), ("a|bcd", 4), ("a?(bb|c)", 4), ("a*", None), ("x(ab)*y|z", None), ("[a-c]{0,5}", 6)],
)
def test_the_longest_output_of_an_automaton(tiny: Engine, pattern: str, longest: int | None) -> None:
    automaton = compile_constraint(pattern, tiny.tokenizer, (1,))
    assert automaton.longest == longest


def test_a_constraint_bounds_the_tokens(tiny: Engine) -> None:
    tiny.costs = costs(tiny, token=1.0, step=50.0)
    result = tiny.generate("hi", seed=1, mode="auto", choices=["fig", "pear"], max_new_tokens=200)
    assert result.mode == "ar"
    assert result.text in ("fig", "pear")
