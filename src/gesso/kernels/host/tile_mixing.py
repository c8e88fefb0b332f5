"""Writes the kernels that add up rows of bytes, each times a weight, in tiles, by AMX: mixtures of a table's rows.

    N mixtures   V rows of the table   D its columns, a multiple of 64   T tiles of 32 rows, V / 32

A byte is a bfloat16 number exactly, and a weight is two, the second of which stands for what the first leaves over: 16
bits of it count. Products are exact, and added up in fp32, rows of the table in order: a mixture's bits do not depend
on those beside it.
"""

from llvmlite import ir

from gesso.kernels.host import amx
from gesso.kernels.host.dots import FLOATS, WHOLES
from gesso.kernels.host.llvm_ir import (
    F32,
    I8,
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
    zeros,
)

COLUMNS = 4 * amx.SIDE
"""Columns that are mixed at a time."""
ROWS = 32
"""Rows of the table that one instruction adds up."""
_CHUNK = 8
"""Tiles of rows whose numbers stay in the nearest cache."""
TILE = amx.SIDE * amx.WIDTH
"""Bytes of a tile."""
_SUMS, _WEIGHTS, _TABLE = (0, 1, 2, 3), (4, 5), (6, 7)
"""Tiles: of mixtures, of both parts of weights, and of the table, which take turns."""


def write_split_weights(module: ir.Module, name: str) -> None:
    """Writes `name(words, thread, begin, end)`, which writes rows `begin` to `end` of weights times factors in two
    parts.

    Words, of 64 bits: weights float, rows `stride` apart; factors float [V]; parts bfloat16 [N / 16, T, 2, 16, 32]; V;
    the stride.
    """
    build = Writer(module, name, VOID, [POINTER] + [I64] * 3)
    words, _, begin, end = build.made.args
    (weights, factors, parts), (table, stride) = _words(build, words, 3, 2)
    tiles = build.udiv(build.add(table, constant(ROWS - 1)), constant(ROWS))
    row = Loop(build, begin, end)
    group = build.mul(build.mul(build.udiv(row.index, constant(amx.SIDE)), tiles), constant(2 * TILE))
    group = build.add(group, build.mul(build.urem(row.index, constant(amx.SIDE)), constant(amx.WIDTH)))
    tile = Loop(build, constant(0), tiles)
    for half in range(2):
        place = build.add(build.mul(tile.index, constant(ROWS)), constant(16 * half))
        left = build.splat(build.trunc(build.sub(table, place), I32), 16)
        mask = build.icmp_signed("<", constants(list(range(16)), I32), left)
        numbers = [
            build.own(
                "llvm.masked.load.v16f32.p0", FLOATS, build.at(numbers, at, F32), constant(4, I32), mask, zeros(FLOATS)
            )
            for numbers, at in ((weights, build.add(build.mul(row.index, stride), place)), (factors, place))
        ]
        product = build.fmul(*numbers)
        bits = build.rounded(product)
        rest = build.fsub(product, build.bfloat16(bits))
        target = build.add(build.add(group, build.mul(tile.index, constant(2 * TILE))), constant(32 * half))
        for i, held in enumerate((bits, build.rounded(rest))):
            build.write(held, build.at(parts, build.add(target, constant(i * TILE)), I8))
    tile.close()
    row.close()
    build.ret_void()


def _words(build: Writer, words: Value, pointers: int, wholes: int) -> tuple[list[Value], list[Value]]:
    """Reads a job's addresses, then its whole numbers."""
    held = [build.read(words, I64, constant(i)) for i in range(pointers + wholes)]
    return [build.inttoptr(address, POINTER) for address in held[:pointers]], held[pointers:]


