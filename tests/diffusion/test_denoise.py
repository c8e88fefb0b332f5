"""The canvas loop, with a denoiser that is a protocol and no model."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from gesso.diffusion.canvas_state import CanvasState, DenoisingRules
from gesso.diffusion.denoise import denoise_step
from gesso.diffusion.prediction import Prediction
from gesso.diffusion.samplers import Sampler, draw_noise
from gesso.diffusion.samplers.entropy_bound import EntropyBoundSampler
from gesso.diffusion.schedules.linear import LinearSchedule
from gesso.diffusion.step import CanvasInfo, CanvasShape, StartTokens, StepInfo
from gesso.diffusion.stopping import StoppingRule
from gesso.diffusion.stopping.stable_and_confident import StableAndConfident
from gesso.nn.vocabulary import VocabularyPass

VOCAB, WIDTH, SIZE = 50, 12, 3


@dataclass
class Row:
    """What a fake denoiser says of one canvas: at every step these tokens, and this sure of each position."""

    tokens: list[int] = field(default_factory=lambda: list(range(WIDTH)))
    entropy: float = 0.0
    moving: bool = False
    """Whether the argmax is another one at every step."""
    calls: int = 0


@dataclass
class Seen:
    """What a pass was asked."""

    canvas_BC: Tensor
    self_conditioning_BCD: Tensor | None
    temperature_BC: Tensor
    uniform_BC: Tensor


class FakeDenoiser:
    """The cache is the list of rows. Samples follow the uniform numbers; soft embeddings count a row's calls."""

    def __init__(self) -> None:
        self.device = torch.device("cpu")
        self.seen: list[Seen] = []

    @property
    def vocabulary(self) -> "FakeDenoiser":
        return self

    def denoise_flat(
        self, canvas_N: Tensor, widths: Sequence[int], cache: list[Row], self_conditioning_ND: Tensor | None
    ) -> Tensor:
        self.canvas_BC = canvas_N.view(len(cache), WIDTH).clone()
        self.self_conditioning_BCD = (
            None if self_conditioning_ND is None else self_conditioning_ND.view(len(cache), WIDTH, SIZE)
        )
        assert list(widths) == [WIDTH] * len(cache)
        self.rows = cache
        return torch.zeros(len(canvas_N), SIZE)

    def predict(self, _hidden_ND: Tensor, temperature_N: Tensor, uniform_N: Tensor, *, mix: bool) -> VocabularyPass:
        assert mix, "steps follow"
        shape = (len(self.rows), WIDTH)
        self.seen.append(
            Seen(self.canvas_BC, self.self_conditioning_BCD, temperature_N.view(shape), uniform_N.view(shape))
        )
        best, entropy, soft = [], [], []
        for row in self.rows:
            row.calls += 1
            tokens = torch.tensor(row.tokens)
            best.append((tokens + row.calls) % VOCAB if row.moving else tokens)
            entropy.append(row.entropy * torch.arange(1.0, WIDTH + 1))
            soft.append(torch.full((WIDTH, SIZE), float(row.calls)))
        flat = torch.cat(entropy)
        return VocabularyPass(
            sample_N=(uniform_N * VOCAB).long(),
            argmax_N=torch.cat(best),
            entropy_N=flat,
            normaliser_N=torch.zeros_like(flat),
            embedding_ND=torch.cat(soft),
        )


def rules(steps: int = 6, bound: float = 0.1, stability: int = 1) -> DenoisingRules:
    return DenoisingRules(
        steps, LinearSchedule(0.4, 0.8), EntropyBoundSampler(bound), StableAndConfident(stability, 0.005)
    )


def state(seed: int = 0, plan: DenoisingRules | None = None, start: list[int] | None = None) -> CanvasState:
    given = None if start is None else StartTokens(start)
    return CanvasState(plan or rules(), CanvasShape(WIDTH, VOCAB), torch.Generator().manual_seed(seed), start=given)


def run(states: list[CanvasState], rows: list[Row], denoiser: FakeDenoiser | None = None) -> None:
    """To the end, as an engine does: only the unfinished ones are in a pass."""
    denoiser = denoiser or FakeDenoiser()
    while going := [(s, r) for s, r in zip(states, rows, strict=True) if not s.finished]:
        denoise_step(denoiser, [s for s, _ in going], [r for _, r in going])


