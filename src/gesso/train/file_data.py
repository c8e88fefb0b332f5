"""Reads training conversations from JSON-lines files.

Life cycle: the first pass reads every line, turns it into conversations, refuses what is wrong by file and line, and
keeps twenty bytes an example: where its line starts, which part of that line it is, how long it is. A batch reads its
lines again. So no text is held in memory, and a batch is a function of (files, config, step, size) alone.
"""

import hashlib
import json
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from gesso.config import ModelConfig
from gesso.errors import DataError, OptionError, TextError
from gesso.runner.protocol import VisionInput
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer
from gesso.train.batch import Conversation
from gesso.train.data_config import FileDataConfig
from gesso.train.data_encoder import DataEncoder
from gesso.train.data_fields import parse_example
from gesso.train.data_lines import LineReader
from gesso.train.data_records import Text
from gesso.train.file_scan import EXAMPLE, SPACE, Report, Scan
from gesso.train.long_texts import LongTexts
from gesso.train.varied_copies import copied_share, copied_words, format_words, vary_copies

WINDOW = 32
"""Batches of like length are made within so many batches of an epoch's order."""
SAMPLE = 1000
"""Lines, spread over all, that tell which copied words belong to the format."""

WHOLE = "--held-out 0 trains on all of it, --held-out-file names lines of their own"
"""What to do where the lines are too few to part."""


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
        vision: VisionInput | None = None,
    ) -> None:
        """Reads every line once.

        Args:
            template: the model's chat template; without one, pairs are raw and chats are refused.
            model: gives bos, eos and the canvas length.
            stop_token_ids: what ends an answer (`GenerationConfig.eos_token_ids`).
            held_out_files: files for evaluation alone, in place of `config.held_out`.
            vision: how the model takes images; None where it has no eyes.

        Raises:
            DataError: a line or a file cannot be used, or nothing is left to train on or to hold out.
            OptionError: options contradict each other.
        """
        if held_out_files and config.held_out:
            raise OptionError("held_out and held_out_files exclude each other", option="held_out")
        self._config = config
        encoder = DataEncoder(tokenizer, template, model, stop_token_ids, config, vision)
        self._reader = LineReader(encoder)
        self._orders: dict[tuple[int, int], NDArray[np.int64]] = {}
        self._long_texts = LongTexts()
        for path, times in Counter(path.resolve() for path in (*files, *held_out_files)).items():
            if times > 1:
                raise OptionError(f"{path} is given twice")
        scan = Scan(self._reader, config.max_length)
        self._files = [scan.read(path, config.held_out) for path in files]
        self._files += [scan.read(path, 1.0) for path in held_out_files]
        self._train = np.frombuffer(scan.train, EXAMPLE)
        self._held_out = np.frombuffer(scan.held_out, EXAMPLE)
        self.report = scan.report()
        self._require_examples(scan, bool(held_out_files))
        self._kept = self._read_format() if config.vary_copies else frozenset()
        digests = [file.digest for file in self._files]
        settings = asdict(config)
        del settings["image_budget"]  # what it comes to is the reader's
        budget, shown = encoder.images.budget, encoder.images.digest
        if not config.vary_copies:
            del settings["vary_copies"]  # runs from before it go on
        elif len(self._train) > SAMPLE:
            settings["kept"] = sorted(self._kept)  # of fewer, all lines have told them ever since
        described = json.dumps([digests, len(files), settings, *([budget, shown] if shown else [])])
        self.fingerprint = hashlib.sha256(described.encode()).hexdigest()

    def _require_examples(self, scan: Scan, own_lines: bool) -> None:
        """Refuses data of which a side is empty; with `own_lines`, those that are held out lie in files of their
        own."""
        report, limit = self.report, self._config.max_length
        if not report.examples and not report.held_out and report.too_long:
            raise DataError(f"every example is longer than max_length {limit} (the first: {report.first_too_long})")
        if not report.examples:
            raise DataError(f"nothing is left to train on: {report.summary}", hint=WHOLE if report.held_out else None)
        if not report.held_out and (own_lines or self._config.held_out):
            share = math.ceil(scan.lowest * 100 + 1e-9) / 100
            parts = not own_lines and share < 0.5 and scan.highest >= share  # which leaves one to train on
            one = f"--held-out {share:g} holds out one of these lines; " if parts else ""
            raise DataError(f"nothing is held out: {report.summary}", hint=one + WHOLE)

    def batch(self, step: int, size: int, canvas_length: int | None) -> list[Conversation]:  # noqa: ARG002
        """Returns the examples at [step * size, (step + 1) * size) of all epochs laid end to end.

        The canvas length makes no difference: text is cut for the model's own.

        Raises:
            DataError: a file has changed since it was read.
        """
        position, end = step * size, (step + 1) * size
        found: list[Conversation] = []
        while position < end:
            epoch, begin = divmod(position, len(self._train))
            picked = self._order(epoch, size)[begin : begin + end - position]
            found += self._read(self._train[picked], epoch)
            position += len(picked)
        return found

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

    def _read(self, examples: NDArray[np.void], epoch: int | None = None) -> list[Conversation]:
        """Reads examples; those of an epoch may have other words."""
        conversations = []
        for (number, offset, part, _), line in zip(examples.tolist(), self._lines(examples), strict=True):
            place, folder = (number, offset), self._files[number].path.parent
            if text := self._long_texts.get(place):
                conversations.append(text.conversation(part))
                continue
            conversation = None
            if epoch is not None and self._config.vary_copies:
                rng = random.Random(f"{self._config.seed}/{epoch}/{number}/{offset}")
                if rng.random() < self._config.vary_copies:
                    conversation = self._varied(line, folder, part, rng)
            if conversation is None:
                record = self._reader.read(line, folder)
                self._long_texts.add(place, record)
                conversation = record.conversation(part)
            conversations.append(conversation)
        return conversations

    def _varied(self, line: bytes, folder: Path, part: int, rng: random.Random) -> Conversation | None:
        """Reads an example with other words; None where it has none, is too long with them, or loses what the template
        needs."""
        vary = partial(vary_copies, kept=self._kept, rng=rng)
        try:
            record = self._reader.read(line, folder, vary)
            if isinstance(record, Text):
                return None
            conversation = record.conversation(part)
        except (DataError, TextError):
            return None
        length = len(conversation.prompt) + len(conversation.answer)
        return conversation if length <= self._config.max_length else None

    def _lines(self, examples: NDArray[np.void]) -> Iterator[bytes]:
        with ExitStack() as stack:
            opened: dict[int, BinaryIO] = {}
            for number, offset, *_ in examples.tolist():
                if number not in opened:
                    opened[number] = stack.enter_context(self._files[number].open())
                opened[number].seek(offset)
                yield opened[number].readline().strip(SPACE)

    def copied_share(self) -> float:
        """Returns the share of the words of answers, in a sample of the lines, that are taken from prompts."""
        return copied_share(self._sample())

    def _sample(self) -> list[dict[str, Any]]:
        places = self._train[["file", "offset"]]
        lines = self._train[np.append(True, places[1:] != places[:-1])]
        spread = lines[:: -(-len(lines) // SAMPLE)]
        return [parse_example(line, set()) for line in self._lines(spread)]

    def _read_format(self) -> frozenset[str]:
        """Returns the copied words that belong to the format.

        Raises:
            OptionError: no answer takes a word from its prompt.
        """
        lines = self._sample()
        kept = format_words(lines)
        if not any(copied_words(line) - kept for line in lines):
            raise OptionError(
                "vary_copies is for answers that take words from their prompts, and none here does",
                option="vary_copies",
            )
        return kept


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
