"""Writes the kernels that tell the states of an automaton apart: by their distances to an end, and by hashes."""

from llvmlite import ir

from gesso.kernels.host.llvm_ir import I8, I32, I64, POINTER, VOID, Loop, Queue, Writer, constant


def write_heights(module: ir.Module, name: str) -> None:
    """Writes `name(begins, before, left, heights, queue, count)`: the most steps from states to one without followers.

    `before` has the states before each one, where `begins` says; `left` how many pairs begin with each, and is
    overwritten. The `count` states at the front of `queue` have no followers, and height 0 already.
    """
    build = Writer(module, name, VOID, [POINTER] * 5 + [I64])
    begins, before, left, heights, queue, count = build.made.args
    taken = Queue(build, queue, count)
    state = taken.taken
    height = build.add(build.read(heights, I32, state), constant(1, I32))
    end = build.read(begins, I64, build.add(state, constant(1)))
    pair = Loop(build, build.read(begins, I64, state), end)
    source = build.read_index(before, pair.index)
    rest = build.sub(build.read(left, I64, source), constant(1))
    build.write(rest, left, source)
    with build.if_then(build.icmp_signed("==", rest, constant(0))):
        # States come in the order of their heights, so the last that follows is one of the highest.
        build.write(height, heights, source)
        taken.append(source)
    pair.close()
    taken.close()
    build.ret_void()


def write_mix(module: ir.Module, name: str) -> None:
    """Writes `name(begins, targets, widths, numbers, fixed, out, states, factor)`: of each state its number times
    `factor`, and of each of its runs that of the target times the width; of a fixed one its own number."""
    build = Writer(module, name, VOID, [POINTER] * 6 + [I64] * 2)
    begins, targets, widths, numbers, fixed, out, states, factor = build.made.args
    state = Loop(build, constant(0), states)
    own = build.read(numbers, I64, state.index)
    end = build.read(begins, I64, build.add(state.index, constant(1)))
    run = Loop(build, build.read(begins, I64, state.index), end, carried=[build.mul(own, factor)])
    of_target = build.read(numbers, I64, build.read(targets, I64, run.index))
    run.close(build.add(run.carried[0], build.mul(of_target, build.read(widths, I64, run.index))))
    kept = build.icmp_signed("!=", build.read(fixed, I8, state.index), constant(0, I8))
    build.write(build.select(kept, own, run.carried[0]), out, state.index)
    state.close()
    build.ret_void()


def write_relabel(module: ir.Module, name: str) -> None:
    """Writes `name(hashes, slots, firsts, labels, counts, size, shift)`: numbers the hashes in the order in which they
    come, equal ones alike. `firsts` gets where each number comes first, `counts` how many there are. `slots` is a table
    of -1; a hash's place in it is what is left when `shift` bits are."""
    build = Writer(module, name, VOID, [POINTER] * 5 + [I64] * 2)
    hashes, slots, firsts, labels, counts, size, shift = build.made.args
    count = build.alloca(I64)
    build.store(constant(0), count)
    mask = build.lshr(constant(-1), shift)
    item = Loop(build, constant(0), size)
    own = build.read(hashes, I64, item.index)
    head, taken, other, fresh, done = (build.made.append_basic_block() for _ in range(5))
    entry = build.block
    first_place = build.lshr(own, shift)
    build.branch(head)
    build.position_at_end(head)
    place = build.phi(I64)
    place.add_incoming(first_place, entry)
    slot = build.read(slots, I64, place)
    build.cbranch(build.icmp_signed("<", slot, constant(0)), fresh, taken)
    build.position_at_end(taken)
    known = build.read(hashes, I64, build.read(firsts, I64, slot))
    build.cbranch(build.icmp_signed("==", known, own), done, other)
    build.position_at_end(other)
    place.add_incoming(build.and_(build.add(place, constant(1)), mask), other)
    build.branch(head)
    build.position_at_end(fresh)
    number = build.load(count, typ=I64)
    build.write(number, slots, place)
    build.write(item.index, firsts, number)
    build.store(build.add(number, constant(1)), count)
    build.branch(done)
    build.position_at_end(done)
    label = build.phi(I64)
    label.add_incoming(slot, taken)
    label.add_incoming(number, fresh)
    build.write(label, labels, item.index)
    item.close()
    build.write(build.load(count, typ=I64), counts, constant(0))
    build.ret_void()


