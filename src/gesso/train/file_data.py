"""Reads training conversations from JSON-lines files.

Life cycle: the first pass reads every line, turns it into conversations, refuses what is wrong by file and line, and
keeps twenty bytes an example: where its line starts, which part of that line it is, how long it is. A batch reads its
lines again. So no text is held in memory, and a batch is a function of (files, config, step, size) alone.
"""

import hashlib
import json
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from os import fstat
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from gesso.config import ModelConfig
from gesso.errors import DataError, OptionError, TextError
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer
from gesso.train.batch import Conversation
from gesso.train.data_lines import FileDataConfig, LineReader

BYTE_ORDER_MARK, SPACE = b"\xef\xbb\xbf", b" \t\r\n"
WINDOW = 32
"""Batches of like length are made within so many batches of an epoch's order."""
EXAMPLE = np.dtype([("file", "<i4"), ("offset", "<i8"), ("part", "<i4"), ("length", "<i4")])
ROW = struct.Struct("<iqii")
"""One `EXAMPLE`, written."""


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

    @property
    def summary(self) -> str:
        """Returns one line for people."""
        left_out = f", {self.too_long:,} too long (the first: {self.first_too_long})" if self.too_long else ""
        return (
            f"{self.lines:,} line{'s' * (self.lines != 1)}: {self.examples:,} to train on, {self.held_out:,} held out"
            f"{left_out}; {self.prompt_tokens:,} prompt and {self.answer_tokens:,} answer tokens, "
            f"{self.longest:,} in the longest example"
        )


class FileData:
    """Gives the examples of JSON-lines files, in an order that depends on the seed alone."""

    report: Report
    fingerprint: str
    """Hash of the files' contents and of the config: equal where every batch is equal, given the model."""

    def __init__(
        self,
        files: Sequence[Path],
        tokenizer: Tokenizer,
        template: ChatTemplate | None,
        model: ModelConfig,
        stop_token_ids: Sequence[int],
        config: FileDataConfig,
        held_out_files: Sequence[Path] = (),
    ) -> None:
        """Reads every line once.

        Args:
            template: the model's chat template; without one, pairs are raw and chats are refused.
            model: gives bos, eos and the canvas length.
            stop_token_ids: what ends an answer (`GenerationConfig.eos_token_ids`).
            held_out_files: files for evaluation alone, in place of `config.held_out`.

        Raises:
            DataError: a line or a file cannot be used, or nothing is left to train on or to hold out.
            OptionError: options contradict each other.
        """
        if held_out_files and config.held_out:
            raise OptionError("held_out and held_out_files exclude each other", option="held_out")
        self._config = config
        self._reader = LineReader(tokenizer, template, model, stop_token_ids, config)
        self._orders: dict[tuple[int, int], NDArray[np.int64]] = {}
        self._files: list[_File] = []
        scan = _Scan(self._reader, config.max_length)
        for path, times in Counter(path.resolve() for path in (*files, *held_out_files)).items():
            if times > 1:
                raise OptionError(f"{path} is given twice")
        for path in files:
            self._files.append(scan.read(path, lambda line: _hash_share(line) < config.held_out))
        for path in held_out_files:
            self._files.append(scan.read(path, lambda line: True))
        self._train = np.frombuffer(scan.train, EXAMPLE)
        self._held_out = np.frombuffer(scan.held_out, EXAMPLE)
        self.report = scan.report()
        self._require_examples(bool(held_out_files))
        digests = [file.digest for file in self._files]
        described = json.dumps([digests, len(files), asdict(config)])
        self.fingerprint = hashlib.sha256(described.encode()).hexdigest()

    def _require_examples(self, separate: bool) -> None:
        report, limit = self.report, self._config.max_length
        if not report.examples and not report.held_out and report.too_long:
            raise DataError(f"every example is longer than max_length {limit} (the first: {report.first_too_long})")
        if not report.examples:
            raise DataError(f"nothing is left to train on: {report.summary}")
        if not report.held_out and (separate or self._config.held_out):
            raise DataError(f"nothing is held out: {report.summary}; hold out more, or nothing at all")

    def batch(self, step: int, size: int, canvas_length: int) -> list[Conversation]:  # noqa: ARG002
        """Returns the examples at [step * size, (step + 1) * size) of all epochs laid end to end.

        The canvas length makes no difference: text is cut for the model's own.

        Raises:
            DataError: a file has changed since it was read.
        """
        position, end = step * size, (step + 1) * size
        picked = []
        while position < end:
            epoch, begin = divmod(position, len(self._train))
            picked.append(self._order(epoch, size)[begin : begin + end - position])
            position += len(picked[-1])
        return self._read(self._train[np.concatenate(picked)])

    def evaluation(self, limit: int | None = None) -> list[Conversation]:
        """Returns the first `limit` held-out examples, or all of them, in the order of the files.

        Raises:
            DataError: a file has changed since it was read.
        """
        return self._read(self._held_out[:limit])

    def _order(self, epoch: int, size: int) -> NDArray[np.int64]:
        """Returns `epoch_order`, kept for the epochs in use."""
        key = (epoch, size)
        if key not in self._orders:
            while len(self._orders) >= 4:
                del self._orders[next(iter(self._orders))]
            bucket = size if self._config.bucketed else None
            self._orders[key] = epoch_order(self._train["length"], self._config.seed, epoch, bucket)
        return self._orders[key]

    def _read(self, examples: NDArray[np.void]) -> list[Conversation]:
        conversations = []
        with ExitStack() as stack:
            opened: dict[int, BinaryIO] = {}
            for number, offset, part, _ in examples.tolist():
                if number not in opened:
                    opened[number] = stack.enter_context(self._files[number].open())
                opened[number].seek(offset)
                line = opened[number].readline().strip(SPACE)
                conversations.append(self._reader.read(line).conversation(part))
        return conversations


