"""Multiplies by packed weights: all experts of a layer in one launch, or a linear layer, which is one group.

    M rows, sorted by group   E groups   F what comes out, the rows of a matrix   D what goes in   S features of a scale

A step has few rows and many weights, so a weight should be read once, in its few bits. A program makes `COLUMN_TILE`
columns of the result for a tile of rows of one group: it loads packed weights, turns them back in registers, in the
type of the rows, and multiplies, adding up in fp32. Hopper's matmuls take their left side from registers, so that is
where the weights stand, and the result is made transposed.

How many rows a group has is known on the device alone, and nobody waits for it: as many programs are started as there
could be tiles, each finds its group from where the groups end, and those that are left over return.

Two or four codes share a word of 16 bits. A matmul may add up in any order, so nothing is interleaved: the codes in one
place of some words are multiplied with their features, then those in the next place with theirs. For that the rows are
first laid out by place: the features whose codes stand in the first places of words, then those of the second ones.

Traffic: the weights once for every tile of their group's rows, which mostly find them in the cache; the rows once for
every tile of columns.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional as F

from gesso.kernels.grouped import SHARED, SMALLEST, group_of_tile
from gesso.kernels.placement import on_its_device
from gesso.kernels.rounding import rounded
from gesso.kernels.unpacking import bytes_of, halves_of_bytes

COLUMN_TILE = 64
"""Columns of the result that a program makes: the rows of Hopper's smallest matmul."""
ROWS, MANY_ROWS = 64, 128
"""Rows of the result that a program makes at most, and where a group has more than four times as many."""
SHORT, LONG = 64, 128
"""Bytes of a matrix's row that are loaded at a time: many rows and rows in fp32 take the short ones, and so do experts
in formats with finer scales than `COARSE`."""
COARSE = 32
"""Features with one scale from which on scales are few."""
LOADED = 1 << 15
"""Bytes of the rows that go with them at most."""
STAGES = 3
"""Loads that are under way at once, where they fit into `SHARED`; else one less (`benchmarks/gpu/tiles.py` times other
sizes of all these)."""
WARPS = 4
HALVED = ("int4", "nf4", "nvfp4")
"""Formats with two features in a byte."""


def matmul(
    x_MD: Tensor, name: str, parts: Sequence[Tensor], ends_E: Tensor | None = None, levels: Tensor | None = None
) -> Tensor:
    """Multiplies the rows of every group by its transposed matrix, [M, F].

    Args:
        name: of the format: int8, fp8, int4, nf4 or nvfp4.
        parts: of all matrices, [E, F, ...], or of one, [F, ...]: codes and scales; for int4 then offsets, for nvfp4
            factors of rows.
        ends_E: where each group's rows end, int32; None for one matrix.
        levels: what the 16 codes of nf4 stand for.
    """
    return matmul_placed(by_place(x_MD, name, parts), name, parts, ends_E, levels)


@on_its_device
def matmul_placed(
    x_MD: Tensor, name: str, parts: Sequence[Tensor], ends_E: Tensor | None = None, levels: Tensor | None = None
) -> Tensor:
    """Computes `matmul` of rows that are laid out by place."""
    rows, width = x_MD.shape
    groups, columns = (1, len(parts[0])) if ends_E is None else parts[0].shape[:2]
    assert all(part.is_contiguous() for part in parts)
    codes, scales, *rest = map(_bits, parts)
    other = rest[0] if rest else None
    by_row = scales if name not in HALVED else other if name == "nvfp4" else None
    group = width // scales.shape[-1] if name in HALVED else 1
    if codes.shape[-1] % 2:
        codes = F.pad(codes, (0, 1))
    tile, depth, stages = blocks(rows, groups, group, x_MD.itemsize)
    # A group's last tile may hold a single row.
    tiles = (rows + min(groups, rows) * (tile - 1)) // tile
    out = torch.empty(rows, columns, dtype=x_MD.dtype, device=x_MD.device)
    _multiply[(tiles * triton.cdiv(columns, COLUMN_TILE),)](
        x_MD,
        codes.view(torch.int16),
        scales if name in HALVED else None,
        other if name == "int4" else None,
        by_row,
        levels if name == "nf4" else None,
        ends_E,
        out,
        rows,
        columns,
        groups,
        NAME=name,
        WIDTH=width,
        GROUP=group,
        GROUPS=triton.next_power_of_2(groups),
        TILE=tile,
        COLUMN_TILE=COLUMN_TILE,
        DEPTH=depth // 2,
        INTERPRETED=not x_MD.is_cuda,
        num_warps=WARPS,
        num_stages=stages,
    )
    return out


def _bits(part: Tensor) -> Tensor:
    """Returns a part for a kernel that reads e4m3 by its bits: neither the interpreter nor every GPU knows it."""
    return part.view(torch.int8) if part.dtype == torch.float8_e4m3fn else part


def by_place(x_MD: Tensor, name: str, parts: Sequence[Tensor]) -> Tensor:
    """Lays the features of every row out by the place that their codes have in words, the lowest bits first; an odd
    feature gets a neighbour of zeros.

    Args:
        parts: of the matrices that the rows go into.
    """
    if name not in HALVED:
        places = F.pad(x_MD, (0, x_MD.shape[-1] % 2)).unflatten(-1, (-1, 2)).mT
    elif name == "int4":  # a group's second half stands in the high bits of its bytes
        places = x_MD.unflatten(-1, (parts[1].shape[-1], 2, -1, 2)).permute(0, 4, 2, 1, 3)
    elif name == "nf4":  # the first of two neighbours stands in the high bits
        places = x_MD.unflatten(-1, (-1, 2, 2)).flip(-1).permute(0, 2, 3, 1)
    else:
        places = x_MD.unflatten(-1, (-1, 4)).mT
    placed: Tensor = places.flatten(1).contiguous()
    return placed


