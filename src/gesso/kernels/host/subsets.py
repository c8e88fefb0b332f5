"""Writes the kernels of the subset construction, for graphs without counters.

A set is a run of states in `pool`, where `set_begins` says, and has a hash, the sum of the numbers of its states, by
which it is found in `slots`; sets are numbered in the order in which they come. `sizes` has the number of sets, the
first of them that has no row yet, the last stamp, whether there was no room for another set, and how much was done.
"""

from llvmlite import ir

from gesso.kernels.host.llvm_ir import I8, I32, I64, POINTER, VOID, Loop, Queue, Value, Writer, constant

_SETS, _TURN, _STAMP, _FULL, _DONE = (constant(place) for place in range(5))
_NONE = constant(-1)


def write_settle(module: ir.Module, name: str) -> None:
    """Writes `name(free_begins, free, kept, numbers, stamps, queue, pool, set_begins, hashes, slots, sizes, count,
    states, room, pool_room, shift)`, which returns the set of what free steps lead to from the `count` states at the
    front of `queue`, those that are `kept`; -1 where it is new and there is no room. The states at the front have the
    last stamp already."""
    build = Writer(module, name, I64, [POINTER] * 11 + [I64] * 5)
    free_begins, free, kept, numbers, stamps, queue, pool, set_begins, hashes, slots, sizes, *rest = build.made.args
    count, states, room, pool_room, shift = rest
    total, behind = build.alloca(I64), build.alloca(I64)
    sets, stamp = build.read(sizes, I64, _SETS), build.trunc(build.read(sizes, I64, _STAMP), I32)
    begin = build.read(set_begins, I64, sets)
    with build.if_then(build.icmp_signed("<", build.sub(pool_room, begin), states), likely=False):
        build.ret(_NONE)
    build.store(constant(0), total)
    build.store(begin, behind)
    taken = Queue(build, queue, count)
    state = taken.taken
    with build.if_then(build.icmp_signed("!=", build.read(kept, I8, state), constant(0, I8))):
        place = build.load(behind, typ=I64)
        build.write(build.trunc(state, I32), pool, place)
        build.store(build.add(place, constant(1)), behind)
        build.store(build.add(build.load(total, typ=I64), build.read(numbers, I64, state)), total)
    step = Loop(build, *_run(build, free_begins, state))
    target = build.read_index(free, step.index)
    with build.if_then(build.icmp_signed("!=", build.read(stamps, I32, target), stamp)):
        build.write(stamp, stamps, target)
        taken.append(target)
    step.close()
    taken.close()
    _add(build, sizes, _DONE, taken.size)
    own, end = build.load(total, typ=I64), build.load(behind, typ=I64)
    slot = _slot(build, (stamps, pool, set_begins, hashes, slots), stamp, own, build.sub(end, begin), shift)
    with build.if_then(build.icmp_signed(">=", sets, room), likely=False):
        build.ret(_NONE)
    build.write(build.trunc(sets, I32), slots, slot)
    build.write(own, hashes, sets)
    more = build.add(sets, constant(1))
    build.write(end, set_begins, more)
    build.write(more, sizes, _SETS)
    build.ret(sets)


def _slot(build: Writer, arrays: tuple[Value, ...], stamp: Value, own: Value, size: Value, shift: Value) -> Value:
    """Returns from the kernel with the set of so many states that have the last stamp, where it is known; else finds
    the place in the table that it gets."""
    stamps, pool, set_begins, hashes, slots = arrays
    head, known, other, fresh = (build.made.append_basic_block() for _ in range(4))
    entry, first_slot = build.block, build.lshr(own, shift)
    build.branch(head)
    build.position_at_end(head)
    slot = build.phi(I64)
    slot.add_incoming(first_slot, entry)
    found = build.read_index(slots, slot)
    build.cbranch(build.icmp_signed("<", found, constant(0)), fresh, known)
    build.position_at_end(known)
    first, last = _run(build, set_begins, found)
    alike = build.and_(
        build.icmp_signed("==", build.read(hashes, I64, found), own),
        build.icmp_signed("==", build.sub(last, first), size),
    )
    # Of as many states, all of which were come to just now: it is the same set.
    member = Loop(build, first, build.select(alike, last, first), carried=[alike])
    state = build.read_index(pool, member.index)
    member.close(build.and_(member.carried[0], build.icmp_signed("==", build.read(stamps, I32, state), stamp)))
    with build.if_then(member.carried[0]):
        build.ret(found)
    build.branch(other)
    build.position_at_end(other)
    slot.add_incoming(build.and_(build.add(slot, constant(1)), build.lshr(_NONE, shift)), other)
    build.branch(head)
    build.position_at_end(fresh)
    return slot


