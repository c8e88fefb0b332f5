"""Computes a block's residual sums and the norms around them by kernels on a GPU in training, one each way.

Norms that products read are in their type, which autocast says; sums are as wide as the residual. `training_norms` asks
`serves` and calls these.

    N rows   D hidden
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from gesso.nn import gpu_training
from gesso.nn.compiled_training import differentiate_plainly
from gesso.nn.gpu_training import product_dtype


def serves(x: Tensor, *others: Tensor | None) -> bool:
    """Says whether kernels take these tensors in a pass of training on a GPU."""
    return gpu_training.trains_on_gpu(x, *others)


def add_attended(
    x_ND: Tensor, branch_ND: Tensor, weights_D: tuple[Tensor, Tensor, Tensor, Tensor], eps: float, factor: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Computes x + norm(branch), and its norms by three weights, the third times `factor`, [N, D] each.

    Args:
        weights_D: the branch's, and the three.
    """
    made = product_dtype(x_ND)
    found: tuple[Tensor, Tensor, Tensor, Tensor]
    found = _AddAttended.apply(x_ND, branch_ND, *weights_D, eps, factor, made)  # type: ignore[no-untyped-call]
    return found


class _AddAttended(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:
        from gesso.kernels import trained_blocks

        x, branch, *weights, eps, factor, made = inputs
        *outputs, inverses = trained_blocks.attended(x, branch, tuple(weights), eps, factor, made)
        ctx.eps, ctx.factor = eps, factor
        ctx.save_for_backward(x, branch, *weights, outputs[0], inverses)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, branch, *weights, total, inverses = ctx.saved_tensors
        if torch.is_grad_enabled():  # what is found here is differentiated once more
            kinds = tuple(grad.dtype for grad in grads)
            plain = partial(_attended, eps=ctx.eps, factor=ctx.factor, kinds=kinds)
            return *differentiate_plainly(plain, (x, branch, *weights), grads), None, None, None
        from gesso.kernels import trained_blocks

        found = trained_blocks.attended_back(
            x, branch, tuple(weights), total, inverses, ctx.factor, grads, of_weights=any(ctx.needs_input_grad[2:6])
        )
        return *_wanted(ctx, found, 6), None, None, None


def _attended(
    x: Tensor, branch: Tensor, *weights: Tensor, eps: float, factor: float, kinds: tuple[torch.dtype, ...]
) -> tuple[Tensor, ...]:
    total = (x + _normed(branch, eps) * weights[0]).to(kinds[0])
    unit = _normed(total, eps)
    first, second, third = (unit * weight for weight in weights[1:])
    return total, first.to(kinds[1]), second.to(kinds[2]), (third * factor).to(kinds[3])


def add_branches(
    x_ND: Tensor,
    one_ND: Tensor,
    other_ND: Tensor,
    weights_D: tuple[Tensor, Tensor, Tensor],
    eps: float,
    factor_1: Tensor,
) -> Tensor:
    """Computes (x + norm(norm(one) + norm(other))) * factor, [N, D]; the factor has no gradient.

    Args:
        weights_D: those of one, of other and of their sum.
    """
    made = torch.promote_types(torch.promote_types(x_ND.dtype, product_dtype(one_ND)), factor_1.dtype)
    inputs = (x_ND, one_ND, other_ND, *weights_D, factor_1, eps, made)
    out: Tensor = _AddBranches.apply(*inputs)  # type: ignore[no-untyped-call]
    return out


class _AddBranches(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        from gesso.kernels import trained_branches

        x, one, other, *weights, factor, eps, made = inputs
        out, inverses = trained_branches.branches(x, one, other, tuple(weights), eps, factor, made)
        ctx.eps = eps
        ctx.save_for_backward(x, one, other, *weights, factor, inverses)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, one, other, *weights, factor, inverses = ctx.saved_tensors
        if torch.is_grad_enabled():
            plain = partial(_branches, factor=factor, eps=ctx.eps, kind=grads[0].dtype)
            return *differentiate_plainly(plain, (x, one, other, *weights), grads), None, None, None
        from gesso.kernels import trained_branches

        summed = any(ctx.needs_input_grad[3:6])
        found = trained_branches.branches_back(
            grads[0], x, one, other, tuple(weights), inverses, factor, of_weights=summed
        )
        return *_wanted(ctx, found, 6), None, None, None


def _branches(
    x: Tensor, one: Tensor, other: Tensor, *weights: Tensor, factor: Tensor, eps: float, kind: torch.dtype
) -> Tensor:
    added = _normed(one, eps) * weights[0] + _normed(other, eps) * weights[1]
    return ((x + _normed(added, eps) * weights[2]) * factor).to(kind)


def _normed(x: Tensor, eps: float) -> Tensor:
    return x.float() * (x.float().square().mean(dim=-1, keepdim=True) + eps).rsqrt()


def _wanted(ctx: Any, found: tuple[Tensor, ...], count: int) -> tuple[Tensor | None, ...]:
    """Returns the gradients of the first inputs, None of those that need none: nothing is added up for them."""
    missing = (None,) * (count - len(found))
    pairs = zip((*found, *missing), ctx.needs_input_grad[:count], strict=True)
    return tuple(grad if needed else None for grad, needed in pairs)
