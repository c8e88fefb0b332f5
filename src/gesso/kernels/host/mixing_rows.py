"""Writes the kernel that mixes rows of a table of bytes by instructions of vectors (see `mixing_writer`).

W numbers of 32 bits that a register holds
"""

from llvmlite import ir

from gesso.kernels.host import amx
from gesso.kernels.host.dots import SUMS, WIDTH, Dot, dot
from gesso.kernels.host.llvm_ir import F32, I8, I16, I32, Loop, Value, constant, constants, vector, zeros
from gesso.kernels.host.mixing_weights import PARTS, ROWS, STEP, in_words, is_raised
from gesso.kernels.host.mixing_writer import COLUMNS, SIDE_BY_SIDE, WORD, MixWriter

_SIDE = 4
"""Mixtures that are made at a time."""
_ACROSS = {16: 4, 8: 2}
"""Registers of columns that are made at a time, as many as there are, by W."""


class MixRows(MixWriter):
    """Writes that kernel."""

    def __init__(self, module: ir.Module, name: str, kind: Dot) -> None:
        super().__init__(module, name, kind)
        self.width = WIDTH[kind]
        self.registers = _ACROSS[self.width]
        self.row_bytes = (2 if in_words(kind) else 1) * STEP
        """Bytes of a mixture's weights of a step, in one plane."""
        self.write_loops()
        self.ret_void()

    def mix(self, block: Value, sums: Value) -> None:
        part = Loop(self, constant(0), constant(COLUMNS), step=self.registers * self.width)
        rows = Loop(self, constant(0), self.count, step=_SIDE)
        place = self.add(self.mul(rows.index, constant(COLUMNS)), part.index)
        near = self.mul(part.index, constant(ROWS // self.together * WORD))
        self._mix_four(block, rows.index, self.at(self.near, near, I8), self.at(sums, place, F32))
        rows.close()
        part.close()

    def _mix_four(self, block: Value, row: Value, near: Value, sums: Value) -> None:
        """Adds some columns of a block to four mixtures."""
        group, lane = self.udiv(row, constant(amx.SIDE)), self.urem(row, constant(amx.SIDE))
        steps = constant(ROWS // STEP)
        weights = self.mul(self.mul(self.add(self.mul(group, self.blocks), block), steps), constant(PARTS))
        weights = self.at(self.parts, self.add(weights, self.mul(lane, constant(self.row_bytes))), I8)
        places = [self.add(self.mul(self.add(row, constant(i)), self.blocks), block) for i in range(_SIDE)]
        made = [zeros(vector(I32, self.width))] * (_SIDE * self.registers)
        for plane in range(PARTS // amx.SIDE // self.row_bytes):
            if plane:
                made = self._raise(made, places)
            loop = Loop(self, constant(0), steps, carried=made)
            self._add_step(loop, self.at(weights, constant(plane * amx.SIDE * STEP), I8), near)
            made = loop.carried
        for i, total in enumerate(made):
            row_, column = divmod(i, self.registers)
            scale = self.splat(self.read(self.scales, F32, places[row_]), self.width)
            held = self.at(sums, constant(row_ * COLUMNS + column * self.width), F32)
            product = self.sitofp(total, vector(F32, self.width))
            self.write(self.fma(product, scale, self.read(held, product.type)), held)

    def _raise(self, made: list[Value], places: list[Value]) -> list[Value]:
        """Multiplies what upper bytes have made by 256, and begins the sums of lower ones."""
        made = [self.shl(total, constants([8] * self.width, I32)) for total in made]
        if not is_raised(self.kind):
            return made
        starts = [self.splat(self.read(self.starts, I32, place), self.width) for place in places]
        return [self.add(total, starts[i // self.registers]) for i, total in enumerate(made)]

    def _add_step(self, loop: Loop, weights: Value, near: Value) -> None:
        """Adds the products of one step's rows of the table."""
        made, count = list(loop.carried), STEP // self.together
        weights = self.at(weights, self.mul(loop.index, constant(PARTS)), I8)
        near = self.at(near, self.mul(loop.index, constant(count * SIDE_BY_SIDE)), I8)
        for word in range(count):
            codes = [self._read_codes(near, word, i) for i in range(self.registers)]
            for row in range(_SIDE):
                place = constant(row * self.row_bytes + word * WORD)
                weight = self.splat(self.read(self.at(weights, place, I8), I32), self.width)
                for i, code in enumerate(codes, row * self.registers):
                    made[i] = self._add(made[i], code, weight)
        loop.close(*made)

    def _read_codes(self, near: Value, word: int, register: int) -> Value:
        """Reads a word of some neighbouring columns."""
        part, column = divmod(register * self.width, SIDE_BY_SIDE // WORD)
        place = (self.apart(part) + word) * SIDE_BY_SIDE + column * WORD
        return self.read(self.at(near, constant(place), I8), vector(I32, self.width))

    def _add(self, total: Value, code: Value, weight: Value) -> Value:
        """Adds the products of one word of each lane."""
        if not in_words(self.kind):
            narrow = vector(I8, WORD * self.width)
            return dot(self, self.kind, self.bitcast(code, narrow), self.bitcast(weight, narrow), total)
        pairs = (self.bitcast(each, vector(I16, 2 * self.width)) for each in (code, weight))
        return self.add(total, self.own(SUMS, total.type, *pairs))
