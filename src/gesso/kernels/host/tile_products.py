"""Writes the kernels that multiply rows of 8-bit activations by packed weights in tiles, by AMX.

    M rows   N rows of a matrix, what comes out   G blocks of 64 features   P parts of a block that have scales

Sixteen rows of a matrix are unpacked into memory that stays near, and multiplied with up to sixteen rows of
activations: one instruction makes 16 x 16 whole numbers, exact, of a block or a part of it, and these go into one fp32
lane each, times both scales. Part by part in order: a row's bits do not depend on how many stand beside it.
"""

from llvmlite import ir

from gesso.kernels.host import amx
from gesso.kernels.host.activations import BLOCK, GROUP, LANES, straight_width
from gesso.kernels.host.dots import FLOATS, WHOLES
from gesso.kernels.host.layouts import Layout
from gesso.kernels.host.llvm_ir import F32, I1, I8, I32, I64, POINTER, VOID, Loop, Value, Writer, constant, zeros
from gesso.kernels.host.pieces import Run
from gesso.kernels.host.tile_rows import FEW, RowWriter
from gesso.kernels.host.tile_unpacking import CHUNK, TILE, TOGETHER, TileWriter, UnpackWriter
from gesso.kernels.host.words import MATRIX, OUT, ROW, SIZE, word_of

SUMS, CODES, ROWS = 0, 4, 6
"""Tiles: of what comes out, of the matrix and of activations."""
_BEHIND = 2
"""Blocks that are multiplied before the first one's tiles are read."""