def write_mix_tiles(module: ir.Module, name: str) -> None:
    """Writes `name(words, thread, begin, end)`, which adds to the sums of columns 64 `begin` to 64 `end`.

    Words, of 64 bits: parts as `write_split_weights` has them, of groups of sixteen mixtures; codes int8 [V, D]; sums
    float [D / 64, groups, 4, 16, 16]: four times sixteen columns of sixteen mixtures; groups; V; D.
    """
    full = (amx.SIDE, amx.WIDTH)
    used = amx.write_configuration(module, f"{name}_shapes", dict.fromkeys((*_SUMS, *_WEIGHTS, *_TABLE), full))
    build = Writer(module, name, VOID, [POINTER] + [I64] * 3)
    words, _, begin, end = build.made.args
    (parts, codes, sums), (groups, table, width) = _words(build, words, 3, 3)
    begin, end = (build.mul(edge, constant(COLUMNS)) for edge in (begin, end))
    room = build.alloca(ir.ArrayType(I8, _CHUNK * len(_SUMS) * TILE))
    room.align = amx.WIDTH
    near = build.inttoptr(build.ptrtoint(room, I64), POINTER)  # of no type, as all pointers here
    amx.configure(build, used)
    tiles, across = build.udiv(build.add(table, constant(ROWS - 1)), constant(ROWS)), constant(amx.WIDTH)
    columns = Loop(build, begin, end, step=COLUMNS)
    chunk = Loop(build, constant(0), tiles, step=_CHUNK)
    last = build.least(build.add(chunk.index, constant(_CHUNK)), tiles)
    _unpack(build, codes, near, (chunk.index, last), (table, width, columns.index))
    group = Loop(build, constant(0), groups)
    own = build.add(build.mul(build.udiv(columns.index, constant(COLUMNS)), groups), group.index)
    own = build.at(sums, build.mul(own, constant(len(_SUMS) * TILE)), I8)
    for i, total in enumerate(_SUMS):
        amx.load(build, total, build.at(own, constant(i * TILE), I8), across)
    step = Loop(build, chunk.index, last)
    place = build.mul(build.add(build.mul(group.index, tiles), step.index), constant(2 * TILE))
    for i, tile in enumerate(_WEIGHTS):
        amx.load(build, tile, build.at(parts, build.add(place, constant(i * TILE)), I8), across)
    turn = build.mul(build.sub(step.index, chunk.index), constant(len(_SUMS) * TILE))
    for i, total in enumerate(_SUMS):
        of_table = _TABLE[i % len(_TABLE)]
        amx.load(build, of_table, build.at(near, build.add(turn, constant(i * TILE)), I8), across)
        for weights in _WEIGHTS:
            amx.multiply_floats(build, total, weights, of_table)
    step.close()
    for i, total in enumerate(_SUMS):
        amx.store(build, total, build.at(own, constant(i * TILE), I8), across)
    for loop in (group, chunk, columns):
        loop.close()
    amx.release(build)
    build.ret_void()


def _unpack(
    build: Writer, codes: Value, near: Value, edges: tuple[Value, Value], table: tuple[Value, Value, Value]
) -> None:
    """Writes bytes of a chunk as pairs of bfloat16 numbers: of two rows each, column by column.

    Args:
        edges: the chunk's first tile of the table's rows, and the one behind its last.
        table: the number of its rows, of its columns, and the first one of these.
    """
    begin, end = edges
    count, width, column = table
    pairs = constant(ROWS // 2)
    pair = Loop(build, build.mul(begin, pairs), build.mul(end, pairs))
    row = build.mul(pair.index, constant(2))
    # Rows that the table lacks have no weight.
    both = [
        build.at(codes, build.add(build.mul(build.least(each, build.sub(count, constant(1))), width), column), I8)
        for each in (row, build.add(row, constant(1)))
    ]
    tile = build.sub(build.udiv(pair.index, pairs), begin)
    turn = build.add(
        build.mul(tile, constant(len(_SUMS) * TILE)), build.mul(build.urem(pair.index, pairs), constant(amx.WIDTH))
    )
    for i in range(len(_SUMS)):
        bits = []
        for address in both:
            whole = build.sext(build.read(address, vector(I8, 16), constant(16 * i)), WHOLES)
            bits.append(build.bitcast(build.sitofp(whole, FLOATS), WHOLES))
        low = build.lshr(bits[0], constants([16] * 16, I32))
        held = build.or_(low, build.and_(bits[1], constants([-(1 << 16)] * 16, I32)))
        build.write(held, build.at(near, build.add(turn, constant(i * TILE)), I8))
    pair.close()
