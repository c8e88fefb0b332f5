"""Writes the kernels that multiply rows of 8-bit activations by packed weights: sums of whole numbers, then a scale.

    M rows   N rows of a matrix, what comes out   G blocks of 64 features   R rows that are multiplied at a time

For a row of the matrix and a block, 64 codes are unpacked into a register once and multiplied with R rows; the products
of four neighbours are added up as whole numbers, and the sixteen sums go into sixteen fp32 lanes, times both scales.
The lanes are added in the same order whatever R is: a row's bits do not depend on how many stand beside it.

Which instructions multiply depends on the processor (`Dot`); whole numbers are exact, so that the result does not.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from llvmlite import ir

from gesso.kernels.host.activations import BLOCK, LANES
from gesso.kernels.host.llvm_ir import (
    F32,
    I8,
    I16,
    I32,
    I64,
    POINTER,
    VOID,
    Loop,
    Value,
    Writer,
    constant,
    constants,
    vector,
    zeros,
)

Dot = Literal["vnni512", "vnni256", "avx2", "plain"]
"""How bytes are multiplied: 64 or 32 at a time by one instruction, by AVX2's pairs, or in LLVM's own words."""
TILE = 64
"""Rows of a matrix that all rows of activations are multiplied by before the next ones: they stay in a near cache."""
_BYTES, _WHOLES, _FLOATS = vector(I8, BLOCK), vector(I32, LANES), vector(F32, LANES)


TILES: dict[Dot, dict[int, int]] = {
    "vnni512": {8: 2, 4: 4, 2: 4, 1: 4},
    "vnni256": {4: 1, 2: 2, 1: 4},
    "avx2": {4: 1, 2: 2, 1: 4},
    "plain": {4: 1, 2: 2, 1: 4},
}
"""Rows of activations that are multiplied at a time, and rows of the matrix: as many sums as there are registers for."""


# ---- whole numbers ----


def _dot(build: Writer, dot: Dot, start: Value, unsigned: Value, signed: Value, *, small: bool) -> Value:
    """Adds to `start` [16] the products of four neighbours each, of 64 unsigned and 64 signed bytes.

    Args:
        small: unsigned bytes are at most 15, so that two products fit 16 bits.
    """
    if dot == "vnni512":
        return build.own("llvm.x86.avx512.vpdpbusd.512", _WHOLES, start, unsigned, signed)
    if dot == "plain" or (dot == "avx2" and not small):
        return build.add(start, _plain_dot(build, unsigned, signed))
    halves = []
    for half in (0, 1):
        bytes_ = range(32 * half, 32 * half + 32)
        first, second, begin = (
            build.pick(x, x, lanes)
            for x, lanes in ((unsigned, bytes_), (signed, bytes_), (start, range(8 * half, 8 * half + 8)))
        )
        if dot == "vnni256":
            halves.append(build.own("llvm.x86.avx512.vpdpbusd.256", vector(I32, 8), begin, first, second))
            continue
        pairs = build.own("llvm.x86.avx2.pmadd.ub.sw", vector(I16, 16), first, second)
        four = build.own("llvm.x86.avx2.pmadd.wd", vector(I32, 8), pairs, constants([1] * 16, I16))
        halves.append(build.add(begin, four))
    return build.pick(*halves, range(LANES))


def _plain_dot(build: Writer, unsigned: Value, signed: Value) -> Value:
    words = vector(I16, BLOCK)
    products = [build.zext(unsigned, words), build.sext(signed, words)]
    even, odd = (
        build.mul(*(build.sext(build.pick(x, x, range(i, BLOCK, 2)), vector(I32, BLOCK // 2)) for x in products))
        for i in (0, 1)
    )
    pairs = build.add(even, odd)
    return build.add(*(build.pick(pairs, pairs, range(i, BLOCK // 2, 2)) for i in (0, 1)))


def _sum_lanes(build: Writer, rows: list[Value]) -> Value:
    """Adds up the 16 lanes of each of R vectors: halves onto halves, several rows in one vector. Returns [R]."""
    width = LANES
    while width > 1:
        half, packed = width // 2, LANES // width
        low = [block * width + lane for block in range(2 * packed) for lane in range(half)]
        high = [lane + half for lane in low]
        if len(rows) % 2:
            rows = [*rows, ir.Constant(_FLOATS, ir.Undefined)]
        rows = [
            build.fadd(build.pick(first, second, low), build.pick(first, second, high))
            for first, second in zip(rows[::2], rows[1::2], strict=True)
        ]
        width = half
    return rows[0]


# ---- formats ----


@dataclass(frozen=True, slots=True)
class Weights:
    """Points at what a format holds for one row of a matrix."""

    codes: Value
    scales: Value
    third: Value
    row: Value


@dataclass(frozen=True, slots=True)
class Layout:
    """Says how kernels read a format.

    Weights are unsigned and at most 15, or signed; a scale belongs to a block, to a quarter of a block, or to a row.
    """

    bits: int
    codes: Callable[[Writer, Weights, Value], Value]
    """Unpacks a block's 64 codes, given the block's number."""
    signed: bool
    scale: Literal["block", "quarter", "row"]
    blocks_per_scale: int = 1
    offsets: bool = False
    tables: bool = False
    """Its codes go through a table, which takes an instruction of x86."""
    unit: float = 1.0
    """What a code of one stands for, before scales."""


def _nibbles(build: Writer, bytes_: Value) -> tuple[Value, Value]:
    lanes = bytes_.type.count
    return build.and_(bytes_, constants([15] * lanes, I8)), build.lshr(bytes_, constants([4] * lanes, I8))


def _int4_codes(build: Writer, weights: Weights, block: Value) -> Value:
    """Reads the low halves of 32 bytes, then the high ones."""
    bytes_ = build.read(weights.codes, vector(I8, 32), build.mul(block, constant(32)))
    return build.pick(*_nibbles(build, bytes_), range(64))


def _int4_codes_128(build: Writer, weights: Weights, block: Value) -> Value:
    """Reads the low halves of 64 bytes for an even block, and their high ones for the odd block after it."""
    bytes_ = build.read(weights.codes, _BYTES, build.shl(build.lshr(block, constant(1)), constant(6)))
    low, high = _nibbles(build, bytes_)
    return build.select(build.trunc(block, ir.IntType(1)), high, low)


def _int8_codes(build: Writer, weights: Weights, block: Value) -> Value:
    return build.read(weights.codes, _BYTES, build.mul(block, constant(BLOCK)))


def _through_table(table: tuple[int, ...], *, low_first: bool) -> Callable[[Writer, Weights, Value], Value]:
    """Reads neighbours out of 32 bytes, each through a table of 16 signed numbers."""

    def codes(build: Writer, weights: Weights, block: Value) -> Value:
        bytes_ = build.read(weights.codes, vector(I8, 32), build.mul(block, constant(32)))
        kind, entries = vector(I8, 32), constants(list(table) * 2, I8)
        parts = [build.own("llvm.x86.avx2.pshuf.b", kind, entries, half) for half in _nibbles(build, bytes_)]
        return build.pick(*(parts if low_first else parts[::-1]), [lane for i in range(32) for lane in (i, 32 + i)])

    return codes


NVFP4_TABLE = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
"""e2m1's values, doubled: whole numbers."""

