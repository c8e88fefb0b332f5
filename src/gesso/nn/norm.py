"""Implements RMSNorm as Gemma 4 has it: times `weight` (not 1 + weight), in fp32, cast back before the next matmul."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class _RMSNorm(torch.autograd.Function):
    """Computes RMSNorm with its gradient written out: where PyTorch has no kernel of its own, half the passes over
    memory."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
        inverse = _inverse(x, eps)
        ctx.save_for_backward(x, weight, inverse)
        return _scaled(x, inverse, weight)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None, None]:
        x, weight, inverse = ctx.saved_tensors
        grad, size = grads[0], x.shape[-1]
        grad_weight = None
        if weight is not None and ctx.needs_input_grad[1]:
            grad_weight = (inverse.reshape(1, -1) @ (x * grad).reshape(-1, size)).view(size)
        if weight is not None:
            grad = grad * weight
        along = (x * grad).sum(dim=-1, keepdim=True) * inverse.pow(3).div_(-size)
        return torch.addcmul(grad * inverse, x, along), grad_weight, None


def rms_norm(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """Normalises the last axis of `x` [..., D] in fp32; the result has the dtype of `x`."""
    wide, scale = x.float(), None if weight is None else weight.float()
    if x.device.type not in ("cpu", "meta"):
        out: Tensor = F.rms_norm(wide, x.shape[-1:], scale, eps)
    elif torch.is_grad_enabled():
        out = _RMSNorm.apply(wide, scale, eps)  # type: ignore[no-untyped-call]
    else:
        # A copy of its own may be overwritten.
        out = _scaled(wide, _inverse(wide, eps), scale, out=None if wide is x else wide)
    return out.to(x.dtype)


def _inverse(x: Tensor, eps: float) -> Tensor:
    """Returns one over the root of the mean square, [..., 1]."""
    root: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return root.square_().div_(x.shape[-1]).add_(eps).rsqrt_()


def _scaled(x: Tensor, inverse: Tensor, weight: Tensor | None, out: Tensor | None = None) -> Tensor:
    out = torch.mul(x, inverse, out=out)
    return out if weight is None else out.mul_(weight)


class RMSNorm(nn.Module):
    """Applies RMSNorm with a learned scale, or without one (`scale=False`)."""

    def __init__(self, dim: int, eps: float, scale: bool = True) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim)) if scale else None

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight, self.eps)
