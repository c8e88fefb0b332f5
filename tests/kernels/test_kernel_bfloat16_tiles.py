"""Products of bfloat16 numbers in tiles: by AMX where the processor has it, and by its definition on every one."""

import functools
import importlib.util

import pytest
import torch

if importlib.util.find_spec("llvmlite") is None:
    pytest.skip("llvmlite is not installed", allow_module_level=True)

from gesso.kernels.host import amx, amx_library, bfloat16_amx
from gesso.kernels.host.bfloat16_amx import matmul, reads
from kernels.test_kernel_bfloat16 import exact, matrix, numbers
from kernels.test_kernel_instructions import with_definitions

TILES = amx_library.bfloat16_tiles


@functools.cache
def defined_tiles(turned: bool) -> amx_library.BFloat16Tiles:
    with pytest.MonkeyPatch.context() as patch:
        with_definitions(patch)
        return TILES.__wrapped__(turned)


@pytest.fixture(params=["by definition", "by AMX"], autouse=True)
def _kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "by definition":
        monkeypatch.setattr(amx_library, "bfloat16_tiles", defined_tiles)
    elif not amx.available():
        pytest.skip("this processor has no AMX")


@pytest.fixture
def two_threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Computes on two threads, small products too, where threads may: what stands for AMX has one set of tiles."""
    if "AMX" in request.node.callspec.id:
        monkeypatch.setattr(bfloat16_amx, "ALONE", 0)
        monkeypatch.setattr(torch, "get_num_threads", lambda: 2)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("columns", "features"), [(64, 96), (80, 32), (16, 64), (48, 2816)])
def test_sums_are_rounded_once_and_a_row_does_not_depend_on_those_beside_it(
    columns: int, features: int, biased: bool, turned: bool
) -> None:
    weight, x = matrix(columns, features, turned=turned), numbers(70, features)
    bias = numbers(columns, seed=2) if biased else None
    whole, wanted = matmul(x, weight, bias), exact(x, weight, bias)
    # Half a unit in the last place of what comes out, and the sums' own rounding.
    assert ((whole.double() - wanted).abs() <= 2.0**-8 * wanted.abs() * 1.001 + 1e-5 * features**0.5).all()
    assert (whole == wanted.float().bfloat16()).float().mean() > 0.998
    for rows in (1, 2, 15, 16, 17, 33, 49):
        for start in (0, 3):
            assert torch.equal(matmul(x[start : start + rows], weight, bias), whole[start : start + rows]), rows


@pytest.mark.usefixtures("two_threads")
def test_groups_are_multiplied_by_their_own_matrices() -> None:
    stack, x = numbers(6, 80, 96, seed=1), numbers(110, 96)
    ends = [0, 3, 3, 90, 106, 110]
    out = matmul(x, stack, ends_E=ends)
    for weight, begin, end in zip(stack, [0, *ends], ends, strict=False):
        if begin < end:
            assert torch.equal(out[begin:end], matmul(x[begin:end], weight))


@pytest.mark.parametrize("turned", [False, True])
def test_what_is_no_number_stays_in_its_row(turned: bool) -> None:
    x, weight = numbers(20, 32), torch.ones(32, 16, dtype=torch.bfloat16).T
    weight = weight if turned else weight.contiguous()
    whole = matmul(x, weight)
    x[3, 5], x[7, 0], x[8, 31] = float("nan"), float("inf"), float("-inf")
    odd = matmul(x, weight)
    assert odd[3].isnan().all()
    assert (odd[7] == float("inf")).all()
    assert (odd[8] == float("-inf")).all()
    others = [i for i in range(20) if i not in (3, 7, 8)]
    assert torch.equal(odd[others], whole[others])
    assert matmul(x[:0], weight).shape == (0, 16)


@pytest.mark.parametrize("turned", [False, True])
def test_nothing_but_the_result_is_written(turned: bool) -> None:
    """Rows that a group lacks of sixteen are computed, and are nobody's."""
    x, stack, ends = numbers(40, 64), numbers(4, 16, 64, seed=1), None if turned else [5, 5, 21, 40]
    weight = matrix(16, 64, turned=True) if turned else stack
    room = torch.full((60, 16), 7.0, dtype=torch.bfloat16)
    with pytest.MonkeyPatch.context() as patch:
        empty, own = torch.empty, (40, 16)
        patch.setattr(torch, "empty", lambda *shape, **kind: room[10:50] if shape == own else empty(*shape, **kind))
        out = matmul(x, weight, ends_E=ends)
    assert out.data_ptr() == room[10:].data_ptr()
    assert (room[:10] == 7).all()
    assert (room[50:] == 7).all()
    assert torch.equal(out[21:], matmul(x[21:], weight if turned else stack[3]))


def test_matrices_that_lie_in_other_ways_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amx, "available", lambda: True)
    weight = numbers(48, 64)
    assert reads(weight)
    assert reads(weight[16:])
    assert reads(weight.view(3, 16, 64))
    assert not reads(weight[:, :32])
    assert reads(numbers(64, 48).T)
    assert not reads(weight.T)  # 48 features
    assert not reads(weight.view(3, 16, 64).mT)
    assert not reads(weight[3:])
    assert not reads(numbers(48, 48))
    assert not reads(weight[:0])
    monkeypatch.setattr(amx, "available", lambda: False)
    assert not reads(weight)