def blocks(rows: int, groups: int, group: int, itemsize: int) -> tuple[int, int, int]:
    """Returns the rows of a tile, the bytes of a matrix's row that are loaded at a time, and the loads under way.

    Groups of rows are not of one size: tiles are made for those of twice the mean.

    Args:
        group: features that share a scale; 1 where a whole row does, in formats of whole bytes.
        itemsize: bytes of a number of the rows.
    """
    expected = rows if groups == 1 else 2 * rows // groups
    features = 1 if group == 1 else 2
    many = expected > 4 * ROWS
    short = many or itemsize > 2 or (groups > 1 and 1 < group < COARSE)
    tile = min(MANY_ROWS if many else ROWS, max(SMALLEST, triton.next_power_of_2(expected)))
    depth = max(group // 2, SHORT if short else LONG)
    tile = min(tile, LOADED // (depth * features * itemsize))
    loaded = depth * (features * tile * itemsize + COLUMN_TILE)
    return tile, depth, STAGES if STAGES * loaded <= SHARED else STAGES - 1


@triton.jit
def _multiply(
    x,
    codes,
    scales,
    offsets,
    factors,
    levels,
    ends,
    out,
    rows,
    columns,
    groups,
    NAME: tl.constexpr,
    WIDTH: tl.constexpr,
    GROUP: tl.constexpr,
    GROUPS: tl.constexpr,
    TILE: tl.constexpr,
    COLUMN_TILE: tl.constexpr,
    DEPTH: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """One tile of columns for one tile of rows, `DEPTH` words of a matrix's row at a time.

    `GROUPS` is the power of two from `groups` on. Triton's interpreter (`INTERPRETED`) cannot compute in bfloat16.
    """
    column_tiles = tl.cdiv(columns, COLUMN_TILE)
    group, first, end = group_of_tile(ends, tl.program_id(0) // column_tiles, rows, groups, GROUPS, TILE)
    if group >= groups:
        return
    m = first + tl.arange(0, TILE)
    f = (tl.program_id(0) % column_tiles) * COLUMN_TILE + tl.arange(0, COLUMN_TILE)
    row = tl.cast(group, tl.int64) * columns + f
    known, inside = m[None, :] < end, f[:, None] < columns
    sums = tl.zeros((COLUMN_TILE, TILE), tl.float32)
    k = tl.arange(0, DEPTH)
    dtype: tl.constexpr = out.dtype.element_ty
    # bfloat16 weights are made in bfloat16: an instruction makes two.
    made: tl.constexpr = tl.bfloat16 if dtype == tl.bfloat16 and not INTERPRETED else tl.float32
    PARTS: tl.constexpr = 2 if scales is None else 4
    WORDS: tl.constexpr = WIDTH // PARTS
    codes += row[:, None] * WORDS + k[None, :]
    x += m.to(tl.int64)[None, :] * WIDTH + k[:, None]
    if scales is None:
        for done in range(0, WORDS, DEPTH):
            within = k < WORDS - done
            c = tl.load(codes, mask=inside & within[None, :], other=0)
            fed = known & within[:, None]
            low, high = bytes_of(c, NAME, made)
            sums = _add(sums, low, x, fed, INTERPRETED)
            sums = _add(sums, high, x + WORDS, fed, INTERPRETED)
            codes += DEPTH
            x += DEPTH
    else:
        SHARED: tl.constexpr = GROUP // 4
        COUNT: tl.constexpr = WIDTH // GROUP
        EACH: tl.constexpr = DEPTH // SHARED
        s = tl.arange(0, EACH)
        at = row[:, None] * COUNT + s[None, :]
        # They are too few bytes for the copies that run ahead, so they are loaded a round early by hand.
        scale, offset = _load_scales(scales, offsets, at, inside & (s < COUNT)[None, :])
        for done in range(0, COUNT, EACH):
            within = k < (COUNT - done) * SHARED
            c = tl.load(codes, mask=inside & within[None, :], other=0)
            fed = known & within[:, None]
            w, second, third, fourth = halves_of_bytes(c, scale, offset, levels, NAME, SHARED, made)
            sums = _add(sums, w, x, fed, INTERPRETED)
            sums = _add(sums, second, x + WORDS, fed, INTERPRETED)
            sums = _add(sums, third, x + 2 * WORDS, fed, INTERPRETED)
            sums = _add(sums, fourth, x + 3 * WORDS, fed, INTERPRETED)
            codes += DEPTH
            x += DEPTH
            at += EACH
            scale, offset = _load_scales(scales, offsets, at, inside & (s < COUNT - EACH - done)[None, :])
    if factors is not None:
        sums *= tl.load(factors + row, mask=f < columns, other=0.0)[:, None]
    out += m.to(tl.int64)[None, :] * columns + f[:, None]
    tl.store(out, rounded(sums, dtype).to(dtype), mask=inside & known)


@triton.jit
def _load_scales(scales, offsets, at, mask):
    scale = tl.load(scales + at, mask=mask, other=0)
    offset = scale if offsets is None else tl.load(offsets + at, mask=mask, other=0)
    return scale, offset


@triton.jit
def _add(sums, w, x, mask, INTERPRETED: tl.constexpr):
    """`sums` and w [COLUMN_TILE, DEPTH] in the type of x times what x points to [DEPTH, TILE]."""
    dtype: tl.constexpr = x.dtype.element_ty
    features = tl.load(x, mask=mask, other=0.0)
    if INTERPRETED:
        w, features = rounded(w, dtype), features.to(tl.float32)
    else:
        w = w.to(dtype)
    return tl.dot(w, features, sums, input_precision="ieee")
