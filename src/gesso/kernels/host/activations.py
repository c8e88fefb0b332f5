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
LEAST = 2.0**-120
"""Blocks whose magnitudes are all below are rounded to zero: 127 over them could be past the largest float."""
MAGNITUDE = 0x7FFFFFFF
"""The bits of a float but its sign."""
ONES, ONES_BITS = 1.5 * 2**23, 0x4B400000
"""A float between 2**23 and 2**24, where neighbours are one apart, and its bits."""


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
    # Magnitudes are in order as their bits are, read as whole numbers, with infinity and NaN above all others: that
    # takes an instruction where a maximum of floats, which has NaN and two zeros to think of, takes many.
    sizes = [build.and_(build.bitcast(piece, wholes), constants([MAGNITUDE] * LANES, I32)) for piece in read]
    largest = sizes[0]
    for size in sizes[1:]:
        largest = build.own("llvm.umax.v16i32", wholes, largest, size)
    most = build.bitcast(build.own("llvm.vector.reduce.umax.v16i32", I32, largest), F32)
    top, none = ir.Constant(F32, TOP), ir.Constant(F32, 0.0)
    scale = build.fdiv(most, top)
    inverse = build.splat(
        build.select(build.fcmp_ordered("<", most, ir.Constant(F32, LEAST)), none, build.fdiv(top, most)), LANES
    )
    total = zeros(wholes)
    for i, piece in enumerate(read):
        # Added to a number whose last bit counts ones, a float is rounded to the nearest whole number, even at a tie.
        shifted_up = build.fadd(build.fmul(piece, inverse), constants([ONES] * LANES, F32))
        whole = build.sub(build.bitcast(shifted_up, wholes), constants([ONES_BITS] * LANES, I32))
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
