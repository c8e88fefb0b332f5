"""Computes the cross-entropy of soft-capped linear scores, a chunk of rows at a time.

N rows   V vocabulary   D hidden
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

TRAINING_BYTES = {"cpu": 16 * 2**20}
"""Bytes of fp32 logits that are scored at a time in training; anywhere else `GPU_TRAINING_BYTES`."""
GPU_TRAINING_BYTES = 256 * 2**20


def rows_at_a_time(device_type: str, tokens: int) -> int:
    """Returns how many rows are scored at a time in training, `tokens` scores each."""
    return max(1, TRAINING_BYTES.get(device_type, GPU_TRAINING_BYTES) // (4 * tokens))


class SoftcappedCrossEntropy(torch.autograd.Function):
    """Computes soft-capped linear scores and their cross-entropy, loss and gradients in one pass over chunks of
    rows."""

    @staticmethod
    def forward(ctx: Any, hidden_ND: Tensor, weight_VD: Tensor, targets_N: Tensor, softcap: float) -> Tensor:
        kind = hidden_ND.device.type
        half = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden_ND.dtype
        rows = rows_at_a_time(kind, weight_VD.shape[0])
        wants_hidden, wants_weight = ctx.needs_input_grad[:2]
        with torch.autocast(kind, enabled=False):
            weight, share = weight_VD.to(half), 1 / max(1, len(hidden_ND))
            total = torch.zeros((), dtype=torch.float32, device=hidden_ND.device)
            grad_hidden = torch.empty_like(hidden_ND, dtype=torch.float32) if wants_hidden else None
            grad_weight = torch.zeros_like(weight_VD, dtype=torch.float32) if wants_weight else None
            for begin in range(0, len(hidden_ND), rows):
                chunk = slice(begin, begin + rows)
                hidden, targets = hidden_ND[chunk].to(half), targets_N[chunk, None]
                bent = (hidden @ weight.T).float().mul_(2 / softcap).sigmoid_().mul_(2).sub_(1)  # tanh, see `cap_`
                scores = bent * softcap
                normaliser = scores.logsumexp(dim=-1, keepdim=True)
                total += (normaliser - scores.gather(1, targets)).sum()
                if not (wants_hidden or wants_weight):
                    continue
                # d loss / d score is probability - target; the cap's slope is 1 - tanh^2.
                grad = scores.sub_(normaliser).exp_()
                grad.scatter_add_(1, targets, grad.new_full(targets.shape, -1.0))
                grad = grad.mul_(bent.square_().neg_().add_(1.0)).mul_(share).to(half)
                if grad_hidden is not None:
                    grad_hidden[chunk] = grad @ weight
                if grad_weight is not None:
                    grad_weight += grad.T @ hidden
        ctx.save_for_backward(grad_hidden, grad_weight)
        return total * share

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        hidden, weight = (None if grad is None else grad * grads[0] for grad in ctx.saved_tensors)
        return hidden, weight, None, None
