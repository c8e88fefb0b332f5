"""Writes the kernels that multiply rows of 8-bit activations by packed weights: sums of whole numbers, then a scale.

    M rows   N rows of a matrix, what comes out   G blocks of 64 features   R rows that are multiplied at a time

For a row of the matrix and a block, 64 codes are unpacked into a register once and multiplied with R rows; the products
of four neighbours are added up as whole numbers, and the sixteen sums go into sixteen fp32 lanes, times both scales.
The lanes are added in the same order whatever R is: a row's bits do not depend on how many stand beside it.
"""

import functools
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from gesso.kernels.host.activations import BLOCK, LANES
from gesso.kernels.host.dots import BYTES, FLOATS, WHOLES, Dot, dot, sum_lanes
from gesso.kernels.host.layouts import Layout, Weights, e4m3
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
    declare,
    vector,
    zeros,
)

TILES: dict[Dot, dict[int, int]] = {
    "vnni512": {8: 2, 4: 4, 2: 4, 1: 4},
    "vnni256": {4: 1, 2: 2, 1: 4},
    "avx2": {4: 1, 2: 2, 1: 4},
    "plain": {4: 1, 2: 2, 1: 4},
}
"""Rows of activations that are multiplied at a time, and rows of the matrix: as many sums as there are registers."""
NEAR = 64
"""Rows of a matrix that all rows of activations are multiplied by before the next ones: they stay in a near cache."""
AHEAD = 128
"""Blocks that memory is asked for ahead at least: rows lie one behind the other, and the next few short ones come too
soon."""
STRIDE = 8
"""Blocks whose scales are multiplied at a time for one row."""


def write_multiply(module: ir.Module, name: str, layout: Layout, kind: Dot) -> None:
    """Writes `name(x, x_scales, x_sums, codes, scales, third, out, scratch, pieces, count, N, G, begin, end)`.

    Rows come in pieces: (first row of x, R, matrix, first row of out), int64 [count, 4]. The kernel computes columns
    `begin` to `end` of `out`, float [M, N]. Parts of all matrices lie one after the other. `scratch` is the kernel's
    own, of `scratch_size`.
    """
    inner = {
        (size, beside): _Piece(module, f"{name}_{size}_{beside}", layout, kind, size, beside).made
        for size, most in TILES[kind].items()
        for beside in {most, 1}
    }
    write_over_pieces(module, name, kind, inner, I8)


def write_over_pieces(
    module: ir.Module, name: str, kind: Dot, inner: dict[tuple[int, int], Value], x_kind: Any
) -> None:
    """Writes the kernel that hands pieces to those of `inner`, by rows of activations and of the matrix.

    Args:
        x_kind: of the numbers of x.
    """
    build = Writer(module, name, VOID, [POINTER] * 9 + [I64] * 5)
    x, x_scales, x_sums, codes, scales, third, out, scratch, pieces = build.made.args[:9]
    count, columns, blocks, begin, end = build.made.args[9:]
    tiles = Loop(build, begin, end, step=NEAR)
    last = build.add(tiles.index, constant(NEAR))
    last = build.select(build.icmp_signed("<", last, end), last, end)
    loop = Loop(build, constant(0), count)
    piece = build.mul(loop.index, constant(4))
    row, size, matrix, first_out = (build.read(pieces, I64, build.add(piece, constant(i))) for i in range(4))
    before = build.mul(matrix, columns)  # rows of the matrices that come before
    shift = build.mul(row, blocks)
    rows = [
        build.at(x, build.mul(shift, constant(BLOCK)), x_kind),
        build.at(x_scales, shift, F32),
        build.at(x_sums, shift, F32),
    ]
    target = build.at(out, build.mul(first_out, columns), F32)
    for rows_at_once, most in TILES[kind].items():
        with build.if_then(build.icmp_signed("==", size, constant(rows_at_once))):
            even = build.mul(build.sdiv(build.sub(last, tiles.index), constant(most)), constant(most))
            edges = [tiles.index, build.add(tiles.index, even), last]
            for beside, first, final in ((most, *edges[:2]), (1, *edges[1:]))[: 1 if most == 1 else 2]:
                with build.if_then(build.icmp_signed("<", first, final)):
                    parts = [*rows, codes, scales, third, target, scratch, before, columns, blocks, first, final]
                    build.call(inner[rows_at_once, beside], parts)
    loop.close()
    tiles.close()
    build.ret_void()


@functools.cache
def scratch_size(kind: Dot, blocks: int) -> int:
    """Returns how many floats of scratch memory a thread of `multiply` needs."""
    return blocks * max((2 + beside) * size for size, beside in TILES[kind].items())


@dataclass(frozen=True, slots=True)
class _Turned:
    """Points at the scales and sums of the rows side by side, [G, R], and at those times a row's of the matrix."""

    scales: Value
    sums: Value
    factors: list[Value]


