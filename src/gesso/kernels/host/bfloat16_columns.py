"""Writes the kernels that multiply bfloat16 rows by a bfloat16 matrix that lies column by column, in tiles, by AMX.

    M rows   N columns of what comes out, a multiple of 16   K features, a multiple of 32

Sixteen rows of x, features side by side, are a tile, and 32 features of sixteen columns another, whose pairs of
features are brought side by side for all rows at once. Sums are taken as in `bfloat16_tiles`.
"""

from llvmlite import ir

from gesso.kernels.host import amx
from gesso.kernels.host.bfloat16_tiles import COLUMNS, FEATURES, TILE, read_bias, write_rows
from gesso.kernels.host.dots import WHOLES
from gesso.kernels.host.llvm_ir import (
    I8,
    I16,
    I32,
    I64,
    POINTER,
    VOID,
    Loop,
    Value,
    Writer,
    constant,
    constants,
    vector,
)

_SUMS, _ROWS, _MATRIX = ((0, 1), (2, 3)), (4, 5), (6, 7)
"""Tiles: of what comes out, of rows, and of the matrix."""
_BYTES = 2


def write_copy(module: ir.Module, name: str) -> None:
    """Writes `name(words, thread, begin, end)`, which copies the rows of groups `begin` to `end`, tile by tile.

    Words, of 64 bits: x bfloat16 [M, K]; tiles bfloat16 [M / 16, K / 32, 16, 32]; M; K. What a group lacks of sixteen
    rows is its last one.
    """
    build = Writer(module, name, VOID, [POINTER] + [I64] * 3)
    words, _, begin, end = build.made.args
    x, tiles = (build.inttoptr(build.read(words, I64, constant(i)), POINTER) for i in range(2))
    last = build.sub(build.read(words, I64, constant(2)), constant(1))
    width = build.mul(build.read(words, I64, constant(3)), constant(_BYTES))
    group = Loop(build, begin, end)
    first = build.mul(group.index, constant(amx.SIDE))
    for i in range(amx.SIDE):
        source = build.at(x, build.mul(build.least(build.add(first, constant(i)), last), width), I8)
        tile = Loop(build, constant(0), width, step=amx.WIDTH)
        target = build.mul(build.add(build.mul(group.index, width), tile.index), constant(amx.SIDE))
        held = build.read(build.at(source, tile.index, I8), WHOLES)
        build.write(held, build.at(tiles, build.add(target, constant(i * amx.WIDTH)), I8))
        tile.close()
    group.close()
    build.ret_void()


def write_multiply_columns(module: ir.Module, name: str) -> None:
    """Writes `name(words, thread, begin, end)`, which multiplies all rows by columns 32 `begin` to 32 `end`.

    Words, of 64 bits: weight bfloat16 [K, N]; tiles of rows, as `write_copy` has them; bias bfloat16 [N], or 0; out
    bfloat16 [M, N]; room, 64 K bytes for each unit; M; N; K.
    """
    shapes = dict.fromkeys((*_SUMS[0], *_SUMS[1], *_ROWS, *_MATRIX), (amx.SIDE, amx.WIDTH))
    used = amx.write_configuration(module, f"{name}_shapes", shapes)
    sizes = [(tall, wide) for tall in (1, 2) for wide in (1, 2)]
    kernels = {(tall, wide): _write_tiles(module, f"{name}_{tall}_{wide}", tall, wide) for tall, wide in sizes}
    build = Writer(module, name, VOID, [POINTER] + [I64] * 3)
    words, _, begin, end = build.made.args
    weight, tiles, bias, out, rooms = (build.inttoptr(build.read(words, I64, constant(i)), POINTER) for i in range(5))
    rows, columns, features = (build.read(words, I64, constant(i)) for i in (5, 6, 7))
    near = build.alloca(ir.ArrayType(I8, TILE))
    near.align = amx.WIDTH
    near = build.inttoptr(build.ptrtoint(near, I64), POINTER)  # of no type, as all pointers here
    amx.configure(build, used)
    groups = build.udiv(build.add(rows, constant(amx.SIDE - 1)), constant(amx.SIDE))
    unit = Loop(build, begin, end)
    column = build.mul(unit.index, constant(COLUMNS))
    room = build.at(rooms, build.mul(build.mul(unit.index, features), constant(amx.WIDTH)), I8)
    wide = build.icmp_unsigned(">=", build.sub(columns, column), constant(COLUMNS))

    def multiply(across: int) -> None:
        _pair(build, build.at(weight, column, I16), room, columns, features, across)
        group = Loop(build, constant(0), groups, step=2)
        tall = build.icmp_unsigned("<", build.add(group.index, constant(1)), groups)
        given = [tiles, room, near, features, out, group.index, rows, columns, column, bias]
        with build.if_else(tall) as (two, one):
            for down, branch in ((2, two), (1, one)):
                with branch:
                    build.call(kernels[down, across], given)
        group.close()

    with build.if_else(wide) as (then, otherwise):
        for across, branch in ((2, then), (1, otherwise)):
            with branch:
                multiply(across)
    unit.close()
    amx.release(build)
    build.ret_void()


