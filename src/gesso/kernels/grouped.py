"""Multiplies the rows of every group by its matrix, all experts of a layer in one launch, in the types of weights that
are not packed.

    M rows, sorted by group   E groups   F what comes out, the rows of a matrix   D what goes in

PyTorch has such a matmul for bfloat16 on Hopper and Blackwell's data centre GPUs. On any other it goes from group to
group and asks the device how many rows each has, so that no pass could be captured. Here as many programs are started
as there could be tiles of rows, each finds its group from where the groups end, and those that are left over return.

Experts have few rows and many weights: a tile is `columns` of the result for some rows of one group, made transposed,
as Hopper's smallest matmul has 64 rows and few columns, and a weight is read once for every tile of its group's rows.
The gradient of a group's matrix is the sum of products of its rows, a tile of the matrix for a program; where there are
few tiles and many rows, several programs have a part of the rows each, and their sums are added up after.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from gesso.kernels.placement import on_its_device
from gesso.kernels.rounding import rounded

SMALLEST = 16
"""Rows of the smallest matmul that Triton has."""
DEPTH = 128
"""Bytes of a matrix's row that are loaded at a time: a line of the cache."""
SHARED = 96 << 10
"""Bytes of memory that the smaller GPUs have for a program's loads: 99 KiB less what else lies there."""
STAGES = 4
"""Loads that are under way at once, at most."""
LARGEST = 128
"""Rows of the largest tile, in types of two bytes."""


class Program(NamedTuple):
    """Describes the size of a program."""

    rows: int
    columns: int
    depth: int
    """Features that are loaded at a time."""
    stages: int
    warps: int


