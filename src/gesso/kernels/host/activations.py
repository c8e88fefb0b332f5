"""Writes the kernel that rounds rows of activations to 8 bits, for sums of whole numbers.

`BLOCK` neighbouring features of a row share a scale, the largest magnitude over 127: a feature is off by half a scale
at most. Beside codes and scales stands each block's sum, which a format with offsets multiplies them by. A row's codes
depend on that row alone; a number that is not finite makes its block's scale not finite.
"""

from llvmlite import ir

from gesso.kernels.host.llvm_ir import (
    F32,
    I8,
    I32,
    I64,
    POINTER,
    VOID,
    Loop,
    Writer,
    constant,
    constants,
    vector,
    zeros,
)

BLOCK = 64
"""Features that share a scale, as many as a vector of 512 bits holds of 8 bits each."""
TOP = 127
LANES = 16


def write_round_rows(module: ir.Module, name: str, *, shifted: bool) -> None:
    """Writes `name(x, blocks, begin, end, codes, scales, sums)`, which rounds rows `begin` to `end`.

    Args of the kernel: x float [M, 64 G]; blocks G; codes [M, 64 G] in 8 bits; scales and sums float [M, G].

    Args:
        shifted: store code + 128, unsigned, instead of the signed code.
    """
    build = Writer(module, name, VOID, [POINTER, I64, I64, I64, POINTER, POINTER, POINTER])
    x, blocks, begin, end, codes, scales, sums = build.made.args
    floats, wholes, part = vector(F32, LANES), vector(I32, LANES), BLOCK // LANES
    rows = Loop(build, build.mul(begin, blocks), build.mul(end, blocks))  # all blocks of all rows lie in a row
    first = build.mul(rows.index, constant(BLOCK))
    read = [build.read(x, floats, build.add(first, constant(LANES * i))) for i in range(part)]
    largest = build.own("llvm.fabs.v16f32", floats, read[0])
    for piece in read[1:]:
        largest = build.own("llvm.maximum.v16f32", floats, largest, build.own("llvm.fabs.v16f32", floats, piece))
    most = build.own("llvm.vector.reduce.fmaximum.v16f32", F32, largest)
    top, none = ir.Constant(F32, TOP), ir.Constant(F32, 0.0)
    scale = build.fdiv(most, top)
    inverse = build.splat(build.select(build.fcmp_ordered("==", most, none), none, build.fdiv(top, most)), LANES)
    total = zeros(wholes)
    for i, piece in enumerate(read):
        nearest = build.own("llvm.rint.v16f32", floats, build.fmul(piece, inverse))
        whole = build.own("llvm.fptosi.sat.v16i32.v16f32", wholes, nearest)
        total = build.add(total, whole)
        code = build.trunc(whole, vector(I8, LANES))
        if shifted:
            code = build.xor(code, constants([-128] * LANES, I8))
        build.write(code, codes, build.add(first, constant(LANES * i)))
    sum_ = build.own("llvm.vector.reduce.add.v16i32", I32, total)
    build.write(scale, scales, rows.index)
    build.write(build.fmul(build.sitofp(sum_, F32), scale), sums, rows.index)
    rows.close()
    build.ret_void()
