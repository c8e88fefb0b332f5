"""Writes the kernel that rounds rows of activations to 8 bits, for sums of whole numbers.

`BLOCK` neighbouring features of a row share a scale, the largest magnitude over 127: a feature is off by half a scale
at most. Beside codes and scales stands each block's sum, which a format with offsets multiplies them by. A row's codes
depend on that row alone; a number that is not finite makes its block's scale not finite.

Sixteen rows are written turned, for products in tiles: four neighbours of a row, then those of the next row, and so on.
"""

import functools
from collections.abc import Sequence

from llvmlite import ir

from gesso.kernels.host.llvm_ir import (
    F32,
    I8,
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
)
from gesso.kernels.host.words import OUT, SIZE, word_of

BLOCK = 64
"""Features that share a scale, as many as a vector of 512 bits holds of 8 bits each."""
TOP = 127
LANES = 16
LEAST = 2.0**-120
"""Blocks whose magnitudes are all below are rounded to zero: 127 over them could be past the largest float."""
MAGNITUDE = 0x7FFFFFFF
"""The bits of a float but its sign."""
ONES, ONES_BITS = 1.5 * 2**23, 0x4B400000
"""A float between 2**23 and 2**24, where neighbours are one apart, and its bits."""


GROUP = 16
"""Rows that are turned together."""
Halves = tuple[Sequence[int], Sequence[int]] | None
_WORD = 4
"""Neighbours that stay side by side where rows are turned."""


def write_turn_rows(module: ir.Module, name: str, parts: int, halves: Halves, few: int) -> None:
    """Writes `name(x, blocks, begin, end, codes, scales, sums)`, which rounds rows `begin` to `end` and writes them
    turned: row i is in group i // 16. `name_pieces(x, blocks, begin, end, codes, scales, sums, pieces, sources)` gives
    each piece (see `pieces`) a group of its own; the row of x of each row that comes out stands in sources int64, or is
    as many where these are null. Rows of a piece are written as its kernel reads them: turned, or, few of them, not.

    Args of the kernels: x float [M, 64 G], blocks G; codes int8 [groups, 16 G, 16, 4], scales float [groups, G, 16],
    sums float [groups, G, parts, 16]. Before the codes, and backwards, stand those of each row side by side, for
    products of few rows: of place i `straight_width` times i + 1 before. Of two blocks some features stand first, and
    then the others.

    Args:
        parts: of a block, each with a sum of its own.
        halves: the features of a block that stand first, and the others; None for all in order.
        few: rows of a piece, at most, that are read side by side.
    """
    build = Writer(module, name, VOID, [POINTER, I64, I64, I64, POINTER, POINTER, POINTER])
    x, blocks, begin, end, *places = build.made.args
    rows = Loop(build, begin, end)
    group, lane = (divided(rows.index, constant(GROUP)) for divided in (build.udiv, build.urem))
    block = Loop(build, constant(0), blocks)
    written = _Block(build, (x, blocks), rows.index, (group, lane, block.index), places)
    written.write_side_by_side(halves)
    written.write_turned()
    written.write_scales(parts)
    block.close()
    rows.close()
    build.ret_void()
    build = Writer(module, f"{name}_pieces", VOID, [POINTER, *[I64] * 3, *[POINTER] * 5])
    x, blocks, begin, end, *places, pieces, sources = build.made.args
    own, is_own = build.alloca(I64), build.icmp_unsigned("==", build.ptrtoint(sources, I64), constant(0))
    groups = Loop(build, begin, end)
    size, first = (build.read(pieces, I64, word_of(build, groups.index, word)) for word in (SIZE, OUT))
    # Lines that rows of a group share are still near where these take turns, block by block.
    block = Loop(build, constant(0), blocks)
    lanes = Loop(build, constant(0), size)
    row = build.add(first, lanes.index)
    build.store(row, own)
    row = build.read(build.select(is_own, own, build.at(sources, row, I64)), I64)
    written = _Block(build, (x, blocks), row, (groups.index, lanes.index, block.index), places)
    with build.if_else(build.icmp_signed("<=", size, constant(few))) as (side_by_side, turned):
        with side_by_side:
            written.write_side_by_side(halves)
        with turned:
            written.write_turned()
    written.write_scales(parts)
    for loop in (lanes, block, groups):
        loop.close()
    build.ret_void()