LAYOUTS = {
    "int8": Layout(8, _int8_codes, signed=True, scale="row"),
    "int4": Layout(4, _int4_codes, signed=False, scale="block", offsets=True),
    "int4-128": Layout(4, _int4_codes_128, signed=False, scale="block", offsets=True, blocks_per_scale=2),
    "nvfp4": Layout(
        4, _through_table(NVFP4_TABLE, low_first=True), signed=True, scale="quarter", tables=True, unit=0.5
    ),
}


def _e4m3(build: Writer, bits: Value) -> Value:
    """Reads positive e4m3 numbers from their bits, exactly, small ones too."""
    lanes = bits.type.count
    wide = build.shl(
        build.zext(build.and_(bits, constants([127] * lanes, I8)), vector(I32, lanes)), constants([20] * lanes, I32)
    )
    return build.fmul(build.bitcast(wide, vector(F32, lanes)), constants([2.0**120] * lanes, F32))


# ---- kernels ----


def write_multiply(module: ir.Module, name: str, layout: Layout, dot: Dot) -> None:
    """Writes `name(x, x_scales, x_sums, codes, scales, third, out, scratch, pieces, count, N, G, begin, end)`.

    Rows come in pieces: (first row, R, matrix), int64 [count, 3]. The kernel computes columns `begin` to `end` of `out`,
    float [M, N]. Parts of all matrices lie one after the other. `scratch` is the kernel's own, of `scratch_size`.
    """
    inner = {
        (size, beside): _write_piece(module, f"{name}_{size}_{beside}", layout, dot, size, beside)
        for size, most in TILES[dot].items()
        for beside in {most, 1}
    }
    build = Writer(module, name, VOID, [POINTER] * 9 + [I64] * 5)
    x, x_scales, x_sums, codes, scales, third, out, scratch, pieces, count, columns, blocks, begin, end = (
        build.made.args
    )
    tiles = Loop(build, begin, end, step=TILE)
    last = build.add(tiles.index, constant(TILE))
    last = build.select(build.icmp_signed("<", last, end), last, end)
    loop = Loop(build, constant(0), count)
    piece = build.mul(loop.index, constant(3))
    row, size, matrix = (build.read(pieces, I64, build.add(piece, constant(i))) for i in range(3))
    before = build.mul(matrix, columns)  # rows of the matrices that come before
    shift = build.mul(row, blocks)
    rows = [
        build.at(x, build.mul(shift, constant(BLOCK)), I8),
        build.at(x_scales, shift, F32),
        build.at(x_sums, shift, F32),
    ]
    target = build.at(out, build.mul(row, columns), F32)
    for rows_at_once, most in TILES[dot].items():
        with build.if_then(build.icmp_signed("==", size, constant(rows_at_once))):
            even = build.mul(build.sdiv(build.sub(last, tiles.index), constant(most)), constant(most))
            edges = [tiles.index, build.add(tiles.index, even), last]
            for beside, first, final in ((most, *edges[:2]), (1, *edges[1:]))[: 1 if most == 1 else 2]:
                function = inner[rows_at_once, beside]
                with build.if_then(build.icmp_signed("<", first, final)):
                    parts = [*rows, codes, scales, third, target, scratch, before, columns, blocks, first, final]
                    build.call(function, parts)
    loop.close()
    tiles.close()
    build.ret_void()


