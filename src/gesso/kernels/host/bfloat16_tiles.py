"""Writes the kernels that multiply bfloat16 rows by bfloat16 matrices in tiles, by AMX.

    M rows   E matrices   N columns of what comes out, a multiple of 16   K features, a multiple of 32

Where a matrix lies row by row, sixteen of its rows are a tile as they are. Rows of x come in groups of sixteen at most,
all of one matrix, and are turned: pairs of features of sixteen rows stand side by side. So what comes out is turned,
too, and is turned back before it is rounded. Sums are taken in fp32, 32 features after the other, and rounded once at
the end: their order depends on neither the number of rows, nor a row's place, nor the threads. (Where a matrix lies
column by column: `bfloat16_columns`.)

A group is (first row of x and of what comes out, rows), int64 [groups, 2].
"""

from llvmlite import ir

from gesso.kernels.host import amx
from gesso.kernels.host.dots import FLOATS, WHOLES
from gesso.kernels.host.llvm_ir import F32, I8, I16, I64, POINTER, VOID, Loop, Value, Writer, constant, vector, zeros

FEATURES = 32
"""Features that one instruction adds up."""
TILE = amx.SIDE * amx.WIDTH
"""Bytes of a tile."""
COLUMNS = 2 * amx.SIDE
"""Columns of a unit of work."""
_SUMS, _MATRIX, _ROWS = ((0, 1), (2, 3)), (4, 5), (6, 7)
"""Tiles: of what comes out, of a matrix, and of rows."""
_BYTES = 2


def write_turn(module: ir.Module, name: str) -> None:
    """Writes `name(words, thread, begin, end)`, which turns the rows of groups `begin` to `end`.

    Words, of 64 bits: x bfloat16 [M, K]; groups; turned bfloat16 [groups, K / 32, 16, 16, 2]; K. What a group lacks of
    sixteen rows is its last one.
    """
    build = Writer(module, name, VOID, [POINTER] + [I64] * 3)
    words, _, begin, end = build.made.args
    x, groups, turned = (build.inttoptr(build.read(words, I64, constant(i)), POINTER) for i in range(3))
    width = build.mul(build.read(words, I64, constant(3)), constant(_BYTES))
    group = Loop(build, begin, end)
    row, rows = _group(build, groups, group.index)
    last = build.sub(rows, constant(1))
    places = [
        build.mul(build.add(row, build.least(constant(i), last)), width)  # bytes of x that stand before a row
        for i in range(amx.SIDE)
    ]
    tile = Loop(build, constant(0), width, step=amx.WIDTH)
    held = [build.read(build.at(x, build.add(place, tile.index), I8), WHOLES) for place in places]
    target = build.mul(build.add(build.mul(group.index, width), tile.index), constant(amx.SIDE))
    for i, pairs in enumerate(_turn(build, held)):
        build.write(pairs, build.at(turned, build.add(target, constant(i * amx.WIDTH)), I8))
    tile.close()
    group.close()
    build.ret_void()


def write_multiply(module: ir.Module, name: str) -> None:
    """Writes `name(words, thread, begin, end)`, which multiplies groups by 32 rows of their matrices, for units `begin`
    to `end`; each matrix has N / 32 units, rounded up.

    Words, of 64 bits: weight bfloat16 [E, N, K]; turned rows, as `write_turn` has them; bias bfloat16 [N], or 0; out
    bfloat16 [M, N]; groups; the first group of each matrix, and behind the last, [E + 1]; N; K.
    """
    shapes = dict.fromkeys((*_SUMS[0], *_SUMS[1], *_MATRIX, *_ROWS), (amx.SIDE, amx.WIDTH))
    used = amx.write_configuration(module, f"{name}_shapes", shapes)
    sizes = [(wide, tall) for wide in (1, 2) for tall in (1, 2)]
    kernels = {(wide, tall): _write_tiles(module, f"{name}_{wide}_{tall}", wide, tall) for wide, tall in sizes}
    build = Writer(module, name, VOID, [POINTER] + [I64] * 3)
    words, _, begin, end = build.made.args
    weight, turned, bias, out, groups, firsts = (
        build.inttoptr(build.read(words, I64, constant(i)), POINTER) for i in range(6)
    )
    columns, features = (build.read(words, I64, constant(i)) for i in (6, 7))
    width = build.mul(features, constant(_BYTES))
    room = build.alloca(ir.ArrayType(I8, 4 * TILE))
    room.align = amx.WIDTH
    near = build.inttoptr(build.ptrtoint(room, I64), POINTER)  # of no type, as all pointers here
    amx.configure(build, used)
    units = build.udiv(build.add(columns, constant(COLUMNS - 1)), constant(COLUMNS))
    unit = Loop(build, begin, end)
    matrix = build.udiv(unit.index, units)
    column = build.mul(build.urem(unit.index, units), constant(COLUMNS))
    own = build.at(weight, build.mul(build.add(build.mul(matrix, columns), column), width), I8)
    wide = build.icmp_unsigned(">=", build.sub(columns, column), constant(COLUMNS))
    edge = build.read(firsts, I64, build.add(matrix, constant(1)))
    group = Loop(build, build.read(firsts, I64, matrix), edge, step=2)
    tall = build.icmp_unsigned("<", build.add(group.index, constant(1)), edge)
    rows = build.at(turned, build.mul(build.mul(group.index, width), constant(amx.SIDE)), I8)
    given = [own, rows, near, width, out, groups, group.index, columns, column, bias]
    with build.if_else(wide) as (then, otherwise):
        for across, branch in ((2, then), (1, otherwise)):
            with branch, build.if_else(tall) as (two, one):
                for down, inner in ((2, two), (1, one)):
                    with inner:
                        build.call(kernels[across, down], given)
    group.close()
    unit.close()
    amx.release(build)
    build.ret_void()