class _Block:
    """Rounds a block of a row, and writes it."""

    def __init__(
        self,
        build: Writer,
        x: tuple[Value, Value],
        row: Value,
        place: tuple[Value, Value, Value],
        written: list[Value],
    ) -> None:
        """
        Args:
            x: rows, and their blocks.
            row: of x.
            place: the group, the row's place there, and the block.
            written: where codes, scales and sums are.
        """
        numbers, self.blocks = x
        self.build, (self.group, self.lane, self.block) = build, place
        self.codes, self.scales, self.sums = written
        first = build.mul(build.add(build.mul(row, self.blocks), self.block), constant(BLOCK))
        self.rounded, self.scale, self.totals = _round_block(build, numbers, first)
        self.number = build.add(build.mul(self.group, self.blocks), self.block)
        """The block's, among those of all groups."""

    def write_side_by_side(self, halves: Halves) -> None:
        """Writes codes as they stand in the row."""
        build, block = self.build, self.block
        slot = build.add(build.mul(self.group, constant(GROUP)), self.lane)
        back = build.sub(constant(0), straight_width(build, self.blocks))
        row = build.at(self.codes, build.mul(build.add(slot, constant(1)), back), I8)
        if halves is None:
            for i, code in enumerate(self.rounded):
                build.write(code, row, build.add(build.mul(block, constant(BLOCK)), constant(LANES * i)))
            return
        low, high = (build.pick(self.rounded[i], self.rounded[i + 1], range(2 * LANES)) for i in (0, 2))
        codes = build.pick(low, high, range(BLOCK))
        pair, other = build.lshr(block, constant(1)), build.and_(block, constant(1))
        first = build.add(build.mul(pair, constant(2 * BLOCK)), build.mul(other, constant(BLOCK // 2)))
        for i, half in enumerate(halves):
            build.write(build.pick(codes, codes, half), row, build.add(first, constant(BLOCK * i)))

    def write_turned(self) -> None:
        """Writes codes among those of the group's other rows."""
        build, words = self.build, LANES // _WORD
        for i, code in enumerate(self.rounded):
            held = build.bitcast(code, vector(I32, words))
            for j in range(words):
                at = build.add(build.mul(self.number, constant(BLOCK // _WORD)), constant(words * i + j))
                word = build.extract_element(held, constant(j, I32))
                build.write(word, self.codes, build.add(build.mul(at, constant(GROUP)), self.lane))

    def write_scales(self, parts: int) -> None:
        """Writes the block's scale, and the sum of each of its parts."""
        build = self.build
        build.write(self.scale, self.scales, build.add(build.mul(self.number, constant(GROUP)), self.lane))
        each = len(self.totals) // parts
        for part in range(parts):
            at = build.add(build.mul(self.number, constant(parts)), constant(part))
            total = _sum_of(build, self.totals[part * each : (part + 1) * each], self.scale)
            build.write(total, self.sums, build.add(build.mul(at, constant(GROUP)), self.lane))


def straight_width(build: Writer, blocks: Value) -> Value:
    """Returns how many bytes a row's codes side by side take: those of an even number of blocks."""
    return build.mul(build.add(blocks, build.and_(blocks, constant(1))), constant(BLOCK))


def _round_block(build: Writer, x: Value, first: Value) -> tuple[list[Value], Value, list[Value]]:
    """Rounds the block that begins at `first`.

    Returns its codes, signed, sixteen at a time, its scale, and the codes as whole numbers of 32 bits.
    """
    floats, wholes, part = vector(F32, LANES), vector(I32, LANES), BLOCK // LANES
    read = [build.read(x, floats, build.add(first, constant(LANES * i))) for i in range(part)]
    # Magnitudes are in order as their bits are, read as whole numbers, with infinity and NaN above all others: that
    # takes an instruction where a maximum of floats, which has NaN and two zeros to think of, takes many.
    sizes = [build.and_(build.bitcast(piece, wholes), constants([MAGNITUDE] * LANES, I32)) for piece in read]
    largest = sizes[0]
    for size in sizes[1:]:
        largest = build.own("llvm.umax.v16i32", wholes, largest, size)
    most = build.bitcast(build.own("llvm.vector.reduce.umax.v16i32", I32, largest), F32)
    top, none = ir.Constant(F32, TOP), ir.Constant(F32, 0.0)
    scale = build.fdiv(most, top)
    inverse = build.splat(
        build.select(build.fcmp_ordered("<", most, ir.Constant(F32, LEAST)), none, build.fdiv(top, most)), LANES
    )
    codes, rounded = [], []
    for piece in read:
        # Added to a number whose last bit counts ones, a float is rounded to the nearest whole number, even at a tie.
        shifted_up = build.fadd(build.fmul(piece, inverse), constants([ONES] * LANES, F32))
        rounded.append(build.sub(build.bitcast(shifted_up, wholes), constants([ONES_BITS] * LANES, I32)))
        codes.append(build.trunc(rounded[-1], vector(I8, LANES)))
    return codes, scale, rounded


def _sum_of(build: Writer, codes: list[Value], scale: Value) -> Value:
    """Adds codes up, times their scale."""
    total = functools.reduce(build.add, codes)
    return build.fmul(build.sitofp(build.own("llvm.vector.reduce.add.v16i32", I32, total), F32), scale)
