"""Writes the kernels that multiply rows of 8-bit activations by packed weights in tiles.

    M rows   N rows of a matrix, what comes out   G blocks of 64 features   P parts of a block that have scales

Sixteen rows of a matrix are unpacked into memory that stays near, and multiplied with up to sixteen rows of
activations (`tile_sums`), by AMX (`tile_amx`) or without it (`tile_dots`), and few rows of these without tiles
(`tile_rows`): to the same bits.
"""

from llvmlite import ir

from gesso.kernels.host import amx
from gesso.kernels.host.activations import BLOCK, GROUP, LANES, straight_width
from gesso.kernels.host.dots import Dot
from gesso.kernels.host.layouts import Layout
from gesso.kernels.host.llvm_ir import F32, I1, I8, I32, I64, POINTER, VOID, Loop, Value, Writer, constant
from gesso.kernels.host.pieces import Run
from gesso.kernels.host.tile_amx import AmxTile, write_tile_shapes
from gesso.kernels.host.tile_dots import DotTile
from gesso.kernels.host.tile_rows import FEW, RowWriter
from gesso.kernels.host.tile_unpacking import UnpackWriter
from gesso.kernels.host.tile_writer import TOGETHER, chunk_of
from gesso.kernels.host.words import MATRIX, OUT, ROW, SIZE, word_of


def write_multiply_tiles(module: ir.Module, name: str, layout: Layout, kind: Dot) -> None:
    """Writes `name(x, x_scales, x_sums, codes, scales, third, out, scratch, pieces, count, N, G, begin, end)`.

    Rows come in pieces: (first row of x, rows, matrix, first row of out), int64 [count, 4]. The kernel computes columns
    `begin` to `end` of `out`, float [M, N]. Parts of all matrices lie one after the other. x, its scales and sums are
    as `activations.write_turn_rows` has them; `scratch` is the kernel's own, of `tile_scratch_size`.
    """
    shapes = write_tile_shapes(module, f"{name}_shapes", layout) if kind == "amx" else None
    unpack = UnpackWriter(module, f"{name}_unpack", layout, kind).made
    of_tile = (AmxTile if kind == "amx" else DotTile)(module, f"{name}_tile", layout, kind).made
    of_rows = {count: RowWriter(module, f"{name}_{count}", layout, count, kind).made for count in FEW}
    build = Writer(module, name, VOID, [POINTER] * 9 + [I64] * 5)
    *_, codes, scales, third, out, scratch, pieces = build.made.args[:9]
    count, columns, blocks, begin, end = build.made.args[9:]
    if shapes is not None:
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
    following = build.at(codes, build.mul(_following(build, run, tiles.index, first), width), I8)
    with build.if_then(wide):
        chunks = Loop(build, constant(0), blocks, step=chunk_of(kind))
        until = build.least(build.add(chunks.index, constant(chunk_of(kind))), blocks)
        of_matrix = [first, live, blocks, chunks.index, until]
        build.call(unpack, [codes, scales, third, scratch, *of_matrix])
        loop = Loop(build, *span)
        piece = _Piece(build, layout, loop.index, span[0])
        with build.if_then(build.not_(piece.is_few)):
            target = build.at(out, build.add(piece.out, tiles.index), F32)
            shared = [*piece.rows, codes, scales, third, target, scratch, following]
            build.call(of_tile, [*shared, *of_matrix, columns, piece.size, piece.number])
        loop.close()
        chunks.close()
    _multiply_few(build, layout, span, of_rows, (tiles.index, first, live, following))
    for outer in (tiles, groups, run):
        outer.close()
    if shapes is not None:
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
