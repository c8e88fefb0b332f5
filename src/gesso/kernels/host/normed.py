"""Computes what stands between packed products on a CPU in few calls: norms, residual sums and turns of heads to the
bits of `nn.norm` and `nn.rope`; gated units, the choice of experts and a single query's attention up to rounding.

Beside a product by packed weights, which clears the near caches, or a small one, each array operation costs more for
being called than for its arithmetic: a layer of one token has some eighty of them between its products. Tensors are
fp32 and contiguous.

    N rows   D features, a multiple of 16   H heads of K features
"""

from array import array

import torch
from torch import Tensor

from gesso.kernels.host.library import norms
from gesso.kernels.host.norms import LANES
from gesso.kernels.host.one_query import MOST_SHARED
from gesso.kernels.host.row_jobs import share_rows
from gesso.kernels.host.threads import product_threads, share_units

ATTENDED_ALONE = 1 << 17
"""Numbers of a single query's keys that one thread is done with sooner than others could be asked to help."""


def serves(*tensors: Tensor | None) -> bool:
    """Says whether kernels take these: fp32, contiguous, a multiple of 16 features: half a head is whole parts."""
    for tensor in tensors:
        if tensor is None:
            continue
        if tensor.dtype != torch.float32 or not tensor.is_contiguous() or tensor.shape[-1] % (2 * LANES):
            return False
    return True


def norm(x_ND: Tensor, weight_D: Tensor, eps: float) -> Tensor:
    """Computes RMSNorm of rows, times their weights, [N, D]."""
    out, kernel, (rows, width) = torch.empty_like(x_ND), norms().norm, x_ND.shape
    places = x_ND.data_ptr(), weight_D.data_ptr(), out.data_ptr()
    share_rows(kernel, places, rows, (width,), eps, numbers=x_ND.numel())
    return out


