"""Computes on a CPU what stands between a training step's products, forwards and back, in one pass over memory each.

Tensors are fp32 and contiguous unless said otherwise; what products read and make may be bfloat16. Rows are shared out
among PyTorch's threads; a weight's gradient is added up by chunks of rows, so that no bit depends on how many threads
there are.

    N rows   D features, a multiple of 16   H heads of K features, a multiple of 32
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gesso.kernels.host.gradients import gradients
from gesso.kernels.host.row_jobs import is_shared, share_rows
from gesso.kernels.host.row_writer import CHUNK, LANES
from gesso.kernels.host.threads import share_out

Kernel = Callable[..., None]
PART_BYTES = 64
"""Bytes of a head that are moved at a time."""


def serves(*tensors: Tensor | None) -> bool:
    """Says whether kernels take these: fp32, contiguous, a multiple of 16 features."""
    return all(
        tensor is None or (tensor.dtype == torch.float32 and tensor.is_contiguous() and tensor.shape[-1] % LANES == 0)
        for tensor in tensors
    )


def _places(*tensors: Tensor) -> list[int]:
    return [tensor.data_ptr() for tensor in tensors]


def _chunks(rows: int) -> int:
    return -(-rows // CHUNK)


def _size(x: Tensor) -> tuple[int, int]:
    """Returns how many rows there are, and their width."""
    return x.numel() // x.shape[-1], x.shape[-1]


def norm(x: Tensor, weight: Tensor | None, eps: float, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Computes RMSNorm of the last axis, in `dtype`, and one over the root of each mean square, fp32 [N]."""
    rows, width = _size(x)
    out, inverses = x.new_empty(x.shape, dtype=dtype), x.new_empty(rows)
    kernel = gradients(dtype).plain_norm if weight is None else gradients(dtype).norm
    places = _places(x, x if weight is None else weight, out, inverses)
    share_rows(kernel, places, rows, (width,), eps, numbers=x.numel())
    return out, inverses


def norm_back(grad: Tensor, x: Tensor, weight: Tensor | None, inverses_N: Tensor) -> tuple[Tensor, Tensor | None]:
    """Computes the gradients of a norm's rows and, where it has them, of its weights."""
    rows, width = _size(x)
    to_x, sums = x.new_empty(x.shape), None if weight is None else x.new_empty(_chunks(rows), width)
    kernels = gradients(grad.dtype)
    kernel = kernels.plain_norm_back if weight is None else kernels.norm_back
    # Where there are no weights the kernel touches neither these nor their sums.
    beside = (x, x) if weight is None or sums is None else (weight, sums)
    places = _places(grad, x, beside[0], inverses_N, to_x, beside[1])
    share_rows(kernel, places, _chunks(rows), (rows, width), numbers=x.numel())
    return to_x, None if sums is None else sums.sum(dim=0)


