"""Writes the kernels that multiply bfloat16 rows by bfloat16 matrices, for processors without instructions for that.

    M rows   N columns of what comes out   K features   R rows that are multiplied at a time

A bfloat16 number is the upper half of an fp32 one, so both sides are widened exactly: a few rows into the first-level
cache, and weights in registers where rows are few, else into a slab of some columns and features that stays in a core's
second-level cache while the rows of a piece are multiplied by it. Sums are taken in fp32 and rounded once at the end.

Their order depends on neither the number of rows, nor a row's place, nor the threads: blocks of features one
after the other; in a block, where a matrix lies row by row (`write_products`), sixteen lanes that are added up at last,
and where it lies column by column (`write_turned_products`), one feature after the other.
"""

from llvmlite import ir

from gesso.kernels.host.activations import LANES
from gesso.kernels.host.bfloat16_slabs import (
    COLUMNS,
    DEPTH,
    HALVES,
    STRIDE,
    TURNED_DEPTH,
    Depth,
    Task,
    Tiles,
    widen,
)
from gesso.kernels.host.dots import FLOATS, sum_lanes
from gesso.kernels.host.llvm_ir import F32, I16, I64, POINTER, VOID, Loop, Value, Writer, constant, zeros


def write_products(module: ir.Module, name: str, tiles: Tiles) -> None:
    """Writes `name(fields)`: rows of x times matrices that lie row by row, [N, K] each; K is a multiple of 16.

    Rows come in pieces of `ROWS` at most: (first row of x, rows, matrix, first row of out), int64 [count, 4].
    """
    kernels = {
        (size, beside, widened): _write_tile(module, f"{name}_{size}_{beside}_{widened:d}", size, beside, widened)
        for size in tiles.rows
        for beside, widened in ((tiles.beside, True), (tiles.beside, False), (1, False))
    }
    build = Writer(module, name, VOID, [POINTER])
    task = Task(build)
    weight = build.at(task.weight, build.mul(build.mul(task.matrix, task.columns), task.features), I16)
    even = build.and_(task.width, constant(-tiles.beside))
    several = build.icmp_signed(">", task.rows, constant(tiles.rows[0]))
    depth = Depth(task, DEPTH)
    corner = build.at(weight, build.add(build.mul(task.first, task.features), depth.begin), I16)
    with build.if_then(several):
        columns = Loop(build, constant(0), even)
        source = build.at(corner, build.mul(columns.index, task.features), I16)
        widen(build, source, build.at(task.slab, build.mul(columns.index, constant(STRIDE)), F32), depth.width)
        columns.close()

    def multiply(size: int, beside: int, first: Value, last: Value, widened: bool, row: Value) -> None:
        columns = Loop(build, first, last, step=beside)
        if widened:
            source, stride = build.at(task.slab, build.mul(columns.index, constant(STRIDE)), F32), constant(STRIDE)
        else:
            source, stride = build.at(corner, build.mul(columns.index, task.features), I16), task.features
        target = build.at(task.sums, build.add(build.mul(row, constant(COLUMNS)), columns.index), F32)
        build.call(kernels[size, beside, widened], [task.near, source, target, stride, depth.width, depth.begin])
        columns.close()

    for size, row in depth.rows(tiles):
        with build.if_else(several) as (then, otherwise):
            with then:
                multiply(size, tiles.beside, constant(0), even, True, row)
            with otherwise:
                multiply(size, tiles.beside, constant(0), even, False, row)
        multiply(size, 1, even, task.width, False, row)
    depth.close()
    task.close()


