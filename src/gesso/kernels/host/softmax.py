"""Writes the kernels of attention's softmax for training: rows of scores, with what is added to them, in place.

    R rows   S keys, 16 at least

Where S is no multiple of sixteen the last part of a row overlaps the one before: it is read before that is written, and
lanes that both have count once.
"""

from collections.abc import Callable

from llvmlite import ir

from gesso.kernels.host.exponential import exp
from gesso.kernels.host.llvm_ir import F32, I32, Loop, Value, constant, constants, zeros
from gesso.kernels.host.row_writer import LANES, PART, RowWriter

LOWEST = -87.0
"""exp of anything below is zero here; it is 1.6e-38, past which floats lose bits."""


class _Keys:
    """Goes through the parts of a row, the last one apart."""

    def __init__(self, build: RowWriter, keys: Value) -> None:
        self._build = build
        rest = build.urem(keys, constant(LANES))
        self._whole, self._last = build.sub(keys, rest), build.sub(keys, constant(LANES))
        own = build.splat(build.sub(constant(LANES, I32), build.trunc(rest, I32)), LANES)
        self._own = build.icmp_unsigned(">=", constants(range(LANES), I32), own)

    def go(
        self,
        read: Callable[[Value], tuple[Value, ...]],
        work: Callable[..., tuple[Value, Value | None]],
        first: Value,
        row: Value,
    ) -> Value:
        """Carries what `work(carried, *read(index))` returns first, and writes what it returns second, where that is
        anything, to each part of `row`."""
        build = self._build
        end = read(self._last)
        loop = build.loop_parts(self._whole, first)
        carried, written = work(loop.carried[0], *read(loop.index))
        if written is not None:
            build.put(written, row, loop.index)
        loop.close(carried)
        carried, written = work(loop.carried[0], *end)
        if written is not None:
            build.put(written, row, self._last)
        return build.select(self._own, carried, loop.carried[0])


def write_softmax(module: ir.Module, name: str, *, biased: bool) -> None:
    """Writes `name(scores, bias, scratch, begin, end, S, each, queries, batch_stride, query_stride)`: the softmax of
    rows `begin` to `end`, in place; `scratch` is not used.

    Row r is query r % queries of batch row r // each; to its scores is added the bias that begins at the batch row
    times its stride plus the query times its stride.
    """
    build = RowWriter(module, name, 3, 7)
    scores, bias, _, begin, end, keys, each, queries, batch_stride, query_stride = build.arguments
    parts = _Keys(build, keys)
    rows = Loop(build, begin, end)
    row = build.row(scores, rows.index, keys)
    if biased:
        place = build.mul(build.udiv(rows.index, each), batch_stride)
        place = build.add(place, build.mul(build.urem(rows.index, queries), query_stride))
        added = build.at(bias, place, F32)

    def read(index: Value) -> tuple[Value, ...]:
        return (build.part(row, index),)

    def read_biased(index: Value) -> tuple[Value, ...]:
        return (build.fadd(build.part(row, index), build.part(added, index)),)

    def largest(most: Value, part: Value) -> tuple[Value, Value | None]:
        return build.own("llvm.maxnum.v16f32", PART, most, part), part if biased else None

    def power(total: Value, part: Value) -> tuple[Value, Value]:
        away = build.fsub(part, top)
        low = build.fcmp_ordered("<", away, constants([LOWEST] * LANES, F32))
        found = build.select(low, zeros(PART), exp(build, away))
        return build.fadd(total, found), found

    def share(carried: Value, part: Value) -> tuple[Value, Value]:
        return carried, build.fmul(part, inverse)

    lowest = constants([float("-inf")] * LANES, F32)
    most = parts.go(read_biased if biased else read, largest, lowest, row)
    top = build.lanes(build.own("llvm.vector.reduce.fmax.v16f32", F32, most))
    total = build.total(parts.go(read, power, zeros(PART), row))
    inverse = build.lanes(build.fdiv(ir.Constant(F32, 1.0), total))
    parts.go(read, share, zeros(PART), row)
    rows.close()
    build.ret_void()


def write_softmax_back(module: ir.Module, name: str, *, narrow: bool = False) -> None:
    """Writes `name(probs, grad, begin, end, S)`: the gradient of scores p (grad - <p, grad>) of rows `begin` to `end`,
    in the place of `grad`. Both may be `narrow`, bfloat16."""
    build = RowWriter(module, name, 2, 3, narrow=[0, 1] if narrow else [])
    probs, grad, begin, end, keys = build.arguments
    parts = _Keys(build, keys)
    rows = Loop(build, begin, end)
    row, change = (build.row(held, rows.index, keys) for held in (probs, grad))

    def read(index: Value) -> tuple[Value, ...]:
        return build.part(row, index), build.part(change, index)

    def product(total: Value, share: Value, part: Value) -> tuple[Value, None]:
        return build.fma(share, part, total), None

    def centred(carried: Value, share: Value, part: Value) -> tuple[Value, Value]:
        return carried, build.fmul(share, build.fsub(part, mean))

    mean = build.lanes(build.total(parts.go(read, product, zeros(PART), change)))
    parts.go(read, centred, zeros(PART), change)
    rows.close()
    build.ret_void()
