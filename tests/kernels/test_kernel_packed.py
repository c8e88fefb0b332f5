"""The kernel's matmuls with packed weights against turning the weights back and multiplying."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode

from gesso.nn.experts import mix_experts
from gesso.nn.quant import base
from gesso.nn.quant.base import Format, dequantize, matmul
from gesso.nn.quant.fp8 import FP8
from gesso.nn.quant.integer import Int4, Int8
from gesso.nn.quant.layers import QuantizedExperts, QuantizedLinear
from gesso.nn.quant.nf4 import LEVELS, NF4
from gesso.nn.quant.nvfp4 import NVFP4

pytest.importorskip("triton")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
FORMS: dict[str, tuple[Format, int]] = {
    "int8": (Int8(), 51),
    "fp8": (FP8(), 51),
    "int4-32": (Int4(32), 32),
    "int4-64": (Int4(64), 64),
    "int4-128": (Int4(128), 128),
    "nf4": (NF4(), 48),
    "nf4-64": (NF4(), 64),
    "nvfp4": (NVFP4(), 16),
}
"""And a width that they can hold, as all of its multiples."""
forms = pytest.mark.parametrize(("form", "width"), FORMS.values(), ids=FORMS)
BOUNDS = {torch.float32: 2.0**-20, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}
"""Of the difference, in what the magnitudes of a sum's terms add up to: weights and results are rounded once."""
dtypes = pytest.mark.parametrize("dtype", BOUNDS, ids=str)


