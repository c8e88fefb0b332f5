"""Writes the kernel that goes through two automata at once."""

from llvmlite import ir

from gesso.kernels.host.llvm_ir import I32, I64, POINTER, VOID, Loop, Queue, Writer, constant


def write_pair(module: ir.Module, name: str) -> None:
    """Writes `name(one, other, numbers, queue, counts, groups, width, room)`: the pairs of states of two automata, with
    rows of so many groups, that the pair at the front of the queue leads to. A pair is the state of the one, times
    `width`, plus that of the other; `numbers` gets the place of each in the queue, plus one, and has 0 before; `counts`
    gets how many there are; of more than `room` the others are left out."""
    build = Writer(module, name, VOID, [POINTER] * 5 + [I64] * 3)
    one, other, numbers, queue, counts, groups, width, room = build.made.args
    taken = Queue(build, queue, constant(1))
    left = build.udiv(taken.taken, width)
    right = build.sub(taken.taken, build.mul(left, width))
    first, second = build.mul(left, groups), build.mul(right, groups)
    group = Loop(build, constant(0), groups)
    targets = [build.read(rows, I32, build.add(row, group.index)) for rows, row in ((one, first), (other, second))]
    with build.if_then(build.icmp_signed(">=", build.or_(*targets), constant(0, I32))):
        left, right = (build.sext(target, I64) for target in targets)
        pair = build.add(build.mul(left, width), right)
        size = taken.size
        unknown = build.icmp_signed("==", build.read(numbers, I32, pair), constant(0, I32))
        with build.if_then(build.and_(unknown, build.icmp_signed("<", size, room))):
            build.write(build.trunc(build.add(size, constant(1)), I32), numbers, pair)
            taken.append(pair)
    group.close()
    taken.close()
    build.write(taken.size, counts, constant(0))
    build.ret_void()
