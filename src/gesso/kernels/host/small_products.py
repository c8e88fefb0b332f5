"""Writes the kernel that multiplies few fp32 rows by a small fp32 matrix in the order of a matmul library's sums.

    M rows   N rows of the matrix, a multiple of 16   K features, a multiple of 16

Features are added up one after the other, each product and sum rounded once, in blocks whose sums are added in turn:
so oneDNN does it for any number of rows, and here without filling rows up and laying the matrix out anew.
"""

from llvmlite import ir

from gesso.kernels.host.llvm_ir import F32, I64, POINTER, VOID, Loop, Value, Writer, constant, vector, zeros

SIDE = 16
"""Features, and rows of the matrix, that a tile has of each."""
_ROW = vector(F32, SIDE)


def write_small_product(module: ir.Module, name: str) -> None:
    """Writes `name(words, thread, begin, end)`: x [M, K] times the transposed weight [N, K], out [M, N], for rows of
    the matrix from 16 `begin` to before 16 `end`, which threads may share (see `team`). The words are the addresses of
    x, weight and out, then M, N, K and the features of a block."""
    build = Writer(module, name, VOID, [POINTER, I64, I64, I64])
    words, _, begin, end = build.made.args
    x, weight, out = (build.inttoptr(build.read(words, I64, constant(i)), POINTER) for i in range(3))
    count, outputs, width, block = (build.read(words, I64, constant(i)) for i in range(3, 7))
    first, last = (build.mul(edge, constant(SIDE)) for edge in (begin, end))
    rows = Loop(build, constant(0), count)
    row, target = build.at(x, build.mul(rows.index, width), F32), build.at(out, build.mul(rows.index, outputs), F32)
    groups = Loop(build, first, last, step=SIDE)
    matrix = build.at(weight, build.mul(groups.index, width), F32)
    blocks = Loop(
        build, constant(0), build.sdiv(build.add(width, build.sub(block, constant(1))), block), carried=[zeros(_ROW)]
    )
    begin = build.mul(blocks.index, block)
    end = build.add(begin, block)
    end = build.select(build.icmp_signed("<", end, width), end, width)
    tiles = Loop(build, begin, end, step=SIDE, carried=[zeros(_ROW)])
    features = [build.read(matrix, _ROW, build.add(build.mul(width, constant(i)), tiles.index)) for i in range(SIDE)]
    (total,) = tiles.carried
    for i, column in enumerate(_transposed(build, features)):
        one = build.read(row, F32, build.add(tiles.index, constant(i)))
        total = build.fma(build.splat(one, SIDE), column, total)
    tiles.close(total)
    blocks.close(build.fadd(blocks.carried[0], tiles.carried[0]))
    build.write(blocks.carried[0], target, groups.index)
    groups.close()
    rows.close()
    build.ret_void()


def _transposed(build: Writer, rows: list[Value]) -> list[Value]:
    """Transposes a square: halves of pairs of rows are exchanged, then quarters, down to single numbers."""
    width = SIDE
    while width > 1:
        half = width // 2
        low = [lane if lane % width < half else SIDE + lane - half for lane in range(SIDE)]
        high = [lane + half if lane % width < half else SIDE + lane for lane in range(SIDE)]
        found = list(rows)
        for i in range(SIDE):
            if i % width < half:
                found[i] = build.pick(rows[i], rows[i + half], low)
                found[i + half] = build.pick(rows[i], rows[i + half], high)
        rows, width = found, half
    return rows
