"""Writes what kernels share that multiply sixteen unpacked rows of a matrix by sixteen rows of activations.

A product's whole numbers, exact, of a block or a part of it, go times both scales into an fp32 lane for each row of
activations, part by part in order: a row's bits depend neither on how many stand beside it nor on what multiplies
(`tile_amx`, `tile_dots`).

    P parts of a block that have scales of their own   W numbers of 32 bits that a register holds
"""

from llvmlite import ir

from gesso.kernels.host.activations import BLOCK, GROUP, LANES
from gesso.kernels.host.dots import FLOATS, Dot
from gesso.kernels.host.layouts import Layout
from gesso.kernels.host.llvm_ir import F32, I8, I32, Loop, Value, constant, vector
from gesso.kernels.host.pieces import LINE
from gesso.kernels.host.tile_writer import TILE, TileWriter


class TileSums(TileWriter):
    """Writes a kernel that multiplies a chunk of sixteen rows by sixteen rows of activations, of which `size` are
    written."""

    def __init__(self, module: ir.Module, name: str, layout: Layout, kind: Dot) -> None:
        super().__init__(module, name, layout, kind, 9, 8)
        self.x, self.x_scales, self.x_sums, codes, *self.factors, self.out, scratch, self.following = self.made.args[:9]
        self.take(scratch, *self.made.args[9:14])
        self.columns, self.size, number = self.made.args[14:]
        self.row_bytes = self.mul(self.blocks, constant(BLOCK * layout.bits // 8))
        self.rows = self.at(codes, self.mul(self.first, self.row_bytes), I8)
        self.unpacked, self.step, self.apart = self.codes, constant(BLOCK * LANES), constant(BLOCK)
        self.total = self.at(self.held, self.mul(number, constant(TILE)), F32)
        """What blocks of chunks before have added up to."""

    def ask_beside(self, block: Value, part: int, row: Value, turn: int) -> None:
        """Asks memory for a line of the rows that follow beside the products of some rows of the matrix, a block's
        lines with a block's rows: many at once hold others up.

        Args:
            row: that is multiplied.
            turn: of it among those that are multiplied together.
        """
        bytes_ = LANES * BLOCK * self.layout.bits // 8
        each = LANES * self.parts * LINE // bytes_  # rows of a part that share a line
        if turn % each == 0:
            line = self.udiv(self.add(row, constant(part * LANES)), constant(each))
            place = self.add(self.mul(block, constant(bytes_)), self.mul(line, constant(LINE)))
            self.ask_for(self.at(self.following, place, I8), 2)

    def words_of(self, block: Value, part: int) -> Value:
        """Returns where the activations of a part of a block stand, four neighbours of each row at a time."""
        step = BLOCK // 4
        place = self.add(self.mul(block, constant(step)), constant(part * step // self.parts))
        return self.at(self.x, self.mul(place, constant(GROUP)), I32)

    def codes_of(self, block: Value, part: int) -> Value:
        """Returns where the unpacked codes of a part of a block of the first row stand."""
        held = self.at(self.unpacked, self.mul(self.sub(block, self.begin), self.step), I8)
        return self.at(held, constant(part * BLOCK // self.parts), I8)

    def of_rows(self, block: Value, part: int) -> tuple[Value, Value | None]:
        """Reads what a part of a block of each row of activations is multiplied by, and its sum where there are
        offsets."""
        number = block
        if self.layout.scale == "half":
            number = self.add(self.mul(block, constant(self.parts)), constant(part))
        sums = self._of_rows(self.x_sums, number) if self.has_offsets else None
        return self._of_rows(self.x_scales, block), sums

    def _of_rows(self, numbers: Value, block: Value) -> Value:
        """Reads what belongs to each row of activations into its lane."""
        return self.read(numbers, FLOATS, self.mul(block, constant(GROUP)))

    def added(self, total: Value, made: Value, place: Value, rows: tuple[Value, Value | None]) -> Value:
        """Adds the products of a part of a block of one row of the matrix, times both scales, and of its offset.

        Args:
            made: sums of products, whole numbers.
            place: of the row's scale and offset.
            rows: what `of_rows` returns.
        """
        factor, sums = rows
        if self.layout.scale != "row":
            factor = self.fmul(self._of_matrix(self.scales, place), factor)
        total = self.fma(self.sitofp(made, FLOATS), factor, total)
        return total if sums is None else self.fma(self._of_matrix(self.offsets, place), sums, total)

    def _of_matrix(self, numbers: Value, place: Value) -> Value:
        """Reads what belongs to a row of the matrix into all lanes."""
        return self.splat(self.read(numbers, F32, place), LANES)

    def write_rows(self) -> None:
        """Writes the first `size` lanes of all sums as rows, times what belongs to rows of the matrix."""
        factors, width = self.row_scales(*self.factors), self.width
        for first in range(0, LANES, width):
            for lane in range(0, LANES, width):
                places = (constant(i * LANES + lane) for i in range(first, first + width))
                sums = [self.read(self.total, vector(F32, width), place) for place in places]
                if factors:
                    own = (self.splat(factor, width) for factor in factors[first : first + width])
                    sums = [self.fmul(*pair) for pair in zip(sums, own, strict=True)]
                for i, row in enumerate(self.turn(sums), lane):
                    self.write(row, self.ring, constant(i * LANES + first))
        loop = Loop(self, constant(0), self.size)
        row = self.read(self.ring, FLOATS, self.mul(loop.index, constant(LANES)))
        self.write_lanes(row, self.at(self.out, self.mul(loop.index, self.columns), F32))
        loop.close()
