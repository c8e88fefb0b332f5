"""Rows laid side by side by the expert that they chose, cut into pieces, and mixed from where they lie."""

import importlib.util
from array import array

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

if importlib.util.find_spec("llvmlite") is None:
    pytest.skip("llvmlite is not installed", allow_module_level=True)

from gesso.kernels.host.expert_groups import COUNTED, LARGEST
from gesso.kernels.host.library import norms
from gesso.kernels.host.step_kernels import step_kernels
from gesso.nn.mixtures import weighted

pytestmark = pytest.mark.numbers


@given(
    rows=st.integers(1, 70), each=st.integers(1, 3), experts=st.integers(1, 9), seed=st.integers(0, 99),
    largest=st.sampled_from([(8, 4, 2, 1), (4, 2, 1), (*range(16, 3, -1), 2, 1)]), apart=st.sampled_from([0, 16]),
)  # fmt: skip
def test_rows_of_an_expert_stand_side_by_side_and_are_cut_into_pieces(
    rows: int, each: int, experts: int, seed: int, largest: tuple[int, ...], apart: int
) -> None:
    generator, width, choices = torch.Generator().manual_seed(seed), 16, rows * each
    x = torch.randn(rows, width, generator=generator)
    chosen = torch.randint(experts, (rows, each), generator=generator)
    laid, slots = torch.full((choices, width), -1.0), torch.full((choices,), -1)
    begins, counts = torch.full((experts + 1,), -1), torch.zeros(COUNTED, dtype=torch.int64)
    pieces = array("q", [-1] * (4 * choices))
    sizes = array("q", [0, *(max(size for size in largest if size <= left) for left in range(1, LARGEST + 1))])
    counted = array("q", [counts.data_ptr() + 8 * i for i in range(COUNTED)])
    lists = pieces.buffer_info()[0], sizes.buffer_info()[0], begins.data_ptr(), counted.buffer_info()[0]
    places = chosen.data_ptr(), x.data_ptr(), laid.data_ptr(), slots.data_ptr(), *lists
    step_kernels().group_rows(*places, choices, each, experts, 4 * width, apart)

    assert sorted(slots.tolist()) == list(range(choices))
    assert torch.equal(laid[slots].view(rows, each, width), x[:, None].expand(-1, each, -1))
    count = int(counts[0])
    assert counts.tolist() == [count] * COUNTED
    assert all(number == -1 for number in pieces[4 * count :])
    order, row = chosen.flatten()[slots.argsort()].tolist(), 0
    assert order == sorted(order)
    for number in range(count):
        first, size, expert, out = pieces[4 * number : 4 * number + 4]
        assert (out, first) == (row, apart * number if apart else row)
        assert order[row : row + size] == [expert] * size
        left = order.count(expert) - (row - order.index(expert))
        assert size == max(s for s in largest if s <= left)
        row += size
    assert row == choices

    weights = torch.rand(rows, each, generator=generator)
    out, mixed = torch.randn(choices, width, generator=generator), torch.empty(rows, width)
    places = out.data_ptr(), weights.data_ptr(), slots.data_ptr(), mixed.data_ptr()
    norms().mix_placed(*places, 0, rows, width, each)
    with torch.inference_mode():
        assert torch.allclose(mixed, weighted(out, slots.view(rows, each), weights), rtol=1e-5, atol=1e-6)
