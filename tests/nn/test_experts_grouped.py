"""One grouped matmul for all experts against the matmul of each, and when it is used."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from gesso.nn import experts as experts_module
from gesso.nn import grouped_products as products
from gesso.nn.experts import Experts, mix_experts, mix_grouped, mix_in_training
from gesso.nn.grouped_products import GROUP_ROWS, can_group, padded_layout
from gesso.nn.lora import LoraExperts
from gesso.nn.quant import base as quant_base
from gesso.nn.quant.base import Format, dequantize, dequantize_all
from gesso.nn.quant.fp8 import FP8
from gesso.nn.quant.integer import Int4, Int8
from gesso.nn.quant.layers import QuantizedExperts, quantized_tensors
from gesso.nn.quant.nf4 import NF4


def filled(hidden: int, width: int, count: int, seed: int, dtype: torch.dtype = torch.float32) -> Experts:
    experts = Experts(hidden, width, count).requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    for parameter in experts.parameters():
        parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator))
    return experts.to(dtype)


def routed(tokens: int, top_k: int, allowed: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.stack([torch.randperm(allowed, generator=generator)[:top_k] for _ in range(tokens)])
    return torch.rand(tokens, top_k, generator=generator), numbers


def one_by_one(experts: Experts, x: Tensor, weights: Tensor, numbers: Tensor) -> Tensor:
    return mix_experts(x, weights, numbers, experts.num_experts, experts.projections())


@given(st.integers(1, 40), st.integers(1, 9), st.data())
def test_it_equals_the_matmul_of_each(tokens: int, count: int, data: st.DataObject) -> None:
    top_k = data.draw(st.integers(1, count), label="top_k")
    allowed = data.draw(st.integers(top_k, count), label="experts that get anything")
    seed = data.draw(st.integers(0, 999), label="seed")
    experts = filled(16, 8, count, seed)
    x, (weights, numbers) = torch.randn(tokens, 16), routed(tokens, top_k, allowed, seed)
    with torch.no_grad():
        found = mix_grouped(x, weights, numbers, experts.gate_up_proj, experts.down_proj)
        torch.testing.assert_close(found, one_by_one(experts, x, weights, numbers), rtol=1e-4, atol=1e-4)


def test_in_bfloat16() -> None:
    experts = filled(32, 24, 6, 1, torch.bfloat16)
    x, (weights, numbers) = torch.randn(50, 32).bfloat16(), routed(50, 3, 5, 1)
    with torch.no_grad():
        found = mix_grouped(x, weights, numbers, experts.gate_up_proj, experts.down_proj)
        expected = one_by_one(experts, x, weights, numbers)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, expected, rtol=0.02, atol=0.02 * float(expected.abs().max()))


@given(st.integers(1, 60), st.integers(1, 9), st.data())
def test_padded_groups_hold_every_choice_once(tokens: int, count: int, data: st.DataObject) -> None:
    top_k = data.draw(st.integers(1, count), label="top_k")
    allowed = data.draw(st.integers(top_k, count), label="experts that get anything")
    _, numbers = routed(tokens, top_k, allowed, data.draw(st.integers(0, 99), label="seed"))
    source, slots, ends = padded_layout(numbers, count)
    assert not (ends % GROUP_ROWS).any()
    assert int(ends[-1]) == len(source)
    assert len(slots.unique()) == tokens * top_k
    assert source[slots].tolist() == [token for token in range(tokens) for _ in range(top_k)]
    begins = torch.cat((ends.new_zeros(1), ends[:-1]))
    assert (begins < ends).all(), "there are kernels that leave the gradients of empty groups as they were"
    own = numbers.flatten()
    assert ((slots >= begins[own]) & (slots < ends[own])).all(), "each lies in its expert's group"


def test_rows_that_fill_groups_up_have_no_gradient() -> None:
    """So may what adds up the gradients of tokens leave them out."""
    experts, kept = filled(32, 24, 6, 5).requires_grad_(True), []
    weights, numbers = routed(30, 2, 5, 5)
    _, slots, _ = padded_layout(numbers, 6)
    gate_up, down = experts.grouped()

    def watched(x: Tensor, ends: Tensor) -> Tensor:
        kept.append(x)
        x.retain_grad()
        return gate_up(x, ends)

    x = torch.randn(30, 32, generator=torch.Generator().manual_seed(5)).requires_grad_(True)
    mix_in_training(x, weights, numbers, 6, watched, down).square().sum().backward()
    (rows,) = kept
    assert rows.grad is not None
    assert rows.grad[slots].any(dim=1).all()
    fills = torch.ones(len(rows), dtype=torch.bool)
    fills[slots] = False
    assert fills.any()
    assert not rows.grad[fills].any()


def test_gradients_in_groups_are_those_of_one_by_one() -> None:
    experts = filled(32, 24, 6, 3).requires_grad_(True)
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(70, 32, generator=generator).requires_grad_(True)
    weights, numbers = routed(70, 3, 5, 3)
    inputs = [x, weights.requires_grad_(True), experts.gate_up_proj, experts.down_proj]
    there = torch.randn(70, 32, generator=generator)
    found = mix_in_training(x, weights, numbers, 6, *experts.grouped())
    expected = one_by_one(experts, x, weights, numbers)
    changes = torch.autograd.grad(found, inputs, there.to(found.dtype))
    for change, right in zip(changes, torch.autograd.grad(expected, inputs, there), strict=True):
        assert change.dtype == torch.float32
        torch.testing.assert_close(change, right, rtol=0.05, atol=0.02 * float(right.abs().max()))
    assert not changes[2][5].any(), "an expert that got nothing has a zero gradient"


@pytest.mark.parametrize("form", [None, NF4(), Int4(), FP8()], ids=lambda form: getattr(form, "kernel", "plain"))
@pytest.mark.parametrize("rank", [0, 8, 3])
def test_frozen_experts_and_their_deltas_train_in_groups(
    form: Format | None, rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = filled(64, 64, 5, 4).to(torch.bfloat16)
    base: Experts | QuantizedExperts = plain
    if form is not None:
        base = QuantizedExperts(64, 64, 5, form)
        for name, matrix in plain.named_parameters():
            named = quantized_tensors(f"experts.{name}", matrix, form)
            base.load_state_dict({key.removeprefix("experts."): part for key, part in named.items()}, strict=False)
    experts = LoraExperts(base, rank, 0.5) if rank else base
    generator = torch.Generator().manual_seed(4)
    for parameter in experts.parameters():
        if parameter.requires_grad:
            parameter.data = 0.1 * torch.randn(parameter.shape, generator=generator)
    x = torch.randn(60, 64, generator=generator).bfloat16().requires_grad_(True)
    weights, numbers = routed(60, 2, 4, 4)
    inputs = [x, weights.requires_grad_(True), *(p for p in experts.parameters() if p.requires_grad)]
    there = torch.randn(60, 64, generator=generator).bfloat16()

    def run() -> list[Tensor]:
        out = experts(x, weights, numbers)
        return [out.detach(), *torch.autograd.grad(out, inputs, there)]

    expected = run()
    for module in ("gesso.nn.experts", "gesso.nn.lora", "gesso.nn.quant.layers"):
        monkeypatch.setattr(f"{module}.groups_in_training", lambda *_, **__: True)
    monkeypatch.setattr(experts_module, "mix_experts", None)
    inner_widths: list[int] = []
    multiply = products.multiply_groups

    def noted(x_MD: Tensor, ends_E: Tensor, matrix_EFD: Tensor) -> Tensor:
        inner_widths.extend(matrix_EFD.shape[1:])
        return multiply(x_MD, ends_E, matrix_EFD)

    monkeypatch.setattr("gesso.nn.lora.multiply_groups", noted)
    found = run()
    assert products.aligned(inner_widths, torch.bfloat16), "as the kernels want their rows"
    assert bool(inner_widths) == bool(rank)
    for own, right in zip(found, expected, strict=True):
        assert own.dtype == right.dtype
        difference = (own.float() - right.float()).square().mean().sqrt()
        assert float(difference) <= 0.02 * float(right.float().square().mean().sqrt())


def test_matrices_are_dequantized_some_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    form, generator = NF4(), torch.Generator().manual_seed(0)
    matrices = torch.randn(3, 20, 64, generator=generator)
    parts = tuple(torch.stack(part) for part in zip(*map(form.quantize, matrices), strict=True))
    expected = torch.stack([dequantize(part, form, torch.float32) for part in zip(*parts, strict=True)])
    monkeypatch.setattr(quant_base, "GROUPS_TILE", 7 * 64)
    assert torch.equal(dequantize_all(parts, form, 64, torch.float32), expected)


@pytest.mark.parametrize(
    ("precision", "capability", "triton", "used"),
    [
        (torch.bfloat16, (9, 0), False, True),
        (torch.bfloat16, (8, 0), False, False),
        (torch.bfloat16, (8, 6), True, True),
        (torch.bfloat16, (12, 0), True, True),
        (torch.bfloat16, (7, 5), True, False),
        (torch.float16, (9, 0), True, False),
    ],
)
def test_when_training_groups(
    precision: torch.dtype, capability: tuple[int, int], triton: bool, used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gesso.kernels.usable", lambda device: triton and device.type == "cuda")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(products, "autocast_dtype", lambda kind: precision)
    products._capability.cache_clear()
    x, matrices = placed(64, torch.float32), (torch.empty(2, 16, 64), torch.empty(2, 64, 8))
    assert products.groups_in_training(x, *matrices) == used
    assert not products.groups_in_training(x, torch.empty(2, 16, 60), torch.empty(2, 64, 8)), "rows of 120 bytes"
    assert not products.groups_in_training(placed(64, kind="cpu"), *matrices)
    monkeypatch.setattr(products, "autocast_dtype", lambda kind: None)
    assert not products.groups_in_training(x, *matrices)
    products._capability.cache_clear()


@pytest.mark.parametrize("rank", [8, 3])
def test_deltas_of_any_rank_train_in_groups(rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def groups(x_ND: Tensor, *matrices_EFD: Tensor) -> bool:
        asked.append(products.groups_in_training(placed(x_ND.shape[1]), *matrices_EFD))
        return False

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(products, "autocast_dtype", lambda kind: torch.bfloat16)
    monkeypatch.setattr("gesso.nn.lora.groups_in_training", groups)
    products._capability.cache_clear()
    LoraExperts(filled(64, 64, 4, 0), rank, 0.5)(torch.randn(5, 64), *routed(5, 2, 4, 0))
    assert asked == [True]
    products._capability.cache_clear()


@pytest.mark.parametrize(("hidden", "width", "used"), [(64, 32, True), (60, 32, False), (64, 28, False)])
def test_packed_experts_train_in_groups_where_their_rows_are_aligned(
    hidden: int, width: int, used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of plain ones: the products of the backward pass read them whole."""
    answers: list[bool] = []

    def asked(x_ND: Tensor, **settings: Any) -> bool:
        answers.append(products.groups_in_training(placed(x_ND.shape[1]), **settings))
        return False

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(products, "autocast_dtype", lambda kind: torch.bfloat16)
    monkeypatch.setattr("gesso.nn.quant.layers.groups_in_training", asked)
    products._capability.cache_clear()
    experts = QuantizedExperts(hidden, width, 4, Int8())
    for part in experts.buffers():
        part.fill_(1)
    experts(torch.randn(5, hidden), *routed(5, 2, 4, 0))
    assert answers == [used]
    products._capability.cache_clear()


