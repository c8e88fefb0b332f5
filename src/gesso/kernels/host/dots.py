"""Writes products of bytes, added up as whole numbers, by the best instructions that a processor has.

Whole numbers are exact, so that a result does not depend on which instructions made it.
"""

from typing import Literal

from llvmlite import ir

from gesso.kernels.host.activations import BLOCK, LANES
from gesso.kernels.host.llvm_ir import F32, I1, I8, I16, I32, Value, Writer, constant, constants, vector, zeros

Dot = Literal["amx", "vnni512", "vnni256", "avx2", "plain"]
"""How bytes are multiplied: in tiles of 16 times 64, 64 or 32 at a time by one instruction, by AVX2's pairs, or in
LLVM's own words."""
BYTES, WHOLES, FLOATS = vector(I8, BLOCK), vector(I32, LANES), vector(F32, LANES)
_HALF, _WORDS, _NARROW, _WIDE = vector(I32, LANES // 2), vector(I16, LANES), vector(I8, BLOCK // 2), vector(I16, BLOCK)
PAIRS, SUMS = "llvm.x86.avx2.pmadd.ub.sw", "llvm.x86.avx2.pmadd.wd"


SHIFTED: frozenset[Dot] = frozenset(("vnni512", "vnni256"))
"""Ways that take unsigned bytes first: activations are stored 128 too large where weights are signed."""


def dot(
    build: Writer, kind: Dot, unsigned: Value, signed: Value, *, lanes: int = LANES, start: Value | None = None
) -> Value:
    """Returns sums of products of 64 unsigned and 64 signed bytes: of four neighbours each, [16], or of these and of
    the four that stand 32 behind them, [8].

    By AVX2, products of two neighbours must add up to less than 2^15, four where there are 8 lanes.

    Args:
        start: is added.
    """
    start = zeros(vector(I32, lanes)) if start is None else start
    if kind == "vnni512":
        return build.own("llvm.x86.avx512.vpdpbusd.512", WHOLES, start, unsigned, signed)
    if kind == "plain":
        return build.add(start, _plain(build, build.zext(unsigned, _WIDE), build.sext(signed, _WIDE), lanes))
    pairs = list(zip(_halves(build, unsigned), _halves(build, signed), strict=True))
    if kind == "avx2":
        return build.add(start, _fours(build, [build.own(PAIRS, _WORDS, *pair) for pair in pairs], lanes, small=True))
    name = "llvm.x86.avx512.vpdpbusd.256"
    if lanes < LANES:
        return build.own(name, _HALF, build.own(name, _HALF, start, *pairs[0]), *pairs[1])
    low, high = (build.own(name, _HALF, begin, *pair) for begin, pair in zip(_halves(build, start), pairs, strict=True))
    return build.pick(low, high, range(LANES))


def signed_dot(build: Writer, kind: Dot, activations: Value, codes: Value, *, lanes: int = LANES) -> Value:
    """Returns what `dot` does, of 64 signed bytes each; `activations` are never -128, and 128 too large by ways that
    are `SHIFTED`."""
    if kind in SHIFTED:
        shift = dot(build, kind, constants([-128] * BLOCK, I8), codes, lanes=lanes)  # the same for all activations
        return dot(build, kind, activations, codes, lanes=lanes, start=build.sub(zeros(vector(I32, lanes)), shift))
    if kind == "plain":
        return _plain(build, build.sext(activations, _WIDE), build.sext(codes, _WIDE), lanes)
    words = []
    for x, w in zip(_halves(build, activations), _halves(build, codes), strict=True):
        sizes = build.own("llvm.abs.v32i8", _NARROW, w, constant(0, I1))
        words.append(build.own(PAIRS, _WORDS, sizes, build.own("llvm.x86.avx2.psign.b", _NARROW, x, w)))
    return _fours(build, words, lanes, small=False)


def _halves(build: Writer, x: Value) -> list[Value]:
    half = x.type.count // 2
    return [build.pick(x, x, range(begin, begin + half)) for begin in (0, half)]


def _fours(build: Writer, words: list[Value], lanes: int, *, small: bool) -> Value:
    """Adds up two neighbours each of two halves, sums of two products in 16 bits, by AVX2.

    Args:
        small: two of them make no more than 16 bits.
    """
    ones = constants([1] * LANES, I16)
    if lanes < LANES and small:
        return build.own(SUMS, _HALF, build.add(*words), ones)
    low, high = (build.own(SUMS, _HALF, half, ones) for half in words)
    return build.pick(low, high, range(LANES)) if lanes == LANES else build.add(low, high)


def _plain(build: Writer, first: Value, second: Value, lanes: int) -> Value:
    even, odd = (
        build.mul(*(build.sext(build.pick(x, x, range(i, BLOCK, 2)), vector(I32, BLOCK // 2)) for x in (first, second)))
        for i in (0, 1)
    )
    pairs = build.add(even, odd)
    fours = build.add(*(build.pick(pairs, pairs, range(i, BLOCK // 2, 2)) for i in (0, 1)))
    return fours if lanes == LANES else build.add(*_halves(build, fours))


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
