"""Writes the kernel of the vocabulary's online softmax: chunks of scores become powers, and the sums that a sample, the
argmax and the entropy are made of.

    N rows   C tokens of a chunk, a multiple of 64   K chunks   B blocks of 64 tokens, the last one filled up

With a row's scores z, soft-capped and tempered, and the largest of them so far m: S = sum exp(z - m), and
U = sum (z - m) exp(z - m). A new maximum m' = m - d turns them into S exp(d) and (U + d S) exp(d).
"""

from llvmlite import ir

from gesso.kernels import BLOCK
from gesso.kernels.host.exponential import MOST, all_lanes, exp
from gesso.kernels.host.llvm_ir import F32, I32, I64, POINTER, Loop, Value, constant, constants, vector, zeros
from gesso.kernels.host.row_writer import LANES, PART, RowWriter

LOWEST, FAINT = -1e30, -69.0
"""The exponent of what weighs nothing, and those below which a power is nothing beside a 1 (see `nn.elementwise`)."""
POINTERS = ("scores", "inverse", "maximum", "total", "weighted", "argmax", "sums", "references", "shrink", "softcap")
"""Addresses: of scores [N, stride], whose place powers take, relative to m after their chunk; of one over the
temperature [N]; of m, S, U and the likeliest token (int64) [N], which are carried on; of the sums of blocks [N, B]; of
the m that each chunk's are relative to [N, K]; of exp(d) of the last chunk [N]; of the soft-cap."""
WHOLES = ("size", "stride", "chunk", "first", "blocks", "chunks")
"""Tokens, numbers between rows of scores, C, the first token, and numbers between rows of sums and of references."""
WORDS = (*POINTERS, *WHOLES)
"""What the kernel is given, 64 bits each."""
_WHOLES = vector(I32, LANES)


def write_online_softmax(module: ir.Module, name: str, *, capped: bool) -> None:
    """Writes `name(words, thread, begin, end)`, rows `begin` to before `end`, which threads may share (see `team`);
    without `capped` scores have no soft-cap."""
    _Softmax(module, name, capped=capped)