def _write_tiles(module: ir.Module, name: str, wide: int, tall: int) -> Value:
    """Writes the kernel for `wide` times sixteen rows of a matrix and `tall` groups of rows."""
    build = Writer(module, name, VOID, [POINTER] * 3 + [I64] + [POINTER] * 2 + [I64] * 3 + [POINTER])
    build.made.linkage = "internal"
    weight, turned, near, width, out, groups, group, columns, column, bias = build.made.args
    for across in range(wide):
        for down in range(tall):
            amx.zero(build, _SUMS[across][down])
    step = Loop(build, constant(0), width, step=amx.WIDTH)
    for across in range(wide):
        place = build.add(step.index, build.mul(width, constant(amx.SIDE * across)))
        amx.load(build, _MATRIX[across], build.at(weight, place, I8), width)
    for down in range(tall):
        place = build.mul(build.add(step.index, build.mul(width, constant(down))), constant(amx.SIDE))
        amx.load(build, _ROWS[down], build.at(turned, place, I8), constant(amx.WIDTH))
        for across in range(wide):
            amx.multiply_floats(build, _SUMS[across][down], _MATRIX[across], _ROWS[down])
    step.close()
    for across in range(wide):
        first = build.add(column, constant(amx.SIDE * across))
        added = read_bias(build, bias, first)
        for down in range(tall):
            amx.store(build, _SUMS[across][down], near, constant(amx.WIDTH))
            sums = [build.read(build.at(near, constant(i * amx.WIDTH), I8), FLOATS) for i in range(amx.SIDE)]
            for i, row in enumerate(_turn(build, sums)):
                build.write(row, build.at(near, constant(i * amx.WIDTH), I8))
            begin, rows = _group(build, groups, build.add(group, constant(down)))
            write_rows(
                build, near, added, build.at(out, build.add(build.mul(begin, columns), first), I16), rows, columns
            )
    build.ret_void()
    return build.made


def read_bias(build: Writer, bias: Value, column: Value) -> Value:
    """Reads what is added to sixteen columns: nothing where there is no bias."""
    given = build.icmp_unsigned("!=", build.ptrtoint(bias, I64), constant(0))
    with build.if_else(given) as (then, otherwise):
        with then:
            read = build.bfloat16(build.read(build.at(bias, column, I16), vector(I16, amx.SIDE)))
            there = build.block
        with otherwise:
            absent = build.block
    added = build.phi(FLOATS)
    added.add_incoming(read, there)
    added.add_incoming(zeros(FLOATS), absent)
    return added


def write_rows(build: Writer, sums: Value, added: Value, out: Value, rows: Value, columns: Value) -> None:
    """Writes rows of sixteen sums, with what is added to them, rounded once, `columns` numbers apart."""
    row = Loop(build, constant(0), rows)
    total = build.read(build.at(sums, build.mul(row.index, constant(amx.SIDE)), F32), FLOATS)
    target = build.at(out, build.mul(row.index, columns), I16)
    build.write(build.rounded(build.fadd(total, added)), target)
    row.close()


def _group(build: Writer, groups: Value, index: Value) -> tuple[Value, Value]:
    """Reads a group: its first row, and its rows."""
    place = build.mul(index, constant(2))
    return build.read(groups, I64, place), build.read(groups, I64, build.add(place, constant(1)))


def _turn(build: Writer, rows: list[Value]) -> list[Value]:
    """Turns sixteen vectors of sixteen numbers: the first of all come first."""
    held, count = list(rows), len(rows)
    step = 1
    while step < count:
        for i in (i for i in range(count) if not i & step):
            low, high = held[i], held[i + step]
            held[i] = build.pick(low, high, [lane + (count - step if lane & step else 0) for lane in range(count)])
            held[i + step] = build.pick(low, high, [lane + (count if lane & step else step) for lane in range(count)])
        step *= 2
    return held
