"""Computes what stands between a training step's products by kernels on a GPU, one pass over memory each way.

Results are in the type that the products read, which autocast says: nothing is converted in between. Each function is a
step of autograd with a kernel both ways (`gesso.kernels.trained`, `trained_experts`).

    N tokens   H heads   K features   M rows of experts   F features of a gate   D hidden   k rows of a token
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from gesso import kernels
from gesso.nn.compiled_training import differentiate_plainly, in_training

_PLAIN = (Tensor, torch.nn.Parameter)
_DTYPES = (torch.float32, torch.bfloat16)


def trains_on_gpu(x: Tensor, *others: Tensor | None) -> bool:
    """Says whether kernels take these tensors in a pass of training on a GPU."""
    return (
        x.is_cuda
        and in_training()
        and kernels.usable(x.device)
        and all(other is None or (type(other) in _PLAIN and other.dtype in _DTYPES) for other in (x, *others))
    )


def product_dtype(x: Tensor) -> torch.dtype:
    """Returns the type that products read: autocast's, else that of `x`."""
    return torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else x.dtype


def norm(
    x: Tensor, weight_K: Tensor | None, eps: float, dtype: torch.dtype, turn: tuple[Tensor, Tensor] | None = None
) -> Tensor:
    """Computes RMSNorm of the last axis, times its weights, in `dtype`; heads [N, H, K] are turned by cos and sin, [N,
    1, K] each, where these are given."""
    cos, sin = (None, None) if turn is None else turn
    out: Tensor = _Norm.apply(x, weight_K, cos, sin, eps, dtype)  # type: ignore[no-untyped-call]
    return out


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        from gesso.kernels import trained

        x, weight, cos, sin, eps, dtype = inputs
        turn, heads = (None, 1) if cos is None else ((cos, sin), x.shape[1])
        out, inverse = trained.norm(x, weight, eps, dtype, turn, heads)
        ctx.save_for_backward(x, weight, cos, sin, inverse)
        ctx.eps = eps
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, cos, sin, inverse = ctx.saved_tensors
        if torch.is_grad_enabled():  # what is found here is differentiated once more
            plain = partial(_plain_norm, cos=cos, sin=sin, eps=ctx.eps)
            return *differentiate_plainly(plain, (x, weight), grads), None, None, None, None
        from gesso.kernels import trained

        turn, heads = (None, 1) if cos is None else ((cos, sin), x.shape[1])
        found = trained.norm_back(grads[0], x, weight, inverse, turn, heads, of_weights=ctx.needs_input_grad[1])
        return *found, None, None, None, None


def _plain_norm(x: Tensor, weight: Tensor | None, *, cos: Tensor | None, sin: Tensor | None, eps: float) -> Tensor:
    out = x.float() * (x.float().square().mean(dim=-1, keepdim=True) + eps).rsqrt()
    out = out if weight is None else out * weight
    if cos is None or sin is None:
        return out
    first, second = out.chunk(2, dim=-1)
    return out * cos + torch.cat((-second, first), dim=-1) * sin


def gated_gelu(gate_MF: Tensor, up_MF: Tensor) -> Tensor:
    """Computes gelu(gate) * up, [M, F]."""
    out: Tensor = _Gate.apply(gate_MF, up_MF)  # type: ignore[no-untyped-call]
    return out


def gated_gelu_of_halves(gate_up_MF: Tensor) -> Tensor:
    """Computes gelu(gate) * up of the halves of rows, [M, 2F] -> [M, F]."""
    out: Tensor = _Gate.apply(gate_up_MF, None)  # type: ignore[no-untyped-call]
    return out


class _Gate(torch.autograd.Function):
    """Takes gate and up, or both side by side, whose gradients then are, too."""

    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor | None) -> Tensor:
        from gesso.kernels import trained_experts

        ctx.save_for_backward(gate, up)  # as they came: of copies there is no second gradient
        return trained_experts.gate(*_gate_and_up(gate, up))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        gate, up = ctx.saved_tensors
        if torch.is_grad_enabled():
            return tuple(differentiate_plainly(_plain_gate, (gate, up), grads))
        from gesso.kernels import trained_experts

        to_gate, to_up = gate.new_empty(gate.shape), None if up is None else up.new_empty(up.shape)
        trained_experts.gate_back(grads[0], *_gate_and_up(gate, up), *_gate_and_up(to_gate, to_up))
        return to_gate, to_up


def _gate_and_up(gate: Tensor, up: Tensor | None) -> tuple[Tensor, Tensor]:
    if up is not None:
        return gate, up
    first, second = gate.chunk(2, dim=-1)
    return first, second


def _plain_gate(gate: Tensor, up: Tensor | None) -> Tensor:
    first, second = _gate_and_up(gate, up)
    return F.gelu(first, approximate="tanh") * second


def mix(x_MD: Tensor, slots_Nk: Tensor, weights_Nk: Tensor) -> Tensor:
    """Sums for each of N the k rows at its slots times their weights, [N, D]; no row has two tokens."""
    out: Tensor = _Mix.apply(x_MD, slots_Nk, weights_Nk)  # type: ignore[no-untyped-call]
    return out


class _Mix(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, slots: Tensor, weights: Tensor) -> Tensor:
        from gesso.kernels import trained_experts

        ctx.save_for_backward(x, slots, weights)
        return trained_experts.mix(x, slots, weights)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, slots, weights = ctx.saved_tensors
        if torch.is_grad_enabled():
            to_x, to_weights = differentiate_plainly(partial(_plain_mix, slots=slots), (x, weights), grads)
            return to_x, None, to_weights
        from gesso.kernels import trained_experts

        to_x, to_weights = trained_experts.mix_back(grads[0], x, slots, weights)
        return to_x, None, to_weights


def _plain_mix(x: Tensor, weights: Tensor, *, slots: Tensor) -> Tensor:
    return (x[slots] * weights[..., None].to(x.dtype)).sum(dim=1)


def lay_out(x_ND: Tensor, source_M: Tensor, slots_Nk: Tensor) -> Tensor:
    """Copies each token to its k slots, [M, D]: to row m token `source_M[m]`.

    The gradient of a token is the sum of those of its slots. Rows that are no token's slot, which fill groups up, have
    none: `mix` does not read what becomes of them, each stays a row of its own until then, and so theirs is zero.
    """
    out: Tensor = _LayOut.apply(x_ND, source_M, slots_Nk)  # type: ignore[no-untyped-call]
    return out


class _LayOut(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, source: Tensor, slots: Tensor) -> Tensor:
        ctx.save_for_backward(slots)
        return x.index_select(0, source)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), (slots,) = grads, ctx.saved_tensors
        if torch.is_grad_enabled():
            return grad[slots].sum(dim=1), None, None
        from gesso.kernels import trained_experts

        return trained_experts.mix(grad, slots, None), None, None
