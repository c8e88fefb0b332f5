"""The sampler protocol, held by samplers of every kind that is known: what all of them keep, whatever they do.

The samplers here are drawn from the literature as small as they can be: a schedule with a cap on remasking, discrete
DDIM (D3PM, arXiv 2107.03006) and its leave-one-out corrector (arXiv 2605.22765), which read the distributions, block
refinement, which commits tokens for good, and a planner with three routes (stay, noise, clean).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gesso.diffusion.denoise import CanvasState, DenoisingRules, Pins, denoise_step
from gesso.diffusion.prediction import Prediction
from gesso.diffusion.samplers import Sampler, start_canvas, uniform_noise
from gesso.diffusion.samplers.entropy_bound import EntropyBoundSampler
from gesso.diffusion.step import CanvasInfo, StepInfo
from gesso.diffusion.stopping import StoppingRule
from gesso.nn.vocabulary import Vocabulary
from gesso.options import option

VOCAB, SIZE, WIDTH, STEPS = 40, 6, 12, 6
Rng = torch.Generator


@dataclass(frozen=True)
class MaxCapped(Sampler):
    """Accepts a growing number of the surest positions; a step gives at most `cap` accepted ones back."""

    cap: int = option(1, "Accepted positions that a step may give back.", minimum=0)

    def start(self, canvas: CanvasInfo, rng: Rng) -> tuple[Tensor, Tensor]:
        return start_canvas(canvas, rng), torch.zeros(canvas.width, dtype=torch.bool)

    def step(
        self, info: StepInfo, canvas_C: Tensor, prediction: Prediction, state: Tensor, rng: Rng
    ) -> tuple[Tensor, Tensor, Tensor]:
        rank_C = prediction.entropy_C.argsort(stable=True).argsort()
        wanted_C = rank_C < math.ceil(info.width * info.step / info.canvas.steps)
        lost = (state & ~wanted_C).nonzero()[:, 0]
        kept_C = wanted_C.clone()
        kept_C[lost[self.cap :]] = True
        held_C = torch.where(state & kept_C, canvas_C, prediction.sample_C)
        return torch.where(kept_C, held_C, uniform_noise(info.canvas, rng)), kept_C, kept_C


@dataclass(frozen=True)
class DiscreteDDIM(Sampler):
    """Jumps to the clean token, stays, or becomes noise, by the ratio of two noise levels; the last step commits."""

    def start(self, canvas: CanvasInfo, rng: Rng) -> tuple[Tensor, None]:
        return start_canvas(canvas, rng), None

    def step(
        self, info: StepInfo, canvas_C: Tensor, prediction: Prediction, state: Any, rng: Rng
    ) -> tuple[Tensor, Tensor, Any]:
        alpha_t, alpha_s = 1 - info.time, 1 - info.time_after
        ratio, vocab = alpha_t / alpha_s, info.vocab_size
        same_C = (canvas_C == prediction.sample_C).double()
        clean_C = alpha_s * (1 - ratio) / vocab + ratio * alpha_s * same_C
        stay = ratio * (1 - alpha_s) / vocab
        noise = (1 - ratio) * (1 - alpha_s) / vocab
        total_C = clean_C + stay + noise
        draw_C = torch.rand(info.width, generator=rng, dtype=torch.float64) * total_C
        noised_C = uniform_noise(info.canvas, rng)
        accepted_C = draw_C < clean_C
        rest_C = torch.where(draw_C < clean_C + stay, canvas_C, noised_C)
        return torch.where(accepted_C, prediction.sample_C, rest_C), accepted_C, state

    def output(self, info: StepInfo, canvas_C: Tensor, prediction: Prediction, state: Any) -> Tensor:
        return canvas_C if info.steps_left == 0 else prediction.argmax_C


@dataclass(frozen=True)
class LeaveOneOut(DiscreteDDIM):
    """Redraws the `sweep` least sure positions of a DDIM step from distributions that do not see their own token."""

    reads_log_probs: ClassVar[bool] = True
    sweep: int = option(3, "Positions that are redrawn.", minimum=1)

    def step(
        self, info: StepInfo, canvas_C: Tensor, prediction: Prediction, state: Any, rng: Rng
    ) -> tuple[Tensor, Tensor, Any]:
        next_C, accepted_C, state = super().step(info, canvas_C, prediction, state, rng)
        assert prediction.log_probs is not None
        alpha, vocab = 1 - info.time_after, info.vocab_size
        for place in prediction.entropy_C.argsort(descending=True)[: self.sweep].tolist():
            (scores_V,) = prediction.log_probs(slice(place, place + 1)).cpu()
            assert scores_V.exp().sum().item() == pytest.approx(1, abs=1e-4)
            scores_V[canvas_C[place]] -= math.log1p(vocab * alpha / (1 - alpha)) if alpha < 1 else 0.0
            mixed_V = alpha * scores_V.softmax(0) + (1 - alpha) / vocab
            next_C[place] = torch.multinomial(mixed_V, 1, generator=rng)
        return next_C, accepted_C, state


@dataclass(frozen=True)
class BlockRefinement(Sampler):
    """Commits what is surer than a threshold, a quota at least; a committed token is edited where another is surer."""

    reads_log_probs: ClassVar[bool] = True
    threshold: float = option(0.5, "Probability from which a token is committed.", minimum=0, maximum=1)

    def start(self, canvas: CanvasInfo, rng: Rng) -> tuple[Tensor, Tensor]:
        return start_canvas(canvas, rng), torch.full((canvas.width,), -1.0)

    def step(
        self, info: StepInfo, canvas_C: Tensor, prediction: Prediction, state: Tensor, rng: Rng
    ) -> tuple[Tensor, Tensor, Tensor]:
        assert prediction.log_probs is not None
        scores_CV = prediction.log_probs(slice(0, info.width)).cpu()
        sure_C = scores_CV.gather(1, prediction.argmax_C[:, None]).exp()[:, 0]
        quota = math.ceil(info.width / info.canvas.steps)
        rank_C = (-sure_C).argsort(stable=True).argsort()
        edited_C = sure_C > state.clamp(min=0)
        taken_C = edited_C & ((sure_C >= self.threshold) | (rank_C < quota))
        committed_C = taken_C | (state >= 0)
        next_C = torch.where(taken_C, prediction.argmax_C, canvas_C)
        state = torch.where(taken_C, sure_C, state)
        return torch.where(committed_C, next_C, uniform_noise(info.canvas, rng)), committed_C, state

    def output(self, info: StepInfo, canvas_C: Tensor, prediction: Prediction, state: Tensor) -> Tensor:
        return torch.where(state >= 0, canvas_C, prediction.argmax_C)


@dataclass(frozen=True)
class ThreeRoutes(Sampler):
    """A plan of three routes a position: the surest third becomes clean, the least sure noise, the rest stays."""

    def start(self, canvas: CanvasInfo, rng: Rng) -> tuple[Tensor, int]:
        return start_canvas(canvas, rng), 0

    def step(
        self, info: StepInfo, canvas_C: Tensor, prediction: Prediction, state: int, rng: Rng
    ) -> tuple[Tensor, Tensor, int]:
        assert state == info.step - 1
        rank_C = prediction.entropy_C.argsort(stable=True).argsort()
        clean_C, noise_C = rank_C < info.width // 3, rank_C >= 2 * info.width // 3
        next_C = torch.where(clean_C, prediction.sample_C, canvas_C)
        return torch.where(noise_C, uniform_noise(info.canvas, rng), next_C), ~noise_C, state + 1


SAMPLERS: list[Sampler] = [
    EntropyBoundSampler(0.5), MaxCapped(), DiscreteDDIM(), LeaveOneOut(), BlockRefinement(), ThreeRoutes()
]  # fmt: skip


@dataclass(frozen=True)
class Never(StoppingRule):
    def start(self, canvas: CanvasInfo) -> None:
        return None

    def should_stop(self, info: StepInfo, prediction: Prediction, state: None) -> tuple[bool, None]:
        return False, None


class Toy:
    """A denoiser of random weights, which sees the canvas and nothing beside it; a cache is a list of its rows."""

    device = torch.device("cpu")

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.vocabulary = Vocabulary(VOCAB, SIZE, 30.0)
        with torch.no_grad():
            self.vocabulary.weight.copy_(torch.randn(VOCAB, SIZE, generator=generator))
        self.mixing = torch.randn(SIZE, SIZE, generator=generator)

    @torch.no_grad()
    def denoise_flat(
        self, canvas_N: Tensor, widths: Sequence[int], cache: list[int], self_conditioning_ND: Tensor | None
    ) -> Tensor:
        seen = self.vocabulary.weight[canvas_N]
        rows = [part + part.mean(0) for part in seen.split(list(widths))]
        return torch.stack([row @ self.mixing for part in rows for row in part])


def make(sampler: Sampler, seed: int, **settings: Any) -> CanvasState:
    return CanvasState(
        DenoisingRules(STEPS, sampler=sampler, stopping=Never()), VOCAB, WIDTH, Rng().manual_seed(seed), **settings
    )


def trace(state: CanvasState, others: Sequence[CanvasState] = ()) -> list[Any]:
    """What a canvas is, step by step, in a batch with others."""
    told, toy = [], Toy()
    while not state.finished:
        batch = [*(other for other in others if not other.finished), state]
        denoise_step(toy, batch, list(range(len(batch))))
        told.append([state.canvas_C.tolist(), state.argmax_C.tolist(), state.accepted_C.tolist()])
    return told


@pytest.fixture(params=SAMPLERS, ids=lambda sampler: type(sampler).__name__)
def sampler(request: pytest.FixtureRequest) -> Sampler:
    found: Sampler = request.param
    return found


def test_a_canvas_is_reproduced_by_its_seed_whatever_stands_beside_it(sampler: Sampler) -> None:
    alone = trace(make(sampler, 5))
    assert trace(make(sampler, 5)) == alone
    assert trace(make(sampler, 6)) != alone
    for neighbour in SAMPLERS:
        assert trace(make(sampler, 5), [make(neighbour, 8), make(sampler, 9)]) == alone


def test_canvases_share_no_state(sampler: Sampler) -> None:
    """Steps taken in turns are those taken one canvas after the other."""
    toy, first, second = Toy(), make(sampler, 1), make(sampler, 2)
    while not first.finished:
        denoise_step(toy, [first], [0])
        denoise_step(toy, [second], [0])
    assert first.canvas_C.tolist() == trace(make(sampler, 1))[-1][0]
    assert second.canvas_C.tolist() == trace(make(sampler, 2))[-1][0]


@settings(max_examples=20, deadline=None)
@given(data=st.data(), which=st.sampled_from(SAMPLERS), seed=st.integers(0, 99))
def test_pins_are_always_held(data: st.DataObject, which: Sampler, seed: int) -> None:
    held_C = torch.tensor(data.draw(st.lists(st.booleans(), min_size=WIDTH, max_size=WIDTH)))
    tokens_C = torch.tensor(data.draw(st.lists(st.integers(0, VOCAB - 1), min_size=WIDTH, max_size=WIDTH)))
    pins = Pins(tokens_C, held_C, torch.zeros(WIDTH, dtype=torch.bool), ())
    state = make(which, seed, pins=pins)
    assert torch.equal(state.canvas_C[held_C], tokens_C[held_C])
    toy = Toy()
    while not state.finished:
        denoise_step(toy, [state], [0])
        assert torch.equal(state.canvas_C[held_C], tokens_C[held_C])
        assert torch.equal(state.argmax_C[held_C], tokens_C[held_C])
        assert bool(state.accepted_C[held_C].all())
        assert bool((state.entropy_C[held_C] == 0).all())


@settings(max_examples=20, deadline=None)
@given(which=st.sampled_from(SAMPLERS), seed=st.integers(0, 999))
def test_an_accepted_position_keeps_a_token_of_the_canvas_or_of_the_prediction(which: Sampler, seed: int) -> None:
    """What is accepted is no noise: it was there, or the model said it."""
    seen: list[tuple[Tensor, Tensor, Prediction]] = []
    step = type(which).step

    class Watched(type(which)):  # type: ignore[misc]
        def step(self, info: Any, canvas_C: Tensor, prediction: Prediction, state: Any, rng: Rng) -> Any:
            before = canvas_C.clone()
            result = step(self, info, canvas_C, prediction, state, rng)
            assert torch.equal(canvas_C, before), "the canvas that was seen is not changed"
            assert result[0].dtype == torch.int64
            assert result[1].dtype == torch.bool
            assert result[0].shape == result[1].shape == (WIDTH,)
            assert bool(((result[0] >= 0) & (result[0] < VOCAB)).all())
            seen.append((before, result[0], prediction))
            return result

    state = make(Watched(), seed)
    toy = Toy()
    while not state.finished:
        denoise_step(toy, [state], [0])
        before_C, after_C, said = seen[-1]
        known = (after_C == before_C) | (after_C == said.sample_C) | (after_C == said.argmax_C)
        if not isinstance(which, LeaveOneOut):  # redraws after it accepted
            assert bool(known[state.accepted_C].all())


def test_a_given_canvas_is_what_a_sampler_starts_from(sampler: Sampler) -> None:
    given_canvas = list(range(WIDTH))
    assert make(sampler, 3, start_canvas=given_canvas).canvas_C.tolist() == given_canvas
    changed = make(sampler, 3, start_canvas=given_canvas, strength=0.5).canvas_C
    assert 0 < int((changed == torch.tensor(given_canvas)).sum()) < WIDTH


def test_steps_and_noise_levels_are_told() -> None:
    told: list[tuple[int, int, float, float]] = []

    @dataclass(frozen=True)
    class Telling(EntropyBoundSampler):
        def step(self, info: StepInfo, canvas_C: Tensor, prediction: Prediction, state: Any, rng: Rng) -> Any:
            told.append((info.step, info.steps_left, info.time, info.time_after))
            return super().step(info, canvas_C, prediction, state, rng)

    trace(make(Telling(), 0))
    assert [(step, left) for step, left, _, _ in told] == [(n, STEPS - n) for n in range(1, STEPS + 1)]
    assert [time for _, _, time, _ in told] == pytest.approx([1 - n / STEPS for n in range(STEPS)])
    assert [after for _, _, _, after in told] == pytest.approx([1 - n / STEPS for n in range(1, STEPS + 1)])
    told.clear()
    rules = DenoisingRules(2, sampler=Telling(), stopping=Never(), total_steps=8)
    trace(CanvasState(rules, VOCAB, WIDTH, Rng().manual_seed(0)))
    assert [time for _, _, time, _ in told] == [2 / 8, 1 / 8], "only the coolest steps are left"


def test_a_sampler_may_commit_what_it_drew() -> None:
    final = make(DiscreteDDIM(), 4)
    trace(final)
    assert torch.equal(final.argmax_C, final.canvas_C)
    assert not torch.equal(trace_argmax(final), final.argmax_C)


def trace_argmax(state: CanvasState) -> Tensor:
    """What the model finds likeliest after the canvas's end."""
    toy = Toy()
    hidden = toy.denoise_flat(state.canvas_C, [WIDTH], [0], None)
    return toy.vocabulary.logits(hidden).argmax(dim=-1)
