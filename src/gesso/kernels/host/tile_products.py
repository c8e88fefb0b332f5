"""Writes the kernels that multiply rows of 8-bit activations by packed weights in tiles, by AMX.

    M rows   N rows of a matrix, what comes out   G blocks of 64 features   P parts of a block that have scales

Sixteen rows of a matrix are unpacked into memory that stays near, and multiplied with up to sixteen rows of
activations: one instruction makes 16 x 16 whole numbers, exact, of a block or a part of it, and these go into one fp32
lane each, times both scales. Part by part in order: a row's bits do not depend on how many stand beside it.
"""

from llvmlite import ir

from gesso.kernels.host import amx
from gesso.kernels.host.activations import BLOCK, HEADER, LANES
from gesso.kernels.host.dots import FLOATS, WHOLES
from gesso.kernels.host.layouts import Layout
from gesso.kernels.host.llvm_ir import F32, I8, I32, I64, POINTER, VOID, Loop, Value, Writer, constant, zeros
from gesso.kernels.host.pieces import OUT, ROW, SIZE, Run, word_of
from gesso.kernels.host.tile_unpacking import CHUNK, RING, TILE, TOGETHER, TileWriter, UnpackWriter, parts_of

SUMS, CODES, ROWS = 0, 4, 6
"""Tiles: of what comes out, of the matrix and of activations."""
_BEHIND = 2
"""Blocks that are multiplied before the first one's tiles are read."""


def write_multiply_tiles(module: ir.Module, name: str, layout: Layout) -> None:
    """Writes the kernel that `products.write_multiply` would, for activations that were rounded in turned order."""
    shapes = {single: _write_shapes(module, f"{name}_shapes_{single:d}", layout, single) for single in (False, True)}
    unpack = UnpackWriter(module, f"{name}_unpack", layout).made
    inner = {single: _Tile(module, f"{name}_{single:d}", layout, single=single).made for single in (False, True)}
    build = Writer(module, name, VOID, [POINTER] * 9 + [I64] * 5)
    x, x_scales, x_sums, codes, scales, third, out, scratch, pieces = build.made.args[:9]
    count, columns, blocks, begin, end = build.made.args[9:]
    stride, x = build.read(x, I64), build.at(x, constant(HEADER), I8)
    shaped = build.alloca(I64)  # for a single row, or not; or for none yet
    build.write(constant(-1), shaped)
    run = Run(build, pieces, count)
    before = build.mul(run.matrix, columns)  # rows of the matrices that come before
    groups = Loop(build, run.first, run.end, step=TOGETHER)
    last = build.least(build.add(groups.index, constant(TOGETHER)), run.end)
    tiles = Loop(build, begin, end, step=LANES)
    live = build.least(build.sub(end, tiles.index), constant(LANES))
    chunks = Loop(build, constant(0), blocks, step=CHUNK)
    until = build.least(build.add(chunks.index, constant(CHUNK)), blocks)
    of_matrix = [build.add(before, tiles.index), live, blocks, chunks.index, until]
    build.call(unpack, [codes, scales, third, scratch, *of_matrix])
    loop = Loop(build, groups.index, last)
    row, size, first_out = (build.read(pieces, I64, word_of(build, loop.index, word)) for word in (ROW, SIZE, OUT))
    rows = [build.at(x, row, I32), build.at(x_scales, row, F32), build.at(x_sums, row, F32)]
    target = build.at(out, build.add(build.mul(first_out, columns), tiles.index), F32)
    shared = [*rows, codes, scales, third, target, scratch, *of_matrix, stride, columns, size]
    number = build.sub(loop.index, groups.index)
    wanted = build.zext(build.icmp_signed("==", size, constant(1)), I64)
    for single in (False, True):
        with build.if_then(build.icmp_signed("==", wanted, constant(int(single)))):
            with build.if_then(build.icmp_signed("!=", build.read(shaped, I64), wanted)):
                amx.configure(build, shapes[single])
                build.write(wanted, shaped)
            build.call(inner[single], [*shared, number])
    for each in (loop, chunks, tiles, groups, run):
        each.close()
    amx.release(build)
    build.ret_void()