def test_routing_is_data_all_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded with one routing and played with another, as a CUDA graph is."""
    monkeypatch.setattr(experts_module, "can_group", lambda *_: True)
    experts = filled(16, 8, 6, 2)
    first, second = routed(20, 2, 3, 0), routed(20, 2, 6, 1)
    x = torch.randn(20, 16)
    with torch.no_grad():
        recorded = make_fx(experts)(x, *first)
        torch.testing.assert_close(recorded(x, *second), one_by_one(experts, x, *second), rtol=1e-4, atol=1e-4)


def placed(width: int, dtype: torch.dtype = torch.bfloat16, kind: str = "cuda") -> Any:
    """What `can_group` looks at, of a tensor on a device that is not here."""
    return SimpleNamespace(shape=(4, 8, width), dtype=dtype, device=torch.device(kind), itemsize=dtype.itemsize)


@pytest.mark.parametrize(
    ("operands", "capability", "used"),
    [
        ((placed(64), placed(64), placed(32)), (9, 0), True),
        ((placed(64), placed(64), placed(32)), (10, 3), True),
        ((placed(64), placed(64), placed(32)), (8, 0), False),
        ((placed(64), placed(64), placed(32)), (12, 0), False),
        ((placed(64), placed(64), placed(36)), (9, 0), False),
        ((placed(64, torch.float32), placed(64), placed(32)), (9, 0), False),
        ((placed(64), placed(64, torch.float16), placed(32)), (9, 0), False),
        ((placed(64, kind="cpu"), placed(64), placed(32)), (9, 0), False),
    ],
)
def test_when_it_is_used(
    operands: tuple[Any, ...], capability: tuple[int, int], used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By PyTorch alone, whether Triton is here or not."""
    monkeypatch.setattr("gesso.kernels.usable", lambda device: False)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    products._capability.cache_clear()
    with torch.no_grad():
        assert can_group(*operands) == used
    assert not can_group(*operands), "a gradient may be wanted"
    products._capability.cache_clear()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_our_kernel_serves_any_gpu_and_type(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gesso.kernels.usable", lambda device: device.type == "cuda")
    x, gate_up, down = (placed(width, dtype) for width in (64, 64, 33))
    with torch.no_grad():
        assert can_group(x, gate_up, down)
        assert not can_group(x, gate_up, placed(33, torch.float64))
        assert not can_group(*(placed(64, torch.float64) for _ in range(3)))
        assert not can_group(*(placed(64, dtype, "cpu") for _ in range(3)))
        assert not can_group(*(placed(64, dtype, "meta") for _ in range(3)))
    assert not can_group(x, gate_up, down), "a gradient may be wanted"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("has_kernel", [True, False])
def test_on_metal_it_needs_a_pytorch_that_has_the_kernel(
    dtype: torch.dtype, has_kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "has_grouped_kernel", {"MPS": has_kernel}.__getitem__)
    x, gate_up, down = (placed(width, dtype, "mps") for width in (64, 64, 32))
    other = torch.float64 if dtype == torch.float32 else torch.float32
    products._capability.cache_clear()
    with torch.no_grad():
        assert can_group(x, gate_up, down) == has_kernel
        assert not can_group(placed(64, other, "mps"), gate_up, down)
        assert not can_group(x, gate_up, placed(33, dtype, "mps"))
    products._capability.cache_clear()


def test_kernels_are_those_that_pytorch_has_registered() -> None:
    assert products.has_grouped_kernel("CUDA") == torch.backends.cuda.is_built()
    assert products.has_grouped_kernel("CompositeExplicitAutograd"), "what multiplies one by one elsewhere"