@pytest.fixture
def by_kernel() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "usable", lambda device: True)
        yield


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def check(form: Format, counts: list[int], rows: int, width: int, dtype: torch.dtype) -> None:
    from gesso.kernels import packed

    # Groups of weights of all sizes, and some of nothing.
    matrices = random(len(counts), rows, width) * torch.logspace(-2, 2, width).roll(width // 3)
    matrices[:, :, : width // 4] = 0.0
    parts = tuple(torch.stack(each).to(DEVICE) for each in zip(*map(form.quantize, matrices), strict=True))
    x = random(sum(counts), width, seed=1).to(DEVICE, dtype)
    ends = torch.tensor(counts).cumsum(0).to(DEVICE, torch.int32)
    found = packed.matmul(x, form.kernel, parts, ends, LEVELS.to(DEVICE))
    assert found.dtype == dtype
    assert found.shape == (sum(counts), rows)
    for i, (begin, end) in enumerate(pairwise([0, *ends.tolist()])):
        weight = dequantize(tuple(part[i] for part in parts), form, torch.float32).double()
        own = x[begin:end].double()
        off = (found[begin:end].double() - own @ weight.T).abs()
        assert bool((off <= BOUNDS[dtype] * (own.abs() @ weight.T.abs()) + 1e-7).all())


@forms
@dtypes
@pytest.mark.parametrize(
    ("counts", "rows", "times"),
    [
        ([0, 3, 17, 0, 20], 37, 3),
        ([0, 1], 65, 1),
        ([0, 0, 70, 0], 64, 2),
        ([1, 1, 1, 1, 1, 1, 1], 7, 5),
        ([300, 11], 5, 1),
        ([19], 130, 3),
    ],
    ids=["several", "one-row", "one-group", "a-row-each", "long", "alone"],
)
def test_it_equals_turning_back_and_multiplying(
    form: Format, width: int, dtype: torch.dtype, counts: list[int], rows: int, times: int
) -> None:
    check(form, counts, rows, times * width, dtype)


@settings(max_examples=25)
@given(
    st.sampled_from(sorted(FORMS)),
    st.lists(st.integers(0, 40), min_size=1, max_size=9),
    st.integers(1, 70),
    st.integers(1, 5),
)
def test_any_routing(name: str, counts: list[int], rows: int, times: int) -> None:
    form, width = FORMS[name]
    check(form, counts, rows, times * width, torch.float32)


@forms
def test_every_code_is_read(form: Format, width: int) -> None:
    """Bytes that no weight of the tests above may have become."""
    from gesso.kernels import packed

    parts = list(form.empty(256, 2 * width))
    codes = torch.arange(256)[:, None].expand(parts[0].shape).to(torch.uint8)
    if form.kernel == "fp8":
        codes = codes.clone()
        codes[(codes & 127) == 127] = 0  # not-a-number, which quantize never makes
    parts = [codes.contiguous().view(parts[0].dtype), *(torch.full_like(part, 0.75) for part in parts[1:])]
    weight = dequantize(tuple(parts), form, torch.float32)
    parts = [part.to(DEVICE) for part in parts]
    eye = torch.eye(2 * width, device=DEVICE)
    found = packed.matmul(eye, form.kernel, parts, None, LEVELS.to(DEVICE))
    torch.testing.assert_close(found.T.cpu(), weight, rtol=1e-6, atol=0)


def test_only_a_group_s_own_rows_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs run in no order: what another one writes must not be touched. Rows of no group show it."""
    from gesso.kernels import packed

    parts = tuple(torch.stack(each).to(DEVICE) for each in zip(*map(Int8().quantize, random(2, 70, 16)), strict=True))
    full = torch.full
    monkeypatch.setattr(torch, "empty", lambda *shape, **options: full(shape, 7.0, **options))
    ends = torch.tensor([3, 5], dtype=torch.int32, device=DEVICE)
    found = packed.matmul(random(9, 16).to(DEVICE), "int8", parts, ends)
    assert bool((found[5:] == 7.0).all())
    assert bool((found[:5] != 7.0).all())


@forms
@pytest.mark.usefixtures("by_kernel")
def test_a_linear_layer(form: Format, width: int) -> None:
    layer = QuantizedLinear(2 * width, 21, bias=True, form=form)
    state = dict(zip(form.parts, form.quantize(random(21, 2 * width)), strict=True)) | {"bias": random(21, seed=2)}
    layer.load_state_dict(state)
    layer, x = layer.to(DEVICE), random(2, 5, 2 * width, seed=3).to(DEVICE)
    with torch.no_grad():
        found = layer(x)
    assert found.shape == (2, 5, 21)
    # With a gradient it goes the other way.
    torch.testing.assert_close(found, layer(x.requires_grad_()).detach(), rtol=1e-4, atol=1e-3)


@forms
@pytest.mark.usefixtures("by_kernel")
def test_layers_that_share_rows_make_what_each_makes(form: Format, width: int) -> None:
    layers = [QuantizedLinear(2 * width, columns, form=form) for columns in (21, 8)]
    for seed, layer in enumerate(layers):
        matrix = random(layer.out_features, 2 * width, seed=seed)
        layer.load_state_dict(dict(zip(form.parts, form.quantize(matrix), strict=True)))
        layer.to(DEVICE)
    x = random(5, 2 * width, seed=3).to(DEVICE)
    with torch.no_grad():
        found = QuantizedLinear.together(layers, x)
        assert found is not None
        assert all(torch.equal(out, layer(x)) for out, layer in zip(found, layers, strict=True))


def experts_of(form: Format) -> QuantizedExperts:
    """Hidden 128, six experts of 128."""
    experts = QuantizedExperts(128, 128, 6, form)
    state = {}
    for matrix, shape in zip(("gate_up", "down"), experts.shapes, strict=True):
        packed = zip(*(form.quantize(0.2 * random(*shape, seed=i)) for i in range(6)), strict=True)
        state |= {f"{matrix}_{name}": torch.stack(each) for name, each in zip(form.parts, packed, strict=True)}
    experts.load_state_dict(state)
    return experts.to(DEVICE)


def routed(tokens: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Two experts of each token, of the first five."""
    numbers = torch.rand(tokens, 5, generator=torch.Generator().manual_seed(seed)).topk(2).indices
    return torch.rand(tokens, 2, generator=torch.Generator().manual_seed(seed)).to(DEVICE), numbers.to(DEVICE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("form", [Int8(), FP8(), Int4(32), Int4(64), NF4(), NVFP4()], ids=lambda form: form.kernel)
@pytest.mark.usefixtures("by_kernel")
def test_all_experts_equal_each_by_itself(form: Format, dtype: torch.dtype) -> None:
    experts, x, (weights, numbers) = experts_of(form), random(23, 128, seed=9).to(DEVICE, dtype), routed(23)
    with torch.no_grad():
        found = experts(x, weights, numbers)
    expected = mix_experts(x, weights, numbers, 6, experts.projections())  # with gradients: not by the kernel
    near = 1e-5 if dtype == torch.float32 else 0.02
    torch.testing.assert_close(found, expected.detach(), rtol=near, atol=near * float(expected.detach().abs().max()))


class NoKernel:
    """Started with whatever numbers and grid, does nothing."""

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        assert all(type(size) is int for size in grid)
        return lambda *tensors, **sizes: None


@pytest.mark.usefixtures("by_kernel")
@pytest.mark.parametrize("form", [Int4(), NVFP4(), FP8()], ids=str)
def test_nobody_waits_for_the_device(form: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors hold nothing, so nothing may depend on what they hold; expert by expert it does."""
    from gesso.kernels import packed

    monkeypatch.setattr(packed, "_multiply", NoKernel())
    experts, x, (weights, numbers) = experts_of(form), random(23, 128).to(DEVICE), routed(23)
    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fakes = [mode.from_tensor(tensor) for tensor in (x, weights, numbers)]
        assert experts(*fakes).shape == (23, 128)
        monkeypatch.setattr(base, "usable", lambda device: False)
        with pytest.raises(DynamicOutputShapeException):
            experts(*fakes)


@pytest.mark.usefixtures("by_kernel")
def test_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def noted(x: Tensor, ends: Tensor | None, parts: tuple[Tensor, ...], form: Format) -> Tensor:
        calls.append(form.kernel)
        return x.new_zeros(len(x), parts[0].shape[0 if ends is None else 1])

    monkeypatch.setattr(base, "multiply_in_kernel", noted)
    parts, x = Int8().quantize(random(4, 16)), random(3, 16)
    with torch.no_grad():
        assert not matmul(x, parts, Int8()).any()
        assert calls == ["int8"]
        with torch.autocast("cpu", torch.bfloat16):
            assert matmul(x, parts, Int8()).any()
    assert matmul(x, parts, Int8()).any()
    monkeypatch.undo()
    with torch.no_grad():
        assert matmul(x, parts, Int8()).any()
    assert calls == ["int8"]


@given(st.integers(0, 40_000), st.integers(1, 256), st.sampled_from([1, 16, 32, 64, 128]), st.sampled_from([2, 4]))
def test_blocks_fit(rows: int, groups: int, group: int, itemsize: int) -> None:
    from gesso.kernels import packed

    tile, depth, stages = packed.blocks(rows, groups, group, itemsize)
    assert packed.SMALLEST <= tile <= packed.MANY_ROWS
    assert depth >= 2 * packed.SMALLEST  # words of it are what a matmul takes
    features = 1 if group == 1 else 2
    assert tile * depth * itemsize * features <= packed.LOADED
    assert 2 <= stages <= packed.STAGES
    assert stages * depth * (tile * itemsize * features + packed.COLUMN_TILE) <= packed.SHARED
    assert group == 1 or depth % (group // 2) == 0
    for size in (tile, depth):
        assert size & (size - 1) == 0
