"""Multiplies by bfloat16 matrices in tiles, on a CPU with AMX (see `bfloat16_tiles`).

M rows   E matrices   N columns of what comes out   K features
"""

import functools
from array import array
from collections.abc import Sequence

import torch
from torch import Tensor

from gesso.kernels.host import amx
from gesso.kernels.host.bfloat16 import new_result
from gesso.kernels.host.bfloat16_tiles import COLUMNS, FEATURES, TILE
from gesso.kernels.host.openmp import take_units

ALONE = 1 << 22
"""Products, of sixteen rows at least, that one thread is done with sooner than others could be asked to help."""


def reads(weight: Tensor) -> bool:
    """Says whether there is a kernel for a matrix [N, K], or several [E, N, K], which lie in memory row by row, or, one
    alone, column by column, on this processor."""
    columns, features = weight.shape[-2:]
    return (
        amx.available()
        and not features % FEATURES
        and not columns % amx.SIDE
        and weight.numel() > 0
        and (weight.is_contiguous() or (weight.dim() == 2 and weight.T.is_contiguous()))
    )


def matmul(x_MK: Tensor, weight: Tensor, bias_N: Tensor | None = None, ends_E: Sequence[int] | None = None) -> Tensor:
    """Multiplies rows by the transposed matrix [N, K], or every group's by its own of [E, N, K]; [M, N].

    Args:
        ends_E: where each group's rows end; None for one matrix.
    """
    out, (columns, width) = new_result(x_MK, weight, bias_N), weight.shape[-2:]
    rows = len(out)
    if not rows:
        return out
    x_MK, bias_N = x_MK.contiguous(), None if bias_N is None else bias_N.contiguous()
    threads = torch.get_num_threads() if max(rows, amx.SIDE) * columns * width > ALONE else 1
    multiply = _multiply if weight.is_contiguous() else _multiply_columns
    multiply(x_MK, weight, 0 if bias_N is None else bias_N.data_ptr(), out, ends_E, threads)
    return out


def _multiply(
    x_MK: Tensor, weight: Tensor, bias: int, out_MN: Tensor, ends_E: Sequence[int] | None, threads: int
) -> None:
    """Multiplies by matrices that lie row by row.

    Args:
        bias: its address, or 0.
    """
    from gesso.kernels.host.amx_library import bfloat16_tiles

    rows, (columns, width) = x_MK.shape[0], weight.shape[-2:]
    groups, firsts = _groups_of_one(rows) if ends_E is None else _groups(ends_E)
    count, kernels = len(groups), bfloat16_tiles(turned=False)
    turned = _bytes(count * width // FEATURES * TILE)
    words = array("q", [x_MK.data_ptr(), groups.data_ptr(), turned.data_ptr(), width])
    take_units(kernels.lay_out, words.buffer_info()[0], count, threads if count > 1 else 1)
    places = (weight.data_ptr(), turned.data_ptr(), bias, out_MN.data_ptr(), groups.data_ptr(), firsts.data_ptr())
    words = array("q", [*places, columns, width])
    take_units(kernels.multiply, words.buffer_info()[0], (len(firsts) - 1) * -(-columns // COLUMNS), threads)


def _multiply_columns(
    x_MK: Tensor, weight_NK: Tensor, bias: int, out_MN: Tensor, ends_E: Sequence[int] | None, threads: int
) -> None:
    """Multiplies by a matrix that lies column by column, as `_multiply` does."""
    from gesso.kernels.host.amx_library import bfloat16_tiles

    assert ends_E is None
    (rows, width), columns = x_MK.shape, weight_NK.shape[0]
    count, units, kernels = -(-rows // amx.SIDE), -(-columns // COLUMNS), bfloat16_tiles(turned=True)
    tiles, rooms = _bytes(count * width // FEATURES * TILE), _bytes(units * width * amx.WIDTH)
    words = array("q", [x_MK.data_ptr(), tiles.data_ptr(), rows, width])
    take_units(kernels.lay_out, words.buffer_info()[0], count, threads if count > 1 else 1)
    places = (weight_NK.data_ptr(), tiles.data_ptr(), bias, out_MN.data_ptr(), rooms.data_ptr())
    words = array("q", [*places, rows, columns, width])
    take_units(kernels.multiply, words.buffer_info()[0], units, threads)


def _bytes(count: int) -> Tensor:
    return torch.empty(count, dtype=torch.int8, device="cpu")


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
    return torch.tensor(groups, dtype=torch.int64, device="cpu"), torch.tensor(firsts, dtype=torch.int64, device="cpu")
