"""Shares products of bfloat16 numbers out: pieces of rows, slabs of columns, blocks of features (`bfloat16_products`).

Threads take slabs of columns from a counter, so that one whose core is busy holds up nobody. What a kernel builds
between the beginning and the `close` of a `Task` is done for each slab, of a `Depth` for each block.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from gesso.kernels.host.activations import LANES
from gesso.kernels.host.dots import FLOATS
from gesso.kernels.host.llvm_ir import (
    F32,
    I16,
    I64,
    POINTER,
    Loop,
    Value,
    Writer,
    constant,
    vector,
)

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
HALVES = vector(I16, LANES)


@dataclass(frozen=True, slots=True)
class Tiles:
    """Says how many sums stand in registers at a time."""

    rows: tuple[int, ...]
    """R, falling from `MOST` at most down to 1."""
    beside: int
    """Columns, or vectors of columns, a divisor of 4."""


WIDE_TILES, NARROW_TILES = Tiles((6, 4, 2, 1), 4), Tiles((3, 2, 1), 2)
"""Where there are 32 registers of 16 numbers, and where there are fewer or smaller ones."""


class Task:
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
                bits = build.read(self._shifts, HALVES if lanes > 1 else I16, columns.index)
                shifted, within = build.fadd(sums, build.bfloat16(bits)), build.block
            total = build.phi(sums.type)
            total.add_incoming(sums, before)
            total.add_incoming(shifted, within)
            build.write(build.rounded(total), target, columns.index)
            columns.close()
        rows.close()
        build.branch(self._head)
        build.position_at_end(self._done)
        build.ret_void()


class Depth:
    """Goes through blocks of features; what is built before `close` is done for each."""

    def __init__(self, task: Task, depth: int) -> None:
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
                widen(build, source, build.at(task.near, constant(r * STRIDE), F32), self.width)
            yield size, loop.index
            loop.close()
            begin = end


def _least(build: Writer, value: Value, most: int) -> Value:
    return build.select(build.icmp_signed("<", value, constant(most)), value, constant(most))


def _take(build: Writer, counter: Value) -> Value:
    """Returns what a counter says, and counts on."""
    return build.atomic_rmw("add", counter, constant(1), "monotonic")


def widen(build: Writer, source: Value, target: Value, count: Value) -> None:
    """Writes neighbouring bfloat16 numbers, a multiple of 16, as fp32 ones."""
    lanes = Loop(build, constant(0), count, step=LANES)
    build.write(build.bfloat16(build.read(source, HALVES, lanes.index)), target, lanes.index)
    lanes.close()
