"""The kernel of the vocabulary's online softmax against array operations, and against itself in other parts."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gesso.kernels import BLOCK, SoftmaxPass
from gesso.nn.elementwise import LOWEST
from gesso.nn.online_softmax import KernelSoftmax, OnlineSoftmax, online_softmax

pytestmark = pytest.mark.numbers

SOFTCAP = 30.0
MOST = 2e-6 * SOFTCAP
"""What two ways to cap a score may differ by."""


def scores_of(rows: int, size: int, seed: int, scale: float = 10.0) -> torch.Tensor:
    return torch.randn(rows, size, generator=torch.Generator().manual_seed(seed)) * scale


def by_arrays(size: int, chunk: int, softcap: float, inverse_N1: torch.Tensor) -> OnlineSoftmax:
    with torch.enable_grad():  # where no kernel computes
        found = online_softmax(size, chunk, softcap, inverse_N1)
    assert not isinstance(found, KernelSoftmax)
    return found


def passed(softmax: OnlineSoftmax, scores_NV: torch.Tensor, part: int) -> tuple[SoftmaxPass, list[torch.Tensor]]:
    """The sums, and the powers of every part."""
    powers = [softmax.add(scores.clone())[1] for scores in scores_NV.split(part, dim=1)]
    return softmax.take(torch.zeros(len(scores_NV), 0)), powers


@given(
    st.integers(1, 9),
    st.integers(1, 700) | st.sampled_from([BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK]),
    st.sampled_from([BLOCK, 2 * BLOCK, 512]),
    st.sampled_from([SOFTCAP, math.inf]),
    st.sampled_from([0.05, 1.0, 3.0]),
    st.integers(0, 2**20),
)
def test_it_adds_up_what_array_operations_do(
    rows: int, size: int, chunk: int, softcap: float, temperature: float, seed: int
) -> None:
    scores, inverse = scores_of(rows, size, seed), torch.full((rows, 1), 1 / temperature)
    scores[:, ::7] = LOWEST if math.isinf(softcap) else -100.0
    found, powers = passed(KernelSoftmax(size, chunk, softcap, inverse), scores, chunk)
    expected, others = passed(by_arrays(size, chunk, softcap, inverse), scores, chunk)
    near = MOST / temperature
    assert torch.equal(found.argmax_N1, expected.argmax_N1)
    assert bool(((found.maximum_N1 - expected.maximum_N1).abs() <= near).all())
    ours_of, theirs_of = (found.total_N1, found.mass_NB, *powers), (expected.total_N1, expected.mass_NB, *others)
    for ours, theirs in zip(ours_of, theirs_of, strict=True):
        assert ours.shape == theirs.shape
        assert bool(((ours - theirs).abs() <= 4 * near * theirs + 1e-6).all())
    assert bool(((found.weighted_N1 - expected.weighted_N1).abs() <= 70 * near * expected.total_N1 + 1e-5).all())


@given(st.integers(1, 9), st.integers(1, 900), st.sampled_from([SOFTCAP, math.inf]), st.integers(1, 3))
def test_rows_and_parts_change_no_bit(rows: int, size: int, softcap: float, threads: int) -> None:
    """A part of many chunks, a row by itself, and several threads."""
    scores, inverse = scores_of(rows, size, rows * size), torch.rand(rows, 1, generator=torch.Generator()) + 0.5
    whole, _ = passed(KernelSoftmax(size, BLOCK, softcap, inverse), scores, BLOCK)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("gesso.nn.online_softmax.ALONE", 0)
            at_once, _ = passed(KernelSoftmax(size, BLOCK, softcap, inverse), scores, size)
    finally:
        torch.set_num_threads(before)
    last, _ = passed(KernelSoftmax(size, BLOCK, softcap, inverse[-1:]), scores[-1:], size)
    assert all(map(torch.equal, whole, at_once))
    assert all(torch.equal(part[-1:], one) for part, one in zip(whole, last, strict=True))


def test_of_equal_scores_the_first_is_the_argmax() -> None:
    scores = torch.zeros(2, 300)
    scores[0, [17, 40, 200]] = 5.0
    scores[1, [131, 257]] = 5.0
    found, _ = passed(KernelSoftmax(300, BLOCK, SOFTCAP, torch.ones(2, 1)), scores, 300)
    assert found.argmax_N1.flatten().tolist() == [17, 131]


@pytest.mark.parametrize(("bad", "finite"), [(math.nan, False), (math.inf, False), (-math.inf, True)])
def test_what_is_no_number_shows_in_its_row_alone(bad: float, finite: bool) -> None:
    scores = scores_of(3, 300, 1)
    scores[1, 70] = bad
    found, _ = passed(KernelSoftmax(300, BLOCK, math.inf, torch.ones(3, 1)), scores, 300)
    entropy = found.total_N1.log() - found.weighted_N1 / found.total_N1
    assert entropy.isfinite().flatten().tolist() == [True, finite, True]
