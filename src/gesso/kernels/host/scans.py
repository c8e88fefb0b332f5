"""Writes the kernels that run over the positions of a canvas under a constraint: pairs of states, one after another.

Numbers are doubles, places are 64-bit. Pairs are listed by their source, `begins` says where those of each begin.
A position's weights are [sets]; what is said of the states of all positions is [positions + 1, states].
"""

from llvmlite import ir

from gesso.kernels.host.llvm_ir import F64, I64, POINTER, VOID, Loop, Value, Writer, constant

_NOTHING = ir.Constant(F64, 0.0)
_NEVER = ir.Constant(F64, float("-inf"))


def write_best(module: ir.Module, name: str) -> None:
    """Writes `name(ahead, weights, begins, target, set, positions, states, sets)`: from the last position to the first,
    the best sum of a weight and what is ahead of it."""
    build = Writer(module, name, VOID, [POINTER] * 5 + [I64] * 3)
    ahead, weights, begins, target, kind, positions, states, sets = build.made.args
    turn = Loop(build, constant(0), positions)
    place = build.sub(build.sub(positions, turn.index), constant(1))
    here, then, weight = _rows(build, place, ahead, states, weights, sets)
    of_state = Loop(build, constant(0), states)
    end = build.read(begins, I64, build.add(of_state.index, constant(1)))
    pair = Loop(build, build.read(begins, I64, of_state.index), end, carried=[_NEVER])
    way = build.fadd(_at(build, then, target, pair.index), _at(build, weight, kind, pair.index))
    pair.close(_larger(build, way, pair.carried[0]))
    build.write(pair.carried[0], here, of_state.index)
    of_state.close()
    turn.close()
    build.ret_void()


def write_behind(module: ir.Module, name: str) -> None:
    """Writes `name(behind, weights, begins, target, set, tops, positions, states, sets, every)`: from the last position
    to the first, the sum of products of a weight and what is behind it. Every so many positions they are divided by the
    largest, which `tops` keeps."""
    build = Writer(module, name, VOID, [POINTER] * 6 + [I64] * 4)
    behind, weights, begins, target, kind, tops, positions, states, sets, every = build.made.args
    turn = Loop(build, constant(0), positions)
    place = build.sub(build.sub(positions, turn.index), constant(1))
    here, then, weight = _rows(build, place, behind, states, weights, sets)
    of_state = Loop(build, constant(0), states, carried=[_NOTHING])
    end = build.read(begins, I64, build.add(of_state.index, constant(1)))
    pair = Loop(build, build.read(begins, I64, of_state.index), end, carried=[_NOTHING])
    way = build.fmul(_at(build, then, target, pair.index), _at(build, weight, kind, pair.index))
    pair.close(build.fadd(pair.carried[0], way))
    build.write(pair.carried[0], here, of_state.index)
    of_state.close(_larger(build, pair.carried[0], of_state.carried[0]))
    _scaled(build, here, states, of_state.carried[0], tops, place, every)
    turn.close()
    build.ret_void()


def write_shares(module: ir.Module, name: str) -> None:
    """Writes `name(before, next, shares, behind, weights, begins, source, target, tops, positions, states, sets,
    every)`, pairs listed by their set: from the first position to the last, the weight of all ways to each state, and
    of all ways through each set of a position. `before` has the states before the first one, and is overwritten."""
    build = Writer(module, name, VOID, [POINTER] * 9 + [I64] * 4)
    before, following, shares, behind, weights, begins, source, target, tops, *sizes = build.made.args
    positions, states, sets, every = sizes
    turn = Loop(build, constant(0), positions)
    _, then, weight = _rows(build, turn.index, behind, states, weights, sets)
    share = build.at(shares, build.mul(turn.index, sets), F64)
    clear = Loop(build, constant(0), states)
    build.write(_NOTHING, following, clear.index)
    clear.close()
    of_set = Loop(build, constant(0), sets)
    each = build.read(weight, F64, of_set.index)
    end = build.read(begins, I64, build.add(of_set.index, constant(1)))
    pair = Loop(build, build.read(begins, I64, of_set.index), end, carried=[_NOTHING])
    to = build.read(target, I64, pair.index)
    way = build.fmul(_at(build, before, source, pair.index), each)
    build.write(build.fadd(build.read(following, F64, to), way), following, to)
    pair.close(build.fadd(pair.carried[0], build.fmul(way, build.read(then, F64, to))))
    build.write(pair.carried[0], share, of_set.index)
    of_set.close()
    move = Loop(build, constant(0), states, carried=[_NOTHING])
    value = build.read(following, F64, move.index)
    build.write(value, before, move.index)
    move.close(_larger(build, value, move.carried[0]))
    _scaled(build, before, states, move.carried[0], tops, turn.index, every)
    turn.close()
    build.ret_void()


def _rows(
    build: Writer, place: Value, rows: Value, states: Value, weights: Value, sets: Value
) -> tuple[Value, Value, Value]:
    """A position's row, the next one, and the position's weights."""
    begin = build.mul(place, states)
    here, then = (build.at(rows, first, F64) for first in (begin, build.add(begin, states)))
    return here, then, build.at(weights, build.mul(place, sets), F64)


def _at(build: Writer, numbers: Value, places: Value, index: Value) -> Value:
    return build.read(numbers, F64, build.read(places, I64, index))


def _larger(build: Writer, one: Value, other: Value) -> Value:
    return build.select(build.fcmp_ordered(">", one, other), one, other)


def _scaled(build: Writer, row: Value, states: Value, top: Value, tops: Value, place: Value, every: Value) -> None:
    """Divides a row by its largest number, where it is its turn."""
    with build.if_then(build.icmp_signed("==", build.srem(place, every), constant(0))):
        build.write(top, tops, place)
        loop = Loop(build, constant(0), states)
        build.write(build.fdiv(build.read(row, F64, loop.index), top), row, loop.index)
        loop.close()