def write_subsets(module: ir.Module, name: str) -> None:
    """Writes `name(begins, lows, highs, targets, free_begins, free, kept, numbers, stamps, queue, listed, marks, ones,
    pool, set_begins, hashes, slots, rows, sizes, groups, turns, most, states, room, pool_room, shift)`: the rows of the
    next sets and the sets that they lead to, as long as there is room, less than `most` was done, and so many rows at
    most.

    A state's edges, where `begins` says, are for the groups from `lows` up to and without `highs`. `listed` has room
    for all edges, `marks` for a byte for each group and one more, all 0; `ones` has the set that a single state leads
    to, or -1. `slots` is a table of -1.
    """
    build = Writer(module, name, VOID, [POINTER] * 19 + [I64] * 7)
    begins, lows, highs, targets, free_begins, free, kept, numbers, stamps, queue, *rest = build.made.args
    listed, marks, ones, pool, set_begins, hashes, slots, rows, sizes, *rest = rest
    groups, turns, most, *limits = rest
    count, followed = build.alloca(I64), build.alloca(I32)
    _insert_all(build, hashes, slots, build.read(sizes, I64, _SETS), limits[-1])
    turn = Loop(build, constant(0), turns)
    own = build.read(sizes, I64, _TURN)
    waits = build.icmp_signed("<", own, build.read(sizes, I64, _SETS))
    goes_on = build.icmp_signed("<", build.read(sizes, I64, _DONE), most)
    with build.if_then(build.and_(build.and_(waits, goes_on), _has_room(build, sizes))):
        edges = _list_edges(build, (begins, lows, highs, pool, listed, marks), _run(build, set_begins, own), count)
        group = Loop(build, constant(0), groups, carried=[constant(-1, I32)])
        build.store(group.carried[0], followed)
        with build.if_then(build.icmp_signed("!=", build.read(marks, I8, group.index), constant(0, I8))):
            build.write(constant(0, I8), marks, group.index)
            _add(build, sizes, _STAMP, constant(1))
            _add(build, sizes, _DONE, edges)
            fronts = _list_targets(
                build, (lows, highs, targets, stamps, queue, listed, sizes), edges, group.index, count
            )
            build.store(constant(-1, I32), followed)
            with build.if_then(build.icmp_signed(">", fronts, constant(0))):
                one, single = build.read(queue, I64), build.icmp_signed("==", fronts, constant(1))
                build.store(build.select(single, build.read(ones, I32, one), constant(-1, I32)), followed)
                with build.if_then(build.icmp_signed("<", build.load(followed, typ=I32), constant(0, I32))):
                    arrays = free_begins, free, kept, numbers, stamps, queue, pool, set_begins, hashes, slots, sizes
                    found = build.call(module.get_global("settle"), [*arrays, fronts, *limits])
                    build.store(build.trunc(found, I32), followed)
                    with build.if_then(single):
                        build.write(build.trunc(found, I32), ones, one)
                    with build.if_then(build.icmp_signed("<", found, constant(0)), likely=False):
                        build.write(constant(1), sizes, _FULL)
        follows = build.load(followed, typ=I32)
        build.write(follows, rows, build.add(build.mul(own, groups), group.index))
        group.close(follows)
        build.write(constant(0, I8), marks, groups)
        # Without room the row is made once more.
        with build.if_then(_has_room(build, sizes)):
            build.write(build.add(own, constant(1)), sizes, _TURN)
    turn.close()
    build.ret_void()


def _list_edges(build: Writer, arrays: tuple[Value, ...], run: tuple[Value, Value], count: Value) -> Value:
    """Lists the edges of a set, and marks where they begin and end; returns how many there are."""
    begins, lows, highs, pool, listed, marks = arrays
    build.store(constant(0), count)
    member = Loop(build, *run)
    edge = Loop(build, *_run(build, begins, build.read_index(pool, member.index)))
    last = build.load(count, typ=I64)
    build.write(edge.index, listed, last)
    build.store(build.add(last, constant(1)), count)
    for border in (lows, highs):
        build.write(constant(1, I8), marks, build.read_index(border, edge.index))
    edge.close()
    member.close()
    return build.load(count, typ=I64)


def _list_targets(build: Writer, arrays: tuple[Value, ...], edges: Value, group: Value, count: Value) -> Value:
    """Lists where edges lead that are for a group, each state once; returns how many there are."""
    lows, highs, targets, stamps, queue, listed, sizes = arrays
    place, stamp = build.trunc(group, I32), build.trunc(build.read(sizes, I64, _STAMP), I32)
    build.store(constant(0), count)
    item = Loop(build, constant(0), edges)
    edge = build.read(listed, I64, item.index)
    begun = build.icmp_signed("<=", build.read(lows, I32, edge), place)
    with build.if_then(build.and_(begun, build.icmp_signed("<", place, build.read(highs, I32, edge)))):
        target = build.read_index(targets, edge)
        with build.if_then(build.icmp_signed("!=", build.read(stamps, I32, target), stamp)):
            build.write(stamp, stamps, target)
            last = build.load(count, typ=I64)
            build.write(target, queue, last)
            build.store(build.add(last, constant(1)), count)
    item.close()
    return build.load(count, typ=I64)


def _insert_all(build: Writer, hashes: Value, slots: Value, sets: Value, shift: Value) -> None:
    """Puts the sets that are there into the table; all differ."""
    number = Loop(build, constant(0), sets)
    head, taken, free = (build.made.append_basic_block() for _ in range(3))
    entry, first = build.block, build.lshr(build.read(hashes, I64, number.index), shift)
    build.branch(head)
    build.position_at_end(head)
    slot = build.phi(I64)
    slot.add_incoming(first, entry)
    build.cbranch(build.icmp_signed("<", build.read(slots, I32, slot), constant(0, I32)), free, taken)
    build.position_at_end(taken)
    slot.add_incoming(build.and_(build.add(slot, constant(1)), build.lshr(_NONE, shift)), taken)
    build.branch(head)
    build.position_at_end(free)
    build.write(build.trunc(number.index, I32), slots, slot)
    number.close()


def _has_room(build: Writer, sizes: Value) -> Value:
    return build.icmp_signed("==", build.read(sizes, I64, _FULL), constant(0))


def _add(build: Writer, sizes: Value, place: Value, count: Value) -> None:
    build.write(build.add(build.read(sizes, I64, place), count), sizes, place)


def _run(build: Writer, begins: Value, place: Value) -> tuple[Value, Value]:
    return build.read(begins, I64, place), build.read(begins, I64, build.add(place, constant(1)))