class _Softmax(RowWriter):
    """Writes the kernel."""

    def __init__(self, module: ir.Module, name: str, *, capped: bool) -> None:
        super().__init__(module, name, 1, 3)
        words, _, begin, end = self.arguments
        held = {word: self.read(words, I64, constant(i)) for i, word in enumerate(WORDS)}
        place = {word: self.inttoptr(held[word], POINTER) for word in POINTERS}
        self.size, stride, self.chunk, self.first, blocks, chunks = (held[word] for word in WHOLES)
        softcap = self.read(place["softcap"], F32)
        self.cap = self.lanes(softcap) if capped else None
        self.rate = self.lanes(self.fdiv(ir.Constant(F32, 2.0), softcap))
        rows = Loop(self, begin, end)
        of_row = {"scores": stride, "sums": blocks, "references": chunks}
        scores, sums, references = (self.row(place[word], rows.index, width) for word, width in of_row.items())
        tempering = self.lanes(self.read(place["inverse"], F32, rows.index))
        carried = [self.read(place[word], F32, rows.index) for word in ("maximum", "total", "weighted")]
        carried += [self.read(place["argmax"], I64, rows.index), ir.Constant(F32, 1.0)]
        count = self.udiv(self.add(self.size, self.sub(self.chunk, constant(1))), self.chunk)
        loop = Loop(self, constant(0), count, carried=carried)
        running = self._add_chunk(self.mul(loop.index, self.chunk), loop.carried, (scores, tempering, sums))
        self.write(running[0], references, loop.index)
        loop.close(*running)
        for word, value in zip(("maximum", "total", "weighted", "argmax", "shrink"), loop.carried, strict=True):
            self.write(value, place[word], rows.index)
        rows.close()
        self.ret_void()

    def _add_chunk(self, begin: Value, running: list[Value], row: tuple[Value, Value, Value]) -> list[Value]:
        """Adds a chunk to what runs along a row: m, S, U, the likeliest token, and exp(d), which is new.

        Args:
            begin: the chunk's first token, of those at hand.
            row: where its scores are, one over its temperature, and where its sums are.
        """
        (before, total, weighted, token, _), (scores, tempering, sums) = running, row
        tokens, scores = self.least(self.chunk, self.sub(self.size, begin)), self.at(scores, begin, F32)
        largest, place = self._temper(scores, tokens, tempering)
        more = self.fcmp_ordered(">", largest, before)
        token = self.select(more, self.add(self.add(self.first, begin), place), token)
        maximum = self.select(more, largest, before)
        shift = self.fsub(before, maximum)
        shrink = self.extract_element(self._power(self.lanes(shift), -MOST)[1], constant(0, I32))
        sums = self.at(sums, self.udiv(begin, constant(BLOCK)), F32)
        mass, heat = self._raise(scores, tokens, maximum, sums)
        moved = self.fmul(self.fadd(weighted, self.fmul(shift, total)), shrink)
        return [maximum, self.fadd(self.fmul(total, shrink), mass), self.fadd(moved, heat), token, shrink]

    def _temper(self, scores: Value, tokens: Value, tempering: Value) -> tuple[Value, Value]:
        """Caps and tempers scores in place; returns the largest one, and the first token that has it."""
        numbers = constants(range(LANES), I32)
        loop = self.loop_parts(self._filled(tokens), constants([float("-inf")] * LANES, F32), zeros(_WHOLES))
        number = self.add(numbers, self.splat(self.trunc(loop.index, I32), LANES))
        score = self.part(scores, loop.index)
        score = self.fmul(score if self.cap is None else self._capped(score, self.cap), tempering)
        inside = self.icmp_signed("<", number, self.splat(self.trunc(tokens, I32), LANES))
        score = self.select(inside, score, all_lanes(LOWEST))
        self.write(score, scores, loop.index)
        largest, where = loop.carried
        more = self.fcmp_ordered(">", score, largest)
        loop.close(self.select(more, score, largest), self.select(more, number, where))
        largest, where = loop.carried
        top = self.own("llvm.vector.reduce.fmax.v16f32", F32, largest)
        has = self.fcmp_ordered("==", largest, self.lanes(top))
        where = self.select(has, where, constants([2**31 - 1] * LANES, I32))
        return top, self.zext(self.own("llvm.vector.reduce.umin.v16i32", I32, where), I64)

    def _capped(self, score: Value, cap: Value) -> Value:
        """Returns cap * tanh(score / cap), by way of 1 / (1 + exp(2 score / cap))."""
        twice = self.fmul(score, self.rate)
        for way, edge in ((">", MOST), ("<", -MOST)):  # NaN stays
            twice = self.select(self.fcmp_ordered(way, twice, all_lanes(edge)), all_lanes(edge), twice)
        below = self.fdiv(self.fadd(cap, cap), self.fadd(exp(self, twice), all_lanes(1.0)))
        return self.fsub(cap, below)

    def _raise(self, scores: Value, tokens: Value, maximum: Value, sums: Value) -> tuple[Value, Value]:
        """Makes powers of scores, in place, relative to a maximum, and sums of blocks; returns the sum of all, and that
        of each times its exponent."""
        maximum = self.lanes(maximum)
        loop = Loop(self, constant(0), self._filled(tokens), step=BLOCK, carried=[zeros(PART), zeros(PART)])
        mass, heat = loop.carried
        block = zeros(PART)
        for begin in range(0, BLOCK, LANES):
            place = self.add(loop.index, constant(begin))
            away = self.fsub(self.part(scores, place), maximum)
            away, power = self._power(away, FAINT)
            heat = self.fma(away, power, heat)
            block = self.fadd(block, power)
            self.write(power, scores, place)
        self.write(self.total(block), sums, self.udiv(loop.index, constant(BLOCK)))
        loop.close(self.fadd(mass, block), heat)
        return self.total(loop.carried[0]), self.total(loop.carried[1])

    def _power(self, exponent: Value, least: float) -> tuple[Value, Value]:
        """Returns exponents of zero and less, and exp of them: zero and nothing for those below the least."""
        low = self.fcmp_ordered("<", exponent, all_lanes(least))
        exponent = self.select(low, zeros(PART), exponent)
        return exponent, self.select(low, zeros(PART), exp(self, exponent))

    def _filled(self, tokens: Value) -> Value:
        """Returns the tokens of whole blocks."""
        return self.and_(self.add(tokens, constant(BLOCK - 1)), constant(-BLOCK))
