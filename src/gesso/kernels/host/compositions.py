"""Writes the kernels that compose functions of states with bytes, for the whole vocabulary of a constraint.

A function is a list of parts, and a part a list of pairs, of a state and where it goes; `begins` and `lengths` say
where those of each stand. States and functions are 32-bit, codes, places and hashes 64-bit. A code stands for a
function or a part and a group of bytes: its number, times the number of groups, plus the group.
"""

from llvmlite import ir

from gesso.kernels.host.llvm_ir import I8, I32, I64, POINTER, VOID, Loop, Value, Writer, constant

UNKNOWN, ASKED = -1, -2
"""In place of a function or a part that is not worked out yet: nobody has asked for it, or somebody has."""


def write_descend(module: ir.Module, name: str) -> None:
    """Writes `name(above, parents, labels, group, then, codes, fresh, count, nodes, groups)`: the code of each node of
    a level, from the functions of the level above; lists those that are unknown once each, and counts them."""
    build = Writer(module, name, VOID, [POINTER] * 8 + [I64] * 2)
    above, parents, labels, group, then, codes, fresh, count, nodes, groups = build.made.args
    node = Loop(build, constant(0), nodes)
    function = build.read(above, I32, build.read_index(parents, node.index))
    label = build.zext(build.read(labels, I8, node.index), I64)
    code = build.add(build.mul(build.sext(function, I64), groups), build.read(group, I64, label))
    build.write(code, codes, node.index)
    _list_unknown(build, code, then, fresh, count)
    node.close()
    build.ret_void()


def write_land(module: ir.Module, name: str) -> None:
    """Writes `name(codes, then, out, nodes)`: the function of each code."""
    build = Writer(module, name, VOID, [POINTER] * 3 + [I64])
    codes, then, out, nodes = build.made.args
    node = Loop(build, constant(0), nodes)
    build.write(build.read(then, I32, build.read(codes, I64, node.index)), out, node.index)
    node.close()
    build.ret_void()


def write_compose(module: ir.Module, name: str) -> None:
    """Writes `name(codes, begins, lengths, sources, targets, next, of_source, of_target, new_sources, new_targets,
    new_lengths, new_hashes, count, groups, states)`: the pairs of each code, one code after the other, and the sum of
    what the two tables of numbers give for them. `next` has a row for each group. The new pairs need room for one more
    than there are in the parts."""
    build = Writer(module, name, VOID, [POINTER] * 12 + [I64] * 3)
    codes, begins, lengths, sources, targets, following, of_source, of_target, *rest = build.made.args
    new_sources, new_targets, new_lengths, new_hashes, count, groups, states = rest
    turn = Loop(build, constant(0), count, carried=[constant(0)])
    group, begin, end = _list_of(build, codes, begins, lengths, turn.index, groups)
    row = build.at(following, build.mul(group, states), I32)
    first = turn.carried[0]
    pair = Loop(build, begin, end, carried=[first])
    source = build.read(sources, I32, pair.index)
    target = build.read(row, I32, build.read_index(targets, pair.index))
    # What leads nowhere is overwritten by the next one.
    place = pair.carried[0]
    build.write(source, new_sources, place)
    build.write(target, new_targets, place)
    pair.close(build.add(place, build.zext(build.icmp_signed(">=", target, constant(0, I32)), I64)))
    behind = pair.carried[0]
    # Far fewer are left than were looked at.
    pair = Loop(build, first, behind, carried=[constant(0)])
    number = build.mul(
        build.read(of_source, I64, build.read_index(new_sources, pair.index)),
        build.read(of_target, I64, build.read_index(new_targets, pair.index)),
    )
    pair.close(build.add(pair.carried[0], number))
    build.write(build.sub(behind, first), new_lengths, turn.index)
    build.write(pair.carried[0], new_hashes, turn.index)
    turn.close(behind)
    build.ret_void()


def write_ask(module: ir.Module, name: str) -> None:
    """Writes `name(codes, begins, lengths, parts, then, fresh, count, codes_count, groups)`: goes through the parts of
    each code's function; lists the codes of parts that are unknown once each, and counts them."""
    build = Writer(module, name, VOID, [POINTER] * 7 + [I64] * 2)
    codes, begins, lengths, parts, then, fresh, count, size, groups = build.made.args
    turn = Loop(build, constant(0), size)
    group, begin, end = _list_of(build, codes, begins, lengths, turn.index, groups)
    place = Loop(build, begin, end)
    code = build.add(build.mul(build.read_index(parts, place.index), groups), group)
    _list_unknown(build, code, then, fresh, count)
    place.close()
    turn.close()
    build.ret_void()


