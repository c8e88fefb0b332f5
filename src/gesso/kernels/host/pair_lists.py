"""Writes the kernels that go through lists of pairs: the states that a class of tokens leads from, and to.

Classes, called kinds, have a run of pairs each, where `begins` and `lengths` say; pairs, numbers of rows and columns
are 32-bit, places and hashes 64-bit.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir

from gesso.kernels.host.llvm_ir import I8, I32, I64, POINTER, VOID, Loop, Queue, Value, Writer, constant


def write_count(module: ir.Module, name: str) -> None:
    """Writes `name(begins, lengths, sources, counts, kinds)`: adds to `counts` how many pairs each source has."""
    build = Writer(module, name, VOID, [POINTER] * 4 + [I64])
    begins, lengths, sources, counts, kinds = build.made.args
    with _pairs(build, begins, lengths, kinds) as (_, pair):
        source = build.read_index(sources, pair)
        build.write(build.add(build.read(counts, I64, source), constant(1)), counts, source)
    build.ret_void()


def write_sort(module: ir.Module, name: str) -> None:
    """Writes `name(begins, lengths, sources, targets, places, out, kinds)`: the targets by their sources; `places` has
    where those of each source begin, and is overwritten."""
    build = Writer(module, name, VOID, [POINTER] * 6 + [I64])
    begins, lengths, sources, targets, places, out, kinds = build.made.args
    with _pairs(build, begins, lengths, kinds) as (_, pair):
        source = build.read_index(sources, pair)
        place = build.read(places, I64, source)
        build.write(build.read(targets, I32, pair), out, place)
        build.write(build.add(place, constant(1)), places, source)
    build.ret_void()


def write_distinct(module: ir.Module, name: str) -> None:
    """Writes `name(begins, targets, stamps, lengths, states)`: of the targets of each state each one once, in front of
    the others, and how many these are. `stamps` has a number for each state that is no state's."""
    build = Writer(module, name, VOID, [POINTER] * 4 + [I64])
    begins, targets, stamps, lengths, states = build.made.args
    state = Loop(build, constant(0), states)
    begin, stamp = build.read(begins, I64, state.index), build.trunc(state.index, I32)
    end = build.read(begins, I64, build.add(state.index, constant(1)))
    pair = Loop(build, begin, end, carried=[begin])
    target = build.read(targets, I32, pair.index)
    new = build.icmp_signed("!=", build.read(stamps, I32, build.sext(target, I64)), stamp)
    build.write(stamp, stamps, build.sext(target, I64))
    build.write(target, targets, pair.carried[0])
    pair.close(build.add(pair.carried[0], build.zext(new, I64)))
    build.write(build.sub(pair.carried[0], begin), lengths, state.index)
    state.close()
    build.ret_void()


def write_reach(module: ir.Module, name: str) -> None:
    """Writes `name(begins, followers, steps, queue, counts, count, far)`: breadth first, the steps from the `count`
    states at the front of `queue` to all others; those states have 0 already, and others `far`. The queue has room for
    all, and in the end those that were come to; `counts` gets their number."""
    build = Writer(module, name, VOID, [POINTER] * 5 + [I64] * 2)
    begins, followers, steps, queue, counts, count, far = build.made.args
    never, taken = build.trunc(far, I32), Queue(build, queue, count)
    state = taken.taken
    step = build.add(build.read(steps, I32, state), constant(1, I32))
    end = build.read(begins, I64, build.add(state, constant(1)))
    pair = Loop(build, build.read(begins, I64, state), end)
    follower = build.read_index(followers, pair.index)
    with build.if_then(build.icmp_signed("==", build.read(steps, I32, follower), never)):
        build.write(step, steps, follower)
        taken.append(follower)
    pair.close()
    taken.close()
    build.write(taken.size, counts, constant(0))
    build.ret_void()


def write_sums(module: ir.Module, name: str) -> None:
    """Writes `name(begins, lengths, sources, targets, source_numbers, target_numbers, of_source, of_target, counts,
    sums, kinds)`: how many pairs of each kind have two numbers, and the sum of the products of what the two tables say
    of these."""
    build = Writer(module, name, VOID, [POINTER] * 10 + [I64])
    begins, lengths, sources, targets, source_numbers, target_numbers, *rest = build.made.args
    of_source, of_target, counts, sums, kinds = rest
    kind = Loop(build, constant(0), kinds)
    begin = build.read(begins, I64, kind.index)
    end = build.add(begin, build.read(lengths, I64, kind.index))
    pair = Loop(build, begin, end, carried=[constant(0), constant(0)])
    source = build.read_index(source_numbers, build.read_index(sources, pair.index))
    target = build.read_index(target_numbers, build.read_index(targets, pair.index))
    kept = build.icmp_signed(">=", build.or_(source, target), constant(0))
    zero = constant(0)
    product = build.mul(
        build.read(of_source, I64, build.select(kept, source, zero)),
        build.read(of_target, I64, build.select(kept, target, zero)),
    )
    count, total = pair.carried
    pair.close(build.add(count, build.zext(kept, I64)), build.add(total, build.select(kept, product, zero)))
    build.write(pair.carried[0], counts, kind.index)
    build.write(pair.carried[1], sums, kind.index)
    kind.close()
    build.ret_void()


def write_fill(module: ir.Module, name: str) -> None:
    """Writes `name(begins, lengths, sources, targets, source_numbers, target_numbers, places, first, table, differs,
    kinds, columns)`: the pairs of the first kinds into a table of rows of so many columns, and whether those of another
    kind with the same place are not what stands there. The first of a place comes before the others."""
    build = Writer(module, name, VOID, [POINTER] * 10 + [I64] * 2)
    begins, lengths, sources, targets, source_numbers, target_numbers, *rest = build.made.args
    places, first, table, differs, kinds, columns = rest
    with _pairs(build, begins, lengths, kinds) as (kind, pair):
        source = build.read_index(source_numbers, build.read_index(sources, pair))
        target = build.read_index(target_numbers, build.read_index(targets, pair))
        with build.if_then(build.icmp_signed(">=", build.or_(source, target), constant(0))):
            place = build.add(build.mul(source, columns), build.read_index(places, kind))
            number = build.trunc(target, I32)
            with build.if_else(build.icmp_signed("!=", build.read(first, I8, kind), constant(0, I8))) as (new, known):
                with new:
                    build.write(number, table, place)
                with known:
                    bits = build.xor(number, build.read(table, I32, place))
                    build.write(build.or_(bits, build.read(differs, I32)), differs)
    build.ret_void()


@contextmanager
def _pairs(build: Writer, begins: Value, lengths: Value, kinds: Value) -> Iterator[tuple[Value, Value]]:
    """Goes through the pairs of all kinds: the kind, and the place of the pair."""
    kind = Loop(build, constant(0), kinds)
    begin = build.read(begins, I64, kind.index)
    pair = Loop(build, begin, build.add(begin, build.read(lengths, I64, kind.index)))
    yield kind.index, pair.index
    pair.close()
    kind.close()
