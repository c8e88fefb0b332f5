"""Checks that what a GGUF file's header announces is there, before the `gguf` package makes anything of it.

The package makes an object of every value that is announced, whether or not a byte of it is there, and calls itself for
an array in an array: a file of fifty bytes fills the memory. Here lengths are read and compared, and nothing is kept.
"""

import mmap
import struct
from pathlib import Path

from gesso.errors import CheckpointError

MAX_DEPTH = 4
"""Arrays in one another."""
MAX_VALUES = 1 << 22
"""Values of all arrays together: three times those of a vocabulary of 262,144 tokens, which the package reads in half
a minute."""
MAX_DIMENSIONS = 4
_FIRST = 24
"""Bytes before the first key: magic, version, and the numbers of tensors and keys."""
_STRING, _ARRAY = 8, 9
_FIXED = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of a number, by its type."""
_LEAST = {**_FIXED, _STRING: 8, _ARRAY: 12}
"""Bytes of a value, at least."""
_LEAST_KEY, _LEAST_TENSOR = 8 + 4 + 1, 8 + 4 + 4 + 8
"""Bytes of a key with its value, and of what is told of a tensor, at least."""


def check_header(path: Path) -> None:
    """Checks lengths, numbers and nesting in a file's header.

    Raises:
        CheckpointError: the file has fewer bytes than its header announces, or more values or arrays in arrays than are
            read.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        if path.stat().st_size < _FIRST:
            raise CheckpointError(f"{path} is truncated or no GGUF file")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            _Header(path, content).check()


class _Header:
    """Reads a header from its first byte to its last."""

    def __init__(self, path: Path, content: mmap.mmap) -> None:
        self._path, self._content = path, content
        self._position = self._values = 0
        version = int.from_bytes(content[4:8], "little")
        order = "<" if version & 0xFFFF else ">"  # as the package tells them apart
        self._short, self._long = struct.Struct(order + "I"), struct.Struct(order + "Q")

    def check(self) -> None:
        if self._content[:4] != b"GGUF":
            raise self._refusal("it does not begin as one does")
        self._position = 8
        tensors, keys = self._number(self._long), self._number(self._long)
        self._expect(keys, _LEAST_KEY, "the file", "keys")
        for _ in range(keys):
            name = self._text("a key")
            self._value(self._number(self._short), name, 0)
        self._expect(tensors, _LEAST_TENSOR, "the file", "tensors")
        for _ in range(tensors):
            self._tensor()

    def _value(self, kind: int, name: str, depth: int) -> None:
        if kind == _STRING:
            self._skip(self._number(self._long), name)
        elif kind == _ARRAY:
            self._array(name, depth + 1)
        else:
            self._skip(self._least(kind, name), name)

    def _array(self, name: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise self._refusal(f"{name} holds arrays in one another, more than {MAX_DEPTH}")
        kind, count = self._number(self._short), self._number(self._long)
        least = self._least(kind, name)
        self._expect(count, least, name, "values")
        self._values += count
        if self._values > MAX_VALUES:
            raise self._refusal(f"its arrays hold more than {MAX_VALUES:,} values")
        if kind in _FIXED:
            self._position += count * least
            return
        for _ in range(count):
            self._value(kind, name, depth)

    def _tensor(self) -> None:
        name = self._text("a tensor")
        dimensions = self._number(self._short)
        if dimensions > MAX_DIMENSIONS:
            raise self._refusal(f"{name} has {dimensions} dimensions")
        self._skip(dimensions * 8 + 4 + 8, name)

    def _least(self, kind: int, name: str) -> int:
        if kind not in _LEAST:
            raise self._refusal(f"{name} is of type {kind}, which is not known")
        return _LEAST[kind]

    def _text(self, what: str) -> str:
        """Returns the beginning of a name, for errors."""
        length = self._number(self._long)
        begin = self._position
        self._skip(length, what)
        return repr(self._content[begin : min(begin + 64, self._position)].decode("utf-8", "replace"))

    def _number(self, form: struct.Struct) -> int:
        begin = self._position
        self._skip(form.size, "its header")
        number: int = form.unpack_from(self._content, begin)[0]
        return number

    def _skip(self, count: int, what: str) -> None:
        if count > len(self._content) - self._position:
            raise self._refusal(f"{what} ends behind its last byte")
        self._position += count

    def _expect(self, count: int, least: int, what: str, of: str) -> None:
        left = len(self._content) - self._position
        if count * least > left:
            raise self._refusal(f"{what} is said to have {count:,} {of}, and {left:,} bytes are left")

    def _refusal(self, why: str) -> CheckpointError:
        return CheckpointError(f"{self._path} is truncated or no GGUF file: {why}")
