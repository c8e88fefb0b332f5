"""Multiplies by bfloat16 matrices on a CPU without instructions for that: in fp32, rounded once at the end.

A row's bits do not depend on the rows beside it, nor on the number of threads (`bfloat16_products`).

    M rows   E matrices   N columns of what comes out   K features
"""

import ctypes
import functools
import platform
import threading
from collections.abc import Sequence

import torch
from torch import Tensor

from gesso.kernels.host.activations import LANES
from gesso.kernels.host.bfloat16_slabs import FIELDS, ROWS, SCRATCH
from gesso.kernels.host.compilation import features
from gesso.kernels.host.library import bfloat16_kernel
from gesso.kernels.host.openmp import run_on_all

ALONE = 1 << 21
"""Products that one thread is done with sooner than others could be asked to help."""
_Fields = ctypes.c_int64 * len(FIELDS)


class _Kept(threading.local):
    scratch = torch.empty(0, dtype=torch.float32, device="cpu")


_kept = _Kept()


@functools.cache
def serves_processor() -> bool:
    """Says whether this processor computes a product and a sum in one instruction, as the kernels do; asked where
    kernels are `available`."""
    known = features()
    return bool(known.get("fma") and known.get("avx2")) or platform.machine().lower() in ("aarch64", "arm64")


def reads(weight: Tensor) -> bool:
    """Says whether there is a kernel for a matrix [N, K], or several [E, N, K], which lie in memory row by row, or, one
    alone, column by column; asked where the kernels serve the processor."""
    if weight.shape[-1] % LANES or not weight.numel():
        return False
    return weight.is_contiguous() or (weight.dim() == 2 and weight.T.is_contiguous() and not weight.shape[0] % LANES)


def matmul(x_MK: Tensor, weight: Tensor, bias_N: Tensor | None = None, ends_E: Sequence[int] | None = None) -> Tensor:
    """Multiplies rows by the transposed matrix [N, K], or every group's by its own of [E, N, K]; [M, N].

    Args:
        ends_E: where each group's rows end; None for one matrix.
    """
    out, (columns, width) = new_result(x_MK, weight, bias_N), weight.shape[-2:]
    rows = len(out)
    if not rows:
        return out
    x_MK, pieces = x_MK.contiguous(), _pieces_of_one(rows) if ends_E is None else _pieces(ends_E)
    threads = torch.get_num_threads() if rows * columns * width > ALONE else 1
    if _kept.scratch.numel() < threads * SCRATCH:
        _kept.scratch = torch.empty(threads * SCRATCH, dtype=torch.float32, device="cpu")
    bias_N = None if bias_N is None else bias_N.contiguous()
    bias = 0 if bias_N is None else bias_N.data_ptr()
    places = (x_MK.data_ptr(), weight.data_ptr(), bias, out.data_ptr(), _kept.scratch.data_ptr(), pieces.data_ptr())
    fields = _Fields(*places, pieces.shape[0], columns, width, 0, 0)
    run_on_all(bfloat16_kernel(not weight.is_contiguous()), ctypes.addressof(fields), threads)
    return out


def new_result(x_MK: Tensor, weight: Tensor, bias_N: Tensor | None) -> Tensor:
    """Returns room for a product, [M, N]; kernels would read past what does not fit."""
    columns, width = weight.shape[-2:]
    assert x_MK.shape[1] == width
    assert x_MK.dtype == weight.dtype == torch.bfloat16
    assert bias_N is None or (bias_N.dtype == torch.bfloat16 and bias_N.shape == (columns,))
    return torch.empty(x_MK.shape[0], columns, dtype=torch.bfloat16, device=x_MK.device)


@functools.lru_cache(64)
def _pieces_of_one(rows: int) -> Tensor:
    return _pieces((rows,))


def _pieces(ends: Sequence[int]) -> Tensor:
    """Cuts the rows of each matrix into pieces: (first row, rows, matrix, first row of what comes out)."""
    begin, pieces = 0, []
    for matrix, end in enumerate(ends):
        pieces += [(row, min(ROWS, end - row), matrix, row) for row in range(begin, end, ROWS)]
        begin = end
    return torch.tensor(pieces, dtype=torch.int64, device="cpu")
