"""Multiplies by packed weights: all experts of a layer in one launch, or a linear layer, which is one group.

    M rows, sorted by group   E groups   F what comes out, the rows of a matrix   D what goes in   S features of a scale

A step has few rows and many weights, so a weight should be read once, in its few bits. A program makes `COLUMN_TILE`
columns of the result for a tile of rows of one group: it loads packed weights, turns them back in registers, in the
type of the rows, and multiplies, adding up in fp32. Hopper's matmuls take their left side from registers, so that is
where the weights stand, and the result is made transposed.

How many rows a group has is known on the device alone, and nobody waits for it: as many programs are started as there
could be tiles, each finds its group from where the groups end, and those that are left over return.

Two features share a byte. A matmul may add up in any order, so nothing is interleaved: the low halves of some bytes are
multiplied with their features, then the high halves with theirs. Where a byte holds neighbours, the rows are first laid
out as all even features, then all odd ones.

Traffic: the weights once for every tile of their group's rows, which mostly find them in the cache; the rows once for
every tile of columns.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from gesso.kernels.placement import on_its_device
from gesso.kernels.rounding import rounded

COLUMN_TILE = 64
"""Columns of the result that a program makes: the rows of Hopper's smallest matmul."""
SMALLEST = 16
"""Rows of the smallest matmul that Triton has."""
ROWS, MANY_ROWS = 64, 128
"""Rows of the result that a program makes at most, and where a group has more than four times as many, or as many in a
format of whole bytes."""
DEPTH = 64
"""Bytes of a matrix's row that are loaded at a time at most, or half a group where that is more; twice as many in a
format of whole bytes."""
LOADED = 1 << 13
"""Bytes of the rows that go with them, for each half of a byte. With three loads under way all fits the 99 KiB of the
smaller GPUs."""
STAGES, WARPS = 3, 4
"""Loads that are under way at once, and warps of a program (`benchmarks/gpu/tiles.py` times others)."""
HALVED = ("int4", "nf4", "nvfp4")
"""Formats with two features in a byte."""
NEIGHBOURS = ("nf4", "nvfp4")
"""The formats whose two codes of a byte stand side by side."""


@on_its_device
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
    rows, width = x_MD.shape
    groups, columns = (1, len(parts[0])) if ends_E is None else parts[0].shape[:2]
    assert all(part.is_contiguous() for part in parts)
    # Neither the interpreter nor every GPU knows e4m3: the kernel reads its bits.
    codes, scales, *rest = (part.view(torch.int8) if part.dtype == torch.float8_e4m3fn else part for part in parts)
    other = rest[0] if rest else None
    by_row = scales if name not in HALVED else other if name == "nvfp4" else None
    group = width // scales.shape[-1] if name in HALVED else 1
    if name in NEIGHBOURS:
        x_MD = x_MD.unflatten(-1, (-1, 2)).mT.reshape(rows, width)
    tile, depth = blocks(rows, groups, group, x_MD.itemsize)
    # A group's last tile may hold a single row.
    tiles = (rows + min(groups, rows) * (tile - 1)) // tile
    out = torch.empty(rows, columns, dtype=x_MD.dtype, device=x_MD.device)
    _multiply[(tiles * triton.cdiv(columns, COLUMN_TILE),)](
        x_MD.contiguous(),
        codes,
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
        DEPTH=depth,
        INTERPRETED=not x_MD.is_cuda,
        num_warps=WARPS,
        num_stages=STAGES,
    )
    return out


