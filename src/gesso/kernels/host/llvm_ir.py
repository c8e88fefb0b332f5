"""Writes LLVM's intermediate language: what the kernels for CPUs are made of, loops and vectors.

A thin layer over llvmlite's builder. Pointers have no type of their own: what is loaded says what it is.
"""

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

VOID, POINTER = ir.VoidType(), ir.PointerType()
I1, I8, I16, I32, I64, F32 = (*(ir.IntType(bits) for bits in (1, 8, 16, 32, 64)), ir.FloatType())
F64 = ir.DoubleType()

Value = Any
"""What the builder returns."""


def vector(kind: Any, lanes: int) -> Any:
    """Returns the type of so many lanes."""
    return ir.VectorType(kind, lanes)


def constant(value: int, kind: Any = I64) -> Value:
    """Makes a constant number."""
    return ir.Constant(kind, value)


def constants(values: Sequence[float], kind: Any) -> Value:
    """Makes a constant vector."""
    return ir.Constant(vector(kind, len(values)), list(values))


def zeros(kind: Any) -> Value:
    """Makes the zero of a type."""
    return ir.Constant(kind, None)


def declare(module: ir.Module, name: str, result: Any, arguments: Sequence[Any]) -> Value:
    """Declares one of LLVM's own functions, once in a module."""
    known = module.globals.get(name)
    return known or ir.Function(module, ir.FunctionType(result, list(arguments)), name)


class Writer(ir.IRBuilder):  # type: ignore[misc]
    """Builds one function."""

    def __init__(self, module: ir.Module, name: str, result: Any, arguments: Sequence[Any]) -> None:
        self.made = ir.Function(module, ir.FunctionType(result, list(arguments)), name)
        super().__init__(self.made.append_basic_block())

    def at(self, pointer: Value, index: Value, kind: Any) -> Value:
        """Returns the address of element `index` of an array of `kind`."""
        return self.gep(pointer, [index], source_etype=kind)

    def read(self, pointer: Value, kind: Any, index: Value | None = None) -> Value:
        """Loads a number or a vector, aligned to nothing but its elements."""
        element = getattr(kind, "element", kind)
        address = pointer if index is None else self.at(pointer, index, element)
        return self.load(address, typ=kind, align=_bytes(element))

    def read_index(self, numbers: Value, index: Value) -> Value:
        """Loads a number of 32 bits that is an index itself, as one of 64."""
        return self.sext(self.read(numbers, I32, index), I64)

    def write(self, value: Value, pointer: Value, index: Value | None = None) -> None:
        """Stores a number or a vector, aligned to nothing but its elements."""
        element = getattr(value.type, "element", value.type)
        address = pointer if index is None else self.at(pointer, index, element)
        self.store(value, address, align=_bytes(element))

    def splat(self, value: Value, lanes: int) -> Value:
        """Fills all lanes with one number."""
        empty = ir.Constant(vector(value.type, lanes), ir.Undefined)
        one = self.insert_element(empty, value, constant(0, I32))
        return self.pick(one, one, [0] * lanes)

    def pick(self, first: Value, second: Value, lanes: Sequence[int]) -> Value:
        """Picks lanes of two vectors, numbered one after the other."""
        return self.shuffle_vector(first, second, constants(list(lanes), I32))

    def own(self, name: str, result: Any, *arguments: Value) -> Value:
        """Calls one of LLVM's own functions."""
        return self.call(declare(self.module, name, result, [a.type for a in arguments]), arguments)

    def ask_for(self, address: Value, level: int) -> None:
        """Has the memory send the line of an address to the first cache (`level` 3), or the second (2)."""
        read, near, data = (constant(number, I32) for number in (0, level, 1))
        ask = declare(self.module, "llvm.prefetch.p0", VOID, [POINTER, I32, I32, I32])
        self.call(ask, [address, read, near, data])

    def least(self, a: Value, b: Value) -> Value:
        """Returns the lesser of two whole numbers."""
        return self.select(self.icmp_signed("<", a, b), a, b)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """Computes a * b + c, rounded once."""
        return self.own(f"llvm.fma.v{a.type.count}f32", a.type, a, b, c)

    def bfloat16(self, bits: Value) -> Value:
        """Reads bfloat16 numbers from their bits."""
        wide = vector(I32, bits.type.count) if hasattr(bits.type, "count") else I32
        single = vector(F32, bits.type.count) if hasattr(bits.type, "count") else F32
        shift = constants([16] * bits.type.count, I32) if hasattr(bits.type, "count") else constant(16, I32)
        return self.bitcast(self.shl(self.zext(bits, wide), shift), single)

    def rounded(self, x: Value) -> Value:
        """Returns the bits of the nearest bfloat16 numbers, the even ones of two; what is no number stays so."""
        lanes = getattr(x.type, "count", None)

        def all_of(value: int, kind: ir.IntType = I32) -> Value:
            return constant(value, kind) if lanes is None else constants([value] * lanes, kind)

        bits = self.bitcast(x, all_of(0).type)
        odd = self.and_(self.lshr(bits, all_of(16)), all_of(1))
        near = self.add(bits, self.add(odd, all_of(0x7FFF)))
        near = self.trunc(self.lshr(near, all_of(16)), all_of(0, I16).type)
        return self.select(self.fcmp_unordered("uno", x, x), all_of(0x7FC0, I16), near)


