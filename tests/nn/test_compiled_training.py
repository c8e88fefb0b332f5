"""Kernels of training: values and gradients of double precision, the same bits on any threads, and where they serve."""

import importlib.util
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from gesso.nn import compiled_training
from gesso.nn.compiled_training import also_without_gradient, serves
from gesso.nn.gated_gelu import gated_gelu, gated_gelu_of_halves
from gesso.nn.norm import rms_norm
from gesso.nn.rope import apply_rope
from gesso.nn.training_norms import add_attended, add_branches, turn_heads

if importlib.util.find_spec("llvmlite") is None:
    pytest.skip("llvmlite is not installed", allow_module_level=True)

from gesso.kernels.host import row_jobs, trained

pytestmark = pytest.mark.numbers
EPS, FACTOR = 1e-6, 0.7
rows, widths = st.integers(1, 140), st.integers(1, 9).map(lambda parts: 32 * parts)


@pytest.fixture(autouse=True)
def _however_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_training, "LEAST", 1)


def slow_norm(x: Tensor, weight: Tensor | None = None) -> Tensor:
    out = x / (x.square().mean(dim=-1, keepdim=True) + EPS).sqrt()
    return out if weight is None else out * weight


def slow_heads(x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    out, half = slow_norm(x, weight), x.shape[-1] // 2
    return out * cos + torch.cat((-out[..., half:], out[..., :half]), dim=-1) * sin


def slow_attended(x: Tensor, branch: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
    total = x + slow_norm(branch, weights[0])
    first, second, third = (slow_norm(total, weight) for weight in weights[1:])
    return total, first, second, third * FACTOR


def slow_branches(x: Tensor, one: Tensor, other: Tensor, *weights: Tensor) -> Tensor:
    added = slow_norm(one, weights[0]) + slow_norm(other, weights[1])
    return (x + slow_norm(added, weights[2])) * FACTOR


def slow_gated(gate: Tensor, up: Tensor) -> Tensor:
    return F.gelu(gate, approximate="tanh") * up


def case(name: str, rows: int, width: int) -> tuple[Callable[..., Any], Callable[..., Any], list[Tensor]]:
    """What is tested, what it should be, and the inputs of both."""
    generator = torch.Generator().manual_seed(rows * 1000 + width)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    x, one, other = draw(rows, width), draw(rows, width), 3 * draw(rows, width)
    weights = [draw(width) for _ in range(4)]
    heads, angles = draw(rows, 3, width), draw(2, rows, 1, width // 2)
    cos, sin = torch.cat((angles, angles), dim=-1).unbind()
    cases: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[Tensor]]] = {
        "norm": (partial(rms_norm, eps=EPS), slow_norm, [x, weights[0]]),
        "norm of heads": (partial(rms_norm, weight=None, eps=EPS), slow_norm, [heads]),
        "turned heads": (
            lambda x, weight: turn_heads(x, weight, cos, sin, EPS),
            lambda x, weight: slow_heads(x, weight, cos.to(x), sin.to(x)),
            [heads, weights[0]],
        ),
        "attended": (
            lambda x, branch, *w: add_attended(x, branch, w, EPS, FACTOR),
            slow_attended,
            [x, other, *weights],
        ),
        "branches": (
            lambda x, one, other, *w: add_branches(x, one, other, w, EPS, FACTOR),
            slow_branches,
            [x, one, other, *weights[:3]],
        ),
        "gated": (gated_gelu, slow_gated, [x, other]),
        "halves": (gated_gelu_of_halves, lambda both: slow_gated(*both.chunk(2, dim=-1)), [other]),
    }
    return cases[name]


NAMES = ("norm", "norm of heads", "turned heads", "attended", "branches", "gated", "halves")


def loss(outputs: Any) -> Tensor:
    """Uses every result twice; the sum's own gradient is one number for all, and so lies in no memory of its own."""
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    return sum(out.sum() + (out * torch.arange(out.shape[-1]).to(out).cos()).square().sum() for out in outputs)  # type: ignore[return-value]


def close(found: Tensor, expected: Tensor) -> None:
    assert found.dtype == torch.float32
    scale = expected.abs().max().clamp(min=1e-3)
    assert (found.double() - expected).abs().max() <= 3e-6 * scale


@pytest.mark.parametrize("name", NAMES)
@given(rows=rows, width=widths)
@settings(max_examples=10)
def test_values_and_gradients_are_those_of_double_precision(name: str, rows: int, width: int) -> None:
    function, slow, inputs = case(name, rows, width)
    single = [x.clone().requires_grad_() for x in inputs]
    double = [x.double().requires_grad_() for x in inputs]
    assert serves(*single)
    outputs, expected = function(*single), slow(*double)
    pairs = zip(outputs, expected, strict=True) if isinstance(outputs, tuple) else [(outputs, expected)]
    for out, other in pairs:
        assert "Backward" in type(out.grad_fn).__name__
        close(out, other)
    loss(outputs).backward()
    loss(expected).backward()
    for x, other in zip(single, double, strict=True):
        assert x.grad is not None
        assert other.grad is not None
        close(x.grad, other.grad)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_gradients_are_made_by_array_operations(name: str) -> None:
    function, slow, inputs = case(name, 9, 64)
    found = []
    for call, kind in ((function, torch.float32), (slow, torch.float64)):
        leaves = [x.to(kind).requires_grad_() for x in inputs]
        grads = torch.autograd.grad(loss(call(*leaves)), leaves, create_graph=True)
        found.append(torch.autograd.grad(sum(grad.square().sum() for grad in grads), leaves))
    for ours, theirs in zip(*found, strict=True):
        assert (ours - theirs).abs().max() <= 1e-4 * theirs.abs().max()


@pytest.mark.parametrize("name", NAMES)
def test_gradients_that_may_be_differentiated_count_each_way_once(name: str) -> None:
    """Also where one input comes of another, as a layer's branch comes of its residual sum."""
    function, _, inputs = case(name, 9, 64)

    def made(leaves: list[Tensor]) -> list[Tensor]:
        first = leaves[0]
        return [first, *(x + first.square().mean() for x in leaves[1:])]

    found = []
    for create_graph in (False, True):
        leaves = [x.clone().requires_grad_() for x in inputs]
        found.append(torch.autograd.grad(loss(function(*made(leaves))), leaves, create_graph=create_graph))
    for plain, differentiable in zip(*found, strict=True):
        assert (plain - differentiable).abs().max() <= 1e-4 * plain.abs().max()


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", NAMES)
def test_no_bit_depends_on_the_number_of_threads(
    name: str, threads: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    function, _, inputs = case(name, 200, 64)
    monkeypatch.setattr(row_jobs, "ALONE", 0)
    found = []
    for count in (1, 2, 3):
        threads(count)
        leaves = [x.clone().requires_grad_() for x in inputs]
        outputs = function(*leaves)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        grads = torch.autograd.grad(outputs, leaves, [out.detach().cos() for out in outputs])
        found.append((*outputs, *grads))
    for others in found[1:]:
        assert all(torch.equal(*pair) for pair in zip(found[0], others, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_computed_again_in_the_backward_pass_is_the_same(name: str) -> None:
    function, _, inputs = case(name, 20, 64)
    found = []
    for call in (function, lambda *x: checkpoint(function, *x, use_reentrant=False)):
        leaves = [x.clone().requires_grad_() for x in inputs]
        loss(call(*leaves)).backward()
        found.append([leaf.grad for leaf in leaves])
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(*found, strict=True))  # type: ignore[arg-type]


def test_a_frozen_scale_gets_no_gradient() -> None:
    x, weight = torch.randn(70, 32).requires_grad_(), torch.randn(32)
    rms_norm(x, weight, EPS).sum().backward()
    assert x.grad is not None
    assert weight.grad is None


def test_gelu_is_as_exact_as_it_says() -> None:
    x = torch.linspace(-30, 30, 1 << 16).view(-1, 64)
    expected = F.gelu(x.double(), approximate="tanh")
    found = gated_gelu(x, torch.ones_like(x))
    assert ((found - expected).abs() <= 3e-7 * expected.abs().clamp(min=1)).all()


def test_numbers_that_are_not_finite_stay_so() -> None:
    gate = torch.tensor([float("nan"), float("inf"), 1e30, -1e30] * 8)[None].requires_grad_()
    out = gated_gelu(gate, torch.ones_like(gate))
    assert out[0, 0].isnan()
    assert out[0, 1] == float("inf")
    assert out[0, 2] == gate[0, 2]
    assert out[0, 3].abs() < 1e-6


class Odd(Tensor):
    """A tensor whose memory nobody may read."""


def test_where_kernels_cannot_serve_array_operations_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.zeros(4, 32)
    assert serves(x, None)
    assert not serves(x.to("meta"))
    assert not serves(x.bfloat16())
    assert not serves(x, x.bfloat16())
    assert not serves(x[:, :24].contiguous())
    assert not serves(torch.zeros(32, 4).T)
    assert not serves(x.as_subclass(Odd))
    with torch.no_grad():
        assert not serves(x)
    with torch.autocast("cpu", torch.bfloat16):
        assert serves(x)
        assert not serves(x.bfloat16())
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        assert not serves(x)
        fake = mode.from_tensor(x)
    assert not serves(fake)
    inside: list[bool] = []
    torch.func.vmap(lambda row: (inside.append(serves(row)), row)[1])(x[None])
    assert inside == [False]
    monkeypatch.setattr(compiled_training, "LEAST", 129)
    assert not serves(x)


@torch.no_grad()
def test_passes_of_training_without_gradients_take_them_where_they_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = torch.randn(70, 32), torch.randn(32)
    taken, own = [], trained.norm
    monkeypatch.setattr(trained, "norm", lambda *args: (taken.append(len(args[0])), own(*args))[1])
    expected = rms_norm(x, weight, EPS)
    assert not taken
    with also_without_gradient():
        found = rms_norm(x, weight, EPS)
    assert taken == [70]
    torch.testing.assert_close(found, expected)
    assert not serves(x)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # PyTorch's own, as it traces
def test_a_compiler_traces_array_operations() -> None:
    x, weight = torch.randn(8, 32).requires_grad_(), torch.randn(32).requires_grad_()

    def both(x: Tensor, weight: Tensor) -> Tensor:
        return gated_gelu_of_halves(rms_norm(x, weight, EPS))

    functions = both, torch.compile(both, backend="aot_eager", fullgraph=True)
    found = [torch.autograd.grad(function(x, weight).square().sum(), (x, weight)) for function in functions]
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_heads_that_are_no_whole_parts_are_turned_by_array_operations() -> None:
    from gesso.nn.fused_norms import norm_heads

    x, weight = torch.randn(6, 2, 48), torch.randn(48)
    turn = torch.randn(6, 1, 48), torch.randn(6, 1, 48)
    found = norm_heads(x, weight, turn, EPS, fused=False)
    torch.testing.assert_close(found, apply_rope(rms_norm(x, weight, EPS), *turn))
