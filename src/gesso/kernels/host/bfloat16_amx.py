"""Multiplies by bfloat16 matrices in tiles, on a CPU with AMX (see `bfloat16_tiles`).

M rows   E matrices   N columns of what comes out   K features
"""

import functools
from array import array
from collections.abc import Sequence

import torch
from torch import Tensor

from gesso.kernels.host import amx
from gesso.kernels.host.bfloat16_tiles import COLUMNS, FEATURES, TILE
from gesso.kernels.host.openmp import take_units

ALONE = 1 << 22
"""Products, of sixteen rows at least, that one thread is done with sooner than others could be asked to help."""


def reads(weight: Tensor) -> bool:
    """Says whether there is a kernel for a matrix [N, K], or several [E, N, K], on this processor."""
    columns, features = weight.shape[-2:]
    return (
        amx.available()
        and not features % FEATURES
        and not columns % amx.SIDE
        and weight.numel() > 0
        and weight.is_contiguous()
    )


def matmul(x_MK: Tensor, weight: Tensor, bias_N: Tensor | None = None, ends_E: Sequence[int] | None = None) -> Tensor:
    """Multiplies rows by the transposed matrix [N, K], or every group's by its own of [E, N, K]; [M, N].

    Args:
        ends_E: where each group's rows end; None for one matrix.
    """
    from gesso.kernels.host.library import bfloat16_tiles

    rows, (columns, width) = x_MK.shape[0], weight.shape[-2:]
    assert x_MK.shape[1] == width, "kernels would read past the rows"
    assert x_MK.dtype == weight.dtype == torch.bfloat16
    assert bias_N is None or (bias_N.dtype == torch.bfloat16 and bias_N.shape == (columns,))
    out = torch.empty(rows, columns, dtype=torch.bfloat16, device=x_MK.device)
    if not rows:
        return out
    x_MK, bias_N = x_MK.contiguous(), None if bias_N is None else bias_N.contiguous()
    groups, firsts = _groups_of_one(rows) if ends_E is None else _groups(ends_E)
    count, kernels = len(groups), bfloat16_tiles()
    threads = torch.get_num_threads() if max(rows, amx.SIDE) * columns * width > ALONE else 1
    turned = torch.empty(count * width // FEATURES * TILE, dtype=torch.int8, device="cpu")
    words = array("q", [x_MK.data_ptr(), groups.data_ptr(), turned.data_ptr(), width])
    take_units(kernels.turn, words.buffer_info()[0], count, threads if count > 1 else 1)
    bias = 0 if bias_N is None else bias_N.data_ptr()
    places = (weight.data_ptr(), turned.data_ptr(), bias, out.data_ptr(), groups.data_ptr(), firsts.data_ptr())
    words = array("q", [*places, columns, width])
    take_units(kernels.multiply, words.buffer_info()[0], (len(firsts) - 1) * -(-columns // COLUMNS), threads)
    return out


@functools.lru_cache(64)
def _groups_of_one(rows: int) -> tuple[Tensor, Tensor]:
    return _groups((rows,))


def _groups(ends: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Cuts the rows of each matrix into groups: (first row, rows) of each, and each matrix's first group."""
    begin, groups, firsts = 0, [], [0]
    for end in ends:
        groups += [(row, min(amx.SIDE, end - row)) for row in range(begin, end, amx.SIDE)]
        firsts.append(len(groups))
        begin = end
    return tuple(torch.tensor(held, dtype=torch.int64, device="cpu") for held in (groups, firsts))  # type: ignore[return-value]
