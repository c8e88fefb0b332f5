"""Writes the kernel that multiplies sixteen rows of a packed matrix by a single row of activations: without tiles,
which would be nearly empty, and to the same bits.

    G blocks of 64 features   P parts of a block that have scales of their own
"""

from llvmlite import ir

from gesso.kernels.host.activations import BLOCK, GROUP, LANES
from gesso.kernels.host.dots import BYTES, FLOATS, dot, signed_dot, sum_lanes
from gesso.kernels.host.layouts import Layout, Weights
from gesso.kernels.host.llvm_ir import F32, I8, I32, Loop, Value, Writer, constant, zeros
from gesso.kernels.host.tile_unpacking import CHUNK, TileWriter


def write_straight(build: Writer, layout: Layout, turned: Value, straight: Value, blocks: Value) -> None:
    """Writes the codes of a row that is turned with others side by side, as the kernel of a single row reads them."""
    loop = Loop(build, constant(0), build.mul(blocks, constant(BLOCK // 4)))
    word = build.read(turned, I32, build.mul(loop.index, constant(GROUP)))
    if layout.signed:  # the instruction takes unsigned bytes first
        word = build.xor(word, constant(-0x7F7F7F80, I32))
    build.write(word, straight, loop.index)
    loop.close()


class RowWriter(TileWriter):
    """Writes the kernel for sixteen rows of a matrix, or for the `live` first of them, and one of activations."""

    def __init__(self, module: ir.Module, name: str, layout: Layout) -> None:
        super().__init__(module, name, layout, 8, 3)
        self.x, self.x_scales, self.x_sums, codes, scales, third, out, scratch = self.made.args[:8]
        first, live, blocks = self.made.args[8:]
        self.take(scratch, first, live, blocks, constant(0), blocks)
        chunk = Loop(self, constant(0), blocks, step=CHUNK, carried=[zeros(FLOATS)])
        self.begin, self.end = chunk.index, self.least(self.add(chunk.index, constant(CHUNK)), blocks)
        self.spread(scales, third)
        width = self.mul(blocks, constant(BLOCK * layout.bits // 8))
        rows = [self.row(constant(i)) for i in range(LANES)]
        matrix = [Weights(self.at(codes, self.mul(row, width), I8), scales, third, row) for row in rows]
        loop = Loop(self, self.begin, self.end, carried=chunk.carried)
        for place in self.ahead(matrix[0].codes, loop.index):
            self.ask_for(place, 2)
        total = loop.carried[0]
        for part, sums in enumerate(self._multiply(matrix, loop.index)):
            total = self._add(loop.index, part, sums, total)
        loop.close(total)
        chunk.close(loop.carried[0])
        self.write_lanes(self.scale_lanes(chunk.carried[0], scales, third), out)
        self.ret_void()

    def _multiply(self, matrix: list[Weights], block: Value) -> list[Value]:
        """Returns the sums of products of a block's parts, of sixteen rows each."""
        assert self.layout.codes is not None
        activations = self.read(self.x, BYTES, self.mul(block, constant(BLOCK)))
        products = []
        for weights in matrix:
            codes = self.layout.codes(self, weights, block)
            if self.layout.signed:
                products.append(signed_dot(self, "vnni512", activations, codes))
            else:
                products.append(dot(self, "vnni512", codes, activations))
        each = LANES // self.parts
        return [
            sum_lanes(self, [self.pick(row, row, range(part * each, part * each + each)) for row in products])
            for part in range(self.parts)
        ]

    def _add(self, block: Value, part: int, sums: Value, total: Value) -> Value:
        """Adds the products of a part of a block, times both scales, and of its offsets."""
        own = self.places(block)[part]
        factor = self._of_row(self.x_scales, block)
        if self.layout.scale != "row":
            factor = self.fmul(self.read(self.scales, FLOATS, own), factor)
        total = self.fma(self.sitofp(sums, FLOATS), factor, total)
        if not self.has_offsets:
            return total
        number = self.add(self.mul(block, constant(self.parts)), constant(part))
        return self.fma(self.read(self.offsets, FLOATS, own), self._of_row(self.x_sums, number), total)

    def _of_row(self, numbers: Value, block: Value) -> Value:
        return self.splat(self.read(numbers, F32, self.mul(block, constant(GROUP))), LANES)
