"""Computes norms, residual sums and turns of heads on a CPU in few calls, to the bits of `nn.norm` and `nn.rope`.

Beside a product by packed weights, which clears the near caches, each array operation costs more for being called than
for its arithmetic: a layer of one token has some eighty of them between its products. Tensors are fp32 and contiguous.

    N rows   D features, a multiple of 16   H heads of K features
"""

from collections.abc import Callable

import torch
from torch import Tensor

from gesso.kernels.host.library import norms
from gesso.kernels.host.norms import LANES
from gesso.kernels.host.threads import share_out

ALONE = 1 << 17
"""Numbers that one thread is done with sooner than others could be asked to help."""


def serves(*tensors: Tensor | None) -> bool:
    """Says whether kernels take these: fp32, contiguous, a multiple of 16 features: half a head is whole parts."""
    for tensor in tensors:
        if tensor is None:
            continue
        if tensor.dtype != torch.float32 or not tensor.is_contiguous() or tensor.shape[-1] % (2 * LANES):
            return False
    return True


def _share(work: Callable[[int, int], None], rows: int, numbers: int) -> None:
    """Does rows from one number to before another, by several threads where there are many."""
    threads = torch.get_num_threads()
    if numbers <= ALONE or threads == 1:
        work(0, rows)
    else:
        share_out(lambda _, begin, end: work(begin, end), rows, threads)


def norm(x_ND: Tensor, weight_D: Tensor, eps: float) -> Tensor:
    """Computes RMSNorm of rows, times their weights, [N, D]."""
    out, kernel, (rows, width) = torch.empty_like(x_ND), norms().norm, x_ND.shape
    places = x_ND.data_ptr(), weight_D.data_ptr(), out.data_ptr()
    _share(lambda begin, end: kernel(*places, begin, end, width, eps), rows, x_ND.numel())
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
    _share(
        lambda begin, end: kernel(*places, *scales, *outputs, begin, end, width, eps, factor), rows, 4 * x_ND.numel()
    )
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
    _share(lambda begin, end: kernel(*places, begin, end, width, eps, factor), rows, 3 * x_ND.numel())
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
    _share(lambda begin, end: kernel(*places, begin, end, width, heads, eps), rows * heads, x_NHK.numel())
    return out
