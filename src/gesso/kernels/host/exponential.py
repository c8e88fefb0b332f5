"""Writes exp of sixteen floats: a polynomial of degree 7 on half a doubling each way, 1e-7 of its value off at most."""

from gesso.kernels.host.llvm_ir import F32, I32, Value, constants, vector
from gesso.kernels.host.row_writer import LANES, PART, RowWriter

MOST = 87.0
"""exp of more than that, or of less than its negative, is past what a float holds in full."""
LOG2_E, LN2_HIGH, LN2_LOW = 1.4426950408889634, 0.693359375, -2.12194440054690583e-4
"""ln 2 in two parts: the first has few enough bits that its multiples are exact."""
POLYNOMIAL = (1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 0.5, 1.0, 1.0)
"""The series of exp; half a ln 2 away from zero, its next term is 5e-9."""
ONES, ONES_BITS = 1.5 * 2**23, 0x4B400000
"""A float between 2**23 and 2**24, where neighbours are one apart, and its bits."""


def all_lanes(value: float) -> Value:
    """Makes a part of one number."""
    return constants([value] * LANES, F32)


def exp(build: RowWriter, x: Value) -> Value:
    """Computes exp of numbers between -`MOST` and `MOST`, and NaN of NaN; of others it makes any number."""
    wholes = vector(I32, LANES)
    shifted = build.fma(x, all_lanes(LOG2_E), all_lanes(ONES))
    doublings = build.fsub(shifted, all_lanes(ONES))
    rest = build.fma(doublings, all_lanes(-LN2_HIGH), x)
    rest = build.fma(doublings, all_lanes(-LN2_LOW), rest)
    found = all_lanes(POLYNOMIAL[0])
    for term in POLYNOMIAL[1:]:
        found = build.fma(found, rest, all_lanes(term))
    count = build.sub(build.bitcast(shifted, wholes), constants([ONES_BITS - 127] * LANES, I32))
    power = build.shl(count, constants([23] * LANES, I32))
    return build.fmul(found, build.bitcast(power, PART))
