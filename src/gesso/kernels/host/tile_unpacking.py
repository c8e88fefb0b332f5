"""Writes the kernel that unpacks rows of a packed matrix for products in tiles, by AMX (`tile_products`).

Sixteen rows are unpacked at a time, a chunk of their blocks after another: codes, a byte each, stand as a tile's rows
do, and scales and offsets of sixteen rows side by side. What is unpacked stays in the nearest cache.

    P parts of a block that have scales of their own
"""

import itertools

from llvmlite import ir

from gesso.kernels.host.activations import BLOCK, LANES
from gesso.kernels.host.dots import FLOATS
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
from gesso.kernels.host.pieces import LINE

TILE = LANES * LANES
"""Numbers of what comes out of a tile."""
CHUNK = 16
"""Blocks that sixteen rows are unpacked of at a time: they stay in the nearest cache."""
TOGETHER = 16
"""Pieces that are multiplied by what is unpacked."""
RING = 16
"""Tiles that are on their way from the registers, and one to write."""
ROOMS = (CHUNK * BLOCK * LANES // 4, CHUNK * 4 * LANES, CHUNK * 4 * LANES, (RING + 1) * TILE, TOGETHER * TILE)
"""Floats for the codes of sixteen rows, for their scales, their offsets, for tiles, and for what pieces add up to."""
AHEAD = 2048
"""Bytes behind the rows at hand from which on memory is asked for."""


def tile_scratch_size() -> int:
    """Returns how many floats of scratch memory a thread needs."""
    return sum(ROOMS)


class TileWriter(Writer):
    """Writes a kernel for a chunk of the blocks of sixteen rows of a matrix, or of the `live` first of them."""

    def __init__(self, module: ir.Module, name: str, layout: Layout, pointers: int, wholes: int) -> None:
        super().__init__(module, name, VOID, [POINTER] * pointers + [I64] * wholes)
        self.made.linkage = "internal"
        self.made.attributes.add("noinline")
        self.layout, self.parts = layout, layout.parts
        self.has_offsets = layout.offsets or layout.scale == "half"

    def take(self, scratch: Value, first: Value, live: Value, blocks: Value, begin: Value, end: Value) -> None:
        """Takes what all these kernels are given: the sixteen rows' first one, how many there are, and the chunk."""
        rooms = itertools.accumulate(ROOMS[:-1], initial=0)
        self.codes, self.scales, self.offsets, self.ring, self.held = (
            self.at(scratch, constant(room), F32) for room in rooms
        )
        self.first, self.live, self.blocks, self.begin, self.end = first, live, blocks, begin, end

    def row(self, i: Value) -> Value:
        """Returns the number of a row; those that the matrix lacks are its last one, once more."""
        return self.add(self.first, self.least(i, self.sub(self.live, constant(1))))

    def is_whole(self) -> Value:
        """Says whether there are all sixteen rows."""
        return self.icmp_signed("==", self.live, constant(LANES))

    def ahead(self, codes: Value, block: Value) -> list[Value]:
        """Returns the lines that stand behind the sixteen rows at hand: as many with each block as it has."""
        part = LANES * BLOCK * self.layout.bits // 8
        near = self.at(codes, self.mul(self.add(self.blocks, block), constant(part)), I8)
        return [self.at(near, constant(AHEAD + line), I8) for line in range(0, part, LINE)]

    def places(self, block: Value) -> list[Value]:
        """Returns where the scales of a block's parts begin."""
        first = self.mul(self.sub(block, self.begin), constant(self.parts * LANES))
        return [self.add(first, constant(part * LANES)) for part in range(self.parts)]

    def row_scales(self, scales: Value, third: Value) -> list[Value]:
        """Reads what the sums of sixteen rows are multiplied by; nothing where scales belong to blocks."""
        if self.layout.scale in ("block", "half"):
            return []
        rows = [self.row(constant(i)) for i in range(LANES)]
        if self.layout.scale == "row":
            return [self.read(scales, F32, row) for row in rows]
        return [self.fmul(self.read(third, F32, row), ir.Constant(F32, self.layout.unit)) for row in rows]

    def scale_lanes(self, sums: Value, scales: Value, third: Value) -> Value:
        """Multiplies the sum of each row of the matrix by what belongs to it."""
        lanes = zeros(FLOATS)
        for i, factor in enumerate(factors := self.row_scales(scales, third)):
            lanes = self.insert_element(lanes, factor, constant(i, I32))
        return self.fmul(sums, lanes) if factors else sums

    def write_lanes(self, result: Value, out: Value) -> None:
        """Writes the lanes of rows that there are."""
        with self.if_else(self.is_whole()) as (whole, rest):
            with whole:
                self.write(result, out)
            with rest:
                spare = self.at(self.ring, constant(RING * TILE), F32)
                self.write(result, spare)
                loop = Loop(self, constant(0), self.live)
                self.write(self.read(spare, F32, loop.index), out, loop.index)
                loop.close()

    def turn(self, rows: list[Value]) -> list[Value]:
        """Turns sixteen vectors of sixteen numbers: lanes become vectors."""
        distance = LANES // 2
        while distance:
            # Of rows so far apart, the numbers that stand as far apart change places.
            low = [lane if not lane & distance else LANES + lane - distance for lane in range(LANES)]
            high = [lane + distance if not lane & distance else LANES + lane for lane in range(LANES)]
            turned = list(rows)
            for i in range(LANES):
                if not i & distance:
                    turned[i] = self.pick(rows[i], rows[i + distance], low)
                    turned[i + distance] = self.pick(rows[i], rows[i + distance], high)
            rows, distance = turned, distance // 2
        return rows

    def _turn_words(self, rows: list[Value]) -> list[Value]:
        """Turns sixteen vectors of sixteen numbers of 16 bits, half of which would leave a register empty."""
        half = LANES // 2
        turned = [self.pick(*pair, range(2 * LANES)) for pair in zip(rows[:half], rows[half:], strict=True)]
        for together in (1, 2, 4):  # words of a row that stand side by side, then those of two, of four
            pairs = list(zip(turned[::2], turned[1::2], strict=True))
            turned = [self._interleave(*pair, together, first) for first in (0, half // 2) for pair in pairs]
        turned = [turned[place] for place in (0, 4, 2, 6, 1, 5, 3, 7)]
        ends = [[*range(begin, begin + half), *range(LANES + begin, LANES + begin + half)] for begin in (0, half)]
        return [self.pick(each, each, lanes) for lanes in ends for each in turned]

    def _interleave(self, first: Value, second: Value, together: int, begin: int) -> Value:
        """Takes words of two vectors by turns: of each eight the four from `begin` on."""
        lanes = [
            vector_ + eight + begin + word
            for eight in range(0, 2 * LANES, LANES // 2)
            for start in range(0, LANES // 4, together)
            for vector_ in (0, 2 * LANES)
            for word in range(start, start + together)
        ]
        return self.pick(first, second, lanes)

    def spread(self, scales: Value, third: Value) -> None:
        """Writes the scales and offsets of the chunk, those of sixteen rows side by side."""
        if self.layout.scale != "row":
            self._spread(scales, self.scales, quarters=self.layout.scale == "quarter")
        if self.has_offsets:
            self._spread(third, self.offsets, quarters=False)

    def _spread(self, numbers: Value, place: Value, *, quarters: bool) -> None:
        """Writes the scales or offsets of the chunk, those of sixteen rows side by side."""
        each, kind = self.layout.blocks_per_scale, I8 if quarters else I16
        of_row = self.mul(self.udiv(self.blocks, constant(each)), constant(self.parts))
        begin, end = (
            self.mul(self.udiv(edge, constant(each)), constant(self.parts)) for edge in (self.begin, self.end)
        )
        loop = Loop(self, begin, end, step=LANES)
        left = self.splat(self.trunc(self.sub(end, loop.index), I32), LANES)
        mask = self.icmp_signed("<", constants(list(range(LANES)), I32), left)
        some = vector(kind, LANES)
        rows = []
        for i in range(LANES):
            address = self.at(numbers, self.add(self.mul(self.row(constant(i)), of_row), loop.index), kind)
            read = self.own(
                f"llvm.masked.load.v{LANES}i{kind.width}.p0",
                some,
                address,
                constant(kind.width // 8, I32),
                mask,
                zeros(some),
            )
            rows.append(self.zext(read, vector(I16, LANES)) if quarters else read)
        unit = constants([self.layout.unit] * LANES, F32)
        turned = [
            e4m3(self, self.trunc(each, some)) if quarters else self.bfloat16(each) for each in self._turn_words(rows)
        ]
        if self.layout.scale == "block" and self.layout.unit != 1:
            turned = [self.fmul(each, unit) for each in turned]
        for v, held in enumerate(turned):
            near = self.add(self.sub(loop.index, begin), constant(v))
            for copy in range(each):
                lane = self.mul(self.add(self.mul(near, constant(each)), constant(copy)), constant(LANES))
                self.write(held, place, lane)
        loop.close()


class UnpackWriter(TileWriter):
    """Writes the kernel that unpacks a chunk of sixteen rows: their codes, a byte each, by blocks and rows, and scales
    and offsets by parts of blocks and rows."""

    def __init__(self, module: ir.Module, name: str, layout: Layout) -> None:
        super().__init__(module, name, layout, 4, 5)
        codes, scales, third, scratch = self.made.args[:4]
        self.take(scratch, *self.made.args[4:])
        width = self.mul(self.blocks, constant(BLOCK * layout.bits // 8))
        self.spread(scales, third)
        # Bytes are read where they are, but for those of rows that the matrix lacks.
        count = constant(LANES)
        if layout.bits == 8:
            count = self.select(self.is_whole(), constant(0), count)
        rows = Loop(self, constant(0), count)
        row = self.row(rows.index)
        weights = Weights(self.at(codes, self.mul(row, width), I8), scales, third, row)
        loop = Loop(self, self.begin, self.end)
        near = self.mul(self.sub(loop.index, self.begin), constant(LANES))
        place = self.mul(self.add(near, rows.index), constant(BLOCK))
        self.write(layout.codes(self, weights, loop.index), self.codes, place)
        loop.close()
        rows.close()
        self.ret_void()
