"""Writes the products of a chunk of a packed row, some blocks side by side, and rows of activations (`tile_rows`).

R rows of activations   W sums that a register holds
"""

from collections.abc import Callable, Iterator, Sequence

from gesso.kernels.host.activations import BLOCK
from gesso.kernels.host.dots import WIDTH, Dot, dot, raised, signed_dot
from gesso.kernels.host.layouts import Layout
from gesso.kernels.host.llvm_ir import I1, I8, I32, Value, Writer, constant, vector, zeros
from gesso.kernels.host.tile_writer import QUARTER


class Chunk:
    """Writes the sums of products of each part of some blocks, exact in any order.

    A register takes 4 W bytes of the row, and sums of one part to four or eight; then lanes are added up until there is
    one for each of W parts, a group. Signed codes are multiplied 128 too large where the instruction takes none below
    zero.
    """

    def __init__(
        self, build: Writer, layout: Layout, kind: Dot, blocks: int, x: list[Value], held: Value | None
    ) -> None:
        """
        Args:
            blocks: of the chunk, at most.
            x: where each row of activations has the chunk, in the order of `write_turn_rows`, [R].
            held: bytes of the chunk, where it may have fewer.
        """
        self._build, self._layout, self._kind, self._blocks = build, layout, kind, blocks
        self._x, self._held, self.width = x, held, WIDTH[kind]
        self._bytes = 4 * self.width
        self._together = 1 if layout.halves is None else self.width // 8 * layout.parts
        """Parts whose products share a register."""
        self.groups = -(-blocks * layout.parts // self.width)
        parts = iter(range(self.width))
        self.order = [0] * self.width
        """The part of its group that each lane is of."""
        for lanes in self._shares(range(self.width)):
            for lane in lanes:
                self.order[lane] = next(parts)
        self._raised = layout.signed and kind != "avx2"
        self._excess = self._sum_groups(lambda _: raised(self._bytes)) if self._raised else []

    def sums(self, row: Value, following: Value) -> list[list[Value]]:
        """Returns the sums of each group, whole numbers, for each row of activations.

        Args:
            row: where a row of the matrix has the chunk.
            following: what memory is asked for meanwhile, a line with each that is read: many at once hold others up.
        """
        read = list[Value]()
        registers = list[int]()

        def codes(number: int) -> Value:
            while len(read) <= number:
                first = len(registers) * self._bytes
                registers.append(first)
                if first % BLOCK == 0:
                    self._build.ask_for(self._build.at(following, constant(first), I8), 2)
                read.extend(self._unpack(row, constant(first)))
            return read[number]

        sums = self._sum_groups(codes)
        if not self._raised:
            return sums
        pairs = ([*zip(*both, strict=True)] for both in zip(sums, self._excess, strict=True))
        return [[self._build.sub(*pair) for pair in groups] for groups in pairs]

    def _unpack(self, row: Value, place: Value) -> list[Value]:
        """Unpacks a register of bytes, and none behind the chunk."""
        build, unpack, count = self._build, self._layout.unpack, self._bytes
        kind = vector(I8, count)
        assert unpack is not None
        where = build.at(row, place, I8)
        if self._held is None:
            bytes_ = build.read(where, kind)
        elif self._kind in ("amx", "vnni512"):
            left = build.least(build.sub(self._held, place), constant(count))
            some = build.lshr(constant(-1), build.sub(constant(count), left))
            some = build.select(build.icmp_signed(">", left, constant(0)), some, constant(0))
            mask = build.bitcast(some, vector(I1, count))
            bytes_ = build.own(f"llvm.masked.load.v{count}i8.p0", kind, where, constant(1, I32), mask, zeros(kind))
        else:  # a register holds one block, or half of one
            there = build.icmp_signed("<", place, self._held)
            bytes_ = build.select(there, build.read(build.select(there, where, row), kind), zeros(kind))
        codes = unpack(build, bytes_)
        return [build.xor(each, raised(count)) for each in codes] if self._raised else [*codes]

    def _sum_groups(self, codes: Callable[[int], Value]) -> list[list[Value]]:
        """Returns the sums of each group, for each row of activations.

        Args:
            codes: gives the registers of codes, in the order in which they are unpacked.
        """
        made = self._products(codes)
        groups = [self._sum(range(self.width), made) for _ in range(self.groups)]
        return [list(of_row) for of_row in zip(*groups, strict=True)]

    def _products(self, codes: Callable[[int], Value]) -> Iterator[list[Value]]:
        """Gives sums of four products each, of as many parts as share a register, for each row of activations: zeros
        behind the chunk."""
        wholes = vector(I32, self.width)
        for registers in self._registers():
            totals = [zeros(wholes)] * len(self._x)
            for number, place in registers:
                rows = [self._build.read(x, vector(I8, self._bytes), constant(place)) for x in self._x]
                for r, x in enumerate(rows):
                    totals[r] = self._multiply(codes(number), x, totals[r])
            yield totals
        while True:
            yield [zeros(wholes)] * len(self._x)

    def _multiply(self, codes: Value, x: Value, total: Value) -> Value:
        if self._layout.signed and not self._raised:
            return signed_dot(self._build, codes, x, total)
        return dot(self._build, self._kind, codes, x, total)

    def _registers(self) -> Iterator[list[tuple[int, int]]]:
        """Gives the registers of codes whose products are added up first, and where their activations stand."""
        if self._layout.halves is not None:
            of_register = self.width // 8  # blocks
            for first in range(0, self._blocks, of_register):
                pair = first // 2 * 2 * BLOCK + first % 2 * (BLOCK // 2)
                number = 2 * first // of_register
                yield [(number, pair), (number + 1, pair + BLOCK)]
            return
        each = BLOCK // self._bytes  # registers of a block
        for block in range(self._blocks):
            first = block * each
            if self._layout.bits == 4 and each == 2:  # codes of two blocks stand in the same bytes
                first = block // 2 * 4 + block % 2
                yield [(first, block * BLOCK), (first + 2, block * BLOCK + self._bytes)]
            else:
                yield [(first + i, block * BLOCK + i * self._bytes) for i in range(each)]

    def _sum(self, lanes: Sequence[int], made: Iterator[list[Value]]) -> list[Value]:
        """Adds up what is made until there is one lane for each of these, for each row of activations."""
        if len(lanes) == self._together:
            return next(made)
        first, second = (self._sum(half, made) for half in self._split(lanes))
        width = 2 * self.width // len(lanes)
        return [self._add_halves(width, *pair) for pair in zip(first, second, strict=True)]

    def _add_halves(self, width: int, first: Value, second: Value) -> Value:
        """Adds the second half to the first one of each `width` lanes of two vectors."""
        span = self._span(width)
        low = [
            vector + lane
            for begin in range(0, self.width, span)
            for vector in (0, self.width)
            for lane in range(begin, begin + span)
            if lane % width < width // 2
        ]
        high = [lane + width // 2 for lane in low]
        return self._build.add(self._build.pick(first, second, low), self._build.pick(first, second, high))

    def _span(self, width: int) -> int:
        """Returns how many lanes stand side by side in what halves of `width` lanes are added up from, before as many
        of the other vector: one instruction moves them so."""
        return self.width if width > QUARTER else QUARTER

    def _split(self, lanes: Sequence[int]) -> tuple[list[int], list[int]]:
        """Returns which lanes come from the first and the second of two vectors, that `_add_halves` adds up to
        these."""
        width = 2 * self.width // len(lanes)
        first, second = (
            [lane for i, lane in enumerate(lanes) if i * width // self._span(width) % 2 == turn] for turn in (0, 1)
        )
        return first, second

    def _shares(self, lanes: Sequence[int]) -> Iterator[Sequence[int]]:
        """Gives the lanes that come from each vector that is made, in the order in which they are."""
        if len(lanes) == self._together:
            yield lanes
        else:
            for half in self._split(lanes):
                yield from self._shares(half)
