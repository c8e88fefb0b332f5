"""Writes the kernel by which one query attends to all keys that it is given, by an online softmax (arXiv 1805.02867).

    H query heads, of which as many neighbours share each of G key heads   S keys   K features, a multiple of 16

A head goes through the keys sixteen at a time, in one order: its bits depend on nothing beside it. It takes no memory
for scores.
"""

from llvmlite import ir

from gesso.kernels.host.dots import sum_lanes
from gesso.kernels.host.exponential import exp
from gesso.kernels.host.llvm_ir import F32, I32, I64, POINTER, VOID, Loop, Value, Writer, constant, constants, zeros
from gesso.kernels.host.row_writer import LANES, PART, RowWriter

SIDE = 4
"""Keys that are read side by side."""
MOST_SHARED = 64
"""Query heads that may share a key head."""
LOWEST, NOTHING = -3.4028234663852886e38, -87.0
"""The lowest score that a float holds, and what exp is zero below."""
WORDS = ("q", "keys", "values", "out", "count", "apart", "width", "shared")
"""Words of the kernel: the addresses of q [H, K], of keys and values [G, S, K] and of what comes out [H, K]; S; how
many numbers the keys of two heads are apart; K; and the query heads that share a key head."""


class _Query(RowWriter):
    """Builds a kernel (words, thread, begin, end) over key heads."""

    def __init__(self, module: ir.Module, name: str) -> None:
        Writer.__init__(self, module, name, VOID, [POINTER, I64, I64, I64])
        words, _, begin, end = self.made.args
        held = {name: self.read(words, I64, constant(i)) for i, name in enumerate(WORDS)}
        q, keys, values, out = (self.inttoptr(held[name], POINTER) for name in WORDS[:4])
        self.width, shared, apart = held["width"], held["shared"], held["apart"]
        self.scores, self.tops, self.totals = (
            self.inttoptr(self.ptrtoint(self.alloca(F32, size=constant(count, I32)), I64), POINTER)
            for count in (LANES * MOST_SHARED, MOST_SHARED, MOST_SHARED)
        )
        heads = Loop(self, begin, end)
        own_keys, own_values = (self.row(each, heads.index, apart) for each in (keys, values))
        first = self.mul(heads.index, shared)
        queries, outputs = (self.row(each, first, self.width) for each in (q, out))
        self._begin(outputs, shared)
        blocks = Loop(self, constant(0), held["count"], step=LANES)
        left = self.sub(held["count"], blocks.index)
        left = self.select(self.icmp_signed("<", left, constant(LANES)), left, constant(LANES))
        at_keys, at_values = (self.row(each, blocks.index, self.width) for each in (own_keys, own_values))
        self._score(queries, at_keys, left, shared)
        turns = Loop(self, constant(0), shared)
        self._scale(self.row(outputs, turns.index, self.width), self._weigh(turns.index, left))
        turns.close()
        self._add_values(outputs, at_values, left, shared)
        blocks.close()
        turns = Loop(self, constant(0), shared)
        inverse = self.fdiv(ir.Constant(F32, 1.0), self.read(self.totals, F32, turns.index))
        self._scale(self.row(outputs, turns.index, self.width), self.lanes(inverse))
        turns.close()
        heads.close()
        self.ret_void()

    def _begin(self, outputs: Value, shared: Value) -> None:
        turns = Loop(self, constant(0), shared)
        self.write(ir.Constant(F32, LOWEST), self.tops, turns.index)
        self.write(ir.Constant(F32, 0.0), self.totals, turns.index)
        turns.close()
        parts = self.loop_parts(self.mul(shared, self.width))
        self.write(zeros(PART), outputs, parts.index)
        parts.close()

    def _rows(self, held: Value, first: Value, left: Value) -> list[Value]:
        """Returns where `SIDE` rows begin; the last of those that are left stands for what is behind."""
        last = self.sub(left, constant(1))
        numbers = [self.add(first, constant(i)) for i in range(SIDE)]
        return [
            self.row(held, self.select(self.icmp_signed("<", number, last), number, last), self.width)
            for number in numbers
        ]

    def _scores_of(self, turn: Value) -> Value:
        return self.row(self.scores, turn, constant(LANES))

    def _score(self, queries: Value, keys: Value, left: Value, shared: Value) -> None:
        """Writes the scores of up to sixteen keys, for all queries: keys stay in the nearest cache meanwhile."""
        groups = Loop(self, constant(0), left, step=SIDE)
        rows = self._rows(keys, groups.index, left)
        turns = Loop(self, constant(0), shared)
        query = self.row(queries, turns.index, self.width)
        parts = self.loop_parts(self.width, *[zeros(PART)] * SIDE)
        own = self.part(query, parts.index)
        parts.close(
            *(self.fma(own, self.part(row, parts.index), sum_) for row, sum_ in zip(rows, parts.carried, strict=True))
        )
        self.write(sum_lanes(self, parts.carried), self._scores_of(turns.index), groups.index)
        turns.close()
        groups.close()

    def _weigh(self, turn: Value, left: Value) -> Value:
        """Turns scores into weights, and carries the largest score and the sum of weights; returns what everything
        before is multiplied by."""
        held = self._scores_of(turn)
        seen = self.icmp_signed("<", constants(range(LANES), I32), self.splat(self.trunc(left, I32), LANES))
        scores = self.select(seen, self.read(held, PART), constants([LOWEST] * LANES, F32))
        before = self.read(self.tops, F32, turn)
        most = self.own("llvm.vector.reduce.fmax.v16f32", F32, scores)
        top = self.select(self.fcmp_ordered(">", before, most), before, most)
        weights, shrink = (self._power(self.fsub(each, self.lanes(top))) for each in (scores, self.lanes(before)))
        weights = self.select(seen, weights, zeros(PART))  # where no score is above `LOWEST`, too
        self.write(weights, held)
        self.write(top, self.tops, turn)
        shrink_one = self.extract_element(shrink, constant(0, I32))
        total = self.fmul(self.read(self.totals, F32, turn), shrink_one)
        self.write(self.fadd(total, self.total(weights)), self.totals, turn)
        return shrink

    def _power(self, x: Value) -> Value:
        low = self.fcmp_ordered("<", x, constants([NOTHING] * LANES, F32))
        return self.select(low, zeros(PART), exp(self, self.select(low, zeros(PART), x)))

    def _add_values(self, outputs: Value, values: Value, left: Value, shared: Value) -> None:
        groups = Loop(self, constant(0), left, step=SIDE)
        rows = self._rows(values, groups.index, left)
        turns = Loop(self, constant(0), shared)
        held, target = self._scores_of(turns.index), self.row(outputs, turns.index, self.width)
        weights = [self.lanes(self.read(held, F32, self.add(groups.index, constant(i)))) for i in range(SIDE)]
        parts = self.loop_parts(self.width)
        total = self.part(target, parts.index)
        for weight, row in zip(weights, rows, strict=True):
            total = self.fma(weight, self.part(row, parts.index), total)
        self.write(total, target, parts.index)
        parts.close()
        turns.close()
        groups.close()

    def _scale(self, target: Value, factor: Value) -> None:
        parts = self.loop_parts(self.width)
        self.write(self.fmul(self.part(target, parts.index), factor), target, parts.index)
        parts.close()


def write_attend(module: ir.Module, name: str) -> None:
    """Writes `name(words, thread, begin, end)`: key heads `begin` to before `end`, which threads may share (see
    `team`). `WORDS` are the words."""
    _Query(module, name)
