"""Says how kernels read the formats of packed weights: 64 codes into a register, and where their scales stand."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gesso.kernels.host.activations import BLOCK, LANES
from gesso.kernels.host.dots import BYTES
from gesso.kernels.host.llvm_ir import F32, I1, I8, I32, Value, Writer, constant, constants, vector


@dataclass(frozen=True, slots=True)
class Layout:
    """Says how kernels read a format.

    Weights are unsigned and at most 15, or signed; a scale belongs to a block, to a half or a quarter of one, or to a
    row. A half has an offset, too.
    """

    bits: int
    unpack: Callable[[Writer, Value], tuple[Value, ...]] | None
    """Unpacks bytes, each into one code, or into one of each half; None where weights are no whole numbers."""
    signed: bool
    scale: Literal["block", "half", "quarter", "row", "none"]
    blocks_per_scale: int = 1
    offsets: bool = False
    """Whether a block has an offset, which is multiplied by the sum of its activations."""
    halves: tuple[Sequence[int], Sequence[int]] | None = None
    """The features of a block whose codes stand in its bytes' first halves, and in the second ones, in order; None
    where bytes are of one code, or hold one each of two blocks."""
    tables: bool = False
    """Its codes go through a table, which takes an instruction of x86."""
    unit: float = 1.0
    """What a code of one stands for, before scales."""
    floats: Callable[[Writer, Value, Value], list[Value]] | None = None
    """Unpacks 64 weights of a block of a row that begins there as four vectors of fp32, before scales: activations are
    not rounded then."""

    @property
    def parts(self) -> int:
        """Returns how many parts of a block have a scale of their own."""
        return {"half": 2, "quarter": 4}.get(self.scale, 1)

    def codes(self, build: Writer, row: Value, block: Value) -> Value:
        """Unpacks the 64 codes of a block of a row that begins there."""
        assert self.unpack is not None
        if self.halves is None:
            pair = build.lshr(block, constant(1)) if self.bits == 4 else block
            read = self.unpack(build, build.read(row, BYTES, build.mul(pair, constant(BLOCK))))
            return read[0] if len(read) == 1 else build.select(build.trunc(block, I1), *reversed(read))
        bytes_ = build.read(row, vector(I8, BLOCK // 2), build.mul(block, constant(BLOCK // 2)))
        (first, second), order = self.unpack(build, bytes_), [*self.halves[0], *self.halves[1]]
        return build.pick(first, second, [order.index(feature) for feature in range(BLOCK)])


def _whole(_: Writer, bytes_: Value) -> tuple[Value, ...]:
    return (bytes_,)


def nibbles(build: Writer, bytes_: Value) -> tuple[Value, Value]:
    """Returns the lower four bits of bytes, and the upper ones."""
    lanes = bytes_.type.count
    return build.and_(bytes_, constants([15] * lanes, I8)), build.lshr(bytes_, constants([4] * lanes, I8))


def _through_table(table: tuple[int, ...], *, low_first: bool) -> Callable[[Writer, Value], tuple[Value, ...]]:
    """Reads halves of bytes through a table of 16 signed numbers."""

    def unpack(build: Writer, bytes_: Value) -> tuple[Value, ...]:
        lanes = bytes_.type.count
        name, kind = _LOOK_UP[lanes], vector(I8, lanes)
        entries = constants(list(table) * (lanes // len(table)), I8)
        low, high = (build.own(name, kind, entries, half) for half in nibbles(build, bytes_))
        return (low, high) if low_first else (high, low)

    return unpack


_LOOK_UP = {BLOCK // 2: "llvm.x86.avx2.pshuf.b", BLOCK: "llvm.x86.avx512.pshuf.b.512"}
NVFP4_TABLE = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
"""The values of e2m1, doubled: whole numbers."""
NF4_TOP = 127
NF4_TABLE = (-127, -88, -67, -50, -36, -23, -12, 0, 10, 20, 31, 43, 56, 71, 92, 127)
"""The levels of NF4 times 127, rounded: off by 0.4% of a group's largest weight at most."""


def _e4m3_floats(build: Writer, row: Value, block: Value) -> list[Value]:
    """Reads 64 numbers of e4m3, exactly: no number on the way is too small for the processor's fast path."""
    wholes, floats = vector(I32, LANES), vector(F32, LANES)

    def all_of(value: float, kind: Any = I32) -> Value:
        return constants([value] * LANES, kind)

    found = []
    for part in range(BLOCK // LANES):
        place = build.add(build.mul(block, constant(BLOCK)), constant(LANES * part))
        bits = build.zext(build.read(row, vector(I8, LANES), place), wholes)
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


def _plain_floats(build: Writer, row: Value, block: Value) -> list[Value]:
    first = build.mul(block, constant(BLOCK))
    places = (build.add(first, constant(LANES * part)) for part in range(BLOCK // LANES))
    return [build.read(row, vector(F32, LANES), place) for place in places]


_ENDS, _NEIGHBOURS = (range(32), range(32, 64)), (range(0, 64, 2), range(1, 64, 2))
_ENDS_OF_32 = ([*range(16), *range(32, 48)], [*range(16, 32), *range(48, 64)])
_NF4, _NVFP4 = _through_table(NF4_TABLE, low_first=False), _through_table(NVFP4_TABLE, low_first=True)
LAYOUTS = {
    "fp32": Layout(32, None, signed=True, scale="none", floats=_plain_floats),
    "int8": Layout(8, _whole, signed=True, scale="row"),
    "fp8": Layout(8, None, signed=True, scale="row", floats=_e4m3_floats),
    "int4": Layout(4, nibbles, signed=False, scale="block", offsets=True, halves=_ENDS),
    "int4-32": Layout(4, nibbles, signed=False, scale="half", halves=_ENDS_OF_32),
    "int4-128": Layout(4, nibbles, signed=False, scale="block", offsets=True, blocks_per_scale=2),
    "nf4": Layout(4, _NF4, signed=True, scale="block", halves=_NEIGHBOURS, tables=True, unit=1 / NF4_TOP),
    "nvfp4": Layout(4, _NVFP4, signed=True, scale="quarter", halves=_NEIGHBOURS, tables=True, unit=0.5),
}


def e4m3(build: Writer, bits: Value) -> Value:
    """Reads positive e4m3 numbers from their bits, exactly, small ones too."""
    lanes = bits.type.count
    magnitude = build.zext(build.and_(bits, constants([127] * lanes, I8)), vector(I32, lanes))
    shifted = build.shl(magnitude, constants([20] * lanes, I32))  # its exponent in place of a float's, 120 too small
    return build.fmul(build.bitcast(shifted, vector(F32, lanes)), constants([2.0**120] * lanes, F32))
