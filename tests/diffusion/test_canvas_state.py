"""What a canvas commits: no token that its pins forbid, and what its stopping rule was shown."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from diffusion.reference import prediction, random_logits
from gesso.diffusion.canvas_state import CanvasState, DenoisingRules, Pins
from gesso.diffusion.prediction import Prediction
from gesso.diffusion.samplers import SAMPLERS, Sampler
from gesso.diffusion.step import CanvasInfo, CanvasShape, StartTokens, StepInfo
from gesso.diffusion.stopping import StoppingRule
from gesso.diffusion.stopping.last_step import LastStep

VOCAB, WIDTH, END = 23, 6, 1
KEPT = (
    "canvas_C", "argmax_C", "accepted_C", "entropy_C", "self_conditioning_CD", "steps", "attempt_step", "guided_steps",
    "last_temperature", "converged", "_sampler_state", "_stopping_state",
)  # fmt: skip
EVERY = [SAMPLERS.make(name, None, {}) for name in SAMPLERS.names]


@pytest.mark.parametrize("sampler", EVERY, ids=repr)
@pytest.mark.parametrize("strength", [None, 0.5])
def test_no_token_that_pins_forbid_is_committed(sampler: Sampler, strength: float | None) -> None:
    """Not one of a given canvas either, which holds it from the beginning."""
    held_C = torch.arange(WIDTH) == WIDTH - 1
    pins = Pins(torch.full((WIDTH,), 9), held_C, ~held_C, (END,))
    rules = DenoisingRules(3, sampler=sampler, stopping=LastStep(), total_steps=6)
    for seed in range(10):
        rng = torch.Generator().manual_seed(seed)
        start = StartTokens([END] * WIDTH, strength)
        state = CanvasState(rules, CanvasShape(WIDTH, VOCAB), rng, start=start, pins=pins)
        while not state.finished:
            logits_CV = random_logits(seed + state.steps, WIDTH, VOCAB, 1.0)
            logits_CV[:, END] = -1e4
            state.advance(prediction(logits_CV), torch.zeros(WIDTH, 0))
            assert END not in state.argmax_C.tolist()


@pytest.mark.parametrize("sampler", EVERY, ids=repr)
def test_the_stopping_rule_sees_what_is_committed(sampler: Sampler) -> None:
    @dataclass(frozen=True)
    class Watching(StoppingRule):
        def start(self, canvas: CanvasInfo) -> None:
            return None

        def should_stop(self, info: StepInfo, prediction: Prediction, state: Any) -> tuple[bool, None]:
            seen.append(prediction.argmax_C)
            return False, None

    seen: list[Tensor] = []
    rules = DenoisingRules(5, sampler=sampler, stopping=Watching())
    state = CanvasState(rules, CanvasShape(WIDTH, VOCAB), torch.Generator().manual_seed(3))
    while not state.finished:
        logits_CV = random_logits(state.steps, WIDTH, VOCAB, 1.0)
        said = prediction(logits_CV)
        drawn_C = torch.randint(VOCAB, (WIDTH,), generator=torch.Generator().manual_seed(state.steps))
        state.advance(Prediction(drawn_C, said.argmax_C, said.entropy_C, said.confidence_C, said.log_probs), drawn_C)
        assert seen[-1].equal(state.argmax_C)


@pytest.mark.parametrize("fails", ["step", "should_stop"])
def test_a_step_that_fails_is_not_taken(fails: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = DenoisingRules(5, stopping=LastStep())
    state = CanvasState(rules, CanvasShape(WIDTH, VOCAB), torch.Generator().manual_seed(3))
    said = prediction(random_logits(1, WIDTH, VOCAB, 1.0))
    state.advance(said, torch.zeros(WIDTH, 1))
    uniform_C, kept = state.draw_uniform(), [getattr(state, name) for name in KEPT]

    def fail(*_: Any) -> Any:
        raise RuntimeError("no")

    with monkeypatch.context() as patch:
        patch.setattr(type(rules.sampler if fails == "step" else rules.stopping), fails, fail)
        with pytest.raises(RuntimeError):
            state.advance(prediction(random_logits(2, WIDTH, VOCAB, 1.0)), torch.ones(WIDTH, 1))
    assert all(getattr(state, name) is before for name, before in zip(KEPT, kept, strict=True))
    assert state.draw_uniform() is uniform_C
    state.advance(said, torch.zeros(WIDTH, 1))
    assert (state.steps, state.attempt_step) == (2, 2)