def write_refine(module: ir.Module, name: str) -> None:
    """Writes `name(begins, targets, widths, of_label, fixed, labels, numbers, hashes, slots, firsts, counts, states,
    width, factor, shift, turns)`: mixes and numbers anew, so many times at most, until no more labels are told apart.

    Behind the `states` stands one more, whose runs lead to itself and are `width` wide in all. `counts` has how many
    labels there are, and gets how many there are then, and whether that is all. `numbers`, `hashes` and `slots` are
    room; for the rest see `mix` and `relabel`, which the module has already.
    """
    build = Writer(module, name, VOID, [POINTER] * 11 + [I64] * 5)
    begins, targets, widths, of_label, fixed, labels, numbers, hashes, slots, firsts, counts, *rest = build.made.args
    states, width, factor, shift, turns = rest
    size = build.add(states, constant(1))
    places = build.add(build.lshr(constant(-1), shift), constant(1))
    head, done = build.made.append_basic_block(), build.made.append_basic_block()
    before = build.block
    build.branch(head)
    build.position_at_end(head)
    turn = build.phi(I64)
    turn.add_incoming(constant(1), before)
    known = build.read(counts, I64, constant(0))
    state = Loop(build, constant(0), size)
    build.write(build.read(of_label, I64, build.read(labels, I64, state.index)), numbers, state.index)
    state.close()
    build.call(module.get_global("mix"), [begins, targets, widths, numbers, fixed, hashes, states, factor])
    last = build.mul(build.read(numbers, I64, states), build.add(width, factor))
    build.write(last, hashes, states)
    slot = Loop(build, constant(0), places)
    build.write(constant(-1), slots, slot.index)
    slot.close()
    build.call(module.get_global("relabel"), [hashes, slots, firsts, labels, counts, size, shift])
    settled = build.icmp_signed("==", build.read(counts, I64, constant(0)), known)
    ends = build.or_(settled, build.icmp_signed(">=", turn, turns))
    turn.add_incoming(build.add(turn, constant(1)), build.block)
    build.cbranch(ends, done, head)
    build.position_at_end(done)
    build.write(build.zext(settled, I64), counts, constant(1))
    build.ret_void()


def write_alike(module: ir.Module, name: str) -> None:
    """Writes `name(next, labels, firsts, seconds, differs, pairs, states, groups)`: whether the labels that follow two
    states differ, for any of the pairs. What is no state, in a pair or in a row, leads nowhere: to the last label."""
    build = Writer(module, name, VOID, [POINTER] * 5 + [I64] * 3)
    following, labels, firsts, seconds, differs, pairs, states, groups = build.made.args
    pair = Loop(build, constant(0), pairs, carried=[constant(0)])
    rows = [build.read(numbers, I64, pair.index) for numbers in (firsts, seconds)]
    group = Loop(build, constant(0), groups, carried=pair.carried)
    found = []
    for row in rows:
        inside = build.icmp_signed("<", row, states)
        place = build.add(build.mul(build.select(inside, row, constant(0)), groups), group.index)
        target = build.read_index(following, place)
        leads = build.and_(inside, build.icmp_signed(">=", target, constant(0)))
        found.append(build.read(labels, I64, build.select(leads, target, states)))
    group.close(build.or_(group.carried[0], build.xor(*found)))
    pair.close(group.carried[0])
    build.write(pair.carried[0], differs)
    build.ret_void()
