"""Writes the kernels that multiply rows of 8-bit activations by packed weights: sums of whole numbers, then a scale.

    M rows   N rows of a matrix, what comes out   G blocks of 64 features   R rows that are multiplied at a time

For a row of the matrix and a block, 64 codes are unpacked into a register once and multiplied with R rows; the products
of four neighbours, or of eight, are added up as whole numbers, and these go into fp32 lanes, times both scales. Lanes
are added in the same order whatever R is: a row's bits do not depend on how many stand beside it.
"""

import functools
from dataclasses import dataclass

from llvmlite import ir

from gesso.kernels.host.activations import BLOCK, LANES
from gesso.kernels.host.dots import BYTES, Dot, dot, signed_dot, sum_lanes
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
    vector,
    zeros,
)
from gesso.kernels.host.pieces import LINE, TILES, write_over_pieces

AHEAD, MORE = 4608, 2048
"""Bytes that memory is asked for ahead where rows are narrow, or behind the rows at hand."""
WIDE = 8192
"""Bytes of the rows at hand from which on they would drive one another out of the first cache, of which 4,096 bytes
apart lies in the same places."""
STRIDE = 8
"""Blocks whose scales or offsets are multiplied at a time for one row."""
_MANY = vector(F32, STRIDE)


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
    write_over_pieces(module, name, TILES[kind], inner, I8)


@functools.cache
def scratch_size(kind: Dot, blocks: int) -> int:
    """Returns how many floats of scratch memory a thread of `multiply` needs."""
    return blocks * max((1 + beside) * size for size, beside in TILES[kind].items())


@dataclass(frozen=True, slots=True)
class _Turned:
    """Points at the scales of the rows side by side, [G, R], and at those times a row's of the matrix."""

    scales: Value
    factors: list[Value]


