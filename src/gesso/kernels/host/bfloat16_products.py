"""Writes the kernels that multiply bfloat16 rows by bfloat16 matrices, for processors without instructions for that.

    M rows   N columns of what comes out   K features   R rows that are multiplied at a time

A bfloat16 number is the upper half of an fp32 one, so both sides are widened exactly: a few rows into the first-level
cache, and weights in registers where rows are few, else into a slab of some columns and features that stays in a core's
second-level cache while the rows of a piece are multiplied by it. Sums are taken in fp32 and rounded once at the end.

Their order depends on neither the number of rows, nor a row's place, nor the threads: blocks of features one
after the other; in a block, where a matrix lies row by row (`write_products`), sixteen lanes that are added up at last,
and where it lies column by column (`write_turned_products`), one feature after the other.

Threads take slabs of columns from a counter, so that one whose core is busy holds up nobody.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from llvmlite import ir

from gesso.kernels.host.activations import LANES
from gesso.kernels.host.dots import FLOATS, sum_lanes
from gesso.kernels.host.llvm_ir import (
    F32,
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
    zeros,
)  # fmt: skip

DEPTH, TURNED_DEPTH = 1024, 256
"""Features of a block, where a matrix lies row by row and column by column: there each sum is one chain."""
COLUMNS = 64
"""Columns of a slab, which is 256 KiB."""
ROWS = 256
"""Rows of a piece at most."""
STRIDE = DEPTH + LANES
"""Numbers from one row, or column, of a block to the next: not a power of two, so that caches hold several."""
MOST = 6
"""Rows that are widened at a time, at most: 24 KiB."""
SCRATCH = COLUMNS * STRIDE + MOST * STRIDE + ROWS * COLUMNS
"""Numbers of fp32 that each thread needs: a slab, widened rows, and sums."""
FIELDS = ("x", "weight", "bias", "out", "scratch", "pieces", "count", "columns", "features", "tickets", "taken")
"""What a kernel is given, 64 bits each: addresses (that of bias may be 0), sizes, and two counters that begin at 0."""
_HALVES, _WORDS = vector(I16, LANES), vector(I32, LANES)


@dataclass(frozen=True, slots=True)
class Tiles:
    """Says how many sums stand in registers at a time."""

    rows: tuple[int, ...]
    """R, falling from `MOST` at most down to 1."""
    beside: int
    """Columns, or vectors of columns, a divisor of 4."""


WIDE_TILES, NARROW_TILES = Tiles((6, 4, 2, 1), 4), Tiles((3, 2, 1), 2)
"""Where there are 32 registers of 16 numbers, and where there are fewer or smaller ones."""


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
    task = _Task(build)
    weight = build.at(task.weight, build.mul(build.mul(task.matrix, task.columns), task.features), I16)
    even = build.and_(task.width, constant(-tiles.beside))
    several = build.icmp_signed(">", task.rows, constant(tiles.rows[0]))
    depth = _Depth(task, DEPTH)
    corner = build.at(weight, build.add(build.mul(task.first, task.features), depth.begin), I16)
    with build.if_then(several):
        columns = Loop(build, constant(0), even)
        source = build.at(corner, build.mul(columns.index, task.features), I16)
        _widen(build, source, build.at(task.slab, build.mul(columns.index, constant(STRIDE)), F32), depth.width)
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
    task = _Task(build)
    depth = _Depth(task, TURNED_DEPTH)
    corner = build.at(task.weight, build.add(build.mul(depth.begin, task.columns), task.first), I16)
    features = Loop(build, constant(0), depth.width)
    source = build.at(corner, build.mul(features.index, task.columns), I16)
    _widen(build, source, build.at(task.slab, build.mul(features.index, constant(COLUMNS)), F32), task.width)
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


class _Task:
    """Takes one slab's columns of one piece after the other; what is built before `close` is done for each."""

    def __init__(self, build: Writer) -> None:
        self.build = build
        (fields,) = build.made.args
        held = {name: build.read(fields, I64, constant(i)) for i, name in enumerate(FIELDS[:9])}
        self._bias, count = held["bias"], held["count"]
        held |= {name: build.inttoptr(held[name], POINTER) for name in FIELDS[:6]}
        self.weight, self.columns, self.features = (held[name] for name in ("weight", "columns", "features"))
        tickets, taken = (build.at(fields, constant(FIELDS.index(name)), I64) for name in ("tickets", "taken"))
        self.slab = build.at(held["scratch"], build.mul(_take(build, tickets), constant(SCRATCH)), F32)
        self.near = build.at(self.slab, constant(COLUMNS * STRIDE), F32)
        self.sums = build.at(self.near, constant(MOST * STRIDE), F32)
        slabs = build.sdiv(build.add(self.columns, constant(COLUMNS - 1)), constant(COLUMNS))
        self._head, body, self._done = (build.made.append_basic_block() for _ in range(3))
        build.branch(self._head)
        build.position_at_end(self._head)
        number = _take(build, taken)
        build.cbranch(build.icmp_signed("<", number, build.mul(slabs, count)), body, self._done)
        build.position_at_end(body)
        piece = build.mul(build.sdiv(number, slabs), constant(4))
        row, self.rows, self.matrix, first_out = (
            build.read(held["pieces"], I64, build.add(piece, constant(i))) for i in range(4)
        )
        self.first = build.mul(build.srem(number, slabs), constant(COLUMNS))
        self.width = _least(build, build.sub(self.columns, self.first), COLUMNS)
        self.x = build.at(held["x"], build.mul(row, self.features), I16)
        self._out = build.at(held["out"], build.add(build.mul(first_out, self.columns), self.first), I16)
        self._shifts = build.at(held["bias"], self.first, I16)

    def close(self) -> None:
        """Rounds the sums, plus the bias, and ends the kernel."""
        build = self.build
        biased = build.icmp_signed("!=", self._bias, constant(0))
        even = build.and_(self.width, constant(-LANES))
        rows = Loop(build, constant(0), self.rows)
        source = build.at(self.sums, build.mul(rows.index, constant(COLUMNS)), F32)
        target = build.at(self._out, build.mul(rows.index, self.columns), I16)
        for first, last, lanes in ((constant(0), even, LANES), (even, self.width, 1)):
            columns = Loop(build, first, last, step=lanes)
            sums = build.read(source, FLOATS if lanes > 1 else F32, columns.index)
            before = build.block
            with build.if_then(biased):
                bits = build.read(self._shifts, _HALVES if lanes > 1 else I16, columns.index)
                shifted, within = build.fadd(sums, build.bfloat16(bits)), build.block
            total = build.phi(sums.type)
            total.add_incoming(sums, before)
            total.add_incoming(shifted, within)
            build.write(_rounded(build, total), target, columns.index)
            columns.close()
        rows.close()
        build.branch(self._head)
        build.position_at_end(self._done)
        build.ret_void()


