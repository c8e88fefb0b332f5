"""Writes the kernels that do a list of compiled steps one after the other, without Python in between.

A step is four 64-bit words (`STEP`): the address of a function (context, thread, begin, end), that of its context, how
many units it has, and whether threads share these (see `team`). Functions of other arguments are called by way of
`write_call`.
"""

from llvmlite import ir

from gesso.kernels.host.llvm_ir import F32, I32, I64, POINTER, VOID, Loop, Writer, constant, declare
from gesso.kernels.host.team import DONE

STEP = 4
"""Words of a step."""
_WORK = ir.FunctionType(VOID, [POINTER, I64, I64, I64])
_SHARE = ir.FunctionType(I64, [POINTER, I64, I64, I64, I64, I64, I64])


def write_call(module: ir.Module, name: str, wholes: int, floats: int) -> None:
    """Writes `name(words, thread, begin, end)`: calls the function whose address is the first word with so many words,
    64-bit numbers or addresses, and then floats, as the bits of a word each."""
    build = Writer(module, name, VOID, [POINTER, I64, I64, I64])
    words = build.made.args[0]
    address, *given = (build.read(words, I64, constant(i)) for i in range(1 + wholes + floats))
    given[wholes:] = [build.bitcast(build.trunc(word, I32), F32) for word in given[wholes:]]
    kind = ir.FunctionType(VOID, [I64] * wholes + [F32] * floats)
    build.call(build.inttoptr(address, kind.as_pointer()), given)
    build.ret_void()


def write_run(module: ir.Module, name: str) -> None:
    """Writes `name(steps, begin, end, share, team, threads, watch, cpu, left)`, which does steps `begin` to before
    `end`.

    Returns `end`; or an earlier step whose job its caller has to finish, having written what `team`'s `share`, at the
    address that is given, returned. With one thread nothing is shared.
    """
    build = Writer(module, name, I64, [POINTER, I64, I64, I64, POINTER, I64, I64, I64, POINTER])
    steps, begin, end, share, team, threads, watch, cpu, left = build.made.args
    loop = Loop(build, begin, end)
    place = build.mul(loop.index, constant(STEP))
    work, context, count, shared = (build.read(steps, I64, build.add(place, constant(i))) for i in range(STEP))
    several = build.and_(build.icmp_signed("!=", shared, constant(0)), build.icmp_signed(">", threads, constant(1)))
    with build.if_else(several) as (together, alone):
        with together:
            function = build.inttoptr(share, _SHARE.as_pointer())
            found = build.call(function, [team, work, context, count, threads, watch, cpu])
            with build.if_then(build.icmp_signed("!=", found, constant(DONE))):
                build.write(found, left)
                build.ret(loop.index)
        with alone:
            pointer = build.inttoptr(context, POINTER)
            build.call(build.inttoptr(work, _WORK.as_pointer()), [pointer, constant(0), constant(0), count])
    loop.close()
    build.ret(end)


def write_list_pieces(module: ir.Module, name: str) -> None:
    """Writes `name(chosen, first, second, k)`: the pieces (see `packed.multiply`) of a row that is multiplied by each
    of k matrices, and of k rows that are multiplied by one of them each."""
    build = Writer(module, name, VOID, [POINTER] * 3 + [I64])
    chosen, first, second, count = build.made.args
    loop = Loop(build, constant(0), count)
    matrix = build.read(chosen, I64, loop.index)
    for pieces, row in ((first, constant(0)), (second, loop.index)):
        for word, value in enumerate((row, constant(1), matrix, loop.index)):
            build.write(value, pieces, build.add(build.mul(loop.index, constant(4)), constant(word)))
    loop.close()
    build.ret_void()


def write_keep_heads(module: ir.Module, name: str) -> None:
    """Writes `name(k, v, keys, values, G, K, apart)`: copies k and v, [G, K] of fp32 each, to where rows are `apart`
    numbers apart."""
    build = Writer(module, name, VOID, [POINTER] * 4 + [I64] * 3)
    k, v, keys, values, groups, width, apart = build.made.args
    heads = Loop(build, constant(0), groups)
    for source, target in ((k, keys), (v, values)):
        copy = declare(module, "llvm.memcpy.p0.p0.i64", VOID, [POINTER, POINTER, I64, ir.IntType(1)])
        to = build.at(target, build.mul(heads.index, apart), F32)
        begin = build.at(source, build.mul(heads.index, width), F32)
        build.call(copy, [to, begin, build.mul(width, constant(4)), constant(0, ir.IntType(1))])
    heads.close()
    build.ret_void()