def _pair(build: Writer, weight: Value, room: Value, columns: Value, features: Value, wide: int) -> None:
    """Writes pairs of features of `wide` times sixteen columns side by side, [K / 32, wide, 16, 16, 2]."""
    pair = Loop(build, constant(0), build.udiv(features, constant(2)))
    tile = build.mul(build.udiv(pair.index, constant(amx.SIDE)), constant(wide * TILE))
    place = build.add(tile, build.mul(build.urem(pair.index, constant(amx.SIDE)), constant(amx.WIDTH)))
    for across in range(wide):
        both = []
        for i in range(2):
            row = build.mul(build.add(build.mul(pair.index, constant(2)), constant(i)), columns)
            halves = build.read(build.at(weight, build.add(row, constant(amx.SIDE * across)), I16), vector(I16, 16))
            both.append(build.zext(halves, WHOLES))
        held = build.or_(both[0], build.shl(both[1], constants([16] * 16, I32)))
        build.write(held, build.at(room, build.add(place, constant(across * TILE)), I8))
    pair.close()


def _write_tiles(module: ir.Module, name: str, tall: int, wide: int) -> Value:
    """Writes the kernel for `tall` groups of rows and `wide` times sixteen columns."""
    build = Writer(module, name, VOID, [POINTER] * 3 + [I64, POINTER] + [I64] * 4 + [POINTER])
    build.made.linkage = "internal"
    tiles, room, near, features, out, group, rows, columns, column, bias = build.made.args
    for down in range(tall):
        for across in range(wide):
            amx.zero(build, _SUMS[down][across])
    count, side = build.udiv(features, constant(FEATURES)), constant(amx.WIDTH)
    step = Loop(build, constant(0), count)
    for across in range(wide):
        place = build.add(build.mul(step.index, constant(wide * TILE)), constant(across * TILE))
        amx.load(build, _MATRIX[across], build.at(room, place, I8), side)
    for down in range(tall):
        place = build.add(build.mul(build.add(group, constant(down)), count), step.index)
        amx.load(build, _ROWS[down], build.at(tiles, build.mul(place, constant(TILE)), I8), side)
        for across in range(wide):
            amx.multiply_floats(build, _SUMS[down][across], _ROWS[down], _MATRIX[across])
    step.close()
    for across in range(wide):
        first = build.add(column, constant(amx.SIDE * across))
        added = read_bias(build, bias, first)
        for down in range(tall):
            amx.store(build, _SUMS[down][across], near, side)
            begin = build.mul(build.add(group, constant(down)), constant(amx.SIDE))
            left = build.least(constant(amx.SIDE), build.sub(rows, begin))
            write_rows(
                build, near, added, build.at(out, build.add(build.mul(begin, columns), first), I16), left, columns
            )
    build.ret_void()
    return build.made