def _bytes(kind: Any) -> int:
    return {F32: 4, F64: 8}[kind] if kind in (F32, F64) else kind.width // 8


class Loop:
    """Counts from `begin` to `end`, and carries values from round to round.

    What is built between making it and `close` is its body; afterwards `carried` are the last values.
    """

    def __init__(
        self, build: Writer, begin: Value, end: Value, *, step: int = 1, carried: Sequence[Value] = ()
    ) -> None:
        self.build, self.step = build, step
        before = build.block
        head, self._body, self._done = (build.made.append_basic_block() for _ in range(3))
        build.branch(head)
        build.position_at_end(head)
        self._head = head
        self.index = build.phi(I64)
        self.index.add_incoming(begin, before)
        self.carried: list[Value] = []
        for value in carried:
            phi = build.phi(value.type)
            phi.add_incoming(value, before)
            self.carried.append(phi)
        build.cbranch(build.icmp_signed("<", self.index, end), self._body, self._done)
        build.position_at_end(self._body)

    def close(self, *carried: Value) -> None:
        """Ends the body; `carried` go into the next round."""
        build = self.build
        following, last = build.add(self.index, constant(self.step)), build.block
        self.index.add_incoming(following, last)
        for phi, value in zip(self.carried, carried, strict=True):
            phi.add_incoming(value, last)
        build.branch(self._head)
        build.position_at_end(self._done)


class Queue:
    """Takes the numbers of a queue, one after the other; the body between making it and `close` may add to its end.

    `count` stand at the front at first.
    """

    def __init__(self, build: Writer, places: Value, count: Value) -> None:
        self.build, self._places = build, places
        self._size = build.alloca(I64)
        build.store(count, self._size)
        before = build.block
        self._head, body, self._done = (build.made.append_basic_block() for _ in range(3))
        build.branch(self._head)
        build.position_at_end(self._head)
        self._turn = build.phi(I64)
        self._turn.add_incoming(constant(0), before)
        build.cbranch(build.icmp_signed("<", self._turn, self.size), body, self._done)
        build.position_at_end(body)
        self.taken = build.read(places, I64, self._turn)

    @property
    def size(self) -> Value:
        """Builds the reading of how many there are by now."""
        return self.build.load(self._size, typ=I64)

    def append(self, number: Value) -> None:
        """Adds a number to the end."""
        last = self.size
        self.build.write(number, self._places, last)
        self.build.store(self.build.add(last, constant(1)), self._size)

    def close(self) -> None:
        """Ends the body."""
        self._turn.add_incoming(self.build.add(self._turn, constant(1)), self.build.block)
        self.build.branch(self._head)
        self.build.position_at_end(self._done)