class _Piece(Writer):
    """Writes the kernel for `size` rows of activations, which goes through a matrix by `beside` rows at a time."""

    def __init__(self, module: ir.Module, name: str, layout: Layout, kind: Dot, size: int, beside: int) -> None:
        super().__init__(module, name, VOID, [POINTER] * 8 + [I64] * 5)
        self.made.linkage = "internal"
        self.layout, self.kind, self.size = layout, kind, size
        self.across = vector(F32, size)
        self.x, x_scales, x_sums, codes, scales, third, out, scratch = self.made.args[:8]
        before, columns, self.blocks, begin, end = self.made.args[8:]
        turned = self._turn(x_scales, x_sums, scratch, beside)
        outer = Loop(self, begin, end, step=beside)
        width = self.mul(self.blocks, constant(BLOCK * layout.bits // 8))
        matrix = []
        for i in range(beside):
            row = self.add(before, self.add(outer.index, constant(i)))
            matrix.append(Weights(self.at(codes, self.mul(row, width), I8), scales, third, row))
        offsets = [zeros(self.across)] * beside
        if layout.scale == "block":
            offsets = self._scale_blocks(matrix, turned)
        sums = sum_lanes(self, self._sum_blocks(matrix, turned))
        for i, (weights, offset) in enumerate(zip(matrix, offsets, strict=True)):
            result = self.pick(sums, sums, range(i * size, i * size + size))
            result = self.fadd(self._scale_row(result, weights), offset)
            for r in range(size):
                place = self.add(self.mul(columns, constant(r)), self.add(outer.index, constant(i)))
                self.write(self.extract_element(result, constant(r, I32)), out, place)
        outer.close()
        self.ret_void()

    def _place(self, block: Value, r: int = 0) -> Value:
        return self.add(self.mul(block, constant(self.size)), constant(r))

    def _turn(self, x_scales: Value, x_sums: Value, scratch: Value, beside: int) -> _Turned:
        """Lays the rows' scales, and sums where there are offsets, side by side."""
        room = self.mul(self.blocks, constant(self.size))
        scales, sums, *factors = (self.at(scratch, self.mul(room, constant(i)), F32) for i in range(2 + beside))
        loop = Loop(self, constant(0), self.blocks)
        for r in range(self.size):
            source = self.add(self.mul(self.blocks, constant(r)), loop.index)
            self.write(self.read(x_scales, F32, source), scales, self._place(loop.index, r))
            if self.layout.offsets:
                self.write(self.read(x_sums, F32, source), sums, self._place(loop.index, r))
        loop.close()
        return _Turned(scales, sums, factors)

    def _scale_blocks(self, matrix: list[Weights], turned: _Turned) -> list[Value]:
        """Multiplies each block's scale by those of the rows; returns what the offsets add to every row, [R] each."""
        layout, blocks = self.layout, self.blocks
        done, begun = constant(0), [zeros(self.across)] * len(matrix)
        if self.size == 1 and layout.blocks_per_scale == 1 and len(matrix) == 4:
            done, begun = self._scale_many_blocks(matrix, turned)
        loop = Loop(self, done, blocks, carried=begun)
        place, per_scale = self._place(loop.index), constant(layout.blocks_per_scale)
        number, per_row = self.udiv(loop.index, per_scale), self.udiv(blocks, per_scale)
        row_scales = self.read(turned.scales, self.across, place)
        row_sums = self.read(turned.sums, self.across, place) if layout.offsets else None
        totals = []
        for weights, factor, carried in zip(matrix, turned.factors, loop.carried, strict=True):
            which, total = self.add(self.mul(weights.row, per_row), number), carried
            scale = self.fmul(self.bfloat16(self.read(weights.scales, I16, which)), ir.Constant(F32, layout.unit))
            self.write(self.fmul(self.splat(scale, self.size), row_scales), factor, place)
            if row_sums is not None:
                offset = self.bfloat16(self.read(weights.third, I16, which))
                total = self.fma(self.splat(offset, self.size), row_sums, total)
            totals.append(total)
        loop.close(*totals)
        return loop.carried

    def _scale_many_blocks(self, matrix: list[Weights], turned: _Turned) -> tuple[Value, list[Value]]:
        """Computes `_scale_blocks` of one row and four of the matrix, `STRIDE` blocks at a time, to the same bits.

        Returns how many blocks are done, and what is added so far.
        """
        many, bits, four = vector(F32, STRIDE), vector(I16, STRIDE), vector(F32, len(matrix))
        done = self.mul(self.udiv(self.blocks, constant(STRIDE)), constant(STRIDE))
        loop = Loop(self, constant(0), done, step=STRIDE, carried=[zeros(four)])
        row_scales, (total,) = self.read(turned.scales, many, loop.index), loop.carried
        places = [self.add(self.mul(weights.row, self.blocks), loop.index) for weights in matrix]
        unit = constants([self.layout.unit] * STRIDE, F32)
        for weights, factor, place in zip(matrix, turned.factors, places, strict=True):
            scale = self.fmul(self.bfloat16(self.read(weights.scales, bits, place)), unit)
            self.write(self.fmul(scale, row_scales), factor, loop.index)
        if self.layout.offsets:
            offsets = [
                self.bfloat16(self.read(weights.third, bits, place))
                for weights, place in zip(matrix, places, strict=True)
            ]
            for block in range(STRIDE):
                pairs = [self.pick(offsets[i], offsets[i + 1], [block, STRIDE + block]) for i in (0, 2)]
                row_sum = self.read(turned.sums, F32, self.add(loop.index, constant(block)))
                total = self.fma(self.pick(pairs[0], pairs[1], range(4)), self.splat(row_sum, 4), total)
        loop.close(total)
        (total,) = loop.carried
        return done, [self.pick(total, total, [i]) for i in range(len(matrix))]

    def _sum_blocks(self, matrix: list[Weights], turned: _Turned) -> list[Value]:
        """Sums code times code times scale over all blocks: 16 lanes for each row of the matrix and of activations."""
        loop = Loop(self, constant(0), self.blocks, carried=[zeros(FLOATS)] * (self.size * len(matrix)))
        block, sums, totals = loop.index, [], iter(loop.carried)
        rows = [
            self.read(self.x, BYTES, self.mul(self.add(self.mul(self.blocks, constant(r)), block), constant(BLOCK)))
            for r in range(self.size)
        ]
        ones = constants([1] * BLOCK, I8)
        row_sums = [
            self.sitofp(dot(self, self.kind, zeros(WHOLES), ones, activations, small=True), FLOATS)
            for activations in (rows if self.layout.scale == "half" else ())
        ]
        multipliers = turned.factors if self.layout.scale == "block" else [turned.scales] * len(matrix)
        for weights, multiplier in zip(matrix, multipliers, strict=True):
            self._ask_for(weights, block, len(matrix))
            assert self.layout.codes is not None
            codes, within = self.layout.codes(self, weights, block), self._scales_within(weights, block)
            offsets = self._halves(weights.third, weights, block) if row_sums else None
            start = self._shift_of(codes)
            for r, activations in enumerate(rows):
                pair = (activations, codes) if self.layout.signed else (codes, activations)
                product = self.sitofp(dot(self, self.kind, start, *pair, small=not self.layout.signed), FLOATS)
                if within is not None:
                    product = self.fmul(product, within)
                if offsets is not None:
                    product = self.fma(row_sums[r], offsets, product)
                factor = self.read(multiplier, F32, self._place(block, r))
                sums.append(self.fma(product, self.splat(factor, LANES), next(totals)))
        loop.close(*sums)
        return loop.carried

    def _ask_for(self, weights: Weights, block: Value, beside: int) -> None:
        """Has the memory send the codes of this block in the rows that come next, which processors do not foresee."""
        width = constant(BLOCK * self.layout.bits // 8)
        rows, least = self.mul(self.blocks, constant(beside)), constant(AHEAD)
        ahead = self.select(self.icmp_signed("<", rows, least), least, rows)
        address = self.at(weights.codes, self.mul(self.add(block, ahead), width), I8)
        # One row waits for memory alone, and the second cache has more lines on their way than the first.
        read, near, data = (constant(number, I32) for number in (0, 2 if self.size == 1 else 3, 1))
        self.call(declare(self.module, "llvm.prefetch.p0", VOID, [POINTER, I32, I32, I32]), [address, read, near, data])

    def _shift_of(self, codes: Value) -> Value:
        """Returns what sums begin with: beside signed weights, activations are stored 128 too large."""
        none = zeros(WHOLES)
        if not self.layout.signed:
            return none
        return self.sub(none, dot(self, self.kind, none, constants([-128] * BLOCK, I8), codes, small=False))

    def _scales_within(self, weights: Weights, block: Value) -> Value | None:
        """Reads the scales of a block's halves or quarters into their lanes."""
        if self.layout.scale == "half":
            return self._halves(weights.scales, weights, block)
        if self.layout.scale != "quarter":
            return None
        place = self.mul(self.add(self.mul(weights.row, self.blocks), block), constant(4))
        four = e4m3(self, self.read(weights.scales, vector(I8, 4), place))
        return self.pick(four, four, [lane // 4 for lane in range(LANES)])

    def _halves(self, part: Value, weights: Weights, block: Value) -> Value:
        """Reads two numbers, one for each half of a block, into their lanes."""
        place = self.mul(self.add(self.mul(weights.row, self.blocks), block), constant(2))
        two = self.bfloat16(self.read(part, vector(I16, 2), place))
        return self.pick(two, two, [lane // (LANES // 2) for lane in range(LANES)])

    def _scale_row(self, result: Value, weights: Weights) -> Value:
        """Multiplies by what belongs to the row of the matrix."""
        if self.layout.scale in ("block", "half"):
            return result
        if self.layout.scale == "row":
            factor = self.read(weights.scales, F32, weights.row)
        else:
            factor = self.fmul(self.read(weights.third, F32, weights.row), ir.Constant(F32, self.layout.unit))
        return self.fmul(result, self.splat(factor, self.size))