def heads(x_NHK: Tensor, weight_K: Tensor, cos: Tensor, sin: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Computes the norm of every head, turned by cos and sin [N, 1, K]; and one over the roots, [N * H]. Heads of a
    token lie one behind the other."""
    return _heads(gradients(x_NHK.dtype).heads, x_NHK, [weight_K, cos, sin], eps)


def values(x_NHK: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Computes the norm of every head without weights; and one over the roots, as `heads` does."""
    return _heads(gradients(x_NHK.dtype).values, x_NHK, [x_NHK] * 3, eps)


def _heads(kernel: Kernel, x_NHK: Tensor, beside: list[Tensor], eps: float) -> tuple[Tensor, Tensor]:
    rows, each, width = x_NHK.shape
    out, inverses = x_NHK.new_empty(x_NHK.shape), x_NHK.new_empty(rows * each, dtype=torch.float32)
    places, stride = _places(x_NHK, *beside, out, inverses), x_NHK.stride(0)
    share_rows(kernel, places, rows, (width, each, stride), eps, numbers=x_NHK.numel())
    return out, inverses


def heads_back(
    grad_NHK: Tensor,
    x_NHK: Tensor,
    weight_K: Tensor,
    cos: Tensor,
    sin: Tensor,
    inverses: Tensor,
    to_x: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Computes the gradients of `heads` for the rows and for their weights.

    Args:
        to_x: where the rows' belong, which lies as they do; memory of its own without it.
    """
    to_x = x_NHK.new_empty(x_NHK.shape) if to_x is None else to_x
    sums = weight_K.new_empty(_chunks(len(x_NHK)), x_NHK.shape[-1])
    _heads_back(gradients(x_NHK.dtype).heads_back, [grad_NHK, x_NHK, weight_K, cos, sin, inverses, to_x, sums])
    return to_x, sums.sum(dim=0)


def values_back(grad_NHK: Tensor, x_NHK: Tensor, inverses: Tensor, to_x: Tensor, *, added: bool) -> None:
    """Computes the gradient of `values` where `to_x` is, or adds it to what is there."""
    kernels = gradients(x_NHK.dtype)
    kernel = kernels.values_back_added if added else kernels.values_back
    _heads_back(kernel, [grad_NHK, x_NHK, inverses, inverses, inverses, inverses, to_x, inverses])


def _heads_back(kernel: Kernel, tensors: list[Tensor]) -> None:
    (rows, each, width), stride, places = tensors[1].shape, tensors[1].stride(0), _places(*tensors)
    assert tensors[6].stride() == tensors[1].stride(), "gradients lie as the rows do"
    share_rows(kernel, places, _chunks(rows), (rows, width, each, stride), numbers=tensors[1].numel())


def attended(
    x_ND: Tensor, branch_ND: Tensor, weights_D: Sequence[Tensor], eps: float, factor: float
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Computes x + norm(branch), and its norms by three weights, the third times `factor`, [N, D] each; and one over
    the roots, [2, N]. The norms have the branch's dtype.

    Args:
        weights_D: the branch's, and the three.
    """
    rows, width = x_ND.shape
    total, first, second, third = x_ND.new_empty(x_ND.shape), *(branch_ND.new_empty(x_ND.shape) for _ in range(3))
    inverses = x_ND.new_empty(2, rows)
    kernel, places = (
        gradients(branch_ND.dtype).attended,
        _places(x_ND, branch_ND, *weights_D, total, first, second, third, inverses),
    )
    share_rows(kernel, places, rows, (rows, width), eps, factor, numbers=6 * x_ND.numel())
    return total, first, second, third, inverses


def attended_back(
    grads_ND: Sequence[Tensor],
    total_ND: Tensor,
    branch_ND: Tensor,
    weights_D: Sequence[Tensor],
    inverses: Tensor,
    factor: float,
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Computes the gradients of `attended`: of x, of the branch and of the weights."""
    rows, width = total_ND.shape
    to_x, to_branch = total_ND.new_empty(total_ND.shape), branch_ND.new_empty(total_ND.shape)
    sums = total_ND.new_empty(_chunks(rows), 4, width)
    kernel, places = (
        gradients(branch_ND.dtype).attended_back,
        _places(*grads_ND, total_ND, branch_ND, *weights_D, inverses, to_x, to_branch, sums),
    )
    share_rows(kernel, places, _chunks(rows), (rows, width), factor, numbers=8 * total_ND.numel())
    return to_x, to_branch, sums.sum(dim=0).unbind()


def mixed(
    x_ND: Tensor, one_ND: Tensor, other_ND: Tensor, weights_D: Sequence[Tensor], eps: float, factor: float
) -> tuple[Tensor, Tensor]:
    """Computes (x + norm(norm(one) + norm(other))) * factor, [N, D]; and one over the roots, [3, N]. One may be
    bfloat16.

    Args:
        weights_D: those of one, of other and of their sum.
    """
    rows, width = x_ND.shape
    out, inverses = x_ND.new_empty(x_ND.shape), x_ND.new_empty(3, rows)
    kernel, places = gradients(one_ND.dtype).mixed, _places(x_ND, one_ND, other_ND, *weights_D, out, inverses)
    share_rows(kernel, places, rows, (rows, width), eps, factor, numbers=4 * x_ND.numel())
    return out, inverses


def mixed_back(
    grad_ND: Tensor, one_ND: Tensor, other_ND: Tensor, weights_D: Sequence[Tensor], inverses: Tensor, factor: float
) -> tuple[Tensor, Tensor, Tensor, tuple[Tensor, ...]]:
    """Computes the gradients of `mixed`: of x, of one, of other and of the weights."""
    rows, width = grad_ND.shape
    to_x, to_one, to_other = (held.new_empty(grad_ND.shape) for held in (grad_ND, one_ND, other_ND))
    sums = grad_ND.new_empty(_chunks(rows), 3, width)
    kernel, places = (
        gradients(one_ND.dtype).mixed_back,
        _places(grad_ND, one_ND, other_ND, *weights_D, inverses, to_x, to_one, to_other, sums),
    )
    share_rows(kernel, places, _chunks(rows), (rows, width), factor, numbers=6 * grad_ND.numel())
    return to_x, to_one, to_other, sums.sum(dim=0).unbind()


def gated(gate_NF: Tensor, up_NF: Tensor) -> Tensor:
    """Computes gelu(gate) * up, [N, F]; both may be halves of the same rows."""
    (rows, width), stride = gate_NF.shape, gate_NF.stride(0)
    out = gate_NF.new_empty(gate_NF.shape)
    kernel, places = gradients(gate_NF.dtype).gated, _places(gate_NF, up_NF, out)
    share_rows(kernel, places, rows, (width, stride), numbers=8 * out.numel())
    return out


def gated_back(grad_NF: Tensor, gate_NF: Tensor, up_NF: Tensor, to_gate_NF: Tensor, to_up_NF: Tensor) -> None:
    """Computes the gradients of `gated` in place of what `to_gate` and `to_up` hold; these lie as gate and up do."""
    (rows, width), stride = gate_NF.shape, gate_NF.stride(0)
    kernel, places = gradients(gate_NF.dtype).gated_back, _places(grad_NF, gate_NF, up_NF, to_gate_NF, to_up_NF)
    share_rows(kernel, places, rows, (width, stride), numbers=8 * grad_NF.numel())


def mix(x_MD: Tensor, slots_Nk: Tensor, weights_Nk: Tensor | None) -> Tensor:
    """Sums k rows for each of N, [N, D], in their dtype; or times their weights, in fp32."""
    (rows, each), width = slots_Nk.shape, x_MD.shape[1]
    out, kernels = (
        x_MD.new_empty(rows, width, dtype=None if weights_Nk is None else torch.float32),
        gradients(x_MD.dtype),
    )
    kernel = kernels.sum_rows if weights_Nk is None else kernels.mix
    places = _places(x_MD, slots_Nk, x_MD if weights_Nk is None else weights_Nk, out)
    share_rows(kernel, places, rows, (each, width), numbers=each * out.numel())
    return out


def mix_back(grad_ND: Tensor, x_MD: Tensor, slots_Nk: Tensor, weights_Nk: Tensor) -> tuple[Tensor, Tensor]:
    """Computes the gradients of `mix` for the rows, each of which is one token's at most, and for the weights."""
    (rows, each), width = slots_Nk.shape, x_MD.shape[1]
    to_x, to_weights = torch.zeros_like(x_MD), torch.empty_like(weights_Nk)
    kernel, places = gradients(x_MD.dtype).mix_back, _places(grad_ND, x_MD, slots_Nk, weights_Nk, to_x, to_weights)
    share_rows(kernel, places, rows, (each, width), numbers=3 * each * grad_ND.numel())
    return to_x, to_weights


def softmax_(scores: Tensor, bias: Tensor | None) -> Tensor:
    """Computes the softmax of scores [B, G, M, S] in their place, S 16 or more.

    Args:
        bias: [B or 1, 1, T or 1, S], added to the scores; the M queries are T, once and again.
    """
    batch, groups, queries, keys = scores.shape
    kernels = gradients(scores.dtype)
    kernel, strides = kernels.softmax, (0, 0, 1)
    if bias is not None:
        kernel = kernels.biased_softmax
        strides = (bias.stride(0) if len(bias) > 1 else 0, keys if bias.shape[2] > 1 else 0, bias.shape[2])
    places = _places(scores, scores if bias is None else bias)
    beside = keys, groups * queries, strides[2], strides[0], strides[1]
    rows = batch * groups * queries

    def work(begin: int, end: int) -> None:
        scratch = scores.new_empty(keys + LANES, dtype=torch.float32)
        kernel(*places, scratch.data_ptr(), begin, end, *beside)

    threads = torch.get_num_threads()
    if is_shared(8 * scores.numel(), threads):
        share_out(lambda _, begin, end: work(begin, end), rows, threads)
    else:
        work(0, rows)
    return scores


def softmax_back_(grad: Tensor, probs: Tensor) -> Tensor:
    """Computes the gradient of scores from that of their softmax, in its place, [..., S] with S 16 or more."""
    rows, keys = _size(probs)
    kernel, places = gradients(probs.dtype).softmax_back, _places(probs, grad)
    share_rows(kernel, places, rows, (keys,), numbers=2 * probs.numel())
    return grad


def spread(flat_NHK: Tensor, padded_BHTK: Tensor, begins_B: Tensor, lengths_B: Tensor) -> Tensor:
    """Lays rows of flat tokens out, which begin at `begins` and have `lengths`, int64, with zeros behind their ends."""
    _lay_out(gradients(flat_NHK.dtype).spread, flat_NHK, padded_BHTK, begins_B, lengths_B)
    return padded_BHTK


def collect(flat_NHK: Tensor, padded_BHTK: Tensor, begins_B: Tensor, lengths_B: Tensor) -> None:
    """Writes what `spread` laid out back where it was."""
    _lay_out(gradients(flat_NHK.dtype).collect, flat_NHK, padded_BHTK, begins_B, lengths_B)


def _lay_out(kernel: Kernel, flat: Tensor, padded: Tensor, begins: Tensor, lengths: Tensor) -> None:
    rows, heads, tokens, width = padded.shape
    places, parts = _places(flat, padded, begins, lengths), width * padded.itemsize // PART_BYTES
    share_rows(kernel, places, rows, (heads, tokens, parts), numbers=padded.numel())
