"""RMSNorm: the value by its definition, with and without gradient, and the gradient by finite differences."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from gesso.nn.norm import rms_norm

pytestmark = pytest.mark.numbers


def slow(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    out = x / (x.square().mean(dim=-1, keepdim=True) + eps).sqrt()
    return out if weight is None else out * weight


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.integers(1, 9), st.booleans(), st.integers(0, 99))
def test_value_and_gradients_are_those_of_the_definition(shape: list[int], dim: int, scale: bool, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x, grad = (torch.randn(*shape, dim, generator=generator) for _ in range(2))
    weight = torch.randn(dim, generator=generator) if scale else None
    found, expected = [], []
    for function, results in ((rms_norm, found), (slow, expected)):
        inputs = [t.clone().requires_grad_() for t in (x, weight) if t is not None]
        out = function(inputs[0], inputs[1] if scale else None, 1e-6)
        out.backward(grad)
        results += [out.detach(), *(t.grad for t in inputs)]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        torch.testing.assert_close(rms_norm(x, weight, 1e-6), expected[0], rtol=1e-5, atol=1e-5)


def test_heads_that_lie_apart_in_memory() -> None:
    x = torch.randn(4, 6, 3, dtype=torch.float32).transpose(0, 1).requires_grad_()
    weight = torch.randn(3).requires_grad_()
    rms_norm(x, weight, 1e-6).sum().backward()
    assert x.grad is not None
    other = x.detach().clone().requires_grad_()
    slow(other, weight.detach(), 1e-6).sum().backward()
    torch.testing.assert_close(x.grad, other.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves_are_normed_in_fp32_and_cast_back(dtype: torch.dtype) -> None:
    x = (100 * torch.randn(5, 64)).to(dtype)
    assert rms_norm(x, None, 1e-6).dtype == dtype
    torch.testing.assert_close(rms_norm(x, None, 1e-6), slow(x.float(), None, 1e-6).to(dtype))


def test_a_frozen_scale_gets_no_gradient() -> None:
    x, weight = torch.randn(3, 8).requires_grad_(), torch.randn(8)
    rms_norm(x, weight, 1e-6).sum().backward()
    assert x.grad is not None
    assert weight.grad is None
