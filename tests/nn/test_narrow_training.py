"""A block in bfloat16: its parts against fp32 ones, rounded, and where it is taken."""

import importlib.util
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from gesso.config import LayerConfig
from gesso.nn import compiled_training
from gesso.nn.attention import Attention
from gesso.nn.experts import Experts
from gesso.nn.gated_gelu import gated_gelu_of_halves
from gesso.nn.lora import LoraLinear
from gesso.nn.mlp import MLP
from gesso.nn.narrow_training import narrow_heads, narrow_mlp, narrow_norm, trains_narrow
from gesso.nn.norm import rms_norm
from gesso.nn.rope import apply_rope
from gesso.nn.training_norms import add_attended, add_branches

if importlib.util.find_spec("llvmlite") is None:
    pytest.skip("llvmlite is not installed", allow_module_level=True)

from gesso.kernels.host import trained

pytestmark = pytest.mark.numbers
EPS, ROWS, WIDTH = 1e-6, 140, 64
HALF = 2**-8
"""What rounding to bfloat16 is off by at most, as a share of the number."""


@pytest.fixture(autouse=True)
def _however_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_training, "LEAST", 1)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def rounded_once(found: Tensor, expected: Tensor) -> None:
    """Asserts that numbers in bfloat16 are those of fp32, rounded; fp32 ones alike but for the order of sums."""
    near = HALF * expected.abs() if found.dtype == torch.bfloat16 else 0
    assert ((found.float() - expected).abs() <= near + 2e-5 * expected.abs().max()).all()


