"""The sampler protocol, held by every sampler that is registered: what all of them keep, whatever they do."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gesso.diffusion.canvas_state import CanvasState, DenoisingRules, Pins
from gesso.diffusion.denoise import denoise_step
from gesso.diffusion.prediction import Prediction
from gesso.diffusion.samplers import SAMPLERS, Sampler
from gesso.diffusion.samplers.discrete_ddim import DiscreteDDIMSampler
from gesso.diffusion.samplers.entropy_bound import EntropyBoundSampler
from gesso.diffusion.step import CanvasInfo, CanvasShape, StartTokens, StepInfo
from gesso.diffusion.stopping import StoppingRule
from gesso.errors import OptionError
from gesso.nn.vocabulary import Vocabulary
from gesso.options import options_of

VOCAB, SIZE, WIDTH, STEPS = 40, 6, 12, 6
Rng = torch.Generator


ALL: list[Sampler] = [
    *(SAMPLERS.make(name, None, {}) for name in SAMPLERS.names),
    SAMPLERS.make("entropy_bound", None, {"entropy_bound": 0.5}),
    SAMPLERS.make("confidence", None, {"threshold": 0.1}),
    SAMPLERS.make("margin", None, {"margin": 0.05}),
    SAMPLERS.make("maskgit", None, {"order": "entropy", "noise_schedule": "cosine"}),
    SAMPLERS.make("maskgit", None, {"order": "random"}),
    SAMPLERS.make("maskgit", None, {"order": "entropy", "order_temperature": 2.0}),
    SAMPLERS.make("discrete_ddim", None, {"noise_schedule": "geometric"}),
    SAMPLERS.make("leave_one_out", None, {"corrector_order": "random", "corrector_steps": 3}),
    SAMPLERS.make("block_refinement", None, {"threshold": 0.2, "editing_threshold": 0.1}),
    SAMPLERS.make("planner", None, {"planner": "entropy_bound", "rest": "stay"}),
    SAMPLERS.make("remdm", None, {"remasking_schedule": "rescaled", "remasking": 0.5}),
]
"""Every sampler that is registered, by its defaults, and some by other options."""


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
    rules = DenoisingRules(STEPS, sampler=sampler, stopping=Never())
    return CanvasState(rules, CanvasShape(WIDTH, VOCAB), Rng().manual_seed(seed), **settings)


def trace(state: CanvasState, others: Sequence[CanvasState] = ()) -> list[Any]:
    """What a canvas is, step by step, in a batch with others."""
    told, toy = [], Toy()
    while not state.finished:
        batch = [*(other for other in others if not other.finished), state]
        denoise_step(toy, batch, list(range(len(batch))))
        told.append([state.canvas_C.tolist(), state.argmax_C.tolist(), state.accepted_C.tolist()])
    return told


@pytest.fixture(params=ALL, ids=repr)
def sampler(request: pytest.FixtureRequest) -> Sampler:
    found: Sampler = request.param
    return found


def test_a_canvas_is_reproduced_by_its_seed_whatever_stands_beside_it(sampler: Sampler) -> None:
    alone = trace(make(sampler, 5))
    assert trace(make(sampler, 5)) == alone
    assert trace(make(sampler, 6)) != alone
    for neighbour in ALL[:: len(ALL) // 4]:
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
@given(data=st.data(), which=st.sampled_from(ALL), seed=st.integers(0, 99))
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
@given(which=st.sampled_from(ALL), seed=st.integers(0, 999))
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

    state = make(Watched(**{name: getattr(which, name) for name in options_of(type(which))}), seed)
    toy = Toy()
    while not state.finished:
        denoise_step(toy, [state], [0])
        before_C, after_C, said = seen[-1]
        known = (after_C == before_C) | (after_C == said.sample_C) | (after_C == said.argmax_C)
        assert bool(known[state.accepted_C].all())


def test_a_given_canvas_is_what_a_sampler_starts_from(sampler: Sampler) -> None:
    given_canvas = list(range(WIDTH))
    assert make(sampler, 3, start=StartTokens(given_canvas)).canvas_C.tolist() == given_canvas
    changed = make(sampler, 3, start=StartTokens(given_canvas, 0.5)).canvas_C
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
    trace(CanvasState(rules, CanvasShape(WIDTH, VOCAB), Rng().manual_seed(0)))
    assert [time for _, _, time, _ in told] == [2 / 8, 1 / 8], "only the coolest steps are left"


def test_a_sampler_may_commit_what_it_drew() -> None:
    final = make(DiscreteDDIMSampler(), 4)
    trace(final)
    assert torch.equal(final.argmax_C, final.canvas_C)
    assert not torch.equal(trace_argmax(final), final.argmax_C)


def trace_argmax(state: CanvasState) -> Tensor:
    """What the model finds likeliest after the canvas's end."""
    toy = Toy()
    hidden = toy.denoise_flat(state.canvas_C, [WIDTH], [0], None)
    return toy.vocabulary.logits(hidden).argmax(dim=-1)


@pytest.mark.parametrize(
    ("canvas_C", "accepted_C", "got"),
    [
        (torch.zeros(WIDTH), torch.ones(WIDTH, dtype=torch.bool), "(float32 [12], bool [12], NoneType)"),
        (torch.zeros(3, dtype=torch.int64), torch.ones(3, dtype=torch.bool), "(int64 [3], bool [3], NoneType)"),
        (torch.zeros(WIDTH, dtype=torch.int64), None, "(int64 [12], NoneType, NoneType)"),
    ],
)
def test_a_step_that_returns_something_else_is_refused(canvas_C: Tensor, accepted_C: Any, got: str) -> None:
    @dataclass(frozen=True)
    class Other(EntropyBoundSampler):
        def step(self, info: StepInfo, canvas: Tensor, prediction: Prediction, state: Any, rng: Rng) -> Any:
            return canvas_C, accepted_C, None

    state = make(Other(), 0)
    before_C = state.canvas_C
    with pytest.raises(OptionError) as error:
        trace(state)
    assert str(error.value) == f"Other.step must return (int64 [12], bool [12], state), got {got}"
    assert state.canvas_C is before_C


def test_a_step_that_fails_or_returns_what_is_no_token_is_told() -> None:
    @dataclass(frozen=True)
    class Other(EntropyBoundSampler):
        more: int = 0

        def step(self, info: StepInfo, canvas: Tensor, prediction: Prediction, state: Any, rng: Rng) -> Any:
            return canvas + self.more // self.more, torch.ones(info.width, dtype=torch.bool), None

    with pytest.raises(OptionError, match=r"^Other\.step failed: ZeroDivisionError: integer division") as error:
        trace(make(Other(), 0))
    assert error.value.option == "sampler"

    @dataclass(frozen=True)
    class Beyond(EntropyBoundSampler):
        def step(self, info: StepInfo, canvas: Tensor, prediction: Prediction, state: Any, rng: Rng) -> Any:
            return torch.full_like(canvas, VOCAB), torch.ones(info.width, dtype=torch.bool), None

    with pytest.raises(OptionError, match=r"^Beyond\.step returns token 40, of 40$"):
        trace(make(Beyond(), 0))


def test_a_start_that_returns_something_else_is_refused() -> None:
    @dataclass(frozen=True)
    class Other(EntropyBoundSampler):
        def start(self, canvas: CanvasInfo, rng: Rng) -> Any:
            return torch.zeros(canvas.width, dtype=torch.int64)

    with pytest.raises(OptionError, match=r"^Other\.start must return \(int64 \[12\], state\), got int64 \[12\]$"):
        make(Other(), 0)
