"""Norms, residual sums, turns and mixtures in kernels: the bits of array operations, of any number of rows."""

import importlib.util

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gesso.nn import fused_norms
from gesso.nn.mixtures import weighted
from gesso.nn.norm import rms_norm
from gesso.nn.rope import apply_rope

if importlib.util.find_spec("llvmlite") is None:
    pytest.skip("llvmlite is not installed", allow_module_level=True)

from gesso.kernels.host import normed, row_jobs

pytestmark = pytest.mark.numbers
EPS, FACTOR = 1e-6, 0.7
rows, widths = st.integers(1, 9), st.integers(1, 20).map(lambda parts: 16 * parts)
magnitudes = st.sampled_from([1e-20, 1e-3, 1.0, 1e4])


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_the_kernels_give_pytorchs_bits_here() -> None:
    assert fused_norms.agree()


@given(rows, widths, magnitudes, st.booleans())
@torch.no_grad()
def test_residual_sums_and_norms_are_those_of_array_operations(
    rows: int, width: int, magnitude: float, alone: bool
) -> None:
    x, one, other = random(3, rows, width) * magnitude
    weights = random(4, width, seed=1)
    before = row_jobs.ALONE
    try:
        row_jobs.ALONE = 1 << 17 if alone else 0
        assert torch.equal(normed.norm(x, weights[0], EPS), rms_norm(x, weights[0], EPS))
        total, *found = normed.add_norm(x, one, weights[0], (weights[1], weights[2], weights[3]), EPS, FACTOR)
        added = x + rms_norm(one, weights[0], EPS)
        assert torch.equal(total, added)
        expected = [rms_norm(added, weight, EPS) for weight in weights[1:]]
        expected[2] = rms_norm(added, None, EPS) * weights[3] * FACTOR
        assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))
        both = normed.add_branches(x, (one, other), (weights[0], weights[1], weights[2]), EPS, FACTOR)
        branches = rms_norm(one, weights[0], EPS) + rms_norm(other, weights[1], EPS)
        assert torch.equal(both, (x + rms_norm(branches, weights[2], EPS)) * torch.tensor([FACTOR]))
    finally:
        row_jobs.ALONE = before


@given(rows, st.integers(1, 5), widths)
@torch.no_grad()
def test_heads_are_normed_and_turned_as_by_array_operations(rows: int, heads: int, width: int) -> None:
    x, weight = random(rows, heads, width), random(width, seed=1)
    turn = (random(rows, 1, width, seed=2), random(rows, 1, width, seed=3))
    turned = fused_norms.norm_heads(x, weight, turn, EPS, fused=True)
    assert torch.equal(turned, apply_rope(rms_norm(x, weight, EPS), *turn))
    assert torch.equal(turned, fused_norms.norm_heads(x, weight, turn, EPS, fused=False))
    assert torch.equal(fused_norms.norm_heads(x, None, None, EPS, fused=True), rms_norm(x, None, EPS))


@given(rows, st.integers(1, 8), widths)
@torch.no_grad()
def test_neighbours_are_mixed_as_by_an_embedding_bag(rows: int, each: int, width: int) -> None:
    x, weights = random(rows * each, width), random(rows, each, seed=1).abs()
    expected = weighted(x, torch.arange(rows * each).view(rows, each), weights)
    assert torch.equal(fused_norms.mix_neighbours(x, weights), expected)


def test_other_numbers_and_widths_are_left_to_array_operations() -> None:
    assert normed.serves(torch.zeros(2, 32), None)
    assert not normed.serves(torch.zeros(2, 24))
    assert not normed.serves(torch.zeros(2, 32), torch.zeros(32, dtype=torch.bfloat16))
    assert not normed.serves(torch.zeros(32, 2).T)
    narrow = random(4, 24)
    mixed = fused_norms.mix_neighbours(narrow, torch.ones(2, 2))
    torch.testing.assert_close(mixed, narrow.view(2, 2, 24).sum(dim=1))
