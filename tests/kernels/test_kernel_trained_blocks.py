"""A training step's residual sums with their norms on a GPU, by Triton's kernels and by PyTorch's operations."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from oracle import Shape, random_model
from torch import Tensor
from torch.nn import functional as F

from gesso.nn import gpu_blocks, gpu_training, training_norms
from gesso.nn.attention import attend_causal
from kernels.compiling import compiled

pytest.importorskip("triton")

from gesso.kernels import trained_blocks, trained_branches

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
EPS, ROOT = 1e-6, 0.3
FP32, BF16 = torch.float32, torch.bfloat16
SHAPES = [(1, 48), (7, 100), (1100, 16), (41, 192), (3, 2816)]
KINDS = [(FP32, FP32), (FP32, BF16), (BF16, BF16)]
"""Types of the residual and of products."""


def drawn(*shape: int, dtype: torch.dtype = FP32, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape) + seed)
    return torch.randn(*shape, generator=generator).to(DEVICE, dtype).requires_grad_(True)


def weights(width: int, count: int, dtype: torch.dtype = FP32) -> list[Tensor]:
    return [drawn(width, dtype=dtype, seed=10 + seed) for seed in range(count)]


def slow_norm(x: Tensor, weight: Tensor) -> Tensor:
    return F.rms_norm(x.float(), x.shape[-1:], weight.float(), EPS)


def slow_attended(x: Tensor, branch: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
    total = x + slow_norm(branch, weights[0])
    total = total.to(x.dtype)  # norms are of the sum as it is kept
    first, second, third = (slow_norm(total, weight) for weight in weights[1:])
    return total, first, second, third * ROOT


def slow_branches(x: Tensor, one: Tensor, other: Tensor, *weights: Tensor, scalar: Tensor) -> Tensor:
    added = slow_norm(one, weights[0]) + slow_norm(other, weights[1])
    return (x + slow_norm(added, weights[2])) * scalar


def compare(found: Callable[..., Any], plain: Callable[..., Any], inputs: list[Tensor]) -> None:
    """Compares results and the gradients of all inputs that have one, in what they are held in."""
    ones, others = (out if isinstance(out, tuple) else (out,) for out in (found(*inputs), plain(*inputs)))
    generator = torch.Generator().manual_seed(1)
    changes = [torch.randn(one.shape, generator=generator).to(DEVICE) for one in ones]
    leaves = [leaf for leaf in inputs if leaf.requires_grad]
    mine, theirs = (
        torch.autograd.grad(outs, leaves, [change.to(out.dtype) for change, out in zip(changes, outs, strict=True)])
        for outs in (ones, others)
    )
    exact = all(tensor.dtype == FP32 for tensor in (*ones, *leaves))
    for own, right in zip((*ones, *mine), (*others, *theirs), strict=True):
        near = (1e-5 if exact else 0.02) * float(right.detach().float().abs().max())
        torch.testing.assert_close(own.float(), right.float(), rtol=0, atol=near)
    for own, leaf in zip(mine, leaves, strict=True):
        assert own.dtype == leaf.dtype


def attended(x: Tensor, branch: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
    return gpu_blocks.add_attended(x, branch, weights, EPS, ROOT)  # type: ignore[arg-type]


def branches(x: Tensor, one: Tensor, other: Tensor, *weights: Tensor, scalar: Tensor) -> Tensor:
    return gpu_blocks.add_branches(x, one, other, weights, EPS, scalar)  # type: ignore[arg-type]


def reads(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> None:
    """Has products read a type, as autocast would."""
    monkeypatch.setattr(gpu_blocks, "product_dtype", lambda _: dtype)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kinds", KINDS)
def test_attended(shape: tuple[int, int], kinds: tuple[torch.dtype, torch.dtype], monkeypatch: Any) -> None:
    held, made = kinds
    reads(monkeypatch, made)
    inputs = [drawn(*shape, dtype=held), drawn(*shape, dtype=made, seed=1), *weights(shape[1], 4, held)]
    assert [out.dtype for out in attended(*inputs)] == [held, made, made, made]
    compare(attended, slow_attended, inputs)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kinds", KINDS)
def test_branches(shape: tuple[int, int], kinds: tuple[torch.dtype, torch.dtype], monkeypatch: Any) -> None:
    held, made = kinds
    reads(monkeypatch, made)
    one, other = (3.0 * drawn(*shape, dtype=made, seed=seed).detach() for seed in (1, 2))
    scalar = torch.full((1,), 0.7, device=DEVICE, dtype=held)
    inputs = [drawn(*shape, dtype=held), one.requires_grad_(), other.requires_grad_(), *weights(shape[1], 3, held)]
    assert branches(*inputs, scalar=scalar).dtype == held
    compare(partial(branches, scalar=scalar), partial(slow_branches, scalar=scalar), inputs)


def test_columns_and_results_that_nobody_reads() -> None:
    x, one, other = (drawn(48, 9, seed=seed).detach().T.requires_grad_() for seed in range(3))
    after, first, second, third = weights(48, 4)
    held, scalar = [after, first.detach(), second, third.detach()], torch.full((1,), 0.7, device=DEVICE)
    compare(lambda *given: attended(*given)[2], lambda *given: slow_attended(*given)[2], [x, one, *held])
    compare(
        partial(branches, scalar=scalar), partial(slow_branches, scalar=scalar), [x, one, other, after, first, third]
    )


@pytest.mark.parametrize("frozen", [(0, 1, 2, 3), (1,), (0, 2, 3)])
def test_frozen_weights_get_no_gradient(frozen: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def watch(module: Any, name: str) -> None:
        kept = getattr(module, name)

        def back(*given: Any, of_weights: bool) -> Any:
            asked.append(of_weights)
            return kept(*given, of_weights=of_weights)

        monkeypatch.setattr(module, name, back)

    watch(trained_blocks, "attended_back")
    watch(trained_branches, "branches_back")
    rows, scalar = [drawn(9, 48, seed=seed) for seed in range(3)], torch.full((1,), 0.7, device=DEVICE)
    held = [weight.detach() if number in frozen else weight for number, weight in enumerate(weights(48, 4))]
    compare(attended, slow_attended, [*rows[:2], *held])
    compare(partial(branches, scalar=scalar), partial(slow_branches, scalar=scalar), [*rows, *held[:3]])
    some = any(weight.requires_grad for weight in held[:3])
    assert asked == [any(weight.requires_grad for weight in held), some]


def test_gradients_of_gradients_are_those_of_plain_operations() -> None:
    rows, held = [drawn(4, 16, seed=seed) for seed in range(3)], weights(16, 4)
    scalar = torch.full((1,), 0.7, device=DEVICE)

    def penalty(out: Tensor, leaves: list[Tensor]) -> list[Tensor]:
        firsts = torch.autograd.grad(out, leaves, create_graph=True)
        total = torch.stack([first.square().sum() for first in firsts]).sum()
        return list(torch.autograd.grad(total, leaves))

    def summed(outs: tuple[Tensor, ...]) -> Tensor:
        return torch.stack([(out.sin() * (1 + number)).sum() for number, out in enumerate(outs)]).sum()

    leaves = [*rows[:2], *held]
    pairs = [(penalty(summed(attended(*leaves)), leaves), penalty(summed(slow_attended(*leaves)), leaves))]
    leaves = [*rows, *held[:3]]
    outs = branches(*leaves, scalar=scalar), slow_branches(*leaves, scalar=scalar)
    pairs.append((penalty(summed((outs[0],)), leaves), penalty(summed((outs[1],)), leaves)))
    for found, plain in pairs:
        for own, right in zip(found, plain, strict=True):
            torch.testing.assert_close(own, right, rtol=1e-3, atol=1e-3 * float(right.abs().max()))


def test_a_block_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(Shape(layers="sf", hidden=48)).to(DEVICE).requires_grad_(True)
    x, turns = drawn(70, 48), model.rope(torch.arange(70, device=DEVICE), 70)
    held, taken, found = list(model.layers.parameters()), [], []

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend_causal(q, *(rows.transpose(0, 1) for rows in (k, v)), None)

    def run() -> list[Tensor]:
        out = x
        for _, kind, layer in model.blocks():
            out = layer(out, turns[kind], attend, layer.decoder_scalar)
        return [out.detach(), *torch.autograd.grad(out.cos().sum(), [x, *held])]

    def watched(*given: Any, own: Callable[..., Tensor]) -> Any:
        taken.append(given)
        return own(*given)

    for name in ("add_attended", "add_branches"):
        monkeypatch.setattr(gpu_blocks, name, partial(watched, own=getattr(gpu_blocks, name)))
    for _, _, layer in model.blocks():
        layer.decoder_scalar.fill_(0.8)
    monkeypatch.setattr(gpu_training, "trains_on_gpu", lambda *_: True)
    for kernel in (True, False):
        monkeypatch.setattr(gpu_blocks, "serves", lambda *_, kernel=kernel: kernel)
        found.append(run())
        assert len(taken) == 4
    for own, right in zip(*found, strict=True):
        torch.testing.assert_close(own, right, rtol=0, atol=1e-4 * float(right.abs().max().clamp(min=1e-3)))


def test_blocks_ask_where_they_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(Shape(hidden=48)).requires_grad_(True)
    (_, _, layer), *_ = model.blocks()
    x, asked = drawn(5, 48), []
    monkeypatch.setattr(gpu_training, "trains_on_gpu", lambda *given: asked.append(given) or True)
    assert layer._trains_compiled(x, layer.decoder_scalar)
    assert len(asked[-1]) == 10  # rows, the scalar, seven norms and the router's scale
    assert not layer._trains_compiled(x, drawn(1))
    layer.post_norm.register_forward_hook(lambda *_: None)
    assert not layer._trains_compiled(x, layer.decoder_scalar)


def test_a_scalar_is_taken_where_they_do_not_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_blocks, "serves", lambda *_: False)
    rows, held = [drawn(5, 48, seed=seed) for seed in range(3)], weights(48, 3)
    scalar = torch.full((1,), 0.7, device=DEVICE)
    found = training_norms.add_branches(*rows, tuple(held), EPS, scalar)  # type: ignore[arg-type]
    torch.testing.assert_close(found, slow_branches(*rows, *held, scalar=scalar), rtol=1e-4, atol=1e-4)


SCRIPT = """
import sys
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from gesso.kernels.trained_blocks import _attended, _attended_back, block_sizes
from gesso.kernels.trained_branches import _branches, _branches_back

