"""Implements RMSNorm as Gemma 4 has it: times `weight` (not 1 + weight), in fp32, cast back before the next matmul."""

from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gesso.nn import gpu_training
from gesso.nn.compiled_training import differentiate_plainly, serves


class _RMSNorm(torch.autograd.Function):
    """Computes RMSNorm with its gradient written out: where PyTorch has no kernel of its own, half the passes over
    memory; and one pass each way where compiled kernels serve."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, eps: float, compiled: bool) -> Tensor:
        ctx.eps, ctx.compiled = eps, compiled
        if compiled:
            from gesso.kernels.host import trained

            out, inverse = trained.norm(x, weight, eps)
            inverse = inverse.view(*x.shape[:-1], 1)
        else:
            inverse = _inverse(x, eps)
            out = _scaled(x, inverse, weight)
        ctx.save_for_backward(x, weight, inverse)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, inverse = ctx.saved_tensors
        grad, size = grads[0], x.shape[-1]
        if torch.is_grad_enabled():  # what is found here is differentiated once more
            return *differentiate_plainly(partial(_definition, eps=ctx.eps), (x, weight), grads), None, None
        if ctx.compiled:
            from gesso.kernels.host import trained

            return *trained.norm_back(grad.contiguous(), x, weight, inverse), None, None
        grad_weight = None
        if weight is not None and ctx.needs_input_grad[1]:
            grad_weight = (inverse.reshape(1, -1) @ (x * grad).reshape(-1, size)).view(size)
        if weight is not None:
            grad = grad * weight
        along = (x * grad).sum(dim=-1, keepdim=True) * inverse.pow(3).div_(-size)
        return torch.addcmul(grad * inverse, x, along), grad_weight, None, None


def _definition(x: Tensor, weight: Tensor | None, *, eps: float) -> Tensor:
    out = x * (x.square().mean(dim=-1, keepdim=True) + eps).rsqrt()
    return out if weight is None else out * weight


def autocast_dtype(device_type: str) -> torch.dtype | None:
    """Returns the type that autocast multiplies in on such a device; None where it is off."""
    if not torch.amp.is_autocast_available(device_type) or not torch.is_autocast_enabled(device_type):
        return None
    return torch.get_autocast_dtype(device_type)


def rms_norm(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """Normalises the last axis of `x` [..., D] in fp32; the result has the dtype of `x`."""
    if gpu_training.trains_on_gpu(x, weight):
        return gpu_training.norm(x, weight, eps, x.dtype)
    if x.is_cuda:
        # The kernel computes in fp32 whatever it reads; autocast would have it read and write fp32.
        with torch.autocast("cuda", enabled=False) if torch.is_autocast_enabled("cuda") else nullcontext():
            return F.rms_norm(x, x.shape[-1:], None if weight is None else weight.to(x.dtype), eps)
    wide, scale = x.float(), None if weight is None else weight.float()
    compiled = wide is x and serves(wide, scale)
    if x.device.type not in ("cpu", "meta"):
        out: Tensor = F.rms_norm(wide, x.shape[-1:], scale, eps)
    elif torch.is_grad_enabled() and torch.compiler.is_compiling():
        # Of the function above PyTorch 2.11 traces gradients of zero.
        out = _definition(wide, scale, eps=eps)
    elif compiled or torch.is_grad_enabled():
        out = _RMSNorm.apply(wide, scale, eps, compiled)  # type: ignore[no-untyped-call]
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
        if gpu_training.trains_on_gpu(x, self.weight):
            return gpu_training.norm(x, self.weight, self.eps, gpu_training.product_dtype(x))
        out = rms_norm(x, self.weight, self.eps)
        # On a GPU in one place for all the products that read it.
        return out if not x.is_cuda else out.to(autocast_dtype(x.device.type) or out.dtype)
