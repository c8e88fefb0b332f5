"""Writes the kernels that multiply fp32 activations by weights that are no whole numbers: FP8 and fp32.

    M rows   N rows of a matrix, what comes out   G blocks of 64 features   R rows that are multiplied at a time

A vector of sixteen weights is read into a register once and multiplied with R rows, each into a sum of its own, sixteen
lanes that are added in one order whatever R is. Nothing is rounded but the products' sums.
"""

from llvmlite import ir

from gesso.kernels.host.activations import BLOCK, LANES
from gesso.kernels.host.dots import FLOATS, sum_lanes
from gesso.kernels.host.layouts import Layout
from gesso.kernels.host.llvm_ir import F32, I8, I64, POINTER, VOID, Loop, Value, Writer, constant, vector, zeros
from gesso.kernels.host.pieces import Run
from gesso.kernels.host.words import OUT, ROW, SIZE, word_of

NEAR = 64
"""Rows of a matrix that all rows of activations of its own are multiplied by before the next ones: they stay in a near
cache."""


def write_multiply_floats(module: ir.Module, name: str, layout: Layout, tiles: dict[int, int]) -> None:
    """Writes the kernel that `tile_products.write_multiply_tiles` would, for x in fp32 [M, 64 G]; it uses neither its
    scales nor its sums, and no memory to work with.

    Args:
        tiles: rows of activations that are multiplied at a time, and rows of the matrix.
    """
    inner = {
        (size, beside): _write_piece(module, f"{name}_{size}_{beside}", layout, size, beside)
        for size, most in tiles.items()
        for beside in {most, 1}
    }
    build = Writer(module, name, VOID, [POINTER] * 9 + [I64] * 5)
    x, _, _, codes, scales, _, out, _, pieces = build.made.args[:9]
    count, columns, blocks, begin, end = build.made.args[9:]
    run = Run(build, pieces, count)
    before = build.mul(run.matrix, columns)  # rows of the matrices that come before
    near = Loop(build, begin, end, step=NEAR)
    last = build.least(build.add(near.index, constant(NEAR)), end)
    loop = Loop(build, run.first, run.end)
    row, size, first_out = (build.read(pieces, I64, word_of(build, loop.index, word)) for word in (ROW, SIZE, OUT))
    rows = build.at(x, build.mul(build.mul(row, blocks), constant(BLOCK)), F32)
    target = build.at(out, build.mul(first_out, columns), F32)
    for rows_at_once, most in tiles.items():
        with build.if_then(build.icmp_signed("==", size, constant(rows_at_once))):
            even = build.mul(build.sdiv(build.sub(last, near.index), constant(most)), constant(most))
            edges = [near.index, build.add(near.index, even), last]
            for beside, first, final in ((most, *edges[:2]), (1, *edges[1:]))[: 1 if most == 1 else 2]:
                with build.if_then(build.icmp_signed("<", first, final)):
                    parts = [rows, codes, scales, target, before, columns, blocks, first, final]
                    build.call(inner[rows_at_once, beside], parts)
    for each in (loop, near, run):
        each.close()
    build.ret_void()


def _write_piece(module: ir.Module, name: str, layout: Layout, size: int, beside: int) -> Value:
    """Writes the kernel for `size` rows of activations and `beside` rows of the matrix at a time."""
    build = Writer(module, name, VOID, [POINTER] * 4 + [I64] * 5)
    build.made.linkage = "internal"
    x, codes, scales, out = build.made.args[:4]
    before, columns, blocks, begin, end = build.made.args[4:]
    outer = Loop(build, begin, end, step=beside)
    width, row_bytes = (build.mul(blocks, constant(each)) for each in (BLOCK, BLOCK * layout.bits // 8))
    matrix = []
    for i in range(beside):
        row = build.add(before, build.add(outer.index, constant(i)))
        matrix.append(build.at(codes, build.mul(row, row_bytes), I8))
    loop = Loop(build, constant(0), blocks, carried=[zeros(FLOATS)] * (size * beside))
    sums = list(loop.carried)
    assert layout.floats is not None
    values = [layout.floats(build, row, loop.index) for row in matrix]
    first = build.mul(loop.index, constant(BLOCK))
    for part in range(BLOCK // LANES):
        for r in range(size):
            place = build.add(build.add(build.mul(width, constant(r)), first), constant(LANES * part))
            activations = build.read(x, FLOATS, place)
            for i in range(beside):
                sums[r * beside + i] = build.fma(values[i][part], activations, sums[r * beside + i])
    loop.close(*sums)
    totals = sum_lanes(build, loop.carried)
    own = vector(F32, beside)  # neighbours in a row of what comes out
    factors = None if layout.scale == "none" else build.read(scales, own, build.add(before, outer.index))
    for r in range(size):
        made = build.pick(totals, totals, range(r * beside, (r + 1) * beside))
        place = build.add(build.mul(columns, constant(r)), outer.index)
        build.write(made if factors is None else build.fmul(made, factors), out, place)
    outer.close()
    build.ret_void()
    return build.made
