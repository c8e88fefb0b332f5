"""The entropy-bound sampler: its properties, and the reference's mask."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from diffusion.reference import prediction, random_logits, reference
from gesso.diffusion.prediction import Prediction
from gesso.diffusion.samplers.entropy_bound import EntropyBoundSampler

ENTROPIES = st.lists(st.integers(0, 12 << 8).map(lambda number: number / 256), min_size=1, max_size=40)
"""Of numbers that fp32 adds exactly: a rounded sum decides otherwise at the bound, here and in the reference."""
BOUNDS = st.floats(0, 50)


def accept(entropies: list[float], bound: float) -> Tensor:
    zeros = torch.zeros(len(entropies), dtype=torch.int64)
    return EntropyBoundSampler(bound).accept(Prediction(zeros, zeros, torch.tensor(entropies)))


@given(ENTROPIES, BOUNDS)
def test_at_least_one_position_is_accepted_and_the_bound_holds(entropies: list[float], bound: float) -> None:
    accepted = accept(entropies, bound)
    assert accepted.dtype == torch.bool
    assert accepted.shape == (len(entropies),)
    assert bool(accepted.any())
    taken = torch.tensor(entropies, dtype=torch.float64)[accepted]
    assert float(taken.sum() - taken.max()) <= bound + 1e-4


@given(ENTROPIES, BOUNDS)
def test_the_accepted_positions_are_the_surest(entropies: list[float], bound: float) -> None:
    accepted, values = accept(entropies, bound), torch.tensor(entropies)
    if not bool(accepted.all()):
        assert values[accepted].max() <= values[~accepted].min()
        # The next one in order would have broken the bound.
        assert float(values[accepted].double().sum()) > bound - 1e-4 * max(1.0, bound)


@given(ENTROPIES, BOUNDS, BOUNDS)
def test_a_higher_bound_accepts_no_less(entropies: list[float], one: float, other: float) -> None:
    fewer, more = accept(entropies, min(one, other)), accept(entropies, max(one, other))
    assert bool((fewer <= more).all())


@given(ENTROPIES, st.randoms(use_true_random=False))
def test_where_a_position_stands_does_not_matter(entropies: list[float], random: object) -> None:
    distinct = sorted(set(entropies))
    shuffled = distinct[:]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    straight = dict(zip(distinct, accept(distinct, 3.0).tolist(), strict=True))
    assert accept(shuffled, 3.0).tolist() == [straight[value] for value in shuffled]


def test_edges() -> None:
    assert accept([3.0], 0.0).tolist() == [True]
    assert accept([0.0, 0.0, 0.5, 0.5], 0.0).tolist() == [True, True, True, False]
    assert accept([2.0, 1.0, 3.0], 0.0).tolist() == [False, True, False]
    assert accept([2.0, 1.0, 3.0], 1.0).tolist() == [True, True, False]
    assert accept([2.0, 1.0, 3.0], 3.0).tolist() == [True, True, True]


@given(
    seed=st.integers(0, 2**31),
    positions=st.integers(1, 32),
    sharpness=st.floats(0.1, 20),
    bound=st.sampled_from([1e-6, 0.005, 0.1, 0.5, 2.0, 10.0, 1e9]),
)
def test_the_mask_equals_the_references(seed: int, positions: int, sharpness: float, bound: float) -> None:
    peer = reference()
    logits = random_logits(seed, positions, 29, sharpness)
    config = peer.EntropyBoundSamplerConfig(entropy_bound=bound)
    theirs = peer.EntropyBoundSampler(config, positions, 29, 8)
    zeros, ones = torch.zeros(1, positions, dtype=torch.int64), torch.ones(1, positions, dtype=torch.int64)
    expected = theirs.accept_canvas(zeros, ones, logits[None], 1)[0].bool()
    assert torch.equal(EntropyBoundSampler(bound).accept(prediction(logits)), expected)
