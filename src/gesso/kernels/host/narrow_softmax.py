"""Writes the kernels of attention's softmax for training in bfloat16: rows of scores in place, computed in fp32.

    R rows   S keys, 16 at least

A row is computed in memory beside it, and rounded once. Behind the last key that a query sees no exponential is taken.
Where S is no multiple of sixteen the last part of a row overlaps the one before.
"""

from llvmlite import ir

from gesso.kernels.host.exponential import exp
from gesso.kernels.host.llvm_ir import F32, Loop, Value, constant, constants, zeros
from gesso.kernels.host.row_writer import LANES, PART, RowWriter
from gesso.kernels.host.softmax import LOWEST

HIDDEN = -5e8
"""The largest score of a key that is not seen: far below that of any other, so that its probability is zero."""


def write_narrow_softmax(module: ir.Module, name: str, *, biased: bool) -> None:
    """Writes `name(scores, bias, scratch, begin, end, S, each, queries, batch_stride, query_stride)`: what
    `write_softmax` does, of scores in bfloat16; `scratch` has room for S + 16 floats."""
    build = RowWriter(module, name, 3, 7, narrow=[0])
    scores, bias, scratch, begin, end, keys, each, queries, batch_stride, query_stride = build.arguments
    last, whole = build.sub(keys, constant(LANES)), build.and_(keys, constant(-LANES))
    padded = build.and_(build.add(keys, constant(LANES - 1)), constant(-LANES))
    uneven = build.icmp_signed("<", whole, keys)
    rows = Loop(build, begin, end)
    row = build.row(scores, rows.index, keys)
    place = build.mul(build.udiv(rows.index, each), batch_stride)
    added = build.at(bias, build.add(place, build.mul(build.urem(rows.index, queries), query_stride)), F32)

    def widen(index: Value, edge: Value, most: Value, seen: Value) -> tuple[Value, Value]:
        """Widens a part; returns the largest numbers so far, and `edge` where any of its keys is seen."""
        part = build.part(row, index)
        part = build.fadd(part, build.part(added, index)) if biased else part
        build.write(part, scratch, index)
        most = build.own("llvm.maxnum.v16f32", PART, most, part)
        if not biased:
            return most, edge
        counts = build.fcmp_unordered(">", part, constants([HIDDEN] * LANES, F32))  # what is no number does
        some = build.own("llvm.vector.reduce.or.v16i1", ir.IntType(1), counts)
        return most, build.select(some, edge, seen)

    lowest = constants([float("-inf")] * LANES, F32)
    loop = build.loop_parts(whole, lowest, constant(0))
    loop.close(*widen(loop.index, build.add(loop.index, constant(LANES)), *loop.carried))
    most, seen = loop.carried
    with build.if_else(uneven) as (then, otherwise):
        with then:
            found = widen(last, padded, most, seen)
            build.write(lowest, scratch, keys)
            after = build.block
        with otherwise:
            before = build.block
    most, seen = (_either(build, (new, after), (old, before)) for new, old in zip(found, (most, seen), strict=True))
    seen = build.select(build.icmp_signed("==", seen, constant(0)), padded, seen)
    top = build.lanes(build.own("llvm.vector.reduce.fmax.v16f32", F32, most))
    loop = build.loop_parts(seen, zeros(PART))
    away = build.fsub(build.part(scratch, loop.index), top)
    low = build.fcmp_ordered("<", away, constants([LOWEST] * LANES, F32))
    power = build.select(low, zeros(PART), exp(build, away))
    build.write(power, scratch, loop.index)
    loop.close(build.fadd(loop.carried[0], power))
    inverse = build.lanes(build.fdiv(ir.Constant(F32, 1.0), build.total(loop.carried[0])))
    behind = Loop(build, seen, padded, step=LANES)
    build.write(zeros(PART), scratch, behind.index)
    behind.close()
    loop = build.loop_parts(whole)
    build.put(build.fmul(build.part(scratch, loop.index), inverse), row, loop.index)
    loop.close()
    with build.if_then(uneven):
        build.put(build.fmul(build.part(scratch, last), inverse), row, last)
    rows.close()
    build.ret_void()


def _either(build: RowWriter, *found: tuple[Value, ir.Block]) -> Value:
    """Returns the value of the block that a branch came through."""
    phi = build.phi(found[0][0].type)
    for value, block in found:
        phi.add_incoming(value, block)
    return phi