def blocks(rows: int, groups: int, group: int, itemsize: int) -> tuple[int, int]:
    """Returns the rows of a tile, and the bytes of a matrix's row that are loaded at a time.

    Groups of rows are not of one size: tiles are made for those of twice the mean.

    Args:
        group: features that share a scale; 1 where a whole row does, in formats of whole bytes.
        itemsize: bytes of a number of the rows.
    """
    expected = rows if groups == 1 else 2 * rows // groups
    halves, many = (1, 4 * ROWS) if group == 1 else (2, 4 * ROWS + 1)
    most, loaded = MANY_ROWS if expected >= many else ROWS, 2 * LOADED // halves
    tile = min(most, max(SMALLEST, triton.next_power_of_2(expected)))
    depth = max(group // 2, min(2 * DEPTH // halves, loaded // (tile * itemsize)))
    return min(tile, loaded // (depth * itemsize)), depth


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
    """One tile of columns for one tile of rows.

    `GROUPS` is the power of two from `groups` on. Triton's interpreter (`INTERPRETED`) cannot compute in bfloat16.
    """
    column_tiles = tl.cdiv(columns, COLUMN_TILE)
    group, first, end = _place(ends, tl.program_id(0) // column_tiles, rows, groups, GROUPS, TILE)
    if group >= groups:
        return
    m = first + tl.arange(0, TILE)
    f = (tl.program_id(0) % column_tiles) * COLUMN_TILE + tl.arange(0, COLUMN_TILE)
    row = tl.cast(group, tl.int64) * columns + f
    known, inside = m[None, :] < end, f[:, None] < columns
    x += m.to(tl.int64)[None, :] * WIDTH
    sums = tl.zeros((COLUMN_TILE, TILE), tl.float32)
    k = tl.arange(0, DEPTH)
    dtype: tl.constexpr = out.dtype.element_ty
    # bfloat16 weights are made in bfloat16: an instruction makes two.
    made: tl.constexpr = tl.bfloat16 if dtype == tl.bfloat16 and not INTERPRETED else tl.float32
    if scales is None:
        codes += row[:, None] * WIDTH + k[None, :]
        x += k[:, None]
        for done in range(0, WIDTH, DEPTH):
            within = k < WIDTH - done
            c = tl.load(codes, mask=inside & within[None, :], other=0)
            w = _int8(c) if NAME == "int8" else _e4m3(c, made)
            sums = _add(sums, w, x, known & within[:, None], INTERPRETED)
            codes += DEPTH
            x += DEPTH
    else:
        HALF: tl.constexpr = GROUP // 2
        COUNT: tl.constexpr = WIDTH // GROUP
        EACH: tl.constexpr = DEPTH // HALF
        # int4 has a group's second half in the high bits, the others have all odd features there.
        FAR: tl.constexpr = HALF if NAME == "int4" else WIDTH // 2
        STEP: tl.constexpr = 2 * DEPTH if NAME == "int4" else DEPTH
        codes += row[:, None] * (WIDTH // 2) + k[None, :]
        x += (k // HALF * GROUP + k % HALF if NAME == "int4" else k)[:, None]
        s = tl.arange(0, EACH)
        at = row[:, None] * COUNT + s[None, :]
        # They are too few bytes for the copies that run ahead, so they are loaded a round early by hand.
        scale, offset = _load_scales(scales, offsets, at, inside & (s < COUNT)[None, :])
        for done in range(0, COUNT, EACH):
            within = k < (COUNT - done) * HALF
            c = tl.load(codes, mask=inside & within[None, :], other=0).to(tl.int16)
            low, high = _halves(c, scale, offset, levels, NAME, HALF, made)
            sums = _add(sums, low, x, known & within[:, None], INTERPRETED)
            sums = _add(sums, high, x + FAR, known & within[:, None], INTERPRETED)
            codes += DEPTH
            x += STEP
            at += EACH
            scale, offset = _load_scales(scales, offsets, at, inside & (s < COUNT - EACH - done)[None, :])
    if factors is not None:
        sums *= tl.load(factors + row, mask=f < columns, other=0.0)[:, None]
    out += m.to(tl.int64)[None, :] * columns + f[:, None]
    tl.store(out, rounded(sums, dtype).to(dtype), mask=inside & known)


@triton.jit
def _place(ends, tile, rows, groups, GROUPS: tl.constexpr, TILE: tl.constexpr):
    """The group of a tile, or `groups` where it is left over; its first row; where the group's rows end."""
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


@triton.jit
def _load_scales(scales, offsets, at, mask):
    scale = tl.load(scales + at, mask=mask, other=0)
    offset = scale if offsets is None else tl.load(offsets + at, mask=mask, other=0)
    return scale, offset


@triton.jit
def _halves(c, scale, offset, levels, NAME: tl.constexpr, HALF: tl.constexpr, made: tl.constexpr):
    """The weights of even features and those of odd ones, or those of the first halves of groups and of the second."""
    if NAME == "int4":
        scale, offset = _repeat(scale.to(made), HALF), _repeat(offset.to(made), HALF)
        first = _uint4(c, made) * scale + offset
        second = _uint4(c >> 4, made) * scale + offset
    elif NAME == "nf4":
        scale = _repeat(scale.to(made), HALF)
        first = tl.load(levels + (c >> 4)).to(made) * scale
        second = tl.load(levels + (c & 15)).to(made) * scale
    else:
        scale = _repeat(_e4m3(scale, made), HALF)
        first = _e2m1(c, made) * scale
        second = _e2m1(c >> 4, made) * scale
    return first, second


@triton.jit
def _repeat(x, TIMES: tl.constexpr):
    """Every column of x [N, G] so many times, [N, G * TIMES]."""
    wide = tl.broadcast_to(x[:, :, None], (x.shape[0], x.shape[1], TIMES))
    return tl.reshape(wide, (x.shape[0], x.shape[1] * TIMES))


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


# Numbers are put together from bits, beside those of a large number or of a small power of two: that takes fewer
# instructions than converting them.


@triton.jit
def _int8(c):
    return ((c.to(tl.int32) & 255) ^ 0x4B000080).to(tl.float32, bitcast=True) - 8388736.0


@triton.jit
def _uint4(c, made: tl.constexpr):
    """Returns the number of the low four bits."""
    return _bfloat16((c & 15) | 0x4300, made) - 128.0


@triton.jit
def _e2m1(c, made: tl.constexpr):
    """Returns the number of the low four bits. As bits of a bfloat16 they stand for 2**-126 times what they do here."""
    return _bfloat16(((c & 8) << 12) | ((c & 7) << 6), made) * 8.507059173023462e37


@triton.jit
def _e4m3(c, made: tl.constexpr):
    """As bits of a bfloat16 they stand for 2**-120 times what they do here. There is no not-a-number."""
    return _bfloat16((c.to(tl.int16) << 4) & -0x7810, made) * 1.329227995784916e36


@triton.jit
def _bfloat16(c, made: tl.constexpr):
    """Returns the number of these bits."""
    if made == tl.bfloat16:
        x = c.to(tl.int16).to(tl.bfloat16, bitcast=True)
    else:
        x = (c.to(tl.int32) << 16).to(tl.float32, bitcast=True)
    return x
