"""Rotary positions: frequencies, the turned part of a head, the table."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gesso.config import RopeConfig
from gesso.errors import OptionError
from gesso.nn.rope import RopeTable, apply_rope, inverse_frequencies

pytestmark = pytest.mark.numbers

FULL = RopeConfig("proportional", 1e6, 0.25)


def test_default_turns_every_pair() -> None:
    found = inverse_frequencies(RopeConfig("default", 1e4), 8)
    assert torch.allclose(found, torch.tensor([1.0, 1e-1, 1e-2, 1e-3]))


def test_the_published_full_layers_turn_64_of_256_pairs() -> None:
    found = inverse_frequencies(FULL, 512)
    assert found.shape == (256,)
    expected = [1e6 ** (-2 * i / 512) for i in range(64)]
    assert torch.allclose(found[:64], torch.tensor(expected), rtol=1e-5)
    assert not found[64:].any()


@pytest.mark.parametrize(("fraction", "head", "turned"), [(0.25, 16, 2), (0.5, 6, 1), (0.3, 10, 1), (1.0, 8, 4)])
def test_a_part_of_a_pair_is_not_turned(fraction: float, head: int, turned: int) -> None:
    found = inverse_frequencies(RopeConfig("proportional", 1e4, fraction), head)
    assert int((found > 0).sum()) == turned == math.floor(fraction * head / 2)


def test_the_factor_slows_positions_down() -> None:
    plain, slow = (inverse_frequencies(RopeConfig("proportional", 1e4, 0.5, factor), 16) for factor in (1.0, 8.0))
    assert torch.allclose(plain, 8.0 * slow)


def test_pairs_without_frequency_stay_as_they_are() -> None:
    x = torch.randn(5, 3, 16)
    cos, sin = RopeTable(FULL, 16).lookup(torch.arange(5), 5, torch.float32)
    turned = apply_rope(x, cos, sin)
    still = [i for i in range(16) if i % 8 >= 2]
    assert torch.equal(turned[..., still], x[..., still])
    assert torch.equal(turned[0], x[0]), "position 0 is not turned at all"
    assert not torch.allclose(turned[1:, :, 0], x[1:, :, 0])


@given(st.integers(0, 3000), st.integers(0, 3000), st.integers(0, 3000), st.sampled_from([2, 8, 16]))
def test_products_depend_on_the_distance_alone(a: int, b: int, shift: int, head: int) -> None:
    table = RopeTable(RopeConfig("default", 1e4), head)
    generator = torch.Generator().manual_seed(a)
    q, k = (torch.randn(1, 1, head, generator=generator) for _ in range(2))

    def product(i: int, j: int) -> float:
        cos, sin = table.lookup(torch.tensor([i, j]), max(i, j) + 1, torch.float32)
        q_turned, k_turned = apply_rope(q, cos[:1], sin[:1]), apply_rope(k, cos[1:], sin[1:])
        return float((q_turned * k_turned).sum())

    assert product(a, b) == pytest.approx(product(a + shift, b + shift), abs=5e-3)


def test_a_head_is_turned_by_its_angle() -> None:
    """Pairs are (i, i + K/2), turned anticlockwise."""
    cos, sin = RopeTable(RopeConfig("default", 1e4), 4).lookup(torch.tensor([3]), 4, torch.float32)
    turned = apply_rope(torch.tensor([[[1.0, 0.0, 0.0, 0.0]]]), cos, sin)
    assert torch.allclose(turned, torch.tensor([[[math.cos(3), 0.0, math.sin(3), 0.0]]]), atol=1e-6)


def test_the_table_grows_and_changes_nothing() -> None:
    table = RopeTable(FULL, 16)
    early = table.lookup(torch.tensor([1, 255]), 256, torch.float32)
    far = torch.tensor([1, 255, 256, 70_000])
    cos, sin = table.lookup(far, 70_001, torch.float32)
    assert cos.shape == (4, 1, 16)
    assert torch.equal(cos[:2], early[0])
    assert torch.equal(sin[:2], early[1])
    angle = 70_000 * inverse_frequencies(FULL, 16)
    assert torch.allclose(cos[3, 0, :8], angle.cos(), atol=1e-6)
    again = table.lookup(torch.tensor([7]), 8, torch.float32)[0]
    assert torch.equal(again, table.lookup(torch.tensor([7]), 70_001, torch.float32)[0])


def test_the_table_follows_the_dtype() -> None:
    table = RopeTable(FULL, 16)
    exact, _ = table.lookup(torch.arange(9), 9, torch.float32)
    half, _ = table.lookup(torch.arange(9), 9, torch.bfloat16)
    assert half.dtype == torch.bfloat16
    assert torch.equal(half, exact.to(torch.bfloat16)), "angles are fp32 whatever the model is"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_gradient_is_that_of_the_definition(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    x, grad = (torch.randn(7, 3, 16, generator=generator) for _ in range(2))
    cos, sin = RopeTable(FULL, 16).lookup(torch.arange(7) * 50, 301, torch.float32)
    found, other = (x.to(dtype).requires_grad_() for _ in range(2))
    out = apply_rope(found, cos, sin)
    first, second = other[..., :8], other[..., 8:]
    expected = torch.cat(
        (first * cos[..., :8] - second * sin[..., :8], second * cos[..., 8:] + first * sin[..., 8:]), -1
    )
    torch.testing.assert_close(out, expected)
    with torch.no_grad():
        torch.testing.assert_close(apply_rope(found, cos, sin), expected)
    out.backward(grad)
    expected.backward(grad)
    assert found.grad is not None
    # In halves the definition rounds each of its parts, the turn back once.
    rough = {} if dtype == torch.float32 else {"rtol": 0.03, "atol": 0.02}
    torch.testing.assert_close(found.grad, other.grad, **rough)


def test_a_fixed_table_stays_where_it_is_and_refuses_what_is_past_it() -> None:
    table, cpu = RopeTable(FULL, 16), torch.device("cpu")
    table.fix(1000, cpu, torch.float32)
    assert table.nbytes == 2 * 1000 * 2 * 4, "two numbers of each of the two pairs that are turned"
    held = table._table
    assert held is not None
    found = table.lookup(torch.tensor([0, 999]), 1000, torch.float32)
    grown = RopeTable(FULL, 16).lookup(torch.tensor([0, 999]), 1000, torch.float32)
    assert all(torch.equal(one, other) for one, other in zip(found, grown, strict=True))
    assert table._table is held
    with pytest.raises(OptionError, match=r"^1001 tokens are past the 1000 that the tables of positions are made for$"):
        table.lookup(torch.tensor([1000]), 1001, torch.float32)
    table.lookup(torch.tensor([3]), 4, torch.bfloat16)
    assert table.nbytes == 2 * 1000 * 2 * 2, "another type is made as long"


def test_a_table_is_made_piece_by_piece_as_it_would_be_at_once() -> None:
    table = RopeTable(RopeConfig("default", 1e4), 8)
    positions = torch.tensor([0, 2**14 - 1, 2**14, 2**14 + 1, 40_000])
    cos, sin = table.lookup(positions, 40_001, torch.float32)
    angles = torch.arange(40_001, dtype=torch.float32)[:, None] * inverse_frequencies(RopeConfig("default", 1e4), 8)
    assert torch.allclose(cos[:, 0], torch.cat((angles, angles), -1).cos()[positions], atol=1e-6)
    assert torch.allclose(sin[:, 0], torch.cat((angles, angles), -1).sin()[positions], atol=1e-6)
