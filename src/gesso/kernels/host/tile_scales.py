"""Writes how scales and offsets of sixteen rows of a packed matrix are laid side by side, a chunk of blocks at a time.

W numbers of 32 bits that a register holds
"""

from typing import Any

from gesso.kernels.host.activations import LANES
from gesso.kernels.host.layouts import e4m3
from gesso.kernels.host.llvm_ir import F32, I8, I16, I32, Loop, Value, constant, constants, vector, zeros
from gesso.kernels.host.tile_writer import TileWriter


class ScalesWriter(TileWriter):
    """Writes a kernel that needs the scales of its chunk."""

    def spread(self, scales: Value, third: Value) -> None:
        """Writes the scales and offsets of the chunk, those of sixteen rows side by side."""
        if self.layout.scale != "row":
            self._spread(scales, self.scales, quarters=self.layout.scale == "quarter")
        if self.has_offsets:
            self._spread(third, self.offsets, quarters=False)

    def _spread(self, numbers: Value, place: Value, *, quarters: bool) -> None:
        """Writes the scales or offsets of the chunk, those of sixteen rows side by side."""
        each, kind = self.layout.blocks_per_scale, I8 if quarters else I16
        of_row, begin, end = (
            self.mul(self.udiv(edge, constant(each)), constant(self.parts))
            for edge in (self.blocks, self.begin, self.end)
        )
        rows = [self.at(numbers, self.mul(self.row(constant(i)), of_row), kind) for i in range(LANES)]
        if self.width == LANES:
            loop = Loop(self, begin, end, step=LANES)
            self._lay(self._read_some(rows, loop.index, end, kind), place, self.sub(loop.index, begin))
            loop.close()
            return
        last = self.sub(of_row, constant(self.width))
        with self.if_else(self.icmp_signed(">=", last, constant(0))) as (wide, narrow):
            with wide:
                loop = Loop(self, begin, end, step=self.width)
                first = self.least(loop.index, last)  # the last ones once more, rather than what is behind them
                read = [self.read(self.at(row, first, kind), vector(kind, self.width)) for row in rows]
                self._lay(read, place, self.sub(first, begin))
                loop.close()
            with narrow:
                self._lay([self._read_few(row, of_row, kind) for row in rows], place, self.sub(constant(0), begin))

    def _read_some(self, rows: list[Value], first: Value, end: Value, kind: Any) -> list[Value]:
        """Reads a register of numbers of each row, and none from `end` on."""
        left = self.splat(self.trunc(self.sub(end, first), I32), self.width)
        mask = self.icmp_signed("<", constants(list(range(self.width)), I32), left)
        some, bytes_ = vector(kind, self.width), constant(kind.width // 8, I32)
        name = f"llvm.masked.load.v{self.width}i{kind.width}.p0"
        return [self.own(name, some, self.at(row, first, kind), bytes_, mask, zeros(some)) for row in rows]

    def _read_few(self, row: Value, count: Value, kind: Any) -> Value:
        """Reads fewer numbers than a register holds; the last one stands for those that there are not."""
        read = zeros(vector(kind, self.width))
        for i in range(self.width):
            own = self.read(row, kind, self.least(constant(i), self.sub(count, constant(1))))
            read = self.insert_element(read, own, constant(i, I32))
        return read

    def _lay(self, rows: list[Value], place: Value, near: Value) -> None:
        """Writes numbers of sixteen rows, read as they lie in memory, from the chunk's number `near` on."""
        each, words = self.layout.blocks_per_scale, vector(I16, self.width)
        wide = [row if row.type == words else self.zext(row, words) for row in rows]
        for first in range(0, LANES, self.width):
            own = wide[first : first + self.width]
            turned = self._turn_words(own) if self.width == LANES else self._turn_few_words(own)
            for v, bits in enumerate(turned):
                number = self._number(bits, quarters=self.layout.scale == "quarter")
                for copy in range(each):
                    lane = self.add(self.mul(self.add(near, constant(v)), constant(each)), constant(copy))
                    self.write(number, place, self.add(self.mul(lane, constant(LANES)), constant(first)))

    def _number(self, bits: Value, *, quarters: bool) -> Value:
        """Reads scales or offsets of their bits."""
        if quarters:
            return e4m3(self, self.trunc(bits, vector(I8, bits.type.count)))
        number = self.bfloat16(bits)
        if self.layout.scale == "block" and self.layout.unit != 1:
            number = self.fmul(number, constants([self.layout.unit] * bits.type.count, F32))
        return number

    def _turn_few_words(self, rows: list[Value]) -> list[Value]:
        """Turns eight vectors of eight numbers of 16 bits."""
        half = len(rows) // 2
        low, high = ([lane for i in range(begin, begin + half) for lane in (i, i + 2 * half)] for begin in (0, half))
        for _ in range(half.bit_length()):
            pairs = zip(rows[:half], rows[half:], strict=True)
            rows = [self.pick(*pair, lanes) for pair in pairs for lanes in (low, high)]
        return rows

    def _turn_words(self, rows: list[Value]) -> list[Value]:
        """Turns sixteen vectors of sixteen numbers of 16 bits, half of which would leave a register empty."""
        half = LANES // 2
        turned = [self.pick(*pair, range(2 * LANES)) for pair in zip(rows[:half], rows[half:], strict=True)]
        for together in (1, 2, 4):  # words of a row that stand side by side, then those of two, of four
            pairs = list(zip(turned[::2], turned[1::2], strict=True))
            turned = [self._interleave(*pair, together, first) for first in (0, half // 2) for pair in pairs]
        turned = [turned[place] for place in (0, 4, 2, 6, 1, 5, 3, 7)]
        ends = [[*range(begin, begin + half), *range(LANES + begin, LANES + begin + half)] for begin in (0, half)]
        return [self.pick(each, each, lanes) for lanes in ends for each in turned]

    def _interleave(self, first: Value, second: Value, together: int, begin: int) -> Value:
        """Takes words of two vectors by turns: of each eight the four from `begin` on."""
        lanes = [
            vector_ + eight + begin + word
            for eight in range(0, 2 * LANES, LANES // 2)
            for start in range(0, LANES // 4, together)
            for vector_ in (0, 2 * LANES)
            for word in range(start, start + together)
        ]
        return self.pick(first, second, lanes)