def write_turned_products(module: ir.Module, name: str, tiles: Tiles) -> None:
    """Writes `name(fields)`: rows of x times a matrix that lies column by column, [K, N] in memory; K and N are
    multiples of 16."""
    kernels = {
        (size, beside): _write_turned_tile(module, f"{name}_{size}_{beside}", size, beside)
        for size in tiles.rows
        for beside in {tiles.beside, 1}
    }
    build = Writer(module, name, VOID, [POINTER])
    task = Task(build)
    depth = Depth(task, TURNED_DEPTH)
    corner = build.at(task.weight, build.add(build.mul(depth.begin, task.columns), task.first), I16)
    features = Loop(build, constant(0), depth.width)
    source = build.at(corner, build.mul(features.index, task.columns), I16)
    widen(build, source, build.at(task.slab, build.mul(features.index, constant(COLUMNS)), F32), task.width)
    features.close()
    together = tiles.beside * LANES
    even = build.and_(task.width, constant(-together))
    for size, row in depth.rows(tiles):
        for beside, first, last in ((tiles.beside, constant(0), even), (1, even, task.width)):
            columns = Loop(build, first, last, step=beside * LANES)
            target = build.at(task.sums, build.add(build.mul(row, constant(COLUMNS)), columns.index), F32)
            places = [task.near, build.at(task.slab, columns.index, F32), target]
            build.call(kernels[size, beside], [*places, depth.width, depth.begin])
            columns.close()
    depth.close()
    task.close()


def _write_tile(module: ir.Module, name: str, size: int, beside: int, widened: bool) -> Value:
    """Writes the kernel for `size` rows of x and `beside` rows of a matrix: a block's sums, added up from the second
    block on."""
    build = Writer(module, name, VOID, [POINTER] * 3 + [I64] * 3)
    build.made.linkage = "internal"
    x, weight, out, stride, width, begin = build.made.args
    loop = Loop(build, constant(0), width, step=LANES, carried=[zeros(FLOATS)] * (size * beside))
    sums = list(loop.carried)
    places = [build.add(build.mul(stride, constant(i)), loop.index) for i in range(beside)]
    if widened:
        values = [build.read(weight, FLOATS, place) for place in places]
    else:
        values = [build.bfloat16(build.read(weight, HALVES, place)) for place in places]
    for r in range(size):
        row = build.read(x, FLOATS, build.add(loop.index, constant(r * STRIDE)))
        for i, value in enumerate(values):
            sums[r * beside + i] = build.fma(value, row, sums[r * beside + i])
    loop.close(*sums)
    together = LANES // beside  # rows whose sums fill a vector
    for first in range(0, size, together):
        rows = range(first, min(size, first + together))
        total = sum_lanes(build, loop.carried[first * beside : (rows[-1] + 1) * beside])
        for r in rows:
            own = build.pick(total, total, range((r - first) * beside, (r - first + 1) * beside))
            _add(build, own, build.at(out, constant(r * COLUMNS), F32), begin)
    build.ret_void()
    return build.made


def _write_turned_tile(module: ir.Module, name: str, size: int, beside: int) -> Value:
    """Writes the kernel for `size` rows of x and `beside` vectors of columns."""
    build = Writer(module, name, VOID, [POINTER] * 3 + [I64] * 2)
    build.made.linkage = "internal"
    x, slab, out, width, begin = build.made.args
    loop = Loop(build, constant(0), width, carried=[zeros(FLOATS)] * (size * beside))
    sums = list(loop.carried)
    place = build.mul(loop.index, constant(COLUMNS))
    values = [build.read(slab, FLOATS, build.add(place, constant(LANES * i))) for i in range(beside)]
    for r in range(size):
        row = build.splat(build.read(x, F32, build.add(loop.index, constant(r * STRIDE))), LANES)
        for i, value in enumerate(values):
            sums[r * beside + i] = build.fma(value, row, sums[r * beside + i])
    loop.close(*sums)
    for r in range(size):
        for i in range(beside):
            _add(build, loop.carried[r * beside + i], build.at(out, constant(r * COLUMNS + LANES * i), F32), begin)
    build.ret_void()
    return build.made


def _add(build: Writer, sums: Value, target: Value, begin: Value) -> None:
    """Writes a first block's sums, or adds those of another."""
    with build.if_else(build.icmp_signed("==", begin, constant(0))) as (then, otherwise):
        with then:
            build.write(sums, target)
        with otherwise:
            build.write(build.fadd(build.read(target, sums.type), sums), target)
