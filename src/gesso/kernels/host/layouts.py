"""Says how kernels read the formats of packed weights: 64 codes into a register, and where their scales stand."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from llvmlite import ir

from gesso.kernels.host.activations import BLOCK, LANES
from gesso.kernels.host.dots import BYTES
from gesso.kernels.host.llvm_ir import F32, I8, I32, Value, Writer, constant, constants, vector


@dataclass(frozen=True, slots=True)
class Weights:
    """Points at what a format holds for one row of a matrix."""

    codes: Value
    scales: Value
    third: Value
    row: Value


@dataclass(frozen=True, slots=True)
class Layout:
    """Says how kernels read a format.

    Weights are unsigned and at most 15, or signed; a scale belongs to a block, to a half or a quarter of one, or to a
    row. A half has an offset, too.
    """

    bits: int
    codes: Callable[[Writer, Weights, Value], Value] | None
    """Unpacks a block's 64 codes, given the block's number; None where weights are no whole numbers."""
    signed: bool
    scale: Literal["block", "half", "quarter", "row", "none"]
    blocks_per_scale: int = 1
    offsets: bool = False
    """Whether a block has an offset, which is multiplied by the sum of its activations."""
    tables: bool = False
    """Its codes go through a table, which takes an instruction of x86."""
    unit: float = 1.0
    """What a code of one stands for, before scales."""
    floats: Callable[[Writer, Weights, Value], list[Value]] | None = None
    """Unpacks a block's 64 weights as four vectors of fp32, before scales: activations are not rounded then."""


def _nibbles(build: Writer, bytes_: Value) -> tuple[Value, Value]:
    lanes = bytes_.type.count
    return build.and_(bytes_, constants([15] * lanes, I8)), build.lshr(bytes_, constants([4] * lanes, I8))


def _int4_codes(build: Writer, weights: Weights, block: Value) -> Value:
    """Reads the low halves of 32 bytes, then the high ones."""
    bytes_ = build.read(weights.codes, vector(I8, 32), build.mul(block, constant(32)))
    low, high = _nibbles(build, bytes_)
    return build.pick(low, high, range(BLOCK))


def _int4_codes_32(build: Writer, weights: Weights, block: Value) -> Value:
    """Reads the low halves of 16 bytes, then their high ones, and the same of 16 more."""
    bytes_ = build.read(weights.codes, vector(I8, 32), build.mul(block, constant(32)))
    low, high = _nibbles(build, bytes_)
    return build.pick(low, high, [*range(16), *range(32, 48), *range(16, 32), *range(48, 64)])


def _int4_codes_128(build: Writer, weights: Weights, block: Value) -> Value:
    """Reads the low halves of 64 bytes for an even block, and their high ones for the odd block after it."""
    bytes_ = build.read(weights.codes, BYTES, build.shl(build.lshr(block, constant(1)), constant(6)))
    low, high = _nibbles(build, bytes_)
    return build.select(build.trunc(block, ir.IntType(1)), high, low)


def _int8_codes(build: Writer, weights: Weights, block: Value) -> Value:
    return build.read(weights.codes, BYTES, build.mul(block, constant(BLOCK)))


def _through_table(table: tuple[int, ...], *, low_first: bool) -> Callable[[Writer, Weights, Value], Value]:
    """Reads neighbours out of 32 bytes, each through a table of 16 signed numbers."""

    def codes(build: Writer, weights: Weights, block: Value) -> Value:
        bytes_ = build.read(weights.codes, vector(I8, 32), build.mul(block, constant(32)))
        kind, entries = vector(I8, 32), constants(list(table) * 2, I8)
        parts = [build.own("llvm.x86.avx2.pshuf.b", kind, entries, half) for half in _nibbles(build, bytes_)]
        first, second = parts if low_first else parts[::-1]
        return build.pick(first, second, [lane for i in range(32) for lane in (i, 32 + i)])

    return codes


NVFP4_TABLE = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
"""The values of e2m1, doubled: whole numbers."""
NF4_TOP = 127
NF4_TABLE = (-127, -88, -67, -50, -36, -23, -12, 0, 10, 20, 31, 43, 56, 71, 92, 127)
"""The levels of NF4 times 127, rounded: off by 0.4% of a group's largest weight at most."""


def _e4m3_floats(build: Writer, weights: Weights, block: Value) -> list[Value]:
    """Reads 64 numbers of e4m3, exactly: no number on the way is too small for the processor's fast path."""
    wholes, floats = vector(I32, LANES), vector(F32, LANES)

    def all_of(value: float, kind: Any = I32) -> Value:
        return constants([value] * LANES, kind)

    found = []
    for part in range(BLOCK // LANES):
        place = build.add(build.mul(block, constant(BLOCK)), constant(LANES * part))
        bits = build.zext(build.read(weights.codes, vector(I8, LANES), place), wholes)
        magnitude = build.and_(bits, all_of(127))
        # Its exponent is 120 too small for a float's. Without the one before the point, which the smallest lack, those
        # are half of what they should be, and 2^-7 too large.
        normal = build.add(build.shl(magnitude, all_of(20)), all_of(120 << 23))
        value = build.bitcast(normal, floats)
        small = build.fma(value, all_of(2.0, F32), all_of(-(2.0**-6), F32))
        value = build.select(build.icmp_unsigned("<", magnitude, all_of(8)), small, value)
        sign = build.and_(build.shl(bits, all_of(24)), all_of(-(1 << 31)))
        found.append(build.bitcast(build.or_(build.bitcast(value, wholes), sign), floats))
    return found


def _plain_floats(build: Writer, weights: Weights, block: Value) -> list[Value]:
    first = build.mul(block, constant(BLOCK))
    places = (build.add(first, constant(LANES * part)) for part in range(BLOCK // LANES))
    return [build.read(weights.codes, vector(F32, LANES), place) for place in places]


LAYOUTS = {
    "fp32": Layout(32, None, signed=True, scale="none", floats=_plain_floats),
    "int8": Layout(8, _int8_codes, signed=True, scale="row"),
    "fp8": Layout(8, None, signed=True, scale="row", floats=_e4m3_floats),
    "int4": Layout(4, _int4_codes, signed=False, scale="block", offsets=True),
    "int4-32": Layout(4, _int4_codes_32, signed=False, scale="half"),
    "int4-128": Layout(4, _int4_codes_128, signed=False, scale="block", offsets=True, blocks_per_scale=2),
    "nf4": Layout(
        4, _through_table(NF4_TABLE, low_first=False), signed=True, scale="block", tables=True, unit=1 / NF4_TOP
    ),
    "nvfp4": Layout(
        4, _through_table(NVFP4_TABLE, low_first=True), signed=True, scale="quarter", tables=True, unit=0.5
    ),
}


def e4m3(build: Writer, bits: Value) -> Value:
    """Reads positive e4m3 numbers from their bits, exactly, small ones too."""
    lanes = bits.type.count
    magnitude = build.zext(build.and_(bits, constants([127] * lanes, I8)), vector(I32, lanes))
    shifted = build.shl(magnitude, constants([20] * lanes, I32))  # its exponent in place of a float's, 120 too small
    return build.fmul(build.bitcast(shifted, vector(F32, lanes)), constants([2.0**120] * lanes, F32))
