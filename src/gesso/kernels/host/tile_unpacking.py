"""Writes the kernel that unpacks rows of a packed matrix for products in tiles (`tile_products`).

Sixteen rows are unpacked at a time, a chunk of their blocks after another: codes, a byte each, stand as a tile's rows
do, and scales and offsets of sixteen rows side by side (`tile_scales`). What is unpacked stays in the nearest cache.
"""

from llvmlite import ir

from gesso.kernels.host.activations import BLOCK, LANES
from gesso.kernels.host.dots import Dot, raised
from gesso.kernels.host.layouts import Layout, nibbles
from gesso.kernels.host.llvm_ir import I8, Loop, constant
from gesso.kernels.host.tile_scales import ScalesWriter
from gesso.kernels.host.tile_writer import chunk_of, planes_of


class UnpackWriter(ScalesWriter):
    """Writes the kernel that unpacks a chunk of sixteen rows: their codes, a byte each, by blocks and rows, and scales
    and offsets by parts of blocks and rows."""

    def __init__(self, module: ir.Module, name: str, layout: Layout, kind: Dot) -> None:
        super().__init__(module, name, layout, kind, 4, 5)
        codes, scales, third, scratch = self.made.args[:4]
        self.take(scratch, *self.made.args[4:])
        width = self.mul(self.blocks, constant(BLOCK * layout.bits // 8))
        self.spread(scales, third)
        count, is_raised = constant(LANES), layout.signed and kind != "amx"
        if layout.bits == 8 and not is_raised:  # read where they are, but for those of rows that are not there
            count = self.select(self.is_whole(), constant(0), count)
        rows = Loop(self, constant(0), count)
        row = self.at(codes, self.mul(self.row(rows.index), width), I8)
        loop = Loop(self, self.begin, self.end)
        near = self.mul(self.sub(loop.index, self.begin), constant(LANES))
        place = self.mul(self.add(near, rows.index), constant(BLOCK))
        unpacked = layout.codes(self, row, loop.index)
        unpacked = self.xor(unpacked, raised(BLOCK)) if is_raised else unpacked
        planes = [unpacked] if planes_of(layout, kind) == 1 else [*nibbles(self, unpacked)]
        for i, plane in enumerate(planes):
            self.write(plane, self.codes, self.add(place, constant(i * chunk_of(kind) * BLOCK * LANES)))
        loop.close()
        rows.close()
        self.ret_void()