def program(rows: int, groups: int, itemsize: int) -> Program:
    """Returns the size of programs for so many rows, in numbers of `itemsize` bytes.

    Groups of rows are not of one size: tiles are made for those of twice the mean. Numbers of four bytes are
    multiplied without tensor cores, from registers, which hold less.
    """
    most = LARGEST if itemsize <= 2 else 64
    tile = min(most, max(SMALLEST, triton.next_power_of_2(2 * rows // groups)))
    columns = most if tile == most else 64
    loaded = DEPTH * (tile + columns)
    return Program(
        tile, columns, DEPTH // itemsize, min(STAGES, SHARED // loaded), 8 if tile * columns > 64 * 64 else 4
    )


def has_few(rows: int, groups: int, itemsize: int) -> bool:
    """Says whether groups of so many rows are multiplied in tiles below the largest."""
    return itemsize <= 2 and program(rows, groups, itemsize).rows < LARGEST


@on_its_device
def matmul(x_MD: Tensor, ends_E: Tensor, matrix_EFD: Tensor) -> Tensor:
    """Multiplies sorted rows by their groups' transposed matrices, [M, F], adding up in fp32; rows behind the last end
    are left undefined.

    Args:
        ends_E: where each group's rows end, int32.
        matrix_EFD: in the type of the rows, its rows or its columns in one piece.
    """
    (rows, width), (groups, columns, _) = x_MD.shape, matrix_EFD.shape
    x_MD = x_MD.contiguous()
    size = program(rows, groups, x_MD.itemsize)
    # A group's last tile may hold a single row.
    tiles = (rows + min(groups, rows) * (size.rows - 1)) // size.rows
    out = torch.empty(rows, columns, dtype=x_MD.dtype, device=x_MD.device)
    _multiply[(tiles * triton.cdiv(columns, size.columns),)](
        x_MD,
        matrix_EFD,
        ends_E,
        out,
        rows,
        columns,
        groups,
        *matrix_EFD.stride(),
        WIDTH=width,
        GROUPS=triton.next_power_of_2(groups),
        TILE=size.rows,
        COLUMN_TILE=size.columns,
        DEPTH=size.depth,
        INTERPRETED=not x_MD.is_cuda,
        num_warps=size.warps,
        num_stages=size.stages,
    )
    return out


@triton.jit
def _multiply(
    x,
    matrix,
    ends,
    out,
    rows,
    columns,
    groups,
    of_group,
    of_row,
    of_column,
    WIDTH: tl.constexpr,
    GROUPS: tl.constexpr,
    TILE: tl.constexpr,
    COLUMN_TILE: tl.constexpr,
    DEPTH: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """One tile of columns for one tile of rows, `DEPTH` features at a time.

    `of_group`, `of_row` and `of_column` are the strides of a matrix, `GROUPS` is the power of two from `groups` on.
    Triton's interpreter (`INTERPRETED`) cannot compute in bfloat16.
    """
    column_tiles = tl.cdiv(columns, COLUMN_TILE)
    group, first, end = group_of_tile(ends, tl.program_id(0) // column_tiles, rows, groups, GROUPS, TILE)
    if group >= groups:
        return
    m = first + tl.arange(0, TILE)
    f = (tl.program_id(0) % column_tiles) * COLUMN_TILE + tl.arange(0, COLUMN_TILE)
    known, inside = m[None, :] < end, f[:, None] < columns
    sums = tl.zeros((COLUMN_TILE, TILE), tl.float32)
    k = tl.arange(0, DEPTH)
    matrix += tl.cast(group, tl.int64) * of_group + f[:, None] * of_row + k[None, :] * of_column
    x += m.to(tl.int64)[None, :] * WIDTH + k[:, None]
    for done in range(0, WIDTH, DEPTH):
        within = k < WIDTH - done
        weights = tl.load(matrix, mask=inside & within[None, :], other=0.0)
        features = tl.load(x, mask=known & within[:, None], other=0.0)
        if INTERPRETED:
            weights, features = weights.to(tl.float32), features.to(tl.float32)
        sums = tl.dot(weights, features, sums, input_precision="ieee")
        matrix += DEPTH * of_column
        x += DEPTH
    dtype: tl.constexpr = out.dtype.element_ty
    out += m.to(tl.int64)[None, :] * columns + f[:, None]
    tl.store(out, rounded(sums, dtype).to(dtype), mask=inside & known)


@triton.jit
def group_of_tile(ends, tile, rows, groups, GROUPS: tl.constexpr, TILE: tl.constexpr):
    """Finds the group of a tile of rows, or `groups` where it is left over; its first row; where the group's rows
    end."""
    if GROUPS == 1:
        group, first, end = 0, tile * TILE, rows
    else:
        g = tl.arange(0, GROUPS)
        stops = tl.load(ends + g, mask=g < groups, other=0)
        starts = tl.load(ends + g - 1, mask=(g > 0) & (g < groups), other=0)
        tiles = (stops - starts + TILE - 1) // TILE
        group = tl.sum(((tl.cumsum(tiles, 0) <= tile) & (g < groups)).to(tl.int32), 0)
        before = tl.sum(tl.where(g < group, tiles, 0), 0)
        first = tl.sum(tl.where(g == group, starts, 0), 0) + (tile - before) * TILE
        end = tl.sum(tl.where(g == group, stops, 0), 0)
    return group, first, end


PROGRAMS = 512
"""Programs that are wanted for the sums over rows: a few for each multiprocessor of a large GPU."""
LEAST = 512
"""Rows of a part, on the mean, at least: what a program writes stays little beside what it reads."""
WORTH = 4
"""Parts of a group's rows from which on programs that have whole groups would leave most of a GPU idle."""


class Sums(NamedTuple):
    """Describes the programs that add up products of rows."""

    tile: int
    """Rows of a matrix whose gradient a program makes."""
    across: int
    """Columns of it."""
    added: int
    """Rows of a group that are added up at a time."""
    parts: int
    """Programs that share a group's rows."""


def program_of_sums(rows: int, groups: int, columns: int, width: int, itemsize: int) -> Sums:
    """Returns the size of programs for the gradients of matrices `columns` x `width`, by shapes alone."""
    long, short, added = (128, 64, 64) if itemsize <= 2 else (64, 64, 32)
    sizes = [(_cut(columns, tile), _cut(width, across)) for tile, across in ((long, short), (short, long))]
    tile, across = min(sizes, key=lambda size: triton.cdiv(columns, size[0]) * triton.cdiv(width, size[1]))
    tiles = groups * triton.cdiv(columns, tile) * triton.cdiv(width, across)
    return Sums(tile, across, added, max(1, min(triton.cdiv(PROGRAMS, tiles), rows // (groups * LEAST))))


def _cut(size: int, most: int) -> int:
    padded: int = triton.next_power_of_2(size)
    return min(most, max(SMALLEST, padded))


@on_its_device
def weight_gradient(grad_MF: Tensor, x_MD: Tensor, ends_E: Tensor) -> Tensor:
    """Adds up, for each group, the products of its rows of both, [E, F, D]: the gradient of `matmul`'s matrices.

    Sums are in fp32, those of parts of a group's rows too, always in one order: equal inputs give equal bits.
    """
    columns, width, groups = grad_MF.shape[1], x_MD.shape[1], len(ends_E)
    size = program_of_sums(len(x_MD), groups, columns, width, x_MD.itemsize)
    kind = x_MD.dtype if size.parts == 1 else torch.float32
    out = x_MD.new_empty(groups, size.parts, columns, width, dtype=kind)
    _add_up[(groups * size.parts * triton.cdiv(columns, size.tile) * triton.cdiv(width, size.across),)](
        grad_MF.contiguous(),
        x_MD.contiguous(),
        ends_E,
        out,
        size.parts,
        COLUMNS=columns,
        WIDTH=width,
        TILE=size.tile,
        ACROSS=size.across,
        ROWS=size.added,
        INTERPRETED=not x_MD.is_cuda,
        num_warps=4,
        num_stages=3,
    )
    return out[:, 0] if size.parts == 1 else out.sum(1).to(x_MD.dtype)


@triton.jit
def _add_up(
    grad,
    x,
    ends,
    out,
    parts,
    COLUMNS: tl.constexpr,
    WIDTH: tl.constexpr,
    TILE: tl.constexpr,
    ACROSS: tl.constexpr,
    ROWS: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """A tile of one group's matrix, over one of equal parts of its rows, some at a time.

    Programs that read the same rows are next to each other.
    """
    DOWN: tl.constexpr = (COLUMNS + TILE - 1) // TILE
    SIDE: tl.constexpr = (WIDTH + ACROSS - 1) // ACROSS
    sum_of, place = tl.program_id(0) // (DOWN * SIDE), tl.program_id(0) % (DOWN * SIDE)
    group, part = sum_of // parts, sum_of % parts
    f, d = place // SIDE * TILE + tl.arange(0, TILE), place % SIDE * ACROSS + tl.arange(0, ACROSS)
    down, side = f < COLUMNS, d < WIDTH
    begin, end = tl.load(ends + group - 1, mask=group > 0, other=0).to(tl.int32), tl.load(ends + group).to(tl.int32)
    share = tl.cdiv(tl.cdiv(end - begin, parts), ROWS) * ROWS
    begin += part * share
    end = tl.minimum(end, begin + share)
    sums = tl.zeros((TILE, ACROSS), tl.float32)
    for first in range(begin, end, ROWS):
        m = tl.cast(first, tl.int64) + tl.arange(0, ROWS)
        left = tl.load(
            grad + m[None, :] * COLUMNS + f[:, None], mask=(m < end)[None, :] & (f < COLUMNS)[:, None], other=0.0
        )
        right = tl.load(x + m[:, None] * WIDTH + d[None, :], mask=(m < end)[:, None] & (d < WIDTH)[None, :], other=0.0)
        if INTERPRETED:
            left, right = left.to(tl.float32), right.to(tl.float32)
        sums = tl.dot(left, right, sums, input_precision="ieee")
    out += (tl.cast(sum_of, tl.int64) * COLUMNS + f)[:, None] * WIDTH + d[None, :]
    dtype: tl.constexpr = out.dtype.element_ty
    tl.store(out, rounded(sums, dtype).to(dtype), mask=down[:, None] & side[None, :])
