"""Writes the kernels that multiply sixteen rows of a packed matrix by one row of activations, two or four: without
tiles, which would be nearly empty, and to the same bits.

    G blocks of 64 features   P parts of a block that have scales of their own
"""

from llvmlite import ir

from gesso.kernels.host.activations import BLOCK, GROUP, LANES
from gesso.kernels.host.dots import BYTES, FLOATS, dot, signed_dot
from gesso.kernels.host.layouts import Layout, Weights
from gesso.kernels.host.llvm_ir import F32, I8, Loop, Value, constant, zeros
from gesso.kernels.host.tile_unpacking import CHUNK, TileWriter

FEW = (4, 2, 1)
"""Rows of activations that are multiplied without tiles."""


class RowWriter(TileWriter):
    """Writes the kernel for sixteen rows of a matrix, or for the `live` first of them, and `count` of activations.

    Where there are always sixteen, fewer registers say where they are.
    """

    def __init__(self, module: ir.Module, name: str, layout: Layout, count: int, *, whole: bool) -> None:
        super().__init__(module, name, layout, 8, 4)
        self.count = count
        self.x, self.x_scales, self.x_sums, codes, scales, third, out, scratch = self.made.args[:8]
        first, live, blocks, columns = self.made.args[8:]
        self.take(scratch, first, live, blocks, constant(0), blocks)
        chunk = Loop(self, constant(0), blocks, step=CHUNK, carried=[zeros(FLOATS)] * count)
        self.begin, self.end = chunk.index, self.least(self.add(chunk.index, constant(CHUNK)), blocks)
        self.spread(scales, third)
        width = self.mul(blocks, constant(BLOCK * layout.bits // 8))
        rows = [self.add(first, constant(i)) if whole else self.row(constant(i)) for i in range(LANES)]
        begin = self.at(codes, self.mul(first, width), I8)
        places = [self.at(begin, self.mul(self.sub(row, first), width), I8) for row in rows]
        matrix = [Weights(place, scales, third, row) for place, row in zip(places, rows, strict=True)]
        loop = Loop(self, self.begin, self.end, carried=chunk.carried)
        for place in self.ahead(matrix[0].codes, loop.index):
            self.ask_for(place, 2)
        products = self._multiply(matrix, loop.index)
        loop.close(
            *(self._add(loop.index, r, *pair) for r, pair in enumerate(zip(products, loop.carried, strict=True)))
        )
        chunk.close(*loop.carried)
        for r, total in enumerate(chunk.carried):
            target = self.at(out, self.mul(columns, constant(r)), F32)
            self.write_lanes(self.scale_lanes(total, scales, third), target)
        self.ret_void()

    def _multiply(self, matrix: list[Weights], block: Value) -> list[list[Value]]:
        """Returns the products of a block, for each row of activations those of its parts: of sixteen rows of the
        matrix each."""
        assert self.layout.codes is not None
        every = self.mul(self.blocks, constant(BLOCK))
        rows = [
            self.read(self.x, BYTES, self.sub(self.mul(block, constant(BLOCK)), self.mul(every, constant(r))))
            for r in range(self.count)
        ]
        codes = [self.layout.codes(self, weights, block) for weights in matrix]
        return [[self._sum(activations, codes, part) for part in range(self.parts)] for activations in rows]

    def _sum(self, activations: Value, codes: list[Value], part: int) -> Value:
        """Adds up the lanes of a part, of sixteen rows: as soon as there are two, so that few registers are held."""
        if len(codes) == 1:
            product = self._product(activations, codes[0])
            each = LANES // self.parts
            return product if self.parts == 1 else self.pick(product, product, range(part * each, (part + 1) * each))
        half = len(codes) // 2
        first, second = (self._sum(activations, some, part) for some in (codes[:half], codes[half:]))
        lanes, width = first.type.count, LANES // self.parts // half
        if width <= 1:
            return self.pick(first, second, range(2 * lanes))
        low = [begin + lane for begin in range(0, 2 * lanes, width) for lane in range(width // 2)]
        return self.add(*(self.pick(first, second, [lane + way for lane in low]) for way in (0, width // 2)))

    def _product(self, activations: Value, codes: Value) -> Value:
        if self.layout.signed:
            return signed_dot(self, "vnni512", activations, codes)
        return dot(self, "vnni512", codes, activations)

    def _add(self, block: Value, r: int, sums: list[Value], total: Value) -> Value:
        """Adds the products of a block's parts, times both scales, and of its offsets."""
        for own, part in zip(self.places(block), range(self.parts), strict=True):
            factor = self._of_row(self.x_scales, block, r)
            if self.layout.scale != "row":
                factor = self.fmul(self.read(self.scales, FLOATS, own), factor)
            total = self.fma(self.sitofp(sums[part], FLOATS), factor, total)
            if self.has_offsets:
                number = self.add(self.mul(block, constant(self.parts)), constant(part))
                total = self.fma(self.read(self.offsets, FLOATS, own), self._of_row(self.x_sums, number, r), total)
        return total

    def _of_row(self, numbers: Value, block: Value, r: int) -> Value:
        place = self.add(self.mul(block, constant(GROUP)), constant(r))
        return self.splat(self.read(numbers, F32, place), LANES)