class _Piece(Writer):
    """Writes the kernel for `size` rows of activations, which goes through a matrix by `beside` rows at a time."""

    def __init__(self, module: ir.Module, name: str, layout: Layout, kind: Dot, size: int, beside: int) -> None:
        super().__init__(module, name, VOID, [POINTER] * 8 + [I64] * 5)
        self.made.linkage = "internal"
        self.made.attributes.add("noinline")  # registers are given out anew
        self.layout, self.kind, self.size = layout, kind, size
        # Halves and quarters of a block have scales of their own, and one instruction of AVX-512 takes a whole block.
        self.lanes = LANES if kind == "vnni512" or layout.scale in ("half", "quarter") else LANES // 2
        self.across, self.floats = vector(F32, size), vector(F32, self.lanes)
        self.x, x_scales, x_sums, codes, scales, third, out, scratch = self.made.args[:8]
        before, columns, self.blocks, begin, end = self.made.args[8:]
        turned = self._turn(x_scales, scratch, beside)
        outer = Loop(self, begin, end, step=beside)
        width = self.mul(self.blocks, constant(BLOCK * layout.bits // 8))
        matrix = []
        for i in range(beside):
            row = self.add(before, self.add(outer.index, constant(i)))
            matrix.append(Weights(self.at(codes, self.mul(row, width), I8), scales, third, row))
        if layout.scale == "block":
            self._scale_blocks(matrix, turned)
        lanes = self._sum_blocks(matrix, turned)
        if layout.offsets:
            lanes = [
                self.fadd(self._fold(each), more)
                for each, more in zip(lanes, self._sum_offsets(matrix, x_sums), strict=True)
            ]
        sums = sum_lanes(self, lanes)
        for i, weights in enumerate(matrix):
            result = self._scale_row(self.pick(sums, sums, range(i * size, i * size + size)), weights)
            for r in range(size):
                place = self.add(self.mul(columns, constant(r)), self.add(outer.index, constant(i)))
                self.write(self.extract_element(result, constant(r, I32)), out, place)
        outer.close()
        self.ret_void()

    def _place(self, block: Value, r: int = 0) -> Value:
        return self.add(self.mul(block, constant(self.size)), constant(r))

    def _turn(self, x_scales: Value, scratch: Value, beside: int) -> _Turned:
        """Lays the rows' scales side by side."""
        room = self.mul(self.blocks, constant(self.size))
        scales, *factors = (self.at(scratch, self.mul(room, constant(i)), F32) for i in range(1 + beside))
        if self.size == 1:
            return _Turned(x_scales, factors)
        loop = Loop(self, constant(0), self.blocks)
        for r in range(self.size):
            source = self.add(self.mul(self.blocks, constant(r)), loop.index)
            self.write(self.read(x_scales, F32, source), scales, self._place(loop.index, r))
        loop.close()
        return _Turned(scales, factors)

    def _scale_blocks(self, matrix: list[Weights], turned: _Turned) -> None:
        """Multiplies each block's scale by those of the rows."""
        unit, done = self.layout.unit, constant(0)
        if self.size == 1:
            done, loop, place = self._strides([])
            row_scales = self.read(turned.scales, _MANY, place)
            for weights, factor in zip(matrix, turned.factors, strict=True):
                scales = self.fmul(self._of_blocks(weights.scales, weights, place), constants([unit] * STRIDE, F32))
                self.write(self.fmul(scales, row_scales), factor, place)
            loop.close()
        loop = Loop(self, done, self.blocks)
        place = self._place(loop.index)
        row_scales = self.read(turned.scales, self.across, place)
        for weights, factor in zip(matrix, turned.factors, strict=True):
            scale = self.fmul(self._of_block(weights.scales, weights, loop.index), ir.Constant(F32, unit))
            self.write(self.fmul(self.splat(scale, self.size), row_scales), factor, place)
        loop.close()

    def _sum_offsets(self, matrix: list[Weights], x_sums: Value) -> list[Value]:
        """Adds up offset times sum over all blocks: `STRIDE` lanes for each row of the matrix and of activations."""
        starts = [self.mul(self.blocks, constant(r)) for r in range(self.size)]
        done, loop, place = self._strides([zeros(_MANY)] * (self.size * len(matrix)))
        # What a stride before has added already counts as nothing.
        numbers = self.add(self.splat(self.trunc(place, I32), STRIDE), constants(list(range(STRIDE)), I32))
        fresh = self.icmp_signed(">=", numbers, self.splat(self.trunc(loop.index, I32), STRIDE))
        sums = [self.read(x_sums, _MANY, self.add(start, place)) for start in starts]
        totals, added = iter(loop.carried), []
        for weights in matrix:
            offsets = self.select(fresh, self._of_blocks(weights.third, weights, place), zeros(_MANY))
            added += [self.fma(offsets, row_sums, next(totals)) for row_sums in sums]
        loop.close(*added)
        lanes, first = loop.carried, constant(0, I32)
        loop = Loop(self, done, self.blocks, carried=[self.extract_element(each, first) for each in lanes])
        sums = [self.read(x_sums, F32, self.add(start, loop.index)) for start in starts]
        totals, added = iter(loop.carried), []
        for weights in matrix:
            offset = self._of_block(weights.third, weights, loop.index)
            added += [self.own("llvm.fma.f32", F32, offset, row_sum, next(totals)) for row_sum in sums]
        loop.close(*added)
        return [self.insert_element(each, rest, first) for each, rest in zip(lanes, loop.carried, strict=True)]

    def _fold(self, lanes: Value) -> Value:
        """Adds halves up until there are `STRIDE` lanes."""
        while lanes.type.count > STRIDE:
            half = lanes.type.count // 2
            low, high = (self.pick(lanes, lanes, range(begin, begin + half)) for begin in (0, half))
            lanes = self.fadd(low, high)
        return lanes

    def _strides(self, carried: list[Value]) -> tuple[Value, Loop, Value]:
        """Begins to go through all blocks, `STRIDE` at a time, or through none where there are fewer.

        Returns how many blocks that does, the loop, and the first block of a stride: the last one ends with the blocks.
        """
        last = self.sub(self.blocks, constant(STRIDE))
        done = self.select(self.icmp_signed("<", last, constant(0)), constant(0), self.blocks)
        loop = Loop(self, constant(0), done, step=STRIDE, carried=carried)
        return done, loop, self.select(self.icmp_signed("<", last, loop.index), last, loop.index)

    def _of_block(self, part: Value, weights: Weights, block: Value) -> Value:
        """Reads the scale or offset of a block."""
        return self.bfloat16(self.read(part, I16, self._number(weights, block)))

    def _of_blocks(self, part: Value, weights: Weights, block: Value) -> Value:
        """Reads those of `STRIDE` blocks."""
        each = self.layout.blocks_per_scale
        read = self.bfloat16(self.read(part, vector(I16, STRIDE // each), self._number(weights, block)))
        return read if each == 1 else self.pick(read, read, [lane // each for lane in range(STRIDE)])

    def _number(self, weights: Weights, block: Value) -> Value:
        """Returns where a block's scale and offset stand."""
        each = constant(self.layout.blocks_per_scale)
        return self.add(self.mul(weights.row, self.udiv(self.blocks, each)), self.udiv(block, each))

    def _sum_blocks(self, matrix: list[Weights], turned: _Turned) -> list[Value]:
        """Sums code times code times scale over all blocks: lanes for each row of the matrix and of activations."""
        rows = self.mul(self.blocks, constant(len(matrix) * BLOCK * self.layout.bits // 8))
        ways = ((self.add(rows, constant(MORE)), 2), (constant(AHEAD), 3))
        found = []
        with self.if_else(self.icmp_signed(">=", rows, constant(WIDE))) as branches:
            for branch, (ahead, level) in zip(branches, ways, strict=True):
                with branch:
                    found.append((self._sum_blocks_ahead(matrix, turned, ahead, level), self.block))
        joined = []
        for values in zip(*(sums for sums, _ in found), strict=True):
            phi = self.phi(self.floats)
            for value, (_, block) in zip(values, found, strict=True):
                phi.add_incoming(value, block)
            joined.append(phi)
        return joined

    def _sum_blocks_ahead(self, matrix: list[Weights], turned: _Turned, ahead: Value, level: int) -> list[Value]:
        """Computes `_sum_blocks`, with memory asked for so far ahead, for a level of the caches."""
        loop = Loop(self, constant(0), self.blocks, carried=[zeros(self.floats)] * (self.size * len(matrix)))
        block, sums, totals = loop.index, [], iter(loop.carried)
        rows = [
            self.read(self.x, BYTES, self.mul(self.add(self.mul(self.blocks, constant(r)), block), constant(BLOCK)))
            for r in range(self.size)
        ]
        ones = constants([1] * BLOCK, I8)
        row_sums = [
            self.sitofp(dot(self, self.kind, ones, activations), self.floats)
            for activations in (rows if self.layout.scale == "half" else ())
        ]
        multipliers = turned.factors if self.layout.scale == "block" else [turned.scales] * len(matrix)
        self._ask_for(matrix[0], block, len(matrix), ahead, level)
        for weights, multiplier in zip(matrix, multipliers, strict=True):
            codes, within = self.layout.codes(self, weights, block), self._scales_within(weights, block)
            offsets = self._halves(weights.third, weights, block) if row_sums else None
            for r, activations in enumerate(rows):
                product = self.sitofp(self._product(activations, codes), self.floats)
                if within is not None:
                    product = self.fmul(product, within)
                if offsets is not None:
                    product = self.fma(row_sums[r], offsets, product)
                factor = self.read(multiplier, F32, self._place(block, r))
                sums.append(self.fma(product, self.splat(factor, self.lanes), next(totals)))
        loop.close(*sums)
        return loop.carried

    def _ask_for(self, first: Weights, block: Value, beside: int, ahead: Value, level: int) -> None:
        """Has the memory send the codes that stand so many bytes ahead, a part of the next rows with each block.

        Rows lie one behind the other, and processors do not foresee several that are read side by side.
        """
        part = beside * BLOCK * self.layout.bits // 8
        place = self.at(first.codes, self.add(self.mul(block, constant(part)), ahead), I8)
        for line in range(0, part, LINE):
            self.ask_for(self.at(place, constant(line), I8), level)

    def _product(self, activations: Value, codes: Value) -> Value:
        """Multiplies a block's activations by its codes and adds up neighbours, [8] or [16]."""
        if self.layout.signed:
            return signed_dot(self, self.kind, activations, codes, lanes=self.lanes)
        return dot(self, self.kind, codes, activations, lanes=self.lanes)

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
