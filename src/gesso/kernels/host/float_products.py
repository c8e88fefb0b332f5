"""Writes the kernels that multiply fp32 activations by weights that are no whole numbers: FP8 and fp32.

    M rows   N rows of a matrix, what comes out   G blocks of 64 features   R rows that are multiplied at a time

A vector of sixteen weights is read into a register once and multiplied with R rows, each into a sum of its own, sixteen
lanes that are added in one order whatever R is. Nothing is rounded but the products' sums.
"""

from llvmlite import ir

from gesso.kernels.host.activations import BLOCK, LANES
from gesso.kernels.host.dots import FLOATS, sum_lanes
from gesso.kernels.host.layouts import Layout, Weights
from gesso.kernels.host.llvm_ir import F32, I8, I64, POINTER, VOID, Loop, Value, Writer, constant, vector, zeros
from gesso.kernels.host.pieces import write_over_pieces


def write_multiply_floats(module: ir.Module, name: str, layout: Layout, tiles: dict[int, int]) -> None:
    """Writes the kernel that `products.write_multiply` would, for x in fp32; it uses neither its scales nor its
    sums."""
    inner = {
        (size, beside): _write_piece(module, f"{name}_{size}_{beside}", layout, size, beside)
        for size, most in tiles.items()
        for beside in {most, 1}
    }
    write_over_pieces(module, name, tiles, inner, F32)


def _write_piece(module: ir.Module, name: str, layout: Layout, size: int, beside: int) -> Value:
    """Writes the kernel for `size` rows of activations and `beside` rows of the matrix at a time."""
    build = Writer(module, name, VOID, [POINTER] * 8 + [I64] * 5)
    build.made.linkage = "internal"
    x, _, _, codes, scales, third, out, _ = build.made.args[:8]
    before, columns, blocks, begin, end = build.made.args[8:]
    outer = Loop(build, begin, end, step=beside)
    width, row_bytes = (build.mul(blocks, constant(each)) for each in (BLOCK, BLOCK * layout.bits // 8))
    matrix = []
    for i in range(beside):
        row = build.add(before, build.add(outer.index, constant(i)))
        matrix.append(Weights(build.at(codes, build.mul(row, row_bytes), I8), scales, third, row))
    loop = Loop(build, constant(0), blocks, carried=[zeros(FLOATS)] * (size * beside))
    sums = list(loop.carried)
    assert layout.floats is not None
    values = [layout.floats(build, weights, loop.index) for weights in matrix]
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
    factors = None if layout.scale == "none" else build.read(scales, own, matrix[0].row)
    for r in range(size):
        made = build.pick(totals, totals, range(r * beside, (r + 1) * beside))
        place = build.add(build.mul(columns, constant(r)), outer.index)
        build.write(made if factors is None else build.fmul(made, factors), out, place)
    outer.close()
    build.ret_void()
    return build.made
