"""Writes the kernels that multiply fp32 rows by bfloat16 matrices, for processors without instructions for bfloat16.

    M rows   N columns of what comes out   K features   R rows that are multiplied at a time

A bfloat16 number is the upper half of an fp32 one, so weights are widened exactly: in registers for few rows, else into
a slab of some columns and features that stays in a core's second-level cache while all rows are multiplied by it. Sums
are taken in fp32, in an order that neither the number of rows, nor a row's place, nor the thread changes: blocks of
`DEPTH` features one after the other; in a block, where a matrix lies row by row (`write_products`), sixteen lanes that
are added up at last, and where it lies column by column (`write_turned_products`), one feature after the other.

Threads take slabs of columns from a counter, so that one whose core is busy holds up nobody.
"""

from dataclasses import dataclass
from functools import partial

from llvmlite import ir

from gesso.kernels.host.activations import LANES
from gesso.kernels.host.dots import FLOATS, sum_lanes
from gesso.kernels.host.llvm_ir import F32, I16, I64, POINTER, VOID, Loop, Value, Writer, constant, vector, zeros

DEPTH = 1024
"""Features of a block: of a few rows they fit into the first-level cache, 4 KiB each."""
COLUMNS = 64
"""Columns of a slab, which is 256 KiB."""
STRIDE = DEPTH + LANES
"""Numbers from one column of a slab to the next: not a power of two, so that caches hold several."""
SLAB = COLUMNS * STRIDE
"""Numbers of fp32 that each thread needs for a slab."""
FIELDS = ("x", "weight", "out", "slabs", "pieces", "count", "columns", "features", "tickets", "taken")
"""What a kernel is given, 64 bits each: addresses, sizes, and two counters that begin at 0."""
_HALVES = vector(I16, LANES)


@dataclass(frozen=True, slots=True)
class Tiles:
    """Says how many sums stand in registers at a time."""

    rows: tuple[int, ...]
    """R, falling, down to 1."""
    beside: int
    """Columns, or vectors of columns, a divisor of 4."""


WIDE_TILES, NARROW_TILES = Tiles((6, 4, 2, 1), 4), Tiles((3, 2, 1), 2)
"""Where there are 32 registers of 16 numbers, and where there are fewer or smaller ones."""


