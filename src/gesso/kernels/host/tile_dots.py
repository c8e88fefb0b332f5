"""Writes the kernel that multiplies sixteen unpacked rows of a matrix by sixteen rows of activations, without AMX.

Four codes of a row of the matrix are multiplied with four of each row of activations by one instruction of vectors,
which has a lane for each of these; a part of a block is one whole number a lane then, which goes times both scales into
an fp32 lane, as in `tile_sums`, to the same bits.

    W numbers of 32 bits that a register holds
"""

from llvmlite import ir

from gesso.kernels.host.activations import BLOCK, LANES
from gesso.kernels.host.dots import FLOATS, WHOLES, Dot, dot, multiply_pairs, raised, sum_pairs
from gesso.kernels.host.layouts import Layout
from gesso.kernels.host.llvm_ir import I8, I16, I32, Loop, Value, constant, vector, zeros
from gesso.kernels.host.tile_sums import TileSums
from gesso.kernels.host.tile_writer import chunk_of, planes_of

_SIDE: dict[Dot, int] = {"vnni512": 16, "vnni256": 4, "avx2": 4, "plain": 4}
"""Rows of the matrix that are multiplied at a time: as many sums as there are registers."""
_WORD = 4
"""Codes of a row that one instruction multiplies."""
_TOGETHER = 8
"""Words whose products by codes of up to 15 are added up in 16 bits: 8 * 2 * 15 * 127 at most."""
_PLANES = (1, 16)
"""What codes of the first plane and of the second one count."""
_NEXT = 2
"""Blocks ahead whose activations are asked for: they come from the second cache."""


class DotTile(TileSums):
    """Writes that kernel by products of bytes in vectors."""

    def __init__(self, module: ir.Module, name: str, layout: Layout, kind: Dot) -> None:
        super().__init__(module, name, layout, kind)
        with self.if_then(self.icmp_signed("==", self.begin, constant(0))):
            for i in range(LANES):
                self.write(zeros(FLOATS), self.total, constant(i * LANES))
        loop = Loop(self, self.begin, self.end)
        for part, own in enumerate(self.places(loop.index)):
            self._add(loop.index, part, own)
        loop.close()
        with self.if_then(self.icmp_signed("==", self.end, self.blocks)):
            self.write_rows()
        self.ret_void()

    def _add(self, block: Value, part: int, own: Value) -> None:
        """Adds the products of a part of a block."""
        codes, x, rows = self.codes_of(block, part), self.words_of(block, part), self.of_rows(block, part)
        words, side = BLOCK // self.parts // _WORD, _SIDE[self.kind]
        start = zeros(WHOLES)
        if self.layout.signed:  # codes are that much too large
            for word in range(words):
                start = dot(self, self.kind, raised(BLOCK), self._read_word(x, word), start)
            start = self.sub(zeros(WHOLES), start)
        for word in range(words):
            self.ask_for(self.at(x, constant((_NEXT * BLOCK // _WORD + word) * BLOCK), I8), 3)
        loop = Loop(self, constant(0), constant(LANES), step=side)
        place = self.at(codes, self.mul(loop.index, constant(BLOCK)), I8)
        multiply = self._multiply_pairs if self.kind in ("avx2", "plain") else self._multiply
        for i, made in enumerate(multiply(place, x, words, [start] * side)):
            row = self.add(loop.index, constant(i))
            self.ask_beside(block, part, row, turn=i)
            lane = self.mul(row, constant(LANES))
            total = self.added(self.read(self.total, FLOATS, lane), made, self.add(own, row), rows)
            self.write(total, self.total, lane)
        loop.close()

    def _read_word(self, x: Value, word: int) -> Value:
        """Reads four activations of each row."""
        return self.read(x, vector(I8, BLOCK), constant(word * BLOCK))

    def _four(self, codes: Value, i: int, word: int, lanes: int) -> Value:
        """Reads four codes of a row of the matrix into each of some lanes."""
        four = self.read(self.at(codes, constant(i * BLOCK + word * _WORD), I8), I32)
        return self.bitcast(self.splat(four, lanes), vector(I8, 4 * lanes))

    def _multiply(self, codes: Value, x: Value, words: int, made: list[Value]) -> list[Value]:
        """Adds the products of some rows of the matrix to what there is."""
        for word in range(words):
            activations = self._read_word(x, word)
            made = [
                dot(self, self.kind, self._four(codes, i, word, LANES), activations, total)
                for i, total in enumerate(made)
            ]
        return made

    def _multiply_pairs(self, codes: Value, x: Value, words: int, made: list[Value]) -> list[Value]:
        """Does so without an instruction that adds up four: some words in pairs, then those."""
        halves = []
        for half in range(2):
            totals = [self.pick(each, each, range(half * self.width, (half + 1) * self.width)) for each in made]
            for begin in range(0, words, _TOGETHER):
                for plane, weight in enumerate(_PLANES[: planes_of(self.layout, self.kind)]):
                    own = self.at(codes, constant(plane * chunk_of(self.kind) * BLOCK * LANES), I8)
                    kind = vector(I16 if self.kind == "avx2" else I32, 2 * self.width)
                    pairs = [zeros(kind)] * len(made)
                    for word in range(begin, min(words, begin + _TOGETHER)):
                        place = constant(word * BLOCK + half * BLOCK // 2)
                        activations = self.read(x, vector(I8, BLOCK // 2), place)
                        for i, total in enumerate(pairs):
                            four = self._four(own, i, word, self.width)
                            pairs[i] = self.add(total, multiply_pairs(self, self.kind, four, activations))
                    totals = [self.add(t, sum_pairs(self, p, weight)) for t, p in zip(totals, pairs, strict=True)]
            halves.append(totals)
        return [self.pick(low, high, range(LANES)) for low, high in zip(*halves, strict=True)]
