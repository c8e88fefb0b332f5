"""Writes the products of a chunk of a packed row, some blocks side by side, and rows of activations (`tile_rows`).

R rows of activations
"""

from collections.abc import Callable, Iterator, Sequence

from gesso.kernels.host.activations import BLOCK, LANES
from gesso.kernels.host.dots import BYTES, WHOLES, dot
from gesso.kernels.host.layouts import Layout
from gesso.kernels.host.llvm_ir import I1, I8, I32, Value, Writer, constant, constants, vector, zeros

_QUARTER = 4
"""Lanes of a quarter of a register, within which instructions move them the fastest."""
_RAISED = constants([-128] * BLOCK, I8)


class Chunk:
    """Writes the sums of products of each part of some blocks, exact in any order.

    A register takes 64 bytes of the row, and sums of one part to eight; then lanes are added up until there is one for
    each of sixteen parts, a group. Signed codes are multiplied 128 too large: the instruction takes none below zero.
    """

    def __init__(self, build: Writer, layout: Layout, blocks: int, x: list[Value], held: Value | None) -> None:
        """
        Args:
            blocks: of the chunk, at most.
            x: where each row of activations has the chunk, in the order of `write_turn_rows`, [R].
            held: bytes of the chunk, where it may have fewer.
        """
        self._build, self._layout, self._blocks, self._x, self._held = build, layout, blocks, x, held
        self._each, self._together = (1, 1) if layout.halves is None else (2, 2 * layout.parts)
        """Vectors of codes whose products are added up first, and the parts that they have."""
        self.groups = -(-blocks * layout.parts // LANES)
        parts = iter(range(LANES))
        self.order = [0] * LANES
        """The part of its group that each lane is of."""
        for lanes in _shares(range(LANES), self._together):
            for lane in lanes:
                self.order[lane] = next(parts)
        self._excess = self._sum_groups(lambda _: _RAISED) if layout.signed else []

    def sums(self, row: Value, following: Value) -> list[list[Value]]:
        """Returns the sums of each group, whole numbers, for each row of activations.

        Args:
            row: where a row of the matrix has the chunk.
            following: what memory is asked for meanwhile, a line with each that is read: many at once hold others up.
        """
        read = list[Value]()

        def codes(number: int) -> Value:
            while len(read) <= number:
                place = constant(len(read) * self._layout.bits // 8 * BLOCK)
                self._build.ask_for(self._build.at(following, place, I8), 2)
                read.extend(self._unpack(row, place))
            return read[number]

        sums = self._sum_groups(codes)
        if not self._layout.signed:
            return sums
        pairs = ([*zip(*both, strict=True)] for both in zip(sums, self._excess, strict=True))
        return [[self._build.sub(*pair) for pair in groups] for groups in pairs]

    def _unpack(self, row: Value, place: Value) -> list[Value]:
        """Unpacks 64 bytes, and none behind the chunk."""
        build, unpack = self._build, self._layout.unpack
        assert unpack is not None
        if self._held is None:
            bytes_ = build.read(row, BYTES, place)
        else:
            left = build.least(build.sub(self._held, place), constant(BLOCK))
            some = build.lshr(constant(-1), build.sub(constant(BLOCK), left))
            some = build.select(build.icmp_signed(">", left, constant(0)), some, constant(0))
            mask, where = build.bitcast(some, vector(I1, BLOCK)), build.at(row, place, I8)
            bytes_ = build.own(f"llvm.masked.load.v{BLOCK}i8.p0", BYTES, where, constant(1, I32), mask, zeros(BYTES))
        codes = unpack(build, bytes_)
        return [build.xor(each, _RAISED) for each in codes] if self._layout.signed else [*codes]

    def _sum_groups(self, codes: Callable[[int], Value]) -> list[list[Value]]:
        """Returns the sums of each group, for each row of activations.

        Args:
            codes: gives the vectors of 64 codes.
        """
        made = self._products(codes)
        groups = [self._sum(range(LANES), made) for _ in range(self.groups)]
        return [list(of_row) for of_row in zip(*groups, strict=True)]

    def _products(self, codes: Callable[[int], Value]) -> Iterator[list[Value]]:
        """Gives sums of four products each, of as many parts as share a register, for each row of activations: zeros
        behind the chunk."""
        for first in range(0, self._blocks, self._each):
            totals = [zeros(WHOLES)] * len(self._x)
            for number in range(first, first + self._each):
                rows = [self._build.read(x, BYTES, constant(number * BLOCK)) for x in self._x]
                totals = [
                    dot(self._build, "vnni512", codes(number), x, start=total)
                    for x, total in zip(rows, totals, strict=True)
                ]
            yield totals
        while True:
            yield [zeros(WHOLES)] * len(self._x)

    def _sum(self, lanes: Sequence[int], made: Iterator[list[Value]]) -> list[Value]:
        """Adds up what is made until there is one lane for each of these, for each row of activations."""
        if len(lanes) == self._together:
            return next(made)
        first, second = (self._sum(half, made) for half in _split(lanes))
        return [self._add_halves(2 * LANES // len(lanes), *pair) for pair in zip(first, second, strict=True)]

    def _add_halves(self, width: int, first: Value, second: Value) -> Value:
        """Adds the second half to the first one of each `width` lanes of two vectors."""
        span = _span(width)
        low = [
            vector + lane
            for begin in range(0, LANES, span)
            for vector in (0, LANES)
            for lane in range(begin, begin + span)
            if lane % width < width // 2
        ]
        high = [lane + width // 2 for lane in low]
        return self._build.add(self._build.pick(first, second, low), self._build.pick(first, second, high))


def _span(width: int) -> int:
    """Returns how many lanes stand side by side in what halves of `width` lanes are added up from, before as many of
    the other vector: one instruction moves them so."""
    return LANES if width > _QUARTER else _QUARTER


def _split(lanes: Sequence[int]) -> tuple[list[int], list[int]]:
    """Returns which lanes come from the first and the second of two vectors, that `_add_halves` adds up to these."""
    width = 2 * LANES // len(lanes)
    first, second = ([lane for i, lane in enumerate(lanes) if i * width // _span(width) % 2 == turn] for turn in (0, 1))
    return first, second


def _shares(lanes: Sequence[int], together: int) -> Iterator[Sequence[int]]:
    """Gives the lanes that come from each vector that is made, in the order in which they are."""
    if len(lanes) == together:
        yield lanes
    else:
        for half in _split(lanes):
            yield from _shares(half, together)