architecture = int(sys.argv[1])
wide = ("x", "total", "of_total", "of_x", "to_x", "out", "grad", "inverses", "sums", "scalar", "after", "last")
wide += ("weight_1", "weight_2", "weight_3")
for kernel in (_attended, _attended_back, _branches, _branches_back):
    for width, residual, summed in ((192, "*fp32", True), (2816, "*fp32", True), (2816, "*bf16", False)):
        sizes = block_sizes(width)
        options = {"num_warps": sizes.pop("num_warps")}
        kinds = {"rows": "i32", "eps": "fp32", "factor": "fp32"} | dict.fromkeys(wide, residual)
        kinds |= dict.fromkeys(("inverses", "sums"), "*fp32")
        if kernel in (_branches, _branches_back):
            kinds |= dict.fromkeys(("of_one", "of_other"), residual)
        if "SUMMED" in kernel.arg_names:
            sizes["SUMMED"] = summed
            sizes |= {} if summed else {"sums": None}
        known = {name: kinds.get(name, "*bf16") for name in kernel.arg_names} | dict.fromkeys(sizes, "constexpr")
        source = ASTSource(kernel, known, constexprs=sizes)
        made = compile(source, target=GPUTarget("cuda", architecture, 32), options=options)
        assert made.asm["ptx"]
        if len(sys.argv) > 2:
            open(f"{sys.argv[2]}/{kernel.__name__}_{width}_{summed}.cubin", "wb").write(made.asm["cubin"])
"""


@pytest.mark.parametrize("architecture", [80, 90, 120])
def test_they_compile_for_gpus(architecture: int, tmp_path: Path) -> None:
    compiled(SCRIPT, tmp_path, architecture)