def _write_shapes(module: ir.Module, name: str, layout: Layout, single: bool) -> Value:
    """Writes the tiles' shapes for sixteen rows of activations, or for a single one."""
    parts, across = parts_of(layout), 4 if single else 4 * LANES
    shapes = {SUMS: (LANES, across), CODES: (LANES, BLOCK // parts), ROWS: (LANES // parts, across)}
    return amx.write_configuration(module, name, shapes)


class _Tile(TileWriter):
    """Writes the kernel that multiplies a chunk of sixteen rows by sixteen rows of activations, of which `size` are
    written, or by a `single` one."""

    def __init__(self, module: ir.Module, name: str, layout: Layout, *, single: bool) -> None:
        super().__init__(module, name, layout, 8, 9)
        self.single = single
        x, x_scales, x_sums, codes, scales, third, out, scratch = self.made.args[:8]
        self.take(scratch, *self.made.args[8:13])
        self.stride, columns, size, number = self.made.args[13:]
        width = self.mul(self.blocks, constant(BLOCK * layout.bits // 8))
        rows = self.at(codes, self.mul(self.first, width), I8)
        self.unpacked, self.step, self.apart = self.codes, constant(BLOCK * LANES), constant(BLOCK)
        if layout.bits == 8:
            here, whole = self.at(rows, self.mul(self.begin, constant(BLOCK)), I8), self.is_whole()
            self.unpacked = self.select(whole, here, self.unpacked)
            self.step, self.apart = self.select(whole, self.apart, self.step), self.select(whole, width, self.apart)
        held = self.at(self.held, self.mul(number, constant(TILE)), F32)

        def make(block: Value) -> None:
            for place in self.ahead(rows, block):
                self.ask_for(place, 2)
            for part in range(self.parts):
                self._multiply(block, part, x)

        def add(block: Value, sums: list[Value]) -> list[Value]:
            for part in range(self.parts):
                sums = self._add_part(block, part, x_scales, x_sums, sums)
            return sums

        # What a tile is written to is read some blocks later: memory does not pass it on at once.
        behind = self.least(self.sub(self.end, self.begin), constant(_BEHIND))
        edge = self.add(self.begin, behind)
        loop = Loop(self, self.begin, edge)
        make(loop.index)
        loop.close()
        loop = Loop(self, edge, self.end, carried=self._begin(held, 1 if single else LANES))
        make(loop.index)
        loop.close(*add(self.sub(loop.index, behind), loop.carried))
        loop = Loop(self, self.sub(self.end, behind), self.end, carried=loop.carried)
        loop.close(*add(loop.index, loop.carried))
        with self.if_else(self.icmp_signed("==", self.end, self.blocks)) as (done, more):
            with done:
                sums = self._scale_rows(loop.carried, scales, third)
                if single:
                    self._write(sums[0], out)
                else:
                    self._write_rows(sums, out, columns, size)
            with more:
                for i, each in enumerate(loop.carried):
                    self.write(each, held, constant(i * LANES))
        self.ret_void()

    def _begin(self, held: Value, count: int) -> list[Value]:
        """Returns what blocks before have added up to: zeros where there are none."""
        is_first = self.icmp_signed("==", self.begin, constant(0))
        sums = [self.read(held, FLOATS, constant(i * LANES)) for i in range(count)]
        return [self.select(is_first, zeros(FLOATS), each) for each in sums]

    def _near(self, block: Value) -> Value:
        """Returns the number that a block has among those that are unpacked."""
        return self.sub(block, self.begin)

    def _places(self, block: Value) -> list[Value]:
        """Returns where the scales of a block's parts begin."""
        first = self.mul(self._near(block), constant(self.parts * LANES))
        return [self.add(first, constant(part * LANES)) for part in range(self.parts)]

    def _multiply(self, block: Value, part: int, x: Value) -> None:
        """Writes the sums of products of a part of a block."""
        held = self.at(self.unpacked, self.mul(self._near(block), self.step), I8)
        step = BLOCK // 4  # words of a block
        place = self.add(self.mul(block, constant(step)), constant(part * step // self.parts))
        amx.zero(self, SUMS)
        amx.load(self, CODES, self.at(held, constant(part * BLOCK // self.parts), I8), self.apart)
        amx.load(self, ROWS, self.at(x, self.mul(place, self.stride), I32), self.mul(self.stride, constant(4)))
        amx.multiply(self, SUMS, CODES, ROWS)
        amx.store(self, SUMS, self._made(block, part), 4 if self.single else 4 * LANES)

    def _made(self, block: Value, part: int) -> Value:
        """Returns where the sums of a part are written to."""
        turn = self.and_(self.add(self.mul(block, constant(self.parts)), constant(part)), constant(4 * self.parts - 1))
        return self.at(self.ring, self.mul(turn, constant(TILE)), F32)

    def _add_part(self, block: Value, part: int, x_scales: Value, x_sums: Value, sums: list[Value]) -> list[Value]:
        """Adds the products of a part of a block, times both scales, and of its offsets."""
        made = self._made(block, part)
        own = self._places(block)[part]
        row_scales = self._of_rows(x_scales, block)
        number = block
        if self.layout.scale == "half":
            number = self.add(self.mul(block, constant(self.parts)), constant(part))
        row_sums = self._of_rows(x_sums, number) if self.has_offsets else None
        added = []
        for i, total in enumerate(sums):
            products = self.sitofp(self.read(made, WHOLES, constant(i * LANES)), FLOATS)
            factor = row_scales
            if self.layout.scale != "row":
                factor = self.fmul(self._of_matrix(self.scales, own, i), row_scales)
            added.append(self.fma(products, factor, total))
            if row_sums is not None:
                added[-1] = self.fma(self._of_matrix(self.offsets, own, i), row_sums, added[-1])
        return added

    def _of_rows(self, numbers: Value, block: Value) -> Value:
        """Reads what belongs to each row of activations into its lane."""
        place = self.mul(block, self.stride)
        return self.splat(self.read(numbers, F32, place), LANES) if self.single else self.read(numbers, FLOATS, place)

    def _of_matrix(self, numbers: Value, place: Value, i: int) -> Value:
        """Reads what belongs to a row of the matrix into all lanes, or for a single row of activations, of each into
        its lane."""
        if self.single:
            return self.read(numbers, FLOATS, place)
        return self.splat(self.read(numbers, F32, self.add(place, constant(i))), LANES)

    def _scale_rows(self, sums: list[Value], scales: Value, third: Value) -> list[Value]:
        """Multiplies by what belongs to the rows of the matrix."""
        if self.layout.scale in ("block", "half"):
            return sums
        factors = []
        for i in range(LANES):
            if self.layout.scale == "row":
                factors.append(self.read(scales, F32, self.row(constant(i))))
            else:
                factor = self.read(third, F32, self.row(constant(i)))
                factors.append(self.fmul(factor, ir.Constant(F32, self.layout.unit)))
        if not self.single:
            return [self.fmul(each, self.splat(factor, LANES)) for each, factor in zip(sums, factors, strict=True)]
        lanes = zeros(FLOATS)
        for i, factor in enumerate(factors):
            lanes = self.insert_element(lanes, factor, constant(i, I32))
        return [self.fmul(sums[0], lanes)]

    def _write(self, result: Value, out: Value) -> None:
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

    def _write_rows(self, sums: list[Value], out: Value, columns: Value, size: Value) -> None:
        """Writes the first `size` lanes of sixteen vectors as rows."""
        for i, row in enumerate(self.turn(sums)):
            self.write(row, self.ring, constant(i * LANES))
        loop = Loop(self, constant(0), size)
        row = self.read(self.ring, FLOATS, self.mul(loop.index, constant(LANES)))
        self._write(row, self.at(out, self.mul(loop.index, columns), F32))
        loop.close()
