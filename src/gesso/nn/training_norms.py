"""Computes a block's norms, residual sums and turns of heads with gradients, one pass over memory each way.

Each function has compiled kernels both ways (`kernels.host.trained`); `compiled_training.serves` says where they serve.
Sums with their norms have kernels on GPUs, too (`gpu_blocks`).

    N rows   D hidden   H heads of K features
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from gesso.nn import gpu_blocks
from gesso.nn.compiled_training import differentiate_plainly, serves, serves_narrow
from gesso.nn.norm import rms_norm
from gesso.nn.rope import apply_rope


def turns_in_training(x_NHK: Tensor, weight_K: Tensor, cos_N1K: Tensor, sin_N1K: Tensor) -> bool:
    """Says whether `turn_heads` computes these: half a head is whole parts, and angles have no gradient."""
    return (
        x_NHK.shape[-1] % 32 == 0
        and len(cos_N1K) == len(sin_N1K) == len(x_NHK)
        and serves(x_NHK, weight_K, cos_N1K, sin_N1K)
        and not (cos_N1K.requires_grad or sin_N1K.requires_grad)
    )


def turn_heads(x_NHK: Tensor, weight_K: Tensor, cos_N1K: Tensor, sin_N1K: Tensor, eps: float) -> Tensor:
    """Computes the norm of every head, turned by its position's angle, [N, H, K]."""
    out: Tensor = _TurnHeads.apply(x_NHK, weight_K, cos_N1K, sin_N1K, eps)  # type: ignore[no-untyped-call]
    return out


class _TurnHeads(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor, eps: float) -> Tensor:
        from gesso.kernels.host import trained

        out, inverses = trained.heads(x, weight, cos, sin, eps)
        ctx.eps = eps
        ctx.save_for_backward(x, weight, cos, sin, inverses)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, cos, sin, inverses = ctx.saved_tensors
        if torch.is_grad_enabled():
            plain = partial(_turned_norm, cos=cos, sin=sin, eps=ctx.eps)
            return *differentiate_plainly(plain, (x, weight), grads), None, None, None
        from gesso.kernels.host import trained

        return *trained.heads_back(grads[0].contiguous(), x, weight, cos, sin, inverses), None, None, None


def _turned_norm(x: Tensor, weight: Tensor, *, cos: Tensor, sin: Tensor, eps: float) -> Tensor:
    return apply_rope(rms_norm(x, weight, eps), cos, sin)


def add_attended(
    x_ND: Tensor, branch_ND: Tensor, weights_D: tuple[Tensor, Tensor, Tensor, Tensor], eps: float, factor: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Computes x + norm(branch), and its norms by three weights, the third times `factor`, [N, D] each. Of a branch in
    bfloat16 kernels make norms in bfloat16.

    Args:
        weights_D: the branch's, and the three.
    """
    found: tuple[Tensor, Tensor, Tensor, Tensor]
    if gpu_blocks.serves(x_ND, branch_ND, *weights_D):
        return gpu_blocks.add_attended(x_ND, branch_ND, weights_D, eps, factor)
    branch_ND = branch_ND.contiguous()
    if not (serves(x_ND, branch_ND, *weights_D) or (serves(x_ND, *weights_D) and serves_narrow(branch_ND))):
        return _attended(x_ND, branch_ND, *weights_D, eps=eps, factor=factor)
    found = _AddAttended.apply(x_ND, branch_ND, *weights_D, eps, factor)  # type: ignore[no-untyped-call]
    return found


class _AddAttended(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:
        from gesso.kernels.host import trained

        x, branch, *weights, eps, factor = inputs
        *outputs, inverses = trained.attended(x, branch, weights, eps, factor)
        ctx.eps, ctx.factor = eps, factor
        ctx.save_for_backward(x, branch, *weights, outputs[0], inverses)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, branch, *weights, total, inverses = ctx.saved_tensors
        if torch.is_grad_enabled():
            plain = partial(_attended, eps=ctx.eps, factor=ctx.factor)
            return *differentiate_plainly(plain, (x, branch, *weights), grads), None, None
        from gesso.kernels.host import trained

        changes = [grad.contiguous() for grad in grads]
        of_x, of_branch, of_weights = trained.attended_back(changes, total, branch, weights, inverses, ctx.factor)
        return of_x, of_branch, *of_weights, None, None


def _attended(
    x: Tensor, branch: Tensor, *weights: Tensor, eps: float, factor: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    total = x + rms_norm(branch, weights[0], eps)
    first, second, third = (rms_norm(total, weight, eps) for weight in weights[1:])
    return total, first, second, third * factor


def add_branches(
    x_ND: Tensor,
    one_ND: Tensor,
    other_ND: Tensor,
    weights_D: tuple[Tensor, Tensor, Tensor],
    eps: float,
    factor: float | Tensor,
) -> Tensor:
    """Computes (x + norm(norm(one) + norm(other))) * factor, [N, D].

    Args:
        one_ND: may be bfloat16.
        weights_D: those of one, of other and of their sum.
        factor: a number, or a tensor of one that has no gradient.
    """
    if isinstance(factor, Tensor) and gpu_blocks.serves(x_ND, one_ND, other_ND, factor, *weights_D):
        return gpu_blocks.add_branches(x_ND, one_ND, other_ND, weights_D, eps, factor)
    one_ND, other_ND = one_ND.contiguous(), other_ND.contiguous()
    others = (other_ND, *weights_D)
    if not (serves(x_ND, one_ND, *others) or (serves(x_ND, *others) and serves_narrow(one_ND))):
        return _branches(x_ND, one_ND, other_ND, *weights_D, eps=eps, factor=factor)
    inputs = (x_ND, one_ND, other_ND, *weights_D, eps, float(factor))
    out: Tensor = _AddBranches.apply(*inputs)  # type: ignore[no-untyped-call]
    return out


class _AddBranches(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        from gesso.kernels.host import trained

        x, one, other, *weights, eps, factor = inputs
        out, inverses = trained.mixed(x, one, other, weights, eps, factor)
        ctx.eps, ctx.factor = eps, factor
        ctx.save_for_backward(x, one, other, *weights, inverses)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, one, other, *weights, inverses = ctx.saved_tensors
        if torch.is_grad_enabled():
            plain = partial(_branches, eps=ctx.eps, factor=ctx.factor)
            return *differentiate_plainly(plain, (x, one, other, *weights), grads), None, None
        from gesso.kernels.host import trained

        grad = grads[0].contiguous()
        *of_rows, of_weights = trained.mixed_back(grad, one, other, weights, inverses, ctx.factor)
        return *of_rows, *of_weights, None, None


def _branches(x: Tensor, one: Tensor, other: Tensor, *weights: Tensor, eps: float, factor: float | Tensor) -> Tensor:
    added = rms_norm(one, weights[0], eps) + rms_norm(other, weights[1], eps)
    return (x + rms_norm(added, weights[2], eps)) * factor