# The order of an epoch


def epoch_order(lengths: NDArray[np.int32], seed: int, epoch: int, size: int | None) -> NDArray[np.int64]:
    """Permutes the examples; with a `size`, its batches of so many hold examples of like length.

    Batches are cut from all epochs laid end to end, so an epoch may begin and end inside one. Those two keep the
    order of the permutation; the whole ones between them are sorted by length and shuffled, `WINDOW` at a time.
    """
    count = len(lengths)
    order = _permutation(count, seed, epoch)
    if size is None:
        return order
    begin, end = epoch * count, (epoch + 1) * count
    first, last = -begin % size, count - end % size
    for window, start in enumerate(range(first, last, WINDOW * size)):
        stop = min(start + WINDOW * size, last)
        part = order[start:stop]
        batches = part[np.argsort(lengths[part], kind="stable")].reshape(-1, size)
        order[start:stop] = batches[_permutation(len(batches), seed, epoch, window + 1)].ravel()
    return order


def _permutation(count: int, *seeds: int) -> NDArray[np.int64]:
    """Sorts raw random bits: NumPy promises those for ever, and not what its shuffles make of them."""
    return np.argsort(np.random.PCG64(seeds).random_raw(count), kind="stable")


# The first pass


@dataclass(frozen=True, slots=True)
class _File:
    """A file as the first pass found it."""

    path: Path
    size: int
    mtime_ns: int
    digest: str

    def open(self) -> BinaryIO:
        """Raises DataError: it is gone, or no longer what it was."""
        file = _open(self.path)
        found = fstat(file.fileno())
        if (found.st_size, found.st_mtime_ns) != (self.size, self.mtime_ns):
            file.close()
            raise DataError(f"{self.path} has changed since it was first read; start again")
        return file


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


class _Scan:
    """Reads files for the first time and counts."""

    def __init__(self, reader: "LineReader", max_length: int) -> None:
        self._reader = reader
        self._max_length = max_length
        self.train, self.held_out = bytearray(), bytearray()
        self._files = self._lines = self._prompt_tokens = self._answer_tokens = self._longest = 0
        self._too_long = self._changes = 0
        self._first_too_long: str | None = None

    def read(self, path: Path, held_out: Callable[[bytes], bool]) -> _File:
        """Checks every line of a file; `held_out` tells from a line's bytes on which side it is."""
        digest = hashlib.sha256()
        lines, offset = self._lines, 0
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
                        side = self.held_out if held_out(line) else self.train
                        self._add(line, start, f"{path}, line {number}", side)
            except OSError as error:
                raise DataError(f"{path} cannot be read: {error.strerror}") from None
        if self._lines == lines:
            raise DataError(f"{path} is empty")
        self._files += 1
        return _File(path, found.st_size, found.st_mtime_ns, digest.hexdigest())

    def _add(self, line: bytes, offset: int, where: str, side: bytearray) -> None:
        try:
            record = self._reader.read(line)
            for part in record.parts:
                conversation = record.conversation(part)
                prompt, answer = len(conversation.prompt), len(conversation.answer)
                if prompt + answer > self._max_length:
                    self._too_long += 1
                    self._first_too_long = self._first_too_long or where
                    continue
                side += ROW.pack(self._files, offset, part, prompt + answer)
                if side is self.train:
                    self._prompt_tokens += prompt
                    self._answer_tokens += answer
                    self._longest = max(self._longest, prompt + answer)
                    self._changes += bool(conversation.source)
        except (DataError, TextError) as error:
            raise DataError(f"{where}: {error}") from None

    def report(self) -> Report:
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
        )


def _hash_share(line: bytes) -> float:
    """Returns a number in [0, 1) that the bytes of a line alone decide."""
    return int.from_bytes(hashlib.blake2b(line, digest_size=6).digest()) / 2**48
