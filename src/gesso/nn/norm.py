"""RMSNorm as Gemma 4 has it: times `weight` (not 1 + weight), in fp32, cast back before the next matmul."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def rms_norm(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """Normalise the last axis of `x` [..., D] in fp32; the result has the dtype of `x`."""
    size = x.shape[-1:]
    if x.dtype == torch.float32:
        return F.rms_norm(x, size, None if weight is None else weight.float(), eps)
    return F.rms_norm(x.float(), size, None if weight is None else weight.float(), eps).to(x.dtype)


class RMSNorm(nn.Module):
    """RMSNorm with a learned scale, or without one (`scale=False`)."""

    def __init__(self, dim: int, eps: float, scale: bool = True) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim)) if scale else None

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight, self.eps)