def scratch_size(dot: Dot, blocks: int) -> int:
    """Returns how many floats of scratch memory a thread of `multiply` needs."""
    return blocks * max((2 + beside) * size for size, beside in TILES[dot].items())


def _write_piece(module: ir.Module, name: str, layout: Layout, dot: Dot, size: int, beside: int) -> ir.Function:
    """Writes the kernel for `size` rows, which goes through a matrix by `beside` rows at a time."""
    build = Writer(module, name, VOID, [POINTER] * 8 + [I64] * 5)
    build.made.linkage = "internal"
    x, x_scales, x_sums, codes, scales, third, out, scratch = build.made.args[:8]
    before, columns, blocks, begin, end = build.made.args[8:]
    across, room = vector(F32, size), build.mul(blocks, constant(size))
    turned_scales, turned_sums, *factors = (
        build.at(scratch, build.mul(room, constant(i)), F32) for i in range(2 + beside)
    )
    # Scales of the rows side by side: [G, R].
    turn = Loop(build, constant(0), blocks)
    for r in range(size):
        source = build.add(build.mul(blocks, constant(r)), turn.index)
        place = build.add(build.mul(turn.index, constant(size)), constant(r))
        build.write(build.read(x_scales, F32, source), turned_scales, place)
        if layout.offsets:
            build.write(build.read(x_sums, F32, source), turned_sums, place)
    turn.close()

    outer = Loop(build, begin, end, step=beside)
    width = build.mul(blocks, constant(BLOCK * layout.bits // 8))
    matrix = []
    for i in range(beside):
        row = build.add(before, build.add(outer.index, constant(i)))
        matrix.append(Weights(build.at(codes, build.mul(row, width), I8), scales, third, row))
    offset_sums = [zeros(across)] * beside
    multipliers = [turned_scales] * beside
    if layout.scale == "block":
        offset_sums = _scale_blocks(build, layout, matrix, blocks, (turned_scales, turned_sums, factors), size)
        multipliers = factors

    inside = Loop(build, constant(0), blocks, carried=[zeros(_FLOATS)] * (size * beside))
    block = inside.index
    rows = [
        build.read(x, _BYTES, build.mul(build.add(build.mul(blocks, constant(r)), block), constant(BLOCK)))
        for r in range(size)
    ]
    sums, totals = [], iter(inside.carried)
    for weights, multiplier in zip(matrix, multipliers, strict=True):
        unpacked, start, quarters = layout.codes(build, weights, block), zeros(_WHOLES), None
        if layout.signed:  # activations are 128 too large
            start = build.sub(start, _dot(build, dot, start, constants([-128] * BLOCK, I8), unpacked, small=False))
        if layout.scale == "quarter":
            place = build.mul(build.add(build.mul(weights.row, blocks), block), constant(4))
            four = _e4m3(build, build.read(scales, vector(I8, 4), place))
            quarters = build.pick(four, four, [lane // 4 for lane in range(LANES)])
        for r, activations in enumerate(rows):
            pair = (activations, unpacked) if layout.signed else (unpacked, activations)
            product = build.sitofp(_dot(build, dot, start, *pair, small=not layout.signed), _FLOATS)
            if quarters is not None:
                product = build.fmul(product, quarters)
            factor = build.read(multiplier, F32, build.add(build.mul(block, constant(size)), constant(r)))
            sums.append(build.fma(product, build.splat(factor, LANES), next(totals)))
    inside.close(*sums)

    everything = _sum_lanes(build, inside.carried)
    for i, (weights, offset_sum) in enumerate(zip(matrix, offset_sums, strict=True)):
        result = build.pick(everything, everything, range(i * size, i * size + size))
        if layout.scale == "row":
            result = build.fmul(result, build.splat(build.read(scales, F32, weights.row), size))
        elif layout.scale == "quarter":
            factor = build.fmul(build.read(third, F32, weights.row), ir.Constant(F32, layout.unit))
            result = build.fmul(result, build.splat(factor, size))
        result = build.fadd(result, offset_sum)
        for r in range(size):
            place = build.add(build.mul(columns, constant(r)), build.add(outer.index, constant(i)))
            build.write(build.extract_element(result, constant(r, I32)), out, place)
    outer.close()
    build.ret_void()
    return build.made


def _scale_blocks(
    build: Writer,
    layout: Layout,
    matrix: list[Weights],
    blocks: Value,
    turned: tuple[Value, Value, list[Value]],
    size: int,
) -> list[Value]:
    """Multiplies each block's scale by those of the rows, into `factors`; returns what the offsets add, [R] each."""
    turned_scales, turned_sums, factors = turned
    across = vector(F32, size)
    loop = Loop(build, constant(0), blocks, carried=[zeros(across)] * len(matrix))
    place = build.mul(loop.index, constant(size))
    number = build.udiv(loop.index, constant(layout.blocks_per_scale))
    per_row = build.udiv(blocks, constant(layout.blocks_per_scale))
    row_scales = build.read(turned_scales, across, place)
    row_sums = build.read(turned_sums, across, place) if layout.offsets else None
    totals = []
    for weights, factor, total in zip(matrix, factors, loop.carried, strict=True):
        which = build.add(build.mul(weights.row, per_row), number)
        scale = build.bfloat16(build.read(weights.scales, I16, which))
        build.write(build.fmul(build.splat(scale, size), row_scales), factor, place)
        if row_sums is not None:
            offset = build.bfloat16(build.read(weights.third, I16, which))
            total = build.fma(build.splat(offset, size), row_sums, total)  # noqa: PLW2901
        totals.append(total)
    loop.close(*totals)
    return loop.carried
