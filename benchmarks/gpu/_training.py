"""Checks and times what a training step computes by kernels, forward and back; see `kernels.py`."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gesso.nn import gpu_blocks, gpu_training
from gesso.nn.experts import Experts
from gesso.nn.mixtures import mix_experts, mix_in_training
from gpu._measuring import distance, grouped_by, milliseconds

EPS = 1e-6
NEAR = {torch.float32: 1e-4, torch.bfloat16: 0.02}
"""Share of the largest number by which results and gradients may differ: orders of adding up, and one rounding more."""


def training_checks(on_gpu: bool) -> Iterator[tuple[str, Callable[[torch.device], dict[str, Any]]]]:
    """Yields every check by name."""
    rows, width, inner, count = (4096, 2816, 704, 128) if on_gpu else (32, 112, 48, 8)
    for dtype in NEAR:
        kind = str(dtype).removeprefix("torch.")
        yield f"training norms {kind}", partial(_norms, dtype=dtype, rows=rows, width=width)
        yield f"training blocks, attended {kind}", partial(_attended, dtype=dtype, rows=rows, width=width)
        yield f"training blocks, branches {kind}", partial(_branches, dtype=dtype, rows=rows, width=width)
        yield f"training turns {kind}", partial(_turns, dtype=dtype, rows=rows, width=256 if on_gpu else 16)
        yield f"training gates {kind}", partial(_gates, dtype=dtype, rows=rows, width=inner)
        yield f"training mixtures {kind}", partial(_mixtures, dtype=dtype, rows=rows, width=width)
    experts = partial(_experts, rows=rows, width=width, inner=inner, count=count)
    yield "training experts, some without tokens", experts
    yield "training experts by our kernels", partial(_by_our_kernels, check=experts)


def _norms(device: torch.device, *, dtype: torch.dtype, rows: int, width: int) -> dict[str, Any]:
    """Norms, with weights and with frozen ones."""
    x, weight = _drawn(device, dtype, rows, width), _drawn(device, torch.float32, width)
    plain = partial(gpu_training._plain_norm, cos=None, sin=None, eps=EPS)

    def by_kernel(x: Tensor, weight: Tensor) -> Tensor:
        return gpu_training.norm(x, weight, EPS, dtype)

    frozen = _beside("training norms", by_kernel, plain, x, weight.detach())
    told = _beside(f"training norms {_named(dtype)}", by_kernel, plain, x, weight)
    told["errors"] |= {f"frozen, {name}": error for name, error in frozen["errors"].items()}
    return told | {"right": told["right"] and frozen["right"]}


def _attended(device: torch.device, *, dtype: torch.dtype, rows: int, width: int) -> dict[str, Any]:
    """Residual sums in fp32 behind attention, and their norms in `dtype`."""
    x, branch = _drawn(device, torch.float32, rows, width), _drawn(device, dtype, rows, width)
    weights, root = [_drawn(device, torch.float32, width) for _ in range(4)], width**-0.5

    def by_kernel(*inputs: Tensor) -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = gpu_blocks._AddAttended.apply(*inputs, EPS, root, dtype)  # type: ignore[no-untyped-call]
        return found

    plain = partial(gpu_blocks._attended, eps=EPS, factor=root, kinds=(torch.float32,) * 4)
    name = f"training blocks, attended {_named(dtype)}"
    return _beside(name, by_kernel, plain, x, branch, *weights, near=NEAR[dtype])


def _branches(device: torch.device, *, dtype: torch.dtype, rows: int, width: int) -> dict[str, Any]:
    """Residual sums in fp32 behind the dense branch and the experts, both in `dtype`."""
    x, one, other = (_drawn(device, kind, rows, width) for kind in (torch.float32, dtype, dtype))
    first, second, last = (_drawn(device, torch.float32, width) for _ in range(3))
    factor = torch.full((1,), 0.7, device=device)

    def by_kernel(x: Tensor, one: Tensor, other: Tensor, first: Tensor, second: Tensor, last: Tensor) -> Tensor:
        return gpu_blocks.add_branches(x, one, other, (first, second, last), EPS, factor)

    plain = partial(gpu_blocks._branches, factor=factor, eps=EPS, kind=torch.float32)
    name = f"training blocks, branches {_named(dtype)}"
    return _beside(name, by_kernel, plain, x, one, other, first, second, last, near=NEAR[dtype])


def _turns(device: torch.device, *, dtype: torch.dtype, rows: int, width: int) -> dict[str, Any]:
    """Norms of heads that are turned."""
    x, weight = _drawn(device, dtype, rows, 4, width), _drawn(device, torch.float32, width)
    angles = torch.rand(rows, 1, width // 2, device=device).repeat(1, 1, 2)
    turn = angles.cos(), angles.sin()
    plain = partial(gpu_training._plain_norm, cos=turn[0], sin=turn[1], eps=EPS)
    name = f"training turns {_named(dtype)}"
    return _beside(name, lambda x, weight: gpu_training.norm(x, weight, EPS, dtype, turn), plain, x, weight)


def _gates(device: torch.device, *, dtype: torch.dtype, rows: int, width: int) -> dict[str, Any]:
    """Gates of halves of rows."""
    name, halves = f"training gates {_named(dtype)}", _drawn(device, dtype, rows, 2 * width)
    plain = partial(gpu_training._plain_gate, up=None)
    return _beside(name, gpu_training.gated_gelu_of_halves, lambda x: plain(x.float()), halves)


def _mixtures(device: torch.device, *, dtype: torch.dtype, rows: int, width: int) -> dict[str, Any]:
    """Mixtures of eight rows of some more than there are."""
    x, weights = _drawn(device, dtype, 8 * rows + 16, width), _drawn(device, torch.float32, rows, 8)
    slots = torch.randperm(len(x), device=device)[: 8 * rows].view(rows, 8)
    name = f"training mixtures {_named(dtype)}"

    def plain(x: Tensor, weights: Tensor) -> Tensor:
        return gpu_training._plain_mix(x.float(), weights, slots=slots)

    return _beside(name, lambda x, weights: gpu_training.mix(x, slots, weights), plain, x, weights)


def _experts(device: torch.device, *, rows: int, width: int, inner: int, count: int) -> dict[str, Any]:
    """Experts in one grouped product, a quarter of which get no token: their gradients are zero, whatever the memory
    held before."""
    with torch.device(device):
        experts = Experts(width, inner, count)
    with torch.no_grad():
        for parameter in experts.parameters():
            parameter.normal_(0.0, width**-0.5)
    met = count - count // 4
    x, top_k = _drawn(device, torch.bfloat16, rows, width), min(8, met)
    numbers = torch.rand(rows, met, device=device).topk(top_k).indices
    weights = torch.rand(rows, top_k, device=device).requires_grad_(True)
    matrices = experts.gate_up_proj, experts.down_proj

    def grouped(x: Tensor, weights: Tensor, *_: Tensor) -> Tensor:
        return mix_in_training(x, weights, numbers, count, *experts.grouped())

    def one_by_one(x: Tensor, weights: Tensor, *_: Tensor) -> Tensor:
        return mix_experts(x.float(), weights, numbers, count, experts.projections())

    # What memory is given to gradients next is not zero.
    filled = [torch.full_like(matrix, torch.nan, dtype=torch.bfloat16) for matrix in matrices]
    del filled
    told = _beside("training experts, some without tokens", grouped, one_by_one, x, weights, *matrices, near=0.05)
    found = torch.autograd.grad(grouped(x, weights).float().sum(), matrices)
    empty = max(float(matrix[met:].abs().nan_to_num(nan=torch.inf).max()) for matrix in found)
    told["errors"]["gradients without tokens"] = empty
    return told | {"right": told["right"] and empty == 0.0}


def _by_our_kernels(device: torch.device, *, check: Callable[[torch.device], dict[str, Any]]) -> dict[str, Any]:
    """The same by the kernels that serve where PyTorch has none."""
    with grouped_by(own=True):
        return check(device) | {"name": "training experts by our kernels"}


def _named(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _drawn(device: torch.device, dtype: torch.dtype, *shape: int) -> Tensor:
    return torch.randn(*shape, device=device).to(dtype).requires_grad_(True)


def _beside(
    name: str,
    found: Callable[..., Tensor | tuple[Tensor, ...]],
    plain: Callable[..., Tensor | tuple[Tensor, ...]],
    *inputs: Tensor,
    near: float | None = None,
) -> dict[str, Any]:
    """Compares results and gradients, and times both ways on CUDA."""
    leaves = [leaf for leaf in inputs if leaf.requires_grad]

    def both(function: Callable[..., Tensor | tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        outs = _each(function(*inputs))
        told = [change.to(out.dtype) for change, out in zip(changes, outs, strict=True)]
        return *(out.detach() for out in outs), *torch.autograd.grad(outs, leaves, told)

    changes = [torch.randn(out.shape, device=inputs[0].device) for out in _each(found(*inputs))]
    mine, theirs = both(found), both(plain)
    names = ["out", *(f"out {i}" for i in range(1, len(changes))), *(f"gradient {i}" for i in range(len(leaves)))]
    errors = {name: distance(own, right) for name, own, right in zip(names, mine, theirs, strict=True)}
    bound = NEAR[inputs[0].dtype] if near is None else near
    told: dict[str, Any] = {"name": name, "right": all(error <= bound for error in errors.values()), "errors": errors}
    if inputs[0].is_cuda:
        told |= {"ms": milliseconds(partial(both, found)), "plain_ms": milliseconds(partial(both, plain))}
    return told


def _each(outs: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return outs if isinstance(outs, tuple) else (outs,)