def picture(canvas: CanvasState) -> list[object]:
    return [
        canvas.canvas_C.tolist(), canvas.argmax_C.tolist(), canvas.accepted_C.tolist(), canvas.entropy_C.tolist(),
        canvas.steps, canvas.converged,
    ]  # fmt: skip


def test_a_canvas_starts_as_uniform_noise_of_its_own_generator() -> None:
    expected = torch.randint(VOCAB, (WIDTH,), generator=torch.Generator().manual_seed(3))
    canvas = state(3)
    assert torch.equal(canvas.canvas_C, expected)
    assert canvas.self_conditioning_CD is None
    assert (canvas.steps, canvas.converged, canvas.finished, canvas.width) == (0, False, False, WIDTH)
    wide = CanvasState(rules(), CanvasShape(20_000, VOCAB), torch.Generator().manual_seed(0))
    counts = torch.bincount(wide.canvas_C, minlength=VOCAB)
    assert counts.shape == (VOCAB,)
    assert float(((counts - 400) ** 2 / 400).sum()) < 90, "chi square of 49 degrees: 90 is past 1 in 1,000"


def test_a_start_canvas_is_taken_as_it_is_and_costs_no_draw() -> None:
    start = list(range(WIDTH, 0, -1))
    canvas, denoiser = state(5, start=start), FakeDenoiser()
    assert canvas.canvas_C.tolist() == start
    denoise_step(denoiser, [canvas], [Row()])
    assert denoiser.seen[0].canvas_BC.tolist() == [start]
    assert torch.equal(denoiser.seen[0].uniform_BC[0], torch.rand(WIDTH, generator=torch.Generator().manual_seed(5)))


def test_only_what_is_not_accepted_is_noised_again_and_acceptance_does_not_stick() -> None:
    canvas, denoiser, row = state(plan=rules(bound=0.3, steps=5)), FakeDenoiser(), Row(entropy=0.05, moving=True)
    for _ in range(5):
        generator = torch.Generator()
        generator.set_state(canvas.generator.get_state())
        uniform = torch.rand(WIDTH, generator=generator)
        noise = torch.randint(VOCAB, (WIDTH,), generator=generator)
        denoise_step(denoiser, [canvas], [row])
        # Entropies 0.05, 0.1, 0.15, ...: before the third are 0.15 nats, before the fourth 0.3, before the fifth 0.5.
        assert canvas.accepted_C.tolist() == [True] * 4 + [False] * (WIDTH - 4)
        assert torch.equal(canvas.canvas_C[:4], (uniform * VOCAB).long()[:4])
        assert torch.equal(canvas.canvas_C[4:], noise[4:])
    shown = torch.stack([seen.canvas_BC[0] for seen in denoiser.seen])
    assert bool((shown[1:] != shown[:-1]).any(dim=0).all()), "every position is drawn anew at every step"


def test_the_argmax_is_what_a_canvas_says() -> None:
    canvas, row = state(), Row(tokens=[7] * WIDTH)
    run([canvas], [row])
    assert canvas.argmax_C.tolist() == [7] * WIDTH
    assert canvas.canvas_C.tolist() != [7] * WIDTH


def test_steps_are_counted_down_and_end() -> None:
    canvas, denoiser = state(plan=rules(steps=4)), FakeDenoiser()
    assert canvas.temperature == pytest.approx(0.8)
    run([canvas], [Row(moving=True)], denoiser)
    assert [float(seen.temperature_BC[0, 0]) for seen in denoiser.seen] == pytest.approx([0.8, 0.7, 0.6, 0.5])
    assert all(seen.temperature_BC.shape == (1, WIDTH) for seen in denoiser.seen)
    assert (canvas.steps, canvas.converged, canvas.finished) == (4, False, True)


@pytest.mark.parametrize("stability", range(4))
def test_a_stable_and_sure_canvas_ends_early(stability: int) -> None:
    canvas = state(plan=rules(stability=stability))
    run([canvas], [Row()])
    assert (canvas.steps, canvas.converged, canvas.finished) == (stability + 1, True, True)


def test_a_canvas_that_converges_at_its_last_step_says_so() -> None:
    canvas = state(plan=rules(steps=2))
    run([canvas], [Row()])
    assert (canvas.steps, canvas.converged) == (2, True)


