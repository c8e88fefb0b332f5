"""Writes the kernel that chooses experts: the k largest of a row's scores, and their softmax among each other.

N rows   E experts   k chosen
"""

from llvmlite import ir

from gesso.kernels.host.exponential import exp
from gesso.kernels.host.llvm_ir import F32, I32, I64, Loop, Value, constant
from gesso.kernels.host.row_writer import RowWriter

LOWEST, NOTHING = float("-inf"), -87.0


def write_choose(module: ir.Module, name: str) -> None:
    """Writes `name(scores, scales, weights, chosen, begin, end, E, k)`: for rows `begin` to `end` of scores [N, E] the
    experts [N, k], 64-bit numbers, largest score first and of equal ones the first; and their weights [N, k], which add
    up to one before each is multiplied by its expert's scale [E]. E is at least k; scores are overwritten.

    A score that is no number is never chosen before one that is.
    """
    build = RowWriter(module, name, 4, 4)
    scores, scales, weights, chosen, begin, end, experts, count = build.arguments
    rows = Loop(build, begin, end)
    row, own = build.row(scores, rows.index, experts), build.row(weights, rows.index, count)
    numbers = build.at(chosen, build.mul(rows.index, count), I64)
    picks = Loop(build, constant(0), count)
    place, most = _largest(build, row, experts)
    build.write(place, numbers, picks.index)
    build.write(most, own, picks.index)
    build.write(ir.Constant(F32, float("nan")), row, place)
    picks.close()
    top = build.read(own, F32)
    sums = Loop(build, constant(0), count, carried=[ir.Constant(F32, 0.0)])
    power = _power(build, build.fsub(build.read(own, F32, sums.index), top))
    build.write(power, own, sums.index)
    sums.close(build.fadd(sums.carried[0], power))
    shares = Loop(build, constant(0), count)
    share = build.fdiv(build.read(own, F32, shares.index), sums.carried[0])
    scale = build.read(scales, F32, build.read(numbers, I64, shares.index))
    build.write(build.fmul(share, scale), own, shares.index)
    shares.close()
    rows.close()
    build.ret_void()


def _largest(build: RowWriter, row: Value, experts: Value) -> tuple[Value, Value]:
    """Returns where the largest score of a row stands, and the score."""
    loop = Loop(build, constant(0), experts, carried=[constant(0), ir.Constant(F32, LOWEST)])
    place, most = loop.carried
    score = build.read(row, F32, loop.index)
    larger = build.fcmp_ordered(">", score, most)
    loop.close(build.select(larger, loop.index, place), build.select(larger, score, most))
    place, most = loop.carried
    return place, most


def _power(build: RowWriter, x: Value) -> Value:
    nothing = ir.Constant(F32, 0.0)
    low = build.fcmp_ordered("<", x, ir.Constant(F32, NOTHING))
    power = build.extract_element(exp(build, build.lanes(build.select(low, nothing, x))), constant(0, I32))
    return build.select(low, nothing, power)
