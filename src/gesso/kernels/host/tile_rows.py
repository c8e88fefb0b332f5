"""Writes the kernels that multiply sixteen rows of a packed matrix by one row of activations, two or four: without
tiles, which would be nearly empty, and to the same bits.

The matrix is read row by row, a chunk of each, as memory sends what stands side by side the fastest (`row_chunks`).
Products of a part of a block are added up to a whole number; those of sixteen rows are turned, and go times both scales
into one fp32 lane for each row, part by part in order.

    G blocks of 64 features   P parts of a block that have scales of their own
"""

from llvmlite import ir

from gesso.kernels.host.activations import BLOCK, GROUP, LANES, straight_width
from gesso.kernels.host.dots import FLOATS, WHOLES, Dot
from gesso.kernels.host.layouts import Layout
from gesso.kernels.host.llvm_ir import F32, I8, I32, Loop, Value, constant, vector, zeros
from gesso.kernels.host.row_chunks import Chunk
from gesso.kernels.host.tile_scales import ScalesWriter
from gesso.kernels.host.tile_writer import CHUNK, TILE

FEW = (4, 2, 1)
"""Rows of activations that are multiplied without tiles."""
_SIZES = (CHUNK, 8, 4)
"""Blocks that are multiplied of a chunk that is not whole: as few of these as it has no more than."""


class RowWriter(ScalesWriter):
    """Writes the kernel for sixteen rows of a matrix, or for the `live` first of them, and `count` of activations.

    Memory is asked for the sixteen rows that are told to follow.
    """

    def __init__(self, module: ir.Module, name: str, layout: Layout, count: int, kind: Dot) -> None:
        super().__init__(module, name, layout, kind, 9, 4)
        x, self.x_scales, self.x_sums, codes, scales, third, out, scratch, self.following = self.made.args[:9]
        first, live, blocks, columns = self.made.args[9:]
        self.take(scratch, first, live, blocks, constant(0), blocks)
        self.block_bytes = constant(BLOCK * layout.bits // 8)
        self.row_bytes, apart = self.mul(blocks, self.block_bytes), straight_width(self, blocks)
        self.x = [self.at(x, self.mul(apart, constant(-r)), I8) for r in range(count)]
        self.matrix = self.at(codes, self.mul(first, self.row_bytes), I8)
        chunks = Loop(self, constant(0), blocks, step=CHUNK, carried=[zeros(FLOATS)] * count)
        self.begin, self.end = chunks.index, self.least(self.add(chunks.index, constant(CHUNK)), blocks)
        self.held = self.sub(self.end, self.begin)
        self.spread(scales, third)
        self._multiply_chunk()
        loop = Loop(self, self.begin, self.end, carried=chunks.carried)
        loop.close(*(self._add(loop.index, r, total) for r, total in enumerate(loop.carried)))
        chunks.close(*loop.carried)
        for r, total in enumerate(chunks.carried):
            target = self.at(out, self.mul(columns, constant(r)), F32)
            self.write_lanes(self.scale_lanes(total, scales, third), target)
        self.ret_void()

    def _multiply_chunk(self) -> None:
        with self.if_else(self.icmp_signed("==", self.held, constant(CHUNK))) as (whole, rest):
            with whole:
                self._multiply(CHUNK, whole=True)
            with rest:
                for most, least in zip(_SIZES, (*_SIZES[1:], 0), strict=True):
                    more = self.icmp_signed(">", self.held, constant(least))
                    with self.if_then(self.and_(more, self.icmp_signed("<=", self.held, constant(most)))):
                        self._multiply(most, whole=False)

    def _multiply(self, blocks: int, *, whole: bool) -> None:
        """Writes the sums of products of the chunk's parts, sixteen rows side by side: for each row of activations, and
        each part."""
        before = self.mul(self.begin, constant(BLOCK))
        held = None if whole else self.mul(self.held, self.block_bytes)
        chunk = Chunk(self, self.layout, self.kind, blocks, [self.at(x, before, I8) for x in self.x], held)
        rows = Loop(self, constant(0), constant(LANES))
        row = self.least(rows.index, self.sub(self.live, constant(1)))  # the last one once more, for those that lack
        place = self.add(self.mul(row, self.row_bytes), self.mul(self.begin, self.block_bytes))
        for r, groups in enumerate(chunk.sums(self.at(self.matrix, place, I8), self._following(rows.index))):
            for group, sums in enumerate(groups):
                tile = constant(r * self.parts * TILE + group * LANES * self.width)
                self.write(sums, self.ring, self.add(tile, self.mul(rows.index, constant(self.width))))
        rows.close()
        loop = Loop(self, constant(0), constant(len(self.x)))
        for group in range(chunk.groups):
            tile = self.add(self.mul(loop.index, constant(self.parts * TILE)), constant(group * LANES * self.width))
            for row in range(0, LANES, self.width):
                places = (self.add(tile, constant(i * self.width)) for i in range(row, row + self.width))
                made = [self.read(self.ring, vector(I32, self.width), place) for place in places]
                for part, sums in zip(chunk.order, self.turn(made), strict=True):
                    self.write(sums, self.codes, self.add(tile, constant(part * LANES + row)))
        loop.close()

    def _following(self, row: Value) -> Value:
        """Returns what memory is asked for while a row's chunk is read: as much of the rows that follow, in order."""
        before = self.add(self.mul(self.begin, constant(LANES)), self.mul(row, self.held))
        return self.at(self.following, self.mul(before, self.block_bytes), I8)

    def _add(self, block: Value, r: int, total: Value) -> Value:
        """Adds the products of a block's parts, times both scales, and of its offsets."""
        for part, own in enumerate(self.places(block)):
            factor = self._of_row(self.x_scales, block, r)
            if self.layout.scale != "row":
                factor = self.fmul(self.read(self.scales, FLOATS, own), factor)
            made = self.read(self.codes, WHOLES, self.add(own, constant(r * self.parts * TILE)))
            total = self.fma(self.sitofp(made, FLOATS), factor, total)
            if self.has_offsets:
                number = self.add(self.mul(block, constant(self.parts)), constant(part))
                total = self.fma(self.read(self.offsets, FLOATS, own), self._of_row(self.x_sums, number, r), total)
        return total

    def _of_row(self, numbers: Value, block: Value, r: int) -> Value:
        place = self.add(self.mul(block, constant(GROUP)), constant(r))
        return self.splat(self.read(numbers, F32, place), LANES)
