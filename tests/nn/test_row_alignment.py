"""A row's bits do not depend on the rows beside it: the measured plans, and matmuls by them."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from gesso.nn import row_alignment as module
from gesso.nn.linear import linear
from gesso.nn.row_alignment import ALIGNMENTS, RowPlan, align_rows, multiply_aligned, pass_multiple, row_plan

pytestmark = pytest.mark.numbers

CPU = torch.device("cpu")
LAST = ALIGNMENTS[-1]
# input and output features, and whether the weight is stored the other way round: of the bundled models, of the tests'
# tiny ones, a router, and some that MKL (few numbers), oneDNN and the packed formats get.
SHAPES = [
    *((192, out, False) for out in (8, 64, 128, 256, 1811)),
    *((inside, 192, False) for inside in (128, 256)),
    *((24, out, False) for out in (8, 24, 160)),
    (8, 24, False),
    (256, 15, False),
    (512, 32, False),
    (1024, 31, False),
    (704, 48, False),
    (1811, 192, True),
    (64, 24, True),
]


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def plan(*candidates: module.Multiply, shape: tuple[int, int] = (48, 96)) -> RowPlan:
    return row_plan(candidates, shape, torch.float32, False, False, 1)


def exact(x: Tensor, weight: Tensor, _: Tensor | None) -> Tensor:
    """Rows cannot depend on each other."""
    return torch.stack([(row * weight).sum(-1) for row in x])


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("inside", "outside", "transposed"), SHAPES)
def test_a_row_does_not_depend_on_those_beside_it(
    inside: int, outside: int, transposed: bool, dtype: torch.dtype, count: int, threads: None
) -> None:
    torch.set_num_threads(count)
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(outside, inside, generator=generator).to(dtype)
    weight = weight.T.contiguous().T if transposed else weight
    x = torch.randn(256, inside, generator=generator).to(dtype)
    bias = torch.randn(outside, generator=generator).to(dtype)
    with torch.no_grad():
        for own in (None, bias) if outside < 192 else (None,):
            whole = linear(x[:160], weight, own)
            for rows in (1, 4, 7, 12, 16, 24, 40, 144):
                for start in (0, 5) if rows < 144 else (0, 16):
                    part = linear(x[start : start + rows].clone(), weight, own)
                    assert torch.equal(part, whole[start : start + rows]), (rows, start)


@pytest.mark.parametrize("needed", [1, 4, 5, 8, 9, 12, 16])
def test_the_least_multiple_that_keeps_the_bits_is_taken(needed: int) -> None:
    """On a machine whose matmuls of fewer than `needed` rows round in another way."""

    def rounding(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return exact(x, weight, bias) * (1 if len(x) >= needed else 1 + 2.0**-20)

    assert plan(rounding, exact) == RowPlan(rounding, next(rows for rows in ALIGNMENTS if rows >= needed))


def by_count(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return exact(x, weight, bias) * (1 + len(x) * 2.0**-20)


def by_place(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return exact(x, weight, bias) * (1 + (torch.arange(len(x)) % 16 > 9)[:, None] * 2.0**-20)


def with_many(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return exact(x, weight, bias) * (1 + (len(x) > 200) * 2.0**-20)


def test_a_library_that_keeps_no_bits_is_passed_over() -> None:
    assert plan(by_place, exact) == RowPlan(exact, ALIGNMENTS[0])
    assert plan(by_place) == RowPlan(by_place, LAST, most=LAST)


def test_calls_stay_small_where_a_library_rounds_many_rows_in_another_way() -> None:
    assert plan(with_many, exact) == RowPlan(with_many, ALIGNMENTS[0], most=32)
    weight, x = torch.randn(48, 96), torch.randn(300, 96)
    assert torch.equal(multiply_aligned((with_many,), x, weight, None), exact(x, weight, None))


def test_rows_are_multiplied_in_calls_of_one_size_where_every_number_rounds_in_its_own_way() -> None:
    calls = []

    def rounding(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        calls.append(len(x))
        return by_count(x, weight, bias)

    weight, x = torch.randn(48, 96), torch.randn(2, 50, 96)
    multiply_aligned((rounding,), x, weight, None)
    calls.clear()
    out = multiply_aligned((rounding,), x, weight, None)
    assert out.shape == (2, 50, 48)
    assert calls == [LAST] * 7
    calls.clear()
    assert torch.equal(multiply_aligned((rounding,), x[1, 3:9], weight, None), out[1, 3:9])
    assert calls == [LAST]


def test_it_is_measured_once_for_each_kind_of_weight_and_number_of_threads(threads: None) -> None:
    calls = []

    def counting(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        calls.append(len(x))
        return exact(x, weight, bias)

    measured = []
    x = torch.randn(5, 6)
    for kind in ("plain", "plain", "wider", "plain", "transposed", "wider", "biased", "threads", "threads"):
        torch.set_num_threads(2 if kind == "threads" else 1)
        weight = {"wider": torch.randn(8, 6), "transposed": torch.randn(6, 7).T}.get(kind, torch.randn(7, 6))
        calls.clear()
        multiply_aligned((counting,), x, weight, torch.randn(7) if kind == "biased" else None)
        measured.append(len(calls) > 1)
    assert measured == [True, False, True, False, True, False, True, True, False]


def test_large_weights_are_not_measured() -> None:
    def never(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        raise AssertionError

    assert plan(never, shape=(2048, 2816)) == RowPlan(never, LAST)


def test_rows_are_filled_up_with_the_last() -> None:
    for device, least in ((CPU, ALIGNMENTS[0]), (torch.device("meta"), LAST)):
        assert pass_multiple(device) == least
        for count in (1, 3, 4, 5, 15, 16, 17, 40):
            rows = least if count < LAST else LAST
            x = torch.arange(count * 2.0, device=device).view(count, 2)
            padded = align_rows(x)
            assert len(padded) == -(-count // rows) * rows
            if device == CPU:
                assert torch.equal(padded[:count], x)
                assert (padded[count:] == x[-1]).all()