def angles(rows: int, width: int) -> tuple[Tensor, Tensor]:
    half = draw(rows, 1, width // 2, seed=3)
    cos, sin = torch.cat((half, half), dim=-1).cos(), torch.cat((half, half), dim=-1).sin()
    return cos.contiguous(), sin.contiguous()


def layers(*, sliding: bool = True) -> tuple[Attention, MLP, Experts]:
    layer = LayerConfig(kind="sliding_attention" if sliding else "full_attention", head_dim=32, num_key_value_heads=2)
    made = Attention(WIDTH, 4, layer, False, EPS), MLP(WIDTH, 48), Experts(WIDTH, 32, 3)
    for module in made:
        for seed, parameter in enumerate(module.parameters()):
            with torch.no_grad():
                parameter.copy_(0.2 * draw(*parameter.shape, seed=seed) + (parameter.dim() == 1))
    return made


def test_norms_are_those_of_fp32_rounded() -> None:
    x, weight = draw(ROWS, WIDTH).requires_grad_(), draw(WIDTH, seed=1).requires_grad_()
    out, expected = narrow_norm(x, weight, EPS), rms_norm(x, weight, EPS)
    assert out.dtype == torch.bfloat16
    rounded_once(out, expected)
    above = draw(ROWS, WIDTH, seed=2).bfloat16()
    found, wanted = (torch.autograd.grad(y, (x, weight), above.to(y.dtype)) for y in (out, expected))
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.dtype == torch.float32
        rounded_once(ours, theirs)


def test_rounding_is_to_the_nearest_even_and_what_is_no_number_stays_none() -> None:
    gate = torch.full((1, 16), 100.0).bfloat16()  # gelu(100) is 100
    up = torch.tensor([1.0, 1.0078125, float("nan"), float("inf"), -0.0] + [2.0] * 11).bfloat16()[None]
    found = trained.gated(gate, up)[0]
    exact = 100 * up[0].float()
    assert torch.equal(found[[0, 1, 3, 4, 5]], exact.bfloat16()[[0, 1, 3, 4, 5]])
    assert found[2].isnan()
    # Sums that lie between two neighbours, which are two apart here.
    parts = torch.tensor([[256.0, 1.0], [256.0, 3.0]]).view(4, 1).expand(4, 16).bfloat16().contiguous()
    summed = trained.mix(parts, torch.tensor([[0, 1], [2, 3]]), None)
    assert summed[:, 0].tolist() == [256.0, 260.0]


@pytest.mark.parametrize("sliding", [True, False])
def test_heads_are_those_of_fp32_rounded(*, sliding: bool) -> None:
    attention, _, _ = layers(sliding=sliding)
    turn, x = angles(ROWS, 32), draw(ROWS, WIDTH).bfloat16().requires_grad_()
    weights = [parameter for name, parameter in attention.named_parameters() if not name.startswith("o_proj")]

    def plain(x: Tensor) -> tuple[Tensor, ...]:
        projections = [attention.q_proj, attention.k_proj, attention.v_proj or attention.k_proj]
        q, k, v = (F.linear(x, p.weight.bfloat16()).float().view(ROWS, -1, 32) for p in projections)
        q, k = (
            apply_rope(rms_norm(y, norm.weight, EPS), *turn)
            for y, norm in ((q, attention.q_norm), (k, attention.k_norm))
        )
        return q, k, rms_norm(v, None, EPS)

    found = []
    for make in (lambda x: narrow_heads(attention, x, turn), plain):
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
            outputs = make(x)
        above = [draw(*out.shape, seed=5).bfloat16().to(out.dtype) for out in outputs]
        found.append((outputs, torch.autograd.grad(outputs, [x, *weights], above)))
    (ours, grads), (theirs, expected) = found
    for out, other in zip(ours, theirs, strict=True):
        assert out.dtype == torch.bfloat16
        rounded_once(out, other.detach())
    for grad, other in zip(grads, expected, strict=True):
        assert (grad.float() - other.float()).norm() <= 0.01 * other.float().norm()


def test_the_feed_forward_is_that_of_fp32_rounded() -> None:
    _, mlp, _ = layers()
    x = draw(ROWS, WIDTH).bfloat16().requires_grad_()
    found = []
    for make in (narrow_mlp, lambda mlp, x: mlp(x)):
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
            out = make(mlp, x)
        found.append([out, *torch.autograd.grad(out, [x, *mlp.parameters()], draw(*out.shape).to(out.dtype))])
    assert found[0][0].dtype == torch.bfloat16
    for ours, theirs in zip(*found, strict=True):
        assert (ours.float() - theirs.float()).norm() <= 0.01 * theirs.float().norm()


NARROW: dict[str, tuple[Callable[..., tuple[Tensor, ...]], list[Tensor]]] = {
    "attended": (
        lambda x, branch, *w: add_attended(x, branch, w, EPS, 0.7),
        [draw(ROWS, WIDTH), draw(ROWS, WIDTH, seed=1).bfloat16(), *(draw(WIDTH, seed=s) for s in range(2, 6))],
    ),
    "branches": (
        lambda x, one, other, *w: (add_branches(x, one, other, w, EPS, 0.7),),
        [
            draw(ROWS, WIDTH), draw(ROWS, WIDTH, seed=1).bfloat16(), draw(ROWS, WIDTH, seed=2),
            *(draw(WIDTH, seed=s) for s in range(3, 6)),
        ],
    ),
    "halves": (lambda x: (gated_gelu_of_halves(x),), [draw(ROWS, WIDTH).bfloat16()]),
}  # fmt: skip


@pytest.mark.parametrize("name", NARROW)
def test_kernels_are_those_of_fp32_rounded(name: str) -> None:
    function, inputs = NARROW[name]
    found = []
    for wide in (False, True):
        leaves = [(x.float() if wide else x).clone().requires_grad_() for x in inputs]
        outputs = function(*leaves)
        assert all("Backward" in type(out.grad_fn).__name__ for out in outputs)
        above = [draw(*out.shape, seed=9).bfloat16().to(out.dtype) for out in outputs]
        found.append([*(out.detach() for out in outputs), *torch.autograd.grad(outputs, leaves, above)])
    assert any(x.dtype == torch.bfloat16 for x in found[0])
    for ours, theirs in zip(*found, strict=True):
        rounded_once(ours, theirs)


def penalties(name: str) -> tuple[Callable[..., tuple[Tensor, ...]], list[Tensor]]:
    if name == "norm":
        return lambda x, w: (narrow_norm(x, w, EPS),), [draw(ROWS, WIDTH), draw(WIDTH, seed=1)]
    if name == "heads":
        attention, turn = layers()[0], angles(ROWS, 32)
        return lambda x: narrow_heads(attention, x, turn), [draw(ROWS, WIDTH).bfloat16()]
    return NARROW[name]


@pytest.mark.parametrize("name", ["norm", "heads", *NARROW])
def test_gradients_of_gradients_are_made_by_array_operations(name: str) -> None:
    function, inputs = penalties(name)
    found = []
    for dtype in (None, torch.float32):
        leaves = [(x if dtype is None else x.to(dtype)).clone().requires_grad_() for x in inputs]
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
            outputs = function(*leaves)
        total = sum((out.float().square().sum() for out in outputs), torch.zeros(()))
        grads = torch.autograd.grad(total, leaves, create_graph=True)
        found.append(torch.autograd.grad(sum(grad.float().square().sum() for grad in grads), leaves))
    for ours, theirs in zip(*found, strict=True):
        assert ours.isfinite().all()
        assert (ours.float() - theirs.float()).norm() <= 0.1 * theirs.float().norm() + 1e-6


def test_where_a_block_is_something_else_it_is_not_taken() -> None:
    attention, mlp, experts = layers()
    x, turn = draw(ROWS, WIDTH), angles(ROWS, 32)

    def taken(attention: Attention = attention, mlp: MLP = mlp, experts: torch.nn.Module = experts) -> bool:
        with torch.autocast("cpu", torch.bfloat16):
            return trains_narrow(attention, mlp, experts, x, turn)

    assert taken()
    assert not trains_narrow(attention, mlp, experts, x, turn), "products are fp32 without autocast"
    with torch.no_grad():
        assert not taken()
    handle = mlp.up_proj.register_forward_hook(lambda *_: None)
    assert not taken()
    handle.remove()
    _, adapted, _ = layers()
    adapted.down_proj = LoraLinear(adapted.down_proj, 2, 1.0)  # type: ignore[assignment]
    assert not taken(mlp=adapted)
    assert not taken(experts=torch.nn.Identity())
    assert not taken(attention=Attention(WIDTH, 4, LayerConfig("sliding_attention", 32, 2), True, EPS))
    assert taken()
