"""Reads training data for the first time: checks every line, counts, and notes where each example stands."""

import hashlib
import struct
from dataclasses import dataclass
from io import BufferedReader
from os import fstat
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO

import numpy as np

from gesso.errors import DataError, TextError, UserError
from gesso.train.data_fields import CHANGED
from gesso.train.data_lines import LineReader
from gesso.train.numbered_lines import BYTE_ORDER_MARK

SPACE = b" \t\r\n"
EXAMPLE = np.dtype([("file", "<i4"), ("offset", "<i8"), ("part", "<i4"), ("length", "<i4")])
ROW = struct.Struct("<iqii")
"""One `EXAMPLE`, written."""
MOST_FLAWS = 10
"""Lines with flaws after which a file is read no further."""


@dataclass(frozen=True, slots=True)
class Report:
    """Counts what the first pass found. Tokens are those of the examples to train on."""

    lines: int
    examples: int
    held_out: int
    """Examples kept for evaluation."""
    too_long: int
    """Examples left out."""
    first_too_long: str | None
    """File and line of the first of them."""
    prompt_tokens: int
    answer_tokens: int
    longest: int
    """Tokens of the longest example."""
    changes: int = 0
    """Examples that change a given text."""
    images: int = 0
    """Images of all examples, as often as they are shown."""
    soft_tokens: int = 0
    """Tokens of these images; they are prompt tokens, too."""
    unused: tuple[str, ...] = ()
    """Names of keys that are not used."""

    @property
    def summary(self) -> str:
        """Returns one line for people."""
        left_out = f", {self.too_long:,} too long (the first: {self.first_too_long})" if self.too_long else ""
        shown = f"; {self.images:,} images of {self.soft_tokens:,} soft tokens" if self.images else ""
        return (
            f"{self.lines:,} line{'s' * (self.lines != 1)}: {self.examples:,} to train on, {self.held_out:,} held out"
            f"{left_out}; {self.prompt_tokens:,} prompt and {self.answer_tokens:,} answer tokens, "
            f"{self.longest:,} in the longest example{shown}"
        )


@dataclass(slots=True)
class DataFile:
    """Describes a file as the first pass found it."""

    path: Path
    size: int
    mtime_ns: int
    """When it was changed, as far as is known: one that was only touched since is read whole again, once."""
    digest: str

    def open(self) -> BinaryIO:
        """Opens the file.

        Raises:
            DataError: it is gone, or no longer what it was.
        """
        file = _open(self.path)
        found = fstat(file.fileno())
        if found.st_mtime_ns != self.mtime_ns or found.st_size != self.size:
            if found.st_size != self.size or hashlib.file_digest(file, "sha256").hexdigest() != self.digest:
                file.close()
                raise DataError(f"{self.path} has changed since it was first read: {CHANGED}")
            self.mtime_ns = found.st_mtime_ns
            file.seek(0)
        return file


def _open(path: Path) -> BufferedReader:
    try:
        return path.open("rb")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


class Scan:
    """Reads files for the first time and counts."""

    def __init__(self, reader: LineReader, max_length: int) -> None:
        self._reader = reader
        self._max_length = max_length
        self.train, self.held_out = bytearray(), bytearray()
        self._files = self._lines = self._prompt_tokens = self._answer_tokens = self._longest = 0
        self._too_long = self._changes = self._images = self._soft_tokens = 0
        self._first_too_long: str | None = None
        self.lowest, self.highest = 1.0, 0.0
        """The numbers by which lines are held out (`hash_share`), of those that gave an example."""

    def read(self, path: Path, held_out: float) -> DataFile:
        """Checks every line of a file; of several flaws the first is told, and the lines of the others.

        Args:
            held_out: share of the lines that is kept for evaluation.

        Raises:
            DataError: a line or the file cannot be used.
        """
        digest = hashlib.sha256()
        lines, offset = self._lines, 0
        flaws: dict[int, UserError] = {}
        with _open(path) as file:
            try:
                found = fstat(file.fileno())
                if not S_ISREG(found.st_mode):
                    raise DataError(f"{path} is no regular file; data is read again and again, which a pipe cannot be")
                for number, raw in enumerate(file, 1):
                    digest.update(raw)
                    line = raw.removeprefix(BYTE_ORDER_MARK) if number == 1 else raw
                    start, offset = offset + len(raw) - len(line), offset + len(raw)
                    line = line.strip(SPACE)
                    if line:
                        self._lines += 1
                        try:
                            self._add(line, start, path, number, held_out)
                        except (DataError, TextError) as error:
                            flaws[number] = error
                            if len(flaws) == MOST_FLAWS:
                                break
            except OSError as error:
                raise DataError(f"{path} cannot be read: {error.strerror}") from None
        if flaws:
            (number, first), *others = flaws.items()
            also = f"; flaws in other lines, too: {', '.join(str(other) for other, _ in others)}" if others else ""
            more = " ..." if len(flaws) == MOST_FLAWS else ""
            raise DataError(f"{path}, line {number}: {first}{also}{more}", hint=first.hint)
        if self._lines == lines:
            raise DataError(f"{path} is empty")
        self._files += 1
        return DataFile(path, found.st_size, found.st_mtime_ns, digest.hexdigest())

    def _add(self, line: bytes, offset: int, path: Path, number: int, held_out: float) -> None:
        record, place = self._reader.read(line, path.parent), hash_share(line)
        side = self.held_out if place < held_out else self.train
        for part in record.parts:
            conversation = record.conversation(part)
            prompt, answer = len(conversation.prompt), len(conversation.answer)
            if prompt + answer > self._max_length:
                self._too_long += 1
                self._first_too_long = self._first_too_long or f"{path}, line {number}"
                continue
            side += ROW.pack(self._files, offset, part, prompt + answer)
            self.lowest, self.highest = min(self.lowest, place), max(self.highest, place)
            self._images += len(conversation.images)
            self._soft_tokens += sum(image.length for image in conversation.images)
            if side is self.train:
                self._prompt_tokens += prompt
                self._answer_tokens += answer
                self._longest = max(self._longest, prompt + answer)
                self._changes += bool(conversation.source)

    def report(self) -> Report:
        """Returns the counts of all files read."""
        return Report(
            lines=self._lines,
            examples=len(self.train) // ROW.size,
            held_out=len(self.held_out) // ROW.size,
            too_long=self._too_long,
            first_too_long=self._first_too_long,
            prompt_tokens=self._prompt_tokens,
            answer_tokens=self._answer_tokens,
            longest=self._longest,
            changes=self._changes,
            images=self._images,
            soft_tokens=self._soft_tokens,
            unused=tuple(sorted(self._reader.unused)),
        )


def hash_share(line: bytes) -> float:
    """Returns a number in [0, 1) that the bytes of a line alone decide."""
    return int.from_bytes(hashlib.blake2b(line, digest_size=6).digest()) / 2**48
