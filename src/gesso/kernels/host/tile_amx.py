"""Writes the kernel that multiplies sixteen unpacked rows of a matrix by sixteen rows of activations, by AMX.

One instruction makes 16 x 16 whole numbers of a block, or of a part of it.
"""

from llvmlite import ir

from gesso.kernels.host import amx
from gesso.kernels.host.activations import BLOCK, GROUP, LANES
from gesso.kernels.host.dots import FLOATS, WHOLES, Dot
from gesso.kernels.host.layouts import Layout
from gesso.kernels.host.llvm_ir import F32, I8, Loop, Value, constant, zeros
from gesso.kernels.host.tile_sums import TileSums
from gesso.kernels.host.tile_writer import TILE

SUMS, CODES, ROWS = 0, 4, 6
"""Tiles: of what comes out, of the matrix and of activations."""
_BEHIND = 2
"""Blocks that are multiplied before the first one's tiles are read."""


def write_tile_shapes(module: ir.Module, name: str, layout: Layout) -> Value:
    """Writes the configuration of AMX that an `AmxTile` takes."""
    parts, full = layout.parts, (LANES, 4 * LANES)
    used = {SUMS: full, CODES: (LANES, BLOCK // parts), ROWS: (LANES // parts, 4 * LANES)}
    return amx.write_configuration(module, name, used)


class AmxTile(TileSums):
    """Writes that kernel."""

    def __init__(self, module: ir.Module, name: str, layout: Layout, kind: Dot) -> None:
        super().__init__(module, name, layout, kind)
        if layout.bits == 8:  # read where they are
            here, whole = self.at(self.rows, self.mul(self.begin, constant(BLOCK)), I8), self.is_whole()
            self.unpacked = self.select(whole, here, self.unpacked)
            self.step, self.apart = (
                self.select(whole, *pair) for pair in ((self.apart, self.step), (self.row_bytes, self.apart))
            )
        # What a tile is written to is read some blocks later: memory does not pass it on at once.
        behind = self.least(self.sub(self.end, self.begin), constant(_BEHIND))
        edge = self.add(self.begin, behind)
        loop = Loop(self, self.begin, edge)
        self._make(loop.index)
        loop.close()
        loop = Loop(self, edge, self.end, carried=self._begin())
        self._make(loop.index)
        loop.close(*self._add(self.sub(loop.index, behind), loop.carried))
        loop = Loop(self, self.sub(self.end, behind), self.end, carried=loop.carried)
        loop.close(*self._add(loop.index, loop.carried))
        for i, each in enumerate(loop.carried):
            self.write(each, self.total, constant(i * LANES))
        with self.if_then(self.icmp_signed("==", self.end, self.blocks)):
            self.write_rows()
        self.ret_void()

    def _begin(self) -> list[Value]:
        """Returns what blocks before have added up to: zeros where there are none."""
        is_first = self.icmp_signed("==", self.begin, constant(0))
        sums = [self.read(self.total, FLOATS, constant(i * LANES)) for i in range(LANES)]
        return [self.select(is_first, zeros(FLOATS), each) for each in sums]

    def _make(self, block: Value) -> None:
        """Writes the sums of products of each part of a block."""
        for part in range(self.parts):
            amx.zero(self, SUMS)
            amx.load(self, CODES, self.codes_of(block, part), self.apart)
            amx.load(self, ROWS, self.words_of(block, part), constant(4 * GROUP))
            amx.multiply(self, SUMS, CODES, ROWS)
            amx.store(self, SUMS, self._made(block, part), constant(4 * LANES))

    def _made(self, block: Value, part: int) -> Value:
        """Returns where the sums of a part are written to."""
        turn = self.and_(self.add(self.mul(block, constant(self.parts)), constant(part)), constant(4 * self.parts - 1))
        return self.at(self.ring, self.mul(turn, constant(TILE)), F32)

    def _add(self, block: Value, sums: list[Value]) -> list[Value]:
        """Adds the products of a block."""
        sums = list(sums)
        for part, own in enumerate(self.places(block)):
            made, rows = self._made(block, part), self.of_rows(block, part)
            for i, total in enumerate(sums):
                self.ask_beside(block, part, constant(i), turn=i)
                products = self.read(made, WHOLES, constant(i * LANES))
                sums[i] = self.added(total, products, self.add(own, constant(i)), rows)
        return sums