def write_products(module: ir.Module, name: str, tiles: Tiles) -> None:
    """Writes `name(fields)`: rows of x times matrices that lie row by row, [N, K] each.

    Rows come in pieces: (first row of x, rows, matrix, first row of out), int64 [count, 4]. K is a multiple of 16.
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
    depth = _Block(task)
    corner = build.at(weight, build.add(build.mul(task.first, task.features), depth.begin), I16)
    with build.if_then(several):
        columns = Loop(build, constant(0), even)
        _widen(build, build.at(corner, build.mul(columns.index, task.features), I16), columns.index, task, depth.width)
        columns.close()

    def multiply(size: int, beside: int, first: Value, last: Value, widened: bool, row: Value) -> None:
        columns = Loop(build, first, last, step=beside)
        if widened:
            source, stride = build.at(task.slab, build.mul(columns.index, constant(STRIDE)), F32), constant(STRIDE)
        else:
            source, stride = build.at(corner, build.mul(columns.index, task.features), I16), task.features
        target = build.at(task.out_at(row), columns.index, F32)
        places = [task.x_at(row, depth.begin), source, target]
        build.call(kernels[size, beside, widened], [*places, task.features, stride, task.columns, *depth.told])
        columns.close()

    for size, row in _rows_by_sizes(task, tiles):
        with build.if_else(several) as (then, otherwise):
            with then:
                multiply(size, tiles.beside, constant(0), even, True, row)
            with otherwise:
                multiply(size, tiles.beside, constant(0), even, False, row)
        multiply(size, 1, even, task.width, False, row)
    depth.close()
    task.close()


def write_turned_products(module: ir.Module, name: str, tiles: Tiles) -> None:
    """Writes `name(fields)`: rows of x times a matrix that lies column by column, [K, N] in memory; N is a multiple of
    16."""
    kernels = {
        (size, beside): _write_turned_tile(module, f"{name}_{size}_{beside}", size, beside)
        for size in tiles.rows
        for beside in {tiles.beside, 1}
    }
    build = Writer(module, name, VOID, [POINTER])
    task = _Task(build)
    depth = _Block(task)
    corner = build.at(task.weight, build.add(build.mul(depth.begin, task.columns), task.first), I16)
    features = Loop(build, constant(0), depth.width)
    source = build.at(corner, build.mul(features.index, task.columns), I16)
    target = build.at(task.slab, build.mul(features.index, constant(COLUMNS)), F32)
    lanes = Loop(build, constant(0), task.width, step=LANES)
    build.write(build.bfloat16(build.read(source, _HALVES, lanes.index)), target, lanes.index)
    lanes.close()
    features.close()
    together = tiles.beside * LANES
    even = build.and_(task.width, constant(-together))
    for size, row in _rows_by_sizes(task, tiles):
        for beside, first, last in ((tiles.beside, constant(0), even), (1, even, task.width)):
            columns = Loop(build, first, last, step=beside * LANES)
            target = build.at(task.out_at(row), columns.index, F32)
            places = [task.x_at(row, depth.begin), build.at(task.slab, columns.index, F32), target]
            build.call(kernels[size, beside], [*places, task.features, task.columns, *depth.told])
            columns.close()
    depth.close()
    task.close()


class _Task:
    """Takes one slab's columns of one piece after the other; what is built before `close` is done for each."""

    def __init__(self, build: Writer) -> None:
        self.build = build
        (fields,) = build.made.args
        held = {name: build.read(fields, I64, constant(i)) for i, name in enumerate(FIELDS[:8])}
        held |= {name: build.inttoptr(held[name], POINTER) for name in ("x", "weight", "out", "slabs", "pieces")}
        self.weight, self.columns, self.features = (held[name] for name in ("weight", "columns", "features"))
        tickets, self._taken = (build.at(fields, constant(FIELDS.index(name)), I64) for name in ("tickets", "taken"))
        self.slab = build.at(held["slabs"], build.mul(_take(build, tickets), constant(SLAB)), F32)
        slabs = build.sdiv(build.add(self.columns, constant(COLUMNS - 1)), constant(COLUMNS))
        self._head, body, self._done = (build.made.append_basic_block() for _ in range(3))
        build.branch(self._head)
        build.position_at_end(self._head)
        number = _take(build, self._taken)
        build.cbranch(build.icmp_signed("<", number, build.mul(slabs, held["count"])), body, self._done)
        build.position_at_end(body)
        piece = build.mul(build.sdiv(number, slabs), constant(4))
        row, self.rows, self.matrix, first_out = (
            build.read(held["pieces"], I64, build.add(piece, constant(i))) for i in range(4)
        )
        self.first = build.mul(build.srem(number, slabs), constant(COLUMNS))
        rest = build.sub(self.columns, self.first)
        self.width = build.select(build.icmp_signed("<", rest, constant(COLUMNS)), rest, constant(COLUMNS))
        self._x = build.at(held["x"], build.mul(row, self.features), F32)
        self._out = build.at(held["out"], build.add(build.mul(first_out, self.columns), self.first), F32)

    def x_at(self, row: Value, feature: Value) -> Value:
        """Returns the address of a feature of a row of the piece."""
        return self.build.at(self._x, self.build.add(self.build.mul(row, self.features), feature), F32)

    def out_at(self, row: Value) -> Value:
        """Returns the address of the slab's columns of a row of the result."""
        return self.build.at(self._out, self.build.mul(row, self.columns), F32)

    def close(self) -> None:
        """Ends the kernel."""
        self.build.branch(self._head)
        self.build.position_at_end(self._done)
        self.build.ret_void()


class _Block:
    """Goes through blocks of features; what is built before `close` is done for each."""

    def __init__(self, task: _Task) -> None:
        build = task.build
        self._loop = Loop(build, constant(0), task.features, step=DEPTH)
        self.begin = self._loop.index
        rest = build.sub(task.features, self.begin)
        self.width = build.select(build.icmp_signed("<", rest, constant(DEPTH)), rest, constant(DEPTH))
        self.told = self.width, self.begin
        self.close = partial(self._loop.close)