def add_norm(
    x_ND: Tensor, branch_ND: Tensor, weight_D: Tensor, weights: tuple[Tensor, Tensor, Tensor], eps: float, factor: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Computes x + norm(branch), and its norms by three weights, the third times `factor`, [N, D] each."""
    branch_ND, (rows, width) = branch_ND.contiguous(), x_ND.shape
    held, kernel = torch.empty(4, rows, width, dtype=torch.float32, device=x_ND.device), norms().add_norm
    begin_of, size = held.data_ptr(), 4 * rows * width
    total, *outputs = range(begin_of, begin_of + 4 * size, size)
    places = (x_ND.data_ptr(), branch_ND.data_ptr(), weight_D.data_ptr(), total)
    scales = [weight.data_ptr() for weight in weights]
    share_rows(kernel, (*places, *scales, *outputs), rows, (width,), eps, factor, numbers=4 * x_ND.numel())
    first, second, third, fourth = held.unbind()
    return first, second, third, fourth


def add_branches(
    x_ND: Tensor, branches: tuple[Tensor, Tensor], weights: tuple[Tensor, Tensor, Tensor], eps: float, factor: float
) -> Tensor:
    """Computes (x + norm(norm(one) + norm(other))) * factor, [N, D]; weights are those of one, of other, and of the
    sum."""
    out, kernel, (rows, width) = torch.empty_like(x_ND), norms().add_branches, x_ND.shape
    one_ND, other_ND = (branch.contiguous() for branch in branches)
    tensors = (x_ND, one_ND, weights[0], other_ND, weights[1], weights[2], out)
    places = [tensor.data_ptr() for tensor in tensors]
    share_rows(kernel, places, rows, (width,), eps, factor, numbers=3 * x_ND.numel())
    return out


def mix_rows(x_MD: Tensor, weights_Nk: Tensor) -> Tensor:
    """Sums k neighbouring rows times their weights for each of N, [N, D]."""
    (rows, each), width = weights_Nk.shape, x_MD.shape[1]
    out = torch.empty(rows, width, dtype=torch.float32, device=x_MD.device)
    norms().mix_rows(x_MD.data_ptr(), weights_Nk.data_ptr(), out.data_ptr(), 0, rows, width, each)
    return out


def norm_heads(x_NHK: Tensor, weight_K: Tensor | None, turn: tuple[Tensor, Tensor] | None, eps: float) -> Tensor:
    """Computes the norm of every head, [N, H, K]: times its weights and turned by cos and sin [N, 1, K], or as it is
    where there are neither."""
    out, (rows, heads, width) = torch.empty_like(x_NHK), x_NHK.shape
    kernel, beside = norms().norm_heads, (0, 0, 0)
    if weight_K is not None and turn is not None:
        kernel, beside = norms().turn_heads, (weight_K.data_ptr(), turn[0].data_ptr(), turn[1].data_ptr())
    places = (x_NHK.data_ptr(), *beside, out.data_ptr())
    share_rows(kernel, places, rows * heads, (width, heads), eps, numbers=x_NHK.numel())
    return out


def gated(gate_NF: Tensor, up_NF: Tensor) -> Tensor:
    """Computes gelu(gate) * up, [N, F]; both may be halves of the same rows."""
    (rows, width), stride, kernel = gate_NF.shape, gate_NF.stride(0), norms().gated
    out = torch.empty(rows, width, dtype=torch.float32, device=gate_NF.device)
    places = gate_NF.data_ptr(), up_NF.data_ptr(), out.data_ptr()
    share_rows(kernel, places, rows, (width, stride), numbers=8 * out.numel())
    return out


def gates(gate_NF: Tensor, up_NF: Tensor) -> bool:
    """Says whether `gated` takes these: rows of fp32, as far apart in both, a multiple of 16 features."""
    return (
        gate_NF.dtype == up_NF.dtype == torch.float32
        and gate_NF.dim() == 2
        and gate_NF.shape == up_NF.shape
        and gate_NF.stride() == up_NF.stride()
        and gate_NF.stride(1) == 1
        and gate_NF.shape[1] % (2 * LANES) == 0
    )


def choose(scores_NE: Tensor, scale_E: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Returns weights and numbers of the `count` experts with the largest scores, [N, k] each; weights are a softmax
    among these, times each expert's scale."""
    scores_NE = scores_NE.clone(memory_format=torch.contiguous_format)  # which the kernel overwrites
    rows, experts = scores_NE.shape
    weights = torch.empty(rows, count, dtype=torch.float32, device=scores_NE.device)
    chosen = torch.empty(rows, count, dtype=torch.int64, device=scores_NE.device)
    places = [tensor.data_ptr() for tensor in (scores_NE, scale_E, weights, chosen)]
    norms().choose(*places, 0, rows, experts, count)
    return weights, chosen


def attends(q_HK: Tensor, keys_GSK: Tensor, values_GSK: Tensor) -> bool:
    """Says whether `attend` takes these: fp32, each key head's keys one behind the other, a multiple of 16 features."""
    return (
        q_HK.dtype == keys_GSK.dtype == values_GSK.dtype == torch.float32
        and q_HK.is_contiguous()
        and keys_GSK.stride() == values_GSK.stride()
        and keys_GSK.stride()[1:] == (keys_GSK.shape[2], 1)
        and keys_GSK.shape[2] % (2 * LANES) == 0
        and q_HK.shape[0] <= MOST_SHARED * keys_GSK.shape[0]
    )


def attend(q_HK: Tensor, keys_GSK: Tensor, values_GSK: Tensor) -> Tensor:
    """Attends from one query to all keys, [H, K], without scaling scores."""
    out, (groups, count, width) = torch.empty_like(q_HK), keys_GSK.shape
    places = [tensor.data_ptr() for tensor in (q_HK, keys_GSK, values_GSK, out)]
    words = array("q", (*places, count, keys_GSK.stride(0), width, q_HK.shape[0] // groups))
    threads = product_threads() if keys_GSK.numel() > ATTENDED_ALONE else 1
    share_units(norms().attend, words.buffer_info()[0], groups, threads)
    return out