class _Depth:
    """Goes through blocks of features; what is built before `close` is done for each."""

    def __init__(self, task: _Task, depth: int) -> None:
        self._task, build = task, task.build
        self._loop = Loop(build, constant(0), task.features, step=depth)
        self.begin = self._loop.index
        self.width = _least(build, build.sub(task.features, self.begin), depth)
        self.close = self._loop.close

    def rows(self, tiles: Tiles) -> Iterator[tuple[int, Value]]:
        """Goes through the rows of the piece, by the sizes of tiles: yields how many, and the first; their features of
        the block are widened."""
        task, build, begin = self._task, self._task.build, constant(0)
        for size in tiles.rows:
            count = build.sdiv(build.sub(task.rows, begin), constant(size))
            end = build.add(begin, build.mul(count, constant(size)))
            loop = Loop(build, begin, end, step=size)
            for r in range(size):
                place = build.mul(build.add(loop.index, constant(r)), task.features)
                source = build.at(task.x, build.add(place, self.begin), I16)
                _widen(build, source, build.at(task.near, constant(r * STRIDE), F32), self.width)
            yield size, loop.index
            loop.close()
            begin = end


def _least(build: Writer, value: Value, most: int) -> Value:
    return build.select(build.icmp_signed("<", value, constant(most)), value, constant(most))


def _take(build: Writer, counter: Value) -> Value:
    """Returns what a counter says, and counts on."""
    return build.atomic_rmw("add", counter, constant(1), "monotonic")


def _widen(build: Writer, source: Value, target: Value, count: Value) -> None:
    """Writes neighbouring bfloat16 numbers, a multiple of 16, as fp32 ones."""
    lanes = Loop(build, constant(0), count, step=LANES)
    build.write(build.bfloat16(build.read(source, _HALVES, lanes.index)), target, lanes.index)
    lanes.close()


def _rounded(build: Writer, x: Value) -> Value:
    """Returns the bits of the nearest bfloat16 numbers, the even ones of two; what is no number stays so."""
    lanes = getattr(x.type, "count", None)

    def all_of(value: int, kind: ir.IntType = I32) -> Value:
        return constant(value, kind) if lanes is None else constants([value] * lanes, kind)

    bits = build.bitcast(x, I32 if lanes is None else _WORDS)
    odd = build.and_(build.lshr(bits, all_of(16)), all_of(1))
    near = build.trunc(build.lshr(build.add(bits, build.add(odd, all_of(0x7FFF))), all_of(16)), all_of(0, I16).type)
    return build.select(build.fcmp_unordered("uno", x, x), all_of(0x7FC0, I16), near)


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
        values = [build.bfloat16(build.read(weight, _HALVES, place)) for place in places]
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