def _take(build: Writer, counter: Value) -> Value:
    """Returns what a counter says, and counts on."""
    return build.atomic_rmw("add", counter, constant(1), "monotonic")


def _rows_by_sizes(task: _Task, tiles: Tiles):  # type: ignore[no-untyped-def]
    build, begin = task.build, constant(0)
    for size in tiles.rows:
        count = build.sdiv(build.sub(task.rows, begin), constant(size))
        end = build.add(begin, build.mul(count, constant(size)))
        loop = Loop(build, begin, end, step=size)
        yield size, loop.index
        loop.close()
        begin = end


def _widen(build: Writer, source: Value, column: Value, task: _Task, width: Value) -> None:
    target = build.at(task.slab, build.mul(column, constant(STRIDE)), F32)
    lanes = Loop(build, constant(0), width, step=LANES)
    build.write(build.bfloat16(build.read(source, _HALVES, lanes.index)), target, lanes.index)
    lanes.close()


def _write_tile(module: ir.Module, name: str, size: int, beside: int, widened: bool) -> Value:
    """Writes the kernel for `size` rows of x and `beside` rows of a matrix: a block's sums, added to out behind the
    first block."""
    build = Writer(module, name, VOID, [POINTER] * 3 + [I64] * 5)
    build.made.linkage = "internal"
    x, weight, out, features, stride, columns, width, begin = build.made.args
    loop = Loop(build, constant(0), width, step=LANES, carried=[zeros(FLOATS)] * (size * beside))
    sums = list(loop.carried)
    places = [build.add(build.mul(stride, constant(i)), loop.index) for i in range(beside)]
    if widened:
        values = [build.read(weight, FLOATS, place) for place in places]
    else:
        values = [build.bfloat16(build.read(weight, _HALVES, place)) for place in places]
    for r in range(size):
        row = build.read(x, FLOATS, build.add(build.mul(features, constant(r)), loop.index))
        for i, value in enumerate(values):
            sums[r * beside + i] = build.fma(value, row, sums[r * beside + i])
    loop.close(*sums)
    together = LANES // beside  # rows whose sums fill a vector
    for first in range(0, size, together):
        rows = range(first, min(size, first + together))
        total = sum_lanes(build, loop.carried[first * beside : (rows[-1] + 1) * beside])
        for r in rows:
            own = build.pick(total, total, range((r - first) * beside, (r - first + 1) * beside))
            _add(build, own, build.at(out, build.mul(columns, constant(r)), F32), begin)
    build.ret_void()
    return build.made


def _write_turned_tile(module: ir.Module, name: str, size: int, beside: int) -> Value:
    """Writes the kernel for `size` rows of x and `beside` vectors of columns."""
    build = Writer(module, name, VOID, [POINTER] * 3 + [I64] * 4)
    build.made.linkage = "internal"
    x, slab, out, features, columns, width, begin = build.made.args
    loop = Loop(build, constant(0), width, carried=[zeros(FLOATS)] * (size * beside))
    sums = list(loop.carried)
    place = build.mul(loop.index, constant(COLUMNS))
    values = [build.read(slab, FLOATS, build.add(place, constant(LANES * i))) for i in range(beside)]
    for r in range(size):
        one = build.read(x, F32, build.add(build.mul(features, constant(r)), loop.index))
        row = build.splat(one, LANES)
        for i, value in enumerate(values):
            sums[r * beside + i] = build.fma(value, row, sums[r * beside + i])
    loop.close(*sums)
    for r in range(size):
        for i in range(beside):
            place = build.add(build.mul(columns, constant(r)), constant(LANES * i))
            _add(build, loop.carried[r * beside + i], build.at(out, place, F32), begin)
    build.ret_void()
    return build.made


def _add(build: Writer, sums: Value, target: Value, begin: Value) -> None:
    """Writes a first block's sums, or adds those of another."""
    with build.if_else(build.icmp_signed("==", begin, constant(0))) as (then, otherwise):
        with then:
            build.write(sums, target)
        with otherwise:
            build.write(build.fadd(build.read(target, sums.type), sums), target)
