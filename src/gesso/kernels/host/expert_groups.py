"""Writes the kernel that lays rows side by side by the expert that they chose.

N rows of x   k experts of each   M = N k rows laid out   E experts
"""

from llvmlite import ir

from gesso.kernels.host.llvm_ir import I1, I8, I64, POINTER, VOID, Loop, Value, Writer, constant, declare
from gesso.kernels.host.words import MATRIX, OUT, ROW, SIZE, word_of

COUNTED = 4
"""Places that are told how many pieces there are."""
LARGEST = 16
"""Rows of a piece at most."""


def write_group_rows(module: ir.Module, name: str) -> None:
    """Writes `name(chosen, x, laid, slots, pieces, sizes, begins, counted, M, k, E, bytes, apart)`.

    Copies row i // k of x, so many `bytes` long, to `laid`, among those of the expert `chosen[i]`, and writes to
    `slots[i]` where it is. Cuts the rows of each expert into `pieces` (see `packed.multiply`), each the largest of
    `sizes` [17], which has one for as many rows as are left. Their number is written to the `COUNTED` addresses of
    `counted`. A piece's rows of activations begin with its first row, or, if `apart` is not 0, with `apart` times its
    number. `begins` [E + 1] is memory to work with.
    """
    build = Writer(module, name, VOID, [POINTER] * 8 + [I64] * 5)
    chosen, x, laid, slots, pieces, sizes, begins, counted, choices, each, experts, size, apart = build.made.args
    _count(build, chosen, begins, choices, experts)
    all_experts = Loop(build, constant(0), experts, carried=[constant(0), constant(0)])
    first, number = all_experts.carried
    rows = build.read(begins, I64, build.add(all_experts.index, constant(1)))
    build.write(first, begins, all_experts.index)
    end = build.add(first, rows)
    cuts = Loop(build, constant(0), rows, carried=[first, number])  # some rounds do nothing: every row may be a piece
    row, number = cuts.carried
    left = build.sub(end, row)
    taken = build.read(sizes, I64, build.least(left, constant(LARGEST)))
    live = build.icmp_signed(">", left, constant(0))
    with build.if_then(live):
        own = build.select(build.icmp_signed("==", apart, constant(0)), row, build.mul(number, apart))
        for word, value in ((ROW, own), (SIZE, taken), (MATRIX, all_experts.index), (OUT, row)):
            build.write(value, pieces, word_of(build, number, word))
    cuts.close(build.add(row, taken), build.add(number, build.zext(live, I64)))
    all_experts.close(end, cuts.carried[1])
    for i in range(COUNTED):
        build.write(all_experts.carried[1], build.inttoptr(build.read(counted, I64, constant(i)), POINTER))
    loop = Loop(build, constant(0), choices)
    expert = build.read(chosen, I64, loop.index)
    slot = build.read(begins, I64, expert)
    build.write(build.add(slot, constant(1)), begins, expert)
    build.write(slot, slots, loop.index)
    copy = declare(module, "llvm.memcpy.p0.p0.i64", VOID, [POINTER, POINTER, I64, I1])
    source = build.mul(build.sdiv(loop.index, each), size)
    places = build.at(laid, build.mul(slot, size), I8), build.at(x, source, I8)
    build.call(copy, [*places, size, constant(0, I1)])
    loop.close()
    build.ret_void()


def _count(build: Writer, chosen: Value, begins: Value, choices: Value, experts: Value) -> None:
    """Counts the rows of expert e in `begins[e + 1]`."""
    zero = Loop(build, constant(0), build.add(experts, constant(1)))
    build.write(constant(0), begins, zero.index)
    zero.close()
    loop = Loop(build, constant(0), choices)
    place = build.add(build.read(chosen, I64, loop.index), constant(1))
    build.write(build.add(build.read(begins, I64, place), constant(1)), begins, place)
    loop.close()