def write_gather(module: ir.Module, name: str) -> None:
    """Writes `name(codes, begins, lengths, parts, then, hashes, new_parts, new_lengths, new_hashes, codes_count,
    groups)`: what becomes of the parts of each code's function, without those that are part 0, and the sum of their
    hashes. The new parts need room for one more than there are in the functions."""
    build = Writer(module, name, VOID, [POINTER] * 9 + [I64] * 2)
    codes, begins, lengths, parts, then, hashes, new_parts, new_lengths, new_hashes, size, groups = build.made.args
    turn = Loop(build, constant(0), size, carried=[constant(0)])
    first = turn.carried[0]
    group, begin, end = _list_of(build, codes, begins, lengths, turn.index, groups)
    place = Loop(build, begin, end, carried=[first, constant(0)])
    behind, total = place.carried
    part = build.read(then, I32, build.add(build.mul(build.read_index(parts, place.index), groups), group))
    # An empty part is overwritten by the next one; its hash is 0.
    build.write(part, new_parts, behind)
    left = build.zext(build.icmp_signed("!=", part, constant(0, I32)), I64)
    place.close(build.add(behind, left), build.add(total, build.read(hashes, I64, build.sext(part, I64))))
    behind, total = place.carried
    build.write(build.sub(behind, first), new_lengths, turn.index)
    build.write(total, new_hashes, turn.index)
    turn.close(behind)
    build.ret_void()


def write_spell(module: ir.Module, name: str) -> None:
    """Writes `name(listed, begins, lengths, sources, targets, new_sources, new_targets, count)`: the pairs of the parts
    that are listed, one part after the other."""
    build = Writer(module, name, VOID, [POINTER] * 7 + [I64])
    listed, begins, lengths, sources, targets, new_sources, new_targets, count = build.made.args
    turn = Loop(build, constant(0), count, carried=[constant(0)])
    part, first = build.read_index(listed, turn.index), turn.carried[0]
    begin, length = build.read(begins, I64, part), build.read(lengths, I64, part)
    for numbers, made in ((sources, new_sources), (targets, new_targets)):
        pair = Loop(build, constant(0), length)
        build.write(build.read(numbers, I32, build.add(begin, pair.index)), made, build.add(first, pair.index))
        pair.close()
    turn.close(build.add(first, length))
    build.ret_void()


def write_keep(module: ir.Module, name: str) -> None:
    """Writes `name(found, new_sources, new_targets, new_lengths, begins, lengths, sources, targets, sizes, count)`: the
    pairs of functions whose number comes next are put behind the others; those of others are held against what stands
    there. `sizes` has the pairs, the functions, and whether any differed."""
    build = Writer(module, name, VOID, [POINTER] * 9 + [I64])
    found, new_sources, new_targets, new_lengths, begins, lengths, sources, targets, sizes, count = build.made.args
    turn = Loop(build, constant(0), count, carried=[constant(0)])
    number, first = build.read(found, I64, turn.index), turn.carried[0]
    length = build.read(new_lengths, I64, turn.index)
    pairs, functions = (build.read(sizes, I64, constant(place)) for place in (0, 1))
    with build.if_else(build.icmp_signed("==", number, functions)) as (new, known):
        with new:
            build.write(pairs, begins, number)
            build.write(length, lengths, number)
            for numbers, kept in ((new_sources, sources), (new_targets, targets)):
                pair = Loop(build, constant(0), length)
                build.write(build.read(numbers, I32, build.add(first, pair.index)), kept, build.add(pairs, pair.index))
                pair.close()
            build.write(build.add(pairs, length), sizes, constant(0))
            build.write(build.add(functions, constant(1)), sizes, constant(1))
        with known:
            begin = build.read(begins, I64, number)
            other = build.read(lengths, I64, number)
            shorter = build.select(build.icmp_signed("<", other, length), other, length)
            differs = build.zext(build.icmp_signed("!=", other, length), I32)
            pair = Loop(build, constant(0), shorter, carried=[differs])
            bits = pair.carried[0]
            for numbers, kept in ((new_sources, sources), (new_targets, targets)):
                one = build.read(numbers, I32, build.add(first, pair.index))
                bits = build.or_(bits, build.xor(one, build.read(kept, I32, build.add(begin, pair.index))))
            pair.close(bits)
            with build.if_then(build.icmp_signed("!=", pair.carried[0], constant(0, I32)), likely=False):
                build.write(constant(1), sizes, constant(2))
    turn.close(build.add(first, length))
    build.ret_void()


def _list_unknown(build: Writer, code: Value, then: Value, fresh: Value, count: Value) -> None:
    """Lists a code behind those in `fresh`, which are `count`, if nobody has asked for it yet."""
    with build.if_then(build.icmp_signed("==", build.read(then, I32, code), constant(UNKNOWN, I32)), likely=False):
        build.write(constant(ASKED, I32), then, code)
        listed = build.read(count, I64)
        build.write(code, fresh, listed)
        build.write(build.add(listed, constant(1)), count)


def _list_of(
    build: Writer, codes: Value, begins: Value, lengths: Value, index: Value, groups: Value
) -> tuple[Value, Value, Value]:
    """The group of a code, and where the list of its function begins and ends."""
    code = build.read(codes, I64, index)
    function = build.udiv(code, groups)
    begin = build.read(begins, I64, function)
    end = build.add(begin, build.read(lengths, I64, function))
    return build.sub(code, build.mul(function, groups)), begin, end
