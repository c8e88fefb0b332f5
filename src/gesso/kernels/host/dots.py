"""Writes products of bytes, added up as whole numbers, by the best instructions that a processor has.

Whole numbers are exact, so that a result does not depend on which instructions made it.
"""

from typing import Literal

from llvmlite import ir

from gesso.kernels.host.activations import BLOCK, LANES
from gesso.kernels.host.llvm_ir import F32, I8, I16, I32, Value, Writer, constants, vector

Dot = Literal["vnni512", "vnni256", "avx2", "plain"]
"""How bytes are multiplied: 64 or 32 at a time by one instruction, by AVX2's pairs, or in LLVM's own words."""
BYTES, WHOLES, FLOATS = vector(I8, BLOCK), vector(I32, LANES), vector(F32, LANES)
_HALF, _WORDS = vector(I32, LANES // 2), vector(I16, LANES)
PAIRS, SUMS = "llvm.x86.avx2.pmadd.ub.sw", "llvm.x86.avx2.pmadd.wd"


def dot(build: Writer, kind: Dot, start: Value, unsigned: Value, signed: Value, *, small: bool) -> Value:
    """Adds to `start` [16] the products of four neighbours each, of 64 unsigned and 64 signed bytes.

    Args:
        small: unsigned bytes are at most 15; signed ones are never -128.
    """
    if kind == "vnni512":
        return build.own("llvm.x86.avx512.vpdpbusd.512", WHOLES, start, unsigned, signed)
    if kind == "plain":
        return build.add(start, _plain(build, unsigned, signed))
    halves = []
    for half in (0, 1):
        bytes_ = range(32 * half, 32 * half + 32)
        first, second = (build.pick(x, x, bytes_) for x in (unsigned, signed))
        begin = build.pick(start, start, range(8 * half, 8 * half + 8))
        if kind == "vnni256":
            halves.append(build.own("llvm.x86.avx512.vpdpbusd.256", _HALF, begin, first, second))
        else:
            halves.append(build.add(begin, _pairs(build, first, second, small=small)))
    return build.pick(halves[0], halves[1], range(LANES))


def _pairs(build: Writer, unsigned: Value, signed: Value, *, small: bool) -> Value:
    """Adds up fours of 32 bytes by AVX2, whose sums of two products stop at 16 bits: highest bits go by themselves."""
    ones, highest = constants([1] * 16, I16), constants([128] * 16, I16)
    if small:
        return build.own(SUMS, _HALF, build.own(PAIRS, _WORDS, unsigned, signed), ones)
    low = build.own(PAIRS, _WORDS, build.and_(unsigned, constants([127] * 32, I8)), signed)
    high = build.own(PAIRS, _WORDS, build.lshr(unsigned, constants([7] * 32, I8)), signed)
    return build.add(build.own(SUMS, _HALF, low, ones), build.own(SUMS, _HALF, high, highest))


def _plain(build: Writer, unsigned: Value, signed: Value) -> Value:
    words = vector(I16, BLOCK)
    wide = [build.zext(unsigned, words), build.sext(signed, words)]
    even, odd = (
        build.mul(*(build.sext(build.pick(x, x, range(i, BLOCK, 2)), vector(I32, BLOCK // 2)) for x in wide))
        for i in (0, 1)
    )
    pairs = build.add(even, odd)
    return build.add(*(build.pick(pairs, pairs, range(i, BLOCK // 2, 2)) for i in (0, 1)))


def sum_lanes(build: Writer, rows: list[Value]) -> Value:
    """Adds up the 16 lanes of each of R vectors: halves onto halves, several rows in one vector. Returns [R]."""
    width = LANES
    while width > 1:
        half, packed = width // 2, LANES // width
        low = [block * width + lane for block in range(2 * packed) for lane in range(half)]
        high = [lane + half for lane in low]
        if len(rows) % 2:
            rows = [*rows, ir.Constant(FLOATS, ir.Undefined)]
        rows = [
            build.fadd(build.pick(first, second, low), build.pick(first, second, high))
            for first, second in zip(rows[::2], rows[1::2], strict=True)
        ]
        width = half
    return rows[0]
