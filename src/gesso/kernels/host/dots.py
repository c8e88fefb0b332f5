"""Writes products of bytes, added up as whole numbers, by the best instructions that a processor has.

Whole numbers are exact, so that a result does not depend on which instructions made it.
"""

from typing import Literal

from llvmlite import ir

from gesso.kernels.host.activations import BLOCK, LANES
from gesso.kernels.host.llvm_ir import F32, I1, I8, I16, I32, Value, Writer, constant, constants, vector

Dot = Literal["amx", "vnni512", "vnni256", "avx2", "plain"]
"""How bytes are multiplied: in tiles of 16 times 64, 64 or 32 at a time by one instruction, by AVX2's pairs, or in
LLVM's own words."""
WIDTH: dict[Dot, int] = {"amx": 16, "vnni512": 16, "vnni256": 8, "avx2": 8, "plain": 8}
"""Sums of four products each that stand side by side in a register."""
BYTES, WHOLES, FLOATS = vector(I8, BLOCK), vector(I32, LANES), vector(F32, LANES)
PAIRS, SUMS = "llvm.x86.avx2.pmadd.ub.sw", "llvm.x86.avx2.pmadd.wd"
_HALF, _WORDS, _NARROW = vector(I32, LANES // 2), vector(I16, LANES), vector(I8, BLOCK // 2)


def raised(count: int) -> Value:
    """Returns so many bytes that take signed ones to unsigned ones that are 128 larger, by their bits, and that are
    what these are too large by."""
    return constants([-128] * count, I8)


def dot(build: Writer, kind: Dot, unsigned: Value, signed: Value, start: Value) -> Value:
    """Returns sums of four products each of unsigned and signed bytes, [n] of [4n], and of what is added to them.

    By AVX2, products of two neighbours must add up to less than 2^15.
    """
    count, width = start.type.count, WIDTH[kind]
    if count > width:
        halves = zip(*(_halves(build, x) for x in (unsigned, signed, start)), strict=True)
        low, high = (dot(build, kind, *half) for half in halves)
        return build.pick(low, high, range(count))
    if kind in ("amx", "vnni512"):
        return build.own("llvm.x86.avx512.vpdpbusd.512", WHOLES, start, unsigned, signed)
    if kind == "vnni256":
        return build.own("llvm.x86.avx512.vpdpbusd.256", _HALF, start, unsigned, signed)
    return build.add(start, sum_pairs(build, multiply_pairs(build, kind, unsigned, signed)))


def signed_dot(build: Writer, codes: Value, x: Value, start: Value) -> Value:
    """Returns what `dot` does, of signed bytes that are never -128, by AVX2: magnitudes, and what has their signs."""
    sizes = build.own("llvm.abs.v32i8", _NARROW, codes, constant(0, I1))
    pairs = multiply_pairs(build, "avx2", sizes, build.own("llvm.x86.avx2.psign.b", _NARROW, x, codes))
    return build.add(start, sum_pairs(build, pairs))


def multiply_pairs(build: Writer, kind: Dot, unsigned: Value, signed: Value) -> Value:
    """Returns sums of two products each of 32 unsigned and signed bytes, in 16 bits by AVX2 and in 32 by LLVM's own
    words, which many processors have an instruction for."""
    if kind == "avx2":
        return build.own(PAIRS, _WORDS, unsigned, signed)
    count = unsigned.type.count
    first, second = build.zext(unsigned, vector(I16, count)), build.sext(signed, vector(I16, count))
    even, odd = (
        build.mul(*(build.sext(build.pick(x, x, range(i, count, 2)), vector(I32, count // 2)) for x in (first, second)))
        for i in (0, 1)
    )
    return build.add(even, odd)


def sum_pairs(build: Writer, pairs: Value, weight: int = 1) -> Value:
    """Adds up two neighbours each of what `multiply_pairs` returns, those of 16 bits times a weight."""
    if pairs.type == _WORDS:
        return build.own(SUMS, _HALF, pairs, constants([weight] * LANES, I16))
    return build.add(*(build.pick(pairs, pairs, range(i, pairs.type.count, 2)) for i in (0, 1)))


def _halves(build: Writer, x: Value) -> list[Value]:
    half = x.type.count // 2
    return [build.pick(x, x, range(begin, begin + half)) for begin in (0, half)]


def sum_lanes(build: Writer, rows: list[Value]) -> Value:
    """Adds up the lanes of each of R vectors, a power of two of them: halves onto halves, several rows in one vector.
    Returns [R]."""
    count, whole = len(rows), rows[0].type.count
    width = whole
    while width > 1:
        half, packed = width // 2, whole // width
        low = [block * width + lane for block in range(2 * packed) for lane in range(half)]
        high = [lane + half for lane in low]
        if len(rows) % 2:
            rows = [*rows, ir.Constant(rows[0].type, ir.Undefined)]
        rows = [
            build.fadd(build.pick(first, second, low), build.pick(first, second, high))
            for first, second in zip(rows[::2], rows[1::2], strict=True)
        ]
        width = half
    while len(rows) > 1:
        rows = [
            build.pick(first, second, range(2 * first.type.count))
            for first, second in zip(rows[::2], rows[1::2], strict=True)
        ]
    return build.pick(rows[0], rows[0], range(count))  # without the lanes behind them, which are undefined
