"""Writes what the kernels of training share: rows in parts of sixteen numbers, and gradients of weights by chunks.

    N rows   D features of a row, a multiple of 16

A weight's gradient is a sum over all rows. Each chunk of `CHUNK` rows has a sum of its own, [chunks, D], and these are
added up afterwards: which thread does which chunk changes no bit.

Arrays are fp32, but for those that a kernel says are bfloat16: their parts are read as fp32, and rounded where they are
written.
"""

from collections.abc import Collection, Sequence

from llvmlite import ir

from gesso.kernels.host.compilation import features
from gesso.kernels.host.llvm_ir import F32, I16, I64, POINTER, VOID, Loop, Value, Writer, constant, vector, zeros

LANES = 16
"""Numbers of a part."""
CHUNK = 64
"""Rows whose share of a weight's gradient is one sum."""
PART, HALVES = vector(F32, LANES), vector(I16, LANES)


class _BFloat16(ir.Type):  # type: ignore[misc]
    """The type of bfloat16 numbers, which llvmlite has not."""

    def __str__(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat16)

    def __hash__(self) -> int:
        return hash(_BFloat16)


class RowWriter(Writer):
    """Builds a kernel `name(pointers..., wholes..., floats...)` over rows."""

    _narrow: frozenset[Value] = frozenset()
    """Addresses of arrays of bfloat16 and of their rows."""

    def __init__(
        self,
        module: ir.Module,
        name: str,
        pointers: int,
        wholes: int,
        floats: int = 0,
        narrow: Collection[int] = (),
    ) -> None:
        """
        Args:
            narrow: which of the pointers are of arrays of bfloat16.
        """
        super().__init__(module, name, VOID, [POINTER] * pointers + [I64] * wholes + [F32] * floats)
        self._narrow = frozenset(self.made.args[number] for number in narrow)

    @property
    def arguments(self) -> Sequence[Value]:
        """Returns the kernel's arguments."""
        found: Sequence[Value] = self.made.args
        return found

    def row(self, rows: Value, number: Value, width: Value) -> Value:
        """Returns where a row begins."""
        return self.place(rows, self.mul(number, width))

    def place(self, held: Value, index: Value) -> Value:
        """Returns where a number of an array is, from which on it is an array of the same kind."""
        if held not in self._narrow:
            return self.at(held, index, F32)
        found = self.at(held, index, I16)
        self._narrow |= {found}
        return found

    def part(self, row: Value, index: Value) -> Value:
        """Reads the part of a row that begins at a feature."""
        return self.bfloat16(self.read(row, HALVES, index)) if row in self._narrow else self.read(row, PART, index)

    def put(self, part: Value, row: Value, index: Value) -> None:
        """Writes the part of a row that begins at a feature."""
        if row not in self._narrow:
            self.write(part, row, index)
        elif features().get("avx512bf16"):  # in one instruction, which takes denormal numbers as zero
            rounded = self.fptrunc(part, vector(_BFloat16(), LANES))
            self.write(self.bitcast(rounded, HALVES), row, index)
        else:
            self.write(self.rounded(part), row, index)

    def scratch(self, rows: Value, width: Value) -> Value | None:
        """Makes memory of the kernel's own for a row in fp32, where those of an array are bfloat16; asked for before
        any loop."""
        if rows not in self._narrow:
            return None
        # llvmlite gives the address of this memory a type, which others have not.
        return self.inttoptr(self.ptrtoint(self.alloca(F32, size=width), I64), POINTER)

    def lanes(self, value: Value) -> Value:
        """Fills a part with one number."""
        return self.splat(value, LANES)

    def add_to(self, row: Value, index: Value, one: Value, other: Value) -> None:
        """Adds a product to the part of a row."""
        self.write(self.fma(one, other, self.part(row, index)), row, index)

    def total(self, part: Value) -> Value:
        """Adds up the lanes of a part, halves at a time."""
        half = LANES // 2
        while half:
            part = self.fadd(self.pick(part, part, range(half)), self.pick(part, part, range(half, 2 * half)))
            half //= 2
        return self.extract_element(part, constant(0))

    def loop_parts(self, width: Value, *carried: Value) -> Loop:
        """Begins a loop over the parts of a row."""
        return Loop(self, constant(0), width, step=LANES, carried=carried)

    def mean_inverse(self, squares: Value, width: Value, eps: Value) -> Value:
        """Returns one over the root of the mean of squares, summed up in lanes."""
        mean = self.fdiv(self.total(squares), self.sitofp(width, F32))
        return self.fdiv(ir.Constant(F32, 1.0), self.own("llvm.sqrt.f32", F32, self.fadd(mean, eps)))

    def inverse(self, row: Value, width: Value, eps: Value) -> Value:
        """Returns one over the root of the mean square of a row."""
        loop = self.loop_parts(width, zeros(PART))
        part = self.part(row, loop.index)
        loop.close(self.fma(part, part, loop.carried[0]))
        return self.mean_inverse(loop.carried[0], width, eps)

    def along(self, inverse: Value, product: Value, width: Value) -> Value:
        """Returns what a norm's gradient has of the row itself, negative, in all lanes: inverse³ / D * <row, grad>."""
        cube = self.fmul(self.fmul(inverse, inverse), inverse)
        return self.lanes(self.fneg(self.fdiv(self.fmul(cube, self.total(product)), self.sitofp(width, F32))))


class Chunks:
    """Goes through chunks `begin` to `end` of N rows, and the rows of each."""

    def __init__(self, build: RowWriter, begin: Value, end: Value, rows: Value) -> None:
        self._build = build
        self._chunks = Loop(build, begin, end)
        self.number = self._chunks.index
        first = build.mul(self.number, constant(CHUNK))
        last = build.add(first, constant(CHUNK))
        self._span = first, build.select(build.icmp_signed("<", last, rows), last, rows)

    def sums(self, held: Value, count: int, width: Value) -> list[Value]:
        """Returns where this chunk's sums begin, `count` rows of D that are cleared here."""
        build = self._build
        first = build.row(held, build.mul(self.number, constant(count)), width)
        loop = build.loop_parts(build.mul(width, constant(count)))
        build.write(zeros(PART), first, loop.index)
        loop.close()
        return [build.row(first, constant(number), width) for number in range(count)]

    def rows(self) -> Loop:
        """Begins the loop over a chunk's rows."""
        return Loop(self._build, *self._span)

    def close(self) -> None:
        """Ends the loop over chunks, and the kernel."""
        self._chunks.close()
        self._build.ret_void()
