"""Router and experts against a loop over tokens, and the dense MLP and the norm they stand beside."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from gesso.nn import mixtures
from gesso.nn.experts import Experts, Router
from gesso.nn.mlp import MLP
from gesso.nn.norm import RMSNorm, rms_norm

pytestmark = pytest.mark.numbers


def filled(module: torch.nn.Module, seed: int) -> torch.nn.Module:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator))
    return module


def one_expert(experts: Experts, x_D: Tensor, number: int) -> Tensor:
    gate, up = (experts.gate_up_proj[number] @ x_D).chunk(2)
    return experts.down_proj[number] @ (F.gelu(gate, approximate="tanh") * up)


def slowly(experts: Experts, x_ND: Tensor, weights_Nk: Tensor, experts_Nk: Tensor) -> Tensor:
    rows = []
    for x, weights, numbers in zip(x_ND, weights_Nk, experts_Nk, strict=True):
        rows.append(sum(w * one_expert(experts, x, int(n)) for w, n in zip(weights, numbers, strict=True)))
    return torch.stack(rows)


@given(st.integers(1, 70), st.integers(1, 16), st.data())
def test_experts_equal_a_loop(tokens: int, count: int, data: st.DataObject) -> None:
    top_k = data.draw(st.integers(1, count), label="top_k")
    allowed = data.draw(st.integers(top_k, count), label="experts that get anything")
    fine = data.draw(st.sampled_from([1, 4, 32]), label="fine")
    seed = data.draw(st.integers(0, 999), label="seed")
    generator = torch.Generator().manual_seed(seed)
    experts = filled(Experts(10, 7, count), seed).requires_grad_(False)
    x = torch.randn(tokens, 10, generator=generator)
    weights = torch.rand(tokens, top_k, generator=generator)
    numbers = torch.stack([torch.randperm(allowed, generator=generator)[:top_k] for _ in range(tokens)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mixtures, "FINE", fine)
        patch.setattr(mixtures, "pass_multiple", lambda device: fine)
        found = experts(x, weights, numbers)
    assert torch.allclose(found, slowly(experts, x, weights, numbers), atol=1e-4)


def test_gradients_equal_those_of_the_loop() -> None:
    experts = filled(Experts(6, 5, 4), 1)
    x = torch.randn(9, 6, requires_grad=True)
    weights = torch.rand(9, 2, requires_grad=True)
    numbers = torch.stack([torch.randperm(3)[:2] for _ in range(9)])
    inputs = [x, weights, experts.gate_up_proj, experts.down_proj]
    fast = torch.autograd.grad(experts(x, weights, numbers).square().sum(), inputs)
    slow = torch.autograd.grad(slowly(experts, x, weights, numbers).square().sum(), inputs)
    for a, b in zip(fast, slow, strict=True):
        assert torch.allclose(a, b, atol=1e-4)
    assert not fast[2][3].any(), "an expert that got nothing has a zero gradient, not a missing one"


@pytest.mark.parametrize("top_k", [1, 2, 5])
def test_the_router(top_k: int) -> None:
    router = filled(Router(8, 5, top_k, 1e-6), 2)
    x = 3 * torch.randn(11, 8)
    weights, numbers = router(x)
    assert weights.dtype == torch.float32
    for row in range(11):
        normed = x[row] / (x[row].square().mean() + 1e-6).sqrt()
        p = (router.proj.weight @ (normed * router.scale * 8**-0.5)).softmax(-1)
        best = p.argsort(descending=True)[:top_k]
        assert numbers[row].tolist() == best.tolist()
        expected = p[best] / p[best].sum() * router.per_expert_scale[best]
        assert torch.allclose(weights[row], expected, atol=1e-5)


def test_bfloat16_experts_give_bfloat16() -> None:
    experts = filled(Experts(8, 6, 3), 3).to(torch.bfloat16).requires_grad_(False)
    router = filled(Router(8, 3, 2, 1e-6), 3).to(torch.bfloat16).requires_grad_(False)
    x = torch.randn(5, 8).to(torch.bfloat16)
    weights, numbers = router(x)
    assert weights.dtype == torch.float32
    found = experts(x, weights, numbers)
    assert found.dtype == torch.bfloat16
    exact = slowly(experts.float(), x.float(), weights, numbers)
    assert torch.allclose(found.float(), exact, atol=0.02 * float(exact.abs().max()))


def test_mlp() -> None:
    mlp = filled(MLP(6, 9), 4)
    x = torch.randn(3, 6)
    gated = F.gelu(x @ mlp.gate_proj.weight.T, approximate="tanh") * (x @ mlp.up_proj.weight.T)
    assert torch.allclose(mlp(x), gated @ mlp.down_proj.weight.T, atol=1e-5)
    assert not mlp(torch.zeros(2, 6)).any(), "no bias: zero stays zero"


def test_norm_multiplies_by_its_weight() -> None:
    norm = RMSNorm(6, 1e-6)
    torch.nn.init.normal_(norm.weight)
    x = 7 * torch.randn(3, 6)
    expected = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * norm.weight
    assert torch.allclose(norm(x), expected, atol=1e-5)
    bare = RMSNorm(6, 1e-6, scale=False)
    assert list(bare.parameters()) == []
    assert torch.allclose(bare(x) * norm.weight, expected, atol=1e-5)
    assert not rms_norm(torch.zeros(2, 6), None, 1e-6).any()


def test_norm_is_computed_in_fp32() -> None:
    x = (300 * torch.randn(4, 64, generator=torch.Generator().manual_seed(0))).to(torch.float16)
    assert bool((x.square().sum(-1) == torch.inf).any()), "squares that do not fit the dtype"
    norm = RMSNorm(64, 1e-6).to(torch.float16)
    found = norm(x)
    assert found.dtype == torch.float16
    exact = x.float() / (x.float().square().mean(-1, keepdim=True) + 1e-6).sqrt()
    assert torch.equal(found, exact.to(torch.float16))