def test_self_conditioning_is_the_last_steps_and_nothing_on_the_first() -> None:
    canvas, denoiser = state(plan=rules(steps=3)), FakeDenoiser()
    run([canvas], [Row(moving=True)], denoiser)
    assert denoiser.seen[0].self_conditioning_BCD is None
    for step, seen in enumerate(denoiser.seen[1:], 1):
        assert seen.self_conditioning_BCD is not None
        assert seen.self_conditioning_BCD.shape == (1, WIDTH, SIZE)
        assert torch.equal(seen.self_conditioning_BCD, torch.full((1, WIDTH, SIZE), float(step)))


def test_a_canvas_at_its_first_step_has_zeros_beside_one_that_has_not() -> None:
    early, late, denoiser = state(1), state(2), FakeDenoiser()
    rows = [Row(moving=True), Row(moving=True)]
    denoise_step(denoiser, [early], rows[:1])
    denoise_step(denoiser, [late, early], rows[::-1])
    soft = denoiser.seen[1].self_conditioning_BCD
    assert soft is not None
    assert torch.equal(soft[0], torch.zeros(WIDTH, SIZE))
    assert torch.equal(soft[1], torch.ones(WIDTH, SIZE))


def test_finished_rows_are_frozen_while_a_neighbour_goes_on() -> None:
    done, going = state(1), state(2, rules(steps=9))
    rows = [Row(), Row(moving=True)]
    denoiser = FakeDenoiser()
    while not done.finished:
        denoise_step(denoiser, [done, going], rows)
    before, random = picture(done), done.generator.get_state()
    run([done, going], rows, denoiser)
    assert going.steps == 9
    assert picture(done) == before
    assert torch.equal(done.generator.get_state(), random)
    assert rows[0].calls == 2


def test_a_finished_canvas_is_not_denoised() -> None:
    canvas = state()
    run([canvas], [Row()])
    with pytest.raises(AssertionError):
        denoise_step(FakeDenoiser(), [canvas], [Row()])


def test_the_same_seed_draws_the_same_whatever_stands_beside_it() -> None:
    plans = [rules(steps=7), rules(steps=3, bound=0.4), rules(steps=5, stability=3), rules(steps=9, bound=2.0)]

    def rows() -> list[Row]:
        return [
            Row(moving=True, entropy=0.01),
            Row(entropy=0.2),
            Row(),
            Row(tokens=[4] * WIDTH, moving=True, entropy=0.1),
        ]

    alone = [state(seed, plan) for seed, plan in enumerate(plans)]
    for canvas, row in zip(alone, rows(), strict=True):
        run([canvas], [row])
    together = [state(seed, plan) for seed, plan in enumerate(plans)]
    run(together, rows())
    backwards = [state(seed, plan) for seed, plan in enumerate(plans)]
    run(backwards[::-1], rows()[::-1])
    assert [picture(s) for s in alone] == [picture(s) for s in together] == [picture(s) for s in backwards]
    assert len({canvas.steps for canvas in alone}) == 4


def test_an_own_sampler_and_stopping_rule_are_all_it_takes() -> None:
    """The protocols are enough: nothing of the loop knows the published rules."""

    @dataclass(frozen=True)
    class EveryOther(Sampler):
        def start(self, canvas: CanvasInfo, rng: torch.Generator) -> tuple[Tensor, int]:
            return draw_noise(canvas, rng), 0

        def step(
            self, info: StepInfo, canvas_C: Tensor, prediction: Prediction, state: int, rng: torch.Generator
        ) -> tuple[Tensor, Tensor, int]:
            assert (state, info.steps_left) == (info.step - 1, 9 - info.step)
            return canvas_C, torch.arange(info.width) % 2 == 0, state + 1

    @dataclass(frozen=True)
    class ThirdStep(StoppingRule):
        def start(self, canvas: CanvasInfo) -> int:
            return 0

        def should_stop(self, info: StepInfo, prediction: Prediction, state: int) -> tuple[bool, int]:
            told = state + int(prediction.entropy_C.shape == (WIDTH,))
            return told == 3, told

    canvas = state(plan=DenoisingRules(9, LinearSchedule(1.0, 1.0), EveryOther(), ThirdStep()))
    run([canvas], [Row(moving=True)])
    assert (canvas.steps, canvas.converged) == (3, True)
    assert canvas.accepted_C.tolist() == [True, False] * (WIDTH // 2)
