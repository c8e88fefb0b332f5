"""Writes the kernel of SHA-256 (FIPS 180-4), a block of 64 bytes after another."""

import functools
import math
from collections.abc import Sequence

from llvmlite import ir

from gesso.kernels.host.llvm_ir import I32, I64, POINTER, VOID, Loop, Value, Writer, constant

BLOCK = 64
"""Bytes that are taken at a time."""


@functools.cache
def _primes(count: int) -> tuple[int, ...]:
    found: list[int] = []
    number = 2
    while len(found) < count:
        if all(number % prime for prime in found):
            found.append(number)
        number += 1
    return tuple(found)


def _cube_root(number: int) -> int:
    """Returns the whole part of the cube root."""
    low, high = 0, 1 << (number.bit_length() // 3 + 1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**3 <= number else (low, middle - 1)
    return low


def fractions() -> tuple[list[int], list[int]]:
    """Returns the standard's constants: 32 bits behind the point of square roots and cube roots of primes."""
    bits = 2**32 - 1
    roots = [math.isqrt(prime << 64) & bits for prime in _primes(8)]
    return roots, [_cube_root(prime << 96) & bits for prime in _primes(64)]


class _Rounds(Writer):
    def turned(self, value: Value, *places: int) -> Value:
        """Exclusive-ors a word turned right by so many places each."""
        words = [self.own("llvm.fshr.i32", I32, value, value, constant(n, I32)) for n in places]
        return functools.reduce(self.xor, words)

    def total(self, *values: Value) -> Value:
        return functools.reduce(self.add, values)

    def schedule(self, words: Sequence[Value]) -> Value:
        """Returns the word that follows the last sixteen."""
        early, late = words[1], words[14]
        first = self.xor(self.turned(early, 7, 18), self.lshr(early, constant(3, I32)))
        second = self.xor(self.turned(late, 17, 19), self.lshr(late, constant(10, I32)))
        return self.total(words[0], first, words[9], second)

    def round(self, state: Sequence[Value], word: Value, key: int) -> list[Value]:
        a, b, c, d, e, f, g, h = state
        chosen = self.xor(self.and_(e, f), self.and_(self.not_(e), g))
        most = self.xor(self.xor(self.and_(a, b), self.and_(a, c)), self.and_(b, c))
        first = self.total(h, self.turned(e, 6, 11, 25), chosen, constant(key, I32), word)
        return [self.add(first, self.add(self.turned(a, 2, 13, 22), most)), a, b, c, self.add(d, first), e, f, g]


def write_sha256(module: ir.Module, name: str) -> None:
    """Writes `name(state, data, blocks)`: takes whole blocks of 64 bytes into the eight words of the state."""
    build = _Rounds(module, name, VOID, [POINTER, POINTER, I64])
    place, data, blocks = build.made.args
    loop = Loop(build, constant(0), blocks, carried=[build.read(place, I32, constant(i)) for i in range(8)])
    first = build.mul(loop.index, constant(BLOCK // 4))
    words = []
    for i in range(16):
        address = build.at(data, build.add(first, constant(i)), I32)
        words.append(build.own("llvm.bswap.i32", I32, build.load(address, typ=I32, align=1)))
    state = list(loop.carried)
    for number, key in enumerate(fractions()[1]):
        if number >= 16:
            words = [*words[1:], build.schedule(words)]
        state = build.round(state, words[min(number, 15)], key)
    loop.close(*(build.add(old, new) for old, new in zip(loop.carried, state, strict=True)))
    for i, word in enumerate(loop.carried):
        build.write(word, place, constant(i))
    build.ret_void()