def write_multiply_tiles(module: ir.Module, name: str, layout: Layout) -> None:
    """Writes the kernel that `products.write_multiply` would, for activations that were rounded in turned order."""
    parts, full = layout.parts, (LANES, 4 * LANES)
    used = {SUMS: full, CODES: (LANES, BLOCK // parts), ROWS: (LANES // parts, 4 * LANES)}
    shapes = amx.write_configuration(module, f"{name}_shapes", used)
    unpack = UnpackWriter(module, f"{name}_unpack", layout).made
    of_tile = _Tile(module, f"{name}_tile", layout).made
    of_rows = {count: RowWriter(module, f"{name}_{count}", layout, count).made for count in FEW}
    build = Writer(module, name, VOID, [POINTER] * 9 + [I64] * 5)
    *_, codes, scales, third, out, scratch, pieces = build.made.args[:9]
    count, columns, blocks, begin, end = build.made.args[9:]
    amx.configure(build, shapes)
    run = Run(build, pieces, count)
    before = build.mul(run.matrix, columns)  # rows of the matrices that come before
    width = build.mul(blocks, constant(BLOCK * layout.bits // 8))
    groups = Loop(build, run.first, run.end, step=TOGETHER)
    last = build.least(build.add(groups.index, constant(TOGETHER)), run.end)
    span = groups.index, last
    wide = _any_in_tiles(build, layout, span)
    tiles = Loop(build, begin, end, step=LANES)
    first, live = build.add(before, tiles.index), build.least(build.sub(end, tiles.index), constant(LANES))
    with build.if_then(wide):
        chunks = Loop(build, constant(0), blocks, step=CHUNK)
        until = build.least(build.add(chunks.index, constant(CHUNK)), blocks)
        of_matrix = [first, live, blocks, chunks.index, until]
        build.call(unpack, [codes, scales, third, scratch, *of_matrix])
        loop = Loop(build, *span)
        piece = _Piece(build, layout, loop.index, span[0])
        with build.if_then(build.not_(piece.is_few)):
            target = build.at(out, build.add(piece.out, tiles.index), F32)
            shared = [*piece.rows, codes, scales, third, target, scratch]
            build.call(of_tile, [*shared, *of_matrix, columns, piece.size, piece.number])
        loop.close()
        chunks.close()
    following = build.at(codes, build.mul(_following(build, run, tiles.index, first), width), I8)
    _multiply_few(build, layout, span, of_rows, (tiles.index, first, live, following))
    for outer in (tiles, groups, run):
        outer.close()
    amx.release(build)
    build.ret_void()


def _any_in_tiles(build: Writer, layout: Layout, span: tuple[Value, Value]) -> Value:
    """Says whether any pieces of a span have more than few rows."""
    loop = Loop(build, *span, carried=[ir.Constant(I1, 0)])
    piece = _Piece(build, layout, loop.index, span[0])
    loop.close(build.or_(loop.carried[0], build.not_(piece.is_few)))
    return loop.carried[0]


def _following(build: Writer, run: Run, column: Value, row: Value) -> Value:
    """Returns the row from which on the next sixteen are multiplied: of the same matrix, or of the next one, or these
    once more at the end."""
    pieces, count, columns, _, begin, end = build.made.args[8:14]
    piece = build.least(run.end, build.sub(count, constant(1)))
    matrix = build.read(pieces, I64, word_of(build, piece, MATRIX))
    other = build.add(build.mul(matrix, columns), begin)
    other = build.select(build.icmp_signed("<", run.end, count), other, row)
    following = build.add(column, constant(LANES))
    return build.select(build.icmp_signed("<", following, end), build.add(row, constant(LANES)), other)


def _multiply_few(
    build: Writer,
    layout: Layout,
    span: tuple[Value, Value],
    kernels: dict[int, Value],
    matrix: tuple[Value, Value, Value, Value],
) -> None:
    """Multiplies pieces of few rows.

    Args:
        kernels: for so many rows.
        matrix: the first column of sixteen that come out, the row of the matrix that it is, how many there are, and
            the rows that follow.
    """
    codes, scales, third, out, scratch = build.made.args[3:8]
    columns, blocks = build.made.args[10:12]
    column, first, live, following = matrix
    loop = Loop(build, *span)
    piece = _Piece(build, layout, loop.index, span[0])
    target, rows = build.at(out, build.add(piece.out, column), F32), [piece.straight, *piece.rows[1:]]
    for size, kernel in kernels.items():
        with build.if_then(build.icmp_signed("==", piece.size, constant(size))):
            build.call(kernel, [*rows, codes, scales, third, target, scratch, following, first, live, blocks, columns])
    loop.close()


class _Piece:
    """Reads the words of a piece, and says where its rows are."""

    def __init__(self, build: Writer, layout: Layout, index: Value, first: Value) -> None:
        """
        Args:
            first: of the pieces that are multiplied together.
        """
        x, x_scales, x_sums = build.made.args[:3]
        pieces, _, columns, blocks = build.made.args[8:12]
        row, self.size, first_out = (build.read(pieces, I64, word_of(build, index, word)) for word in (ROW, SIZE, OUT))
        self.number, self.out = build.sub(index, first), build.mul(first_out, columns)
        self.is_few = build.icmp_signed("<=", self.size, constant(FEW[0]))
        group, lane = (divided(row, constant(GROUP)) for divided in (build.udiv, build.urem))
        scales = build.mul(build.mul(group, blocks), constant(GROUP))  # of the groups that come before
        held = ((x, BLOCK // 4, I32), (x_scales, 1, F32), (x_sums, layout.parts, F32))
        self.rows = [
            build.at(numbers, build.add(build.mul(scales, constant(each)), lane), kind) for numbers, each, kind in held
        ]
        """Codes, scales and sums."""
        back = build.sub(constant(0), straight_width(build, blocks))
        self.straight = build.at(x, build.mul(build.add(row, constant(1)), back), I8)
        """The codes of the first row side by side; those of the others stand before it."""


class _Tile(TileWriter):
    """Writes the kernel that multiplies a chunk of sixteen rows by sixteen rows of activations, of which `size` are
    written."""

    def __init__(self, module: ir.Module, name: str, layout: Layout) -> None:
        super().__init__(module, name, layout, 8, 8)
        x, x_scales, x_sums, codes, scales, third, out, scratch = self.made.args[:8]
        self.take(scratch, *self.made.args[8:13])
        columns, size, number = self.made.args[13:]
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
        loop = Loop(self, edge, self.end, carried=self._begin(held))
        make(loop.index)
        loop.close(*add(self.sub(loop.index, behind), loop.carried))
        loop = Loop(self, self.sub(self.end, behind), self.end, carried=loop.carried)
        loop.close(*add(loop.index, loop.carried))
        with self.if_else(self.icmp_signed("==", self.end, self.blocks)) as (done, more):
            with done:
                sums, factors = loop.carried, self.row_scales(scales, third)
                if factors:
                    sums = [
                        self.fmul(*pair) for pair in zip(sums, (self.splat(f, LANES) for f in factors), strict=True)
                    ]
                self._write_rows(sums, out, columns, size)
            with more:
                for i, each in enumerate(loop.carried):
                    self.write(each, held, constant(i * LANES))
        self.ret_void()

    def _begin(self, held: Value) -> list[Value]:
        """Returns what blocks before have added up to: zeros where there are none."""
        is_first = self.icmp_signed("==", self.begin, constant(0))
        sums = [self.read(held, FLOATS, constant(i * LANES)) for i in range(LANES)]
        return [self.select(is_first, zeros(FLOATS), each) for each in sums]

    def _multiply(self, block: Value, part: int, x: Value) -> None:
        """Writes the sums of products of a part of a block."""
        held = self.at(self.unpacked, self.mul(self.sub(block, self.begin), self.step), I8)
        step = BLOCK // 4  # words of a block
        place = self.add(self.mul(block, constant(step)), constant(part * step // self.parts))
        amx.zero(self, SUMS)
        amx.load(self, CODES, self.at(held, constant(part * BLOCK // self.parts), I8), self.apart)
        amx.load(self, ROWS, self.at(x, self.mul(place, constant(GROUP)), I32), constant(4 * GROUP))
        amx.multiply(self, SUMS, CODES, ROWS)
        amx.store(self, SUMS, self._made(block, part), constant(4 * LANES))

    def _made(self, block: Value, part: int) -> Value:
        """Returns where the sums of a part are written to."""
        turn = self.and_(self.add(self.mul(block, constant(self.parts)), constant(part)), constant(4 * self.parts - 1))
        return self.at(self.ring, self.mul(turn, constant(TILE)), F32)

    def _add_part(self, block: Value, part: int, x_scales: Value, x_sums: Value, sums: list[Value]) -> list[Value]:
        """Adds the products of a part of a block, times both scales, and of its offsets."""
        made = self._made(block, part)
        own = self.places(block)[part]
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
        return self.read(numbers, FLOATS, self.mul(block, constant(GROUP)))

    def _of_matrix(self, numbers: Value, place: Value, i: int) -> Value:
        """Reads what belongs to a row of the matrix into all lanes."""
        return self.splat(self.read(numbers, F32, self.add(place, constant(i))), LANES)

    def _write_rows(self, sums: list[Value], out: Value, columns: Value, size: Value) -> None:
        """Writes the first `size` lanes of sixteen vectors as rows."""
        for i, row in enumerate(self.turn(sums)):
            self.write(row, self.ring, constant(i * LANES))
        loop = Loop(self, constant(0), size)
        row = self.read(self.ring, FLOATS, self.mul(loop.index, constant(LANES)))
        self.write_lanes(row, self.at(out, self.mul(loop.index, columns), F32))
        loop.close()
