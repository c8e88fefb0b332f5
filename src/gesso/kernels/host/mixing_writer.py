"""Holds what the kernels share that mix rows of a table of bytes by weights: their loops, and the table's bytes.

    N mixtures   V rows of the table   D its columns, a multiple of 64   G groups of sixteen mixtures

Products with whole numbers of `mixing_weights` are added up exactly for `ROWS` rows of the table, and these in fp32, in
order: the bits of a mixture depend neither on those beside it nor on the instructions (`mixing_rows`, `mixing_tiles`).
"""

from abc import ABC, abstractmethod

from llvmlite import ir

from gesso.kernels.host import amx
from gesso.kernels.host.activations import LANES
from gesso.kernels.host.dots import Dot
from gesso.kernels.host.llvm_ir import (
    F32,
    I8,
    I16,
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
from gesso.kernels.host.mixing_weights import ROWS, in_words, is_raised, read_words

COLUMNS = 64
"""Columns that are mixed at a time."""
WORD = 4
"""Bytes of a number that one lane of an instruction multiplies."""
SIDE_BY_SIDE = 64
"""Bytes of a word's columns that stand side by side."""


class MixWriter(Writer, ABC):
    """Writes `name(words, thread, begin, end)`, which adds to the sums of columns 64 `begin` to 64 `end`.

    Words, of 64 bits: parts, scales and starts as `write_split_weights` has them; codes int8 [V, D]; sums float
    [D / 64, 16 G, 64]; N; V; D.
    """

    def __init__(self, module: ir.Module, name: str, kind: Dot, spare: int = 0) -> None:
        """
        Args:
            spare: bytes of memory that are kept behind the unpacked table.
        """
        super().__init__(module, name, VOID, [POINTER] + [I64] * 3)
        self.kind = kind
        self.together = 2 if in_words(kind) else WORD
        """Rows of the table of which a word holds a column."""
        words, _, self.begin, self.end = self.made.args
        (self.parts, self.scales, self.starts, self.codes, self.sums), sizes = read_words(self, words, 5, 3)
        self.count, self.table, self.across = sizes
        unpacked = ROWS // self.together * COLUMNS * WORD
        room = self.alloca(ir.ArrayType(I8, unpacked + spare))
        room.align = SIDE_BY_SIDE
        self.near = self.inttoptr(self.ptrtoint(room, I64), POINTER)  # of no type, as all pointers here
        self.spare = self.at(self.near, constant(unpacked), I8)
        self.blocks = self.udiv(self.add(self.table, constant(ROWS - 1)), constant(ROWS))
        self.groups = self.udiv(self.add(self.count, constant(amx.SIDE - 1)), constant(amx.SIDE))

    def write_loops(self) -> None:
        """Writes the loops over columns and over blocks of the table."""
        columns = Loop(self, self.begin, self.end)
        block = Loop(self, constant(0), self.blocks)
        self._unpack(self.mul(block.index, constant(ROWS)), self.mul(columns.index, constant(COLUMNS)))
        sums = self.mul(columns.index, self.mul(self.groups, constant(amx.SIDE * COLUMNS)))
        self.mix(block.index, self.at(self.sums, sums, F32))
        block.close()
        columns.close()

    @abstractmethod
    def mix(self, block: Value, sums: Value) -> None:
        """Adds a block of the table, which is unpacked, to all mixtures' sums of 64 columns."""

    def _unpack(self, first: Value, column: Value) -> None:
        """Writes a block's columns so that what one instruction adds up stands side by side: four times sixteen
        columns, and of each sixteen word after word, a column's numbers of four rows, or of two in 16 bits."""
        loop = Loop(self, constant(0), constant(ROWS // self.together))
        row = self.add(first, self.mul(loop.index, constant(self.together)))
        last = self.sub(self.table, constant(1))  # rows that the table lacks have no weight
        places = [self.mul(self.least(self.add(row, constant(i)), last), self.across) for i in range(self.together)]
        rows = [self.at(self.codes, self.add(place, column), I8) for place in places]
        for part in range(COLUMNS // LANES):
            numbers = [self.read(each, vector(I8, LANES), constant(part * LANES)) for each in rows]
            if in_words(self.kind):
                numbers = [self.sext(each, vector(I16, LANES)) for each in numbers]
            elif is_raised(self.kind):
                numbers = [self.xor(each, constants([-128] * LANES, I8)) for each in numbers]
            place = self.mul(self.add(loop.index, constant(self.apart(part))), constant(SIDE_BY_SIDE))
            self.write(self._side_by_side(numbers), self.at(self.near, place, I8))
        loop.close()

    def apart(self, part: int) -> int:
        """Returns how many words stand before those of the sixteen columns of a part."""
        return part * ROWS // self.together

    def _side_by_side(self, numbers: list[Value]) -> Value:
        """Takes a number of each vector by turns."""
        turns = [lane + count for lane in range(LANES) for count in (0, LANES)]
        pairs = [self.pick(*pair, turns) for pair in zip(numbers[::2], numbers[1::2], strict=True)]
        if len(pairs) == 1:
            return pairs[0]
        low, high = (self.bitcast(pair, vector(I16, LANES)) for pair in pairs)
        return self.pick(low, high, turns)
