"""Holds what the kernels of products in tiles share: the memory they work with, and how numbers change places in it.

P parts of a block that have scales of their own   W numbers of 32 bits that a register holds
"""

import itertools

from llvmlite import ir

from gesso.kernels.host.activations import BLOCK, LANES
from gesso.kernels.host.dots import FLOATS, WIDTH, Dot
from gesso.kernels.host.layouts import Layout
from gesso.kernels.host.llvm_ir import F32, I32, I64, POINTER, VOID, Loop, Value, Writer, constant, zeros

TILE = LANES * LANES
"""Numbers of what comes out of a tile."""
CHUNK = 16
"""Blocks that sixteen rows are unpacked of at a time: they stay in the nearest cache."""
TOGETHER = 16
"""Pieces that are multiplied by what is unpacked."""
RING = 16
"""Tiles that are on their way from the registers, and one to write."""
_SLACK = LANES * LANES
"""Floats before the scales and the offsets of a chunk: those of blocks before it may be written once more."""
ROOMS = (
    CHUNK * BLOCK * LANES // 4 + _SLACK,
    CHUNK * 4 * LANES + _SLACK,
    CHUNK * 4 * LANES,
    (RING + 1) * TILE,
    TOGETHER * TILE,
)
"""Floats for the codes of sixteen rows, for their scales, their offsets, for tiles, and for what pieces add up to."""
QUARTER = 4
"""Numbers of 32 bits that stand in a quarter of a register of 512, within which instructions move them the fastest."""


def chunk_of(kind: Dot) -> int:
    """Returns how many blocks are unpacked at a time for tiles."""
    return CHUNK if kind == "amx" else CHUNK // 2


def planes_of(layout: Layout, kind: Dot) -> int:
    """Returns in how many parts codes are unpacked: AVX2 multiplies four bits of one at a time."""
    return 2 if layout.signed and kind == "avx2" else 1


def tile_scratch_size() -> int:
    """Returns how many floats of scratch memory a thread needs."""
    return sum(ROOMS)


class TileWriter(Writer):
    """Writes a kernel for a chunk of the blocks of sixteen rows of a matrix, or of the `live` first of them."""

    def __init__(self, module: ir.Module, name: str, layout: Layout, kind: Dot, pointers: int, wholes: int) -> None:
        super().__init__(module, name, VOID, [POINTER] * pointers + [I64] * wholes)
        self.made.linkage = "internal"
        self.made.attributes.add("noinline")
        self.layout, self.kind, self.parts, self.width = layout, kind, layout.parts, WIDTH[kind]
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
        """Turns as many vectors as each has numbers: lanes become vectors."""
        count, turned = len(rows), list[list[Value]]()
        for four in zip(*(rows[i::QUARTER] for i in range(QUARTER)), strict=True):
            pairs = [self._interleave_numbers(four[i], four[i + 1], 1) for i in (0, 2)]
            halves = zip(*pairs, strict=True)
            turned.append([each for low, high in halves for each in self._interleave_numbers(low, high, 2)])
        by_number = [self._turn_quarters(list(of_number)) for of_number in zip(*turned, strict=True)]
        return [by_number[lane % QUARTER][lane // QUARTER] for lane in range(count)]

    def _interleave_numbers(self, first: Value, second: Value, together: int) -> list[Value]:
        """Takes so many numbers of two vectors by turns: of each quarter its lower half, and its upper one."""
        count = first.type.count
        lanes = [
            [
                vector_ + quarter + half + start + lane
                for quarter in range(0, count, QUARTER)
                for start in range(0, QUARTER // 2, together)
                for vector_ in (0, count)
                for lane in range(together)
            ]
            for half in (0, QUARTER // 2)
        ]
        return [self.pick(first, second, half) for half in lanes]

    def _turn_quarters(self, rows: list[Value]) -> list[Value]:
        """Turns as many vectors as each has quarters of four numbers: quarters change places."""
        count, distance = len(rows) * QUARTER, len(rows) // 2
        while distance:
            # Of rows so far apart, the quarters that stand as far apart change places.
            far = distance * QUARTER
            low = [lane if not lane & far else count + lane - far for lane in range(count)]
            high = [lane + far if not lane & far else count + lane for lane in range(count)]
            turned = list(rows)
            for i in range(len(rows)):
                if not i & distance:
                    turned[i] = self.pick(rows[i], rows[i + distance], low)
                    turned[i + distance] = self.pick(rows[i], rows[i + distance], high)
            rows, distance = turned, distance // 2
        return rows
