"""The mixture in one step of autograd: values and gradients of a loop over tokens in double precision."""

import importlib.util

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from gesso.nn import compiled_training
from gesso.nn.experts import Experts
from gesso.nn.mixtures import rows_of_few_shapes

if importlib.util.find_spec("llvmlite") is None:
    pytest.skip("llvmlite is not installed", allow_module_level=True)

pytestmark = pytest.mark.numbers
WIDTH, INNER = 32, 16


@pytest.fixture(autouse=True)
def _however_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_training, "LEAST", 1)


def slowly(x_ND: Tensor, weights_Nk: Tensor, gate_up_EFD: Tensor, down_EDF: Tensor, experts_Nk: Tensor) -> Tensor:
    gate, up = torch.einsum("efd,nd->nef", gate_up_EFD, x_ND).chunk(2, dim=-1)
    out_NED = torch.einsum("edf,nef->ned", down_EDF, F.gelu(gate, approximate="tanh") * up)
    chosen = out_NED.gather(1, experts_Nk[..., None].expand(-1, -1, out_NED.shape[-1]))
    return (weights_Nk[..., None] * chosen).sum(dim=1)


def draw(tokens: int, count: int, top_k: int, used: int, seed: int) -> tuple[Experts, list[Tensor], Tensor]:
    """A layer, what it is given, and experts, of which `used` get anything."""
    generator = torch.Generator().manual_seed(seed)
    experts = Experts(WIDTH, INNER, count)
    with torch.no_grad():
        for parameter in experts.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    x = torch.randn(tokens, WIDTH, generator=generator)
    weights = torch.rand(tokens, top_k, generator=generator)
    numbers = torch.stack([torch.randperm(used, generator=generator)[:top_k] for _ in range(tokens)])
    return experts, [x, weights, experts.gate_up_proj.detach(), experts.down_proj.detach()], numbers


def close(found: Tensor, expected: Tensor) -> bool:
    return bool((found.double() - expected).abs().max() <= 2e-5 * expected.abs().max().clamp(min=1e-2))


@given(st.integers(1, 70), st.integers(1, 6), st.data())
@settings(max_examples=25)
def test_values_and_gradients_are_those_of_double_precision(tokens: int, count: int, data: st.DataObject) -> None:
    top_k = data.draw(st.integers(1, count), label="top_k")
    used = data.draw(st.integers(top_k, count), label="experts that get anything")
    experts, given_, numbers = draw(tokens, count, top_k, used, data.draw(st.integers(0, 999), label="seed"))
    x, weights = (tensor.clone().requires_grad_() for tensor in given_[:2])
    out = experts(x, weights, numbers)
    assert "_Mix" in type(out.grad_fn).__name__
    expected_inputs = [tensor.double().requires_grad_() for tensor in given_]
    expected = slowly(*expected_inputs, numbers)
    assert close(out, expected)
    out.sin().sum().backward()
    expected.sin().sum().backward()
    for ours, theirs in zip((x, weights, *experts.parameters()), expected_inputs, strict=True):
        assert ours.grad is not None
        assert theirs.grad is not None
        assert close(ours.grad, theirs.grad)


def test_under_autocast_products_alone_are_narrow() -> None:
    experts, given_, numbers = draw(40, 3, 2, 2, 0)
    found = []
    for narrow in (False, True):
        x, weights = (tensor.clone().requires_grad_() for tensor in given_[:2])
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            out = experts(x, weights, numbers)
        assert "_Mix" in type(out.grad_fn).__name__
        found.append([out, *torch.autograd.grad(out.sin().sum(), [x, weights, *experts.parameters()])])
    for half, exact in zip(*found[::-1], strict=True):
        assert half.dtype == torch.float32
        assert 1e-5 < (half - exact).norm() / exact.norm() < 0.02


@pytest.mark.parametrize(("load", "rows"), [(0, 32), (900, 32), (1100, 64), (5376, 256), (8192, 512)])
def test_rows_of_experts_take_few_shapes(load: int, rows: int) -> None:
    assert rows_of_few_shapes(load) == rows


def test_gradients_of_gradients_are_made_by_array_operations() -> None:
    experts, given_, numbers = draw(9, 3, 2, 3, 0)
    leaves = [*(tensor.clone().requires_grad_() for tensor in given_[:2]), *experts.parameters()]
    doubles = [tensor.double().requires_grad_() for tensor in given_]
    found = []
    for out, inputs in ((experts(*leaves[:2], numbers), leaves), (slowly(*doubles, numbers), doubles)):
        grads = torch.autograd.grad(out.sin().sum(), inputs, create_graph=True)
        found.append(torch.autograd.grad(sum(grad.square().sum() for grad in grads), inputs))
    for ours, theirs in zip(*found, strict=True):
        assert (ours - theirs).abs().max() <= 1e-4 * theirs.abs().max()


def test_rows_in_bfloat16_have_gradients_of_gradients_as_well() -> None:
    experts, given_, numbers = draw(9, 3, 2, 3, 0)
    leaves = [given_[0].bfloat16().requires_grad_(), given_[1].clone().requires_grad_(), *experts.parameters()]
    doubles = [leaf.detach().double().requires_grad_() for leaf in leaves]
    with torch.autocast("cpu", torch.bfloat16):
        out = experts(*leaves[:2], numbers)
    assert "_Mix" in type(out.grad_fn).__name__
    found = []
    for made, inputs in ((out, leaves), (slowly(*doubles, numbers), doubles)):
        grads = torch.autograd.grad(made.sin().sum(), inputs, create_graph=True)
        found.append(torch.autograd.grad(sum(grad.double().square().sum() for grad in grads), inputs))
    for ours, theirs in zip(*found, strict=True):
        assert (ours.double() - theirs).norm() <= 0.05 * theirs.norm()


def test_frozen_experts_get_no_gradient() -> None:
    experts, (x, weights, *_), numbers = draw(9, 3, 2, 3, 0)
    experts.requires_grad_(False)
    x.requires_grad_()
    experts(x, weights, numbers).sum().backward()
    assert x.grad is not None
    assert all(parameter.grad is None for parameter in experts.parameters())
