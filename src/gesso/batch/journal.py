"""Keeps the answers of a batch in a file that only grows: what stands there in whole lines is done.

Life cycle: beside the file, under its name with `.batch` behind it, stands what it is an answer to; that is written
first and does not change once something is answered. Then groups of whole lines are appended, each brought to the disk
before the next. Whatever ends the process, the next one cuts off a torn last line and goes on behind it. Where lines
are to be asked again, a file without their errors takes its place first. One process at a time holds it.
"""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from gesso.errors import OptionError
from gesso.file_lock import hold


class Journal:
    """Appends lines of JSON with an `id` each, and knows those that are there.

    Args:
        path: the file of the answers.
        facts: what the answers depend on; a file that holds answers of other facts is not gone on with.

    Raises:
        OptionError: the file is of another batch, of none, a folder, a device, or written by another process.
        OSError: it cannot be written.
    """

    def __init__(self, path: Path, facts: Mapping[str, object]) -> None:
        self.path = path
        self.done: set[str] = set()
        """Ids of the answers that are there."""
        self.failed = 0
        """Number of those answers that are errors."""
        if path.is_dir():
            raise OptionError(f"{path} is a folder: answers go to a file", option="out")
        if path.exists() and not path.is_file():
            raise OptionError(f"{path} is no file: answers are read again to go on behind them", option="out")
        beside = path.with_name(f"{path.name}.batch")
        if not beside.exists() and self._holds_any():
            raise OptionError(f"{path} is there already, and is no output of a batch", option="out")
        self._lock = beside.open("ab")
        try:
            hold(self._lock, f"{path} is being written by another process", "out")
            self._check(beside, dict(facts))
            # Without a buffer: what a full disk refused is not written again when the file is closed.
            self._file: BinaryIO = path.open("ab", buffering=0)
            self._cut(self._read())
        except BaseException:
            self._lock.close()
            raise

    def _check(self, beside: Path, facts: dict[str, object]) -> None:
        text, own = beside.read_bytes(), json.dumps(facts).encode() + b"\n"
        if own.startswith(text) and text != own:
            # New, or torn before anything was answered.
            self._replace(beside, own)
            return
        try:
            known = json.loads(text)
        except ValueError:
            known = None
        holds = self._holds_any()
        if not isinstance(known, dict) or not (holds or known.keys() == facts.keys()):
            raise OptionError(f"{beside} is there already, and tells of no batch", option="out")
        differing = [name for name in {**known, **facts} if known.get(name) != facts.get(name)]
        if differing and not holds:
            self._replace(beside, own)
        elif differing:
            raise OptionError(
                f"{self.path} holds answers with another {' and '.join(differing)}",
                option="out",
                hint=f"name another file, or remove it and {beside.name}",
            )

    def _holds_any(self) -> bool:
        return self.path.exists() and self.path.stat().st_size > 0

    def _replace(self, beside: Path, facts: bytes) -> None:
        self._lock.truncate(0)
        self._lock.write(facts)
        _to_disk(self._lock)
        _folder_to_disk(beside.parent)

    def _read(self) -> int:
        """Reads the answers; returns the bytes up to the end of the last line that is whole."""
        end = 0
        with self.path.open("rb") as file:
            for raw in file:
                try:
                    line = json.loads(raw) if raw.endswith(b"\n") else None
                    identity, error = (line["id"], is_error(line)) if line is not None else (None, False)
                except (ValueError, TypeError, KeyError):
                    identity, error = None, False
                if identity is None:
                    break
                self.done.add(identity)
                self.failed += error
                end += len(raw)
        return end

    def _cut(self, end: int) -> None:
        if self.path.stat().st_size > end:
            self._file.truncate(end)
        _to_disk(self._file)
        _folder_to_disk(self.path.parent)

    def append(self, lines: Sequence[str]) -> None:
        """Writes a group of lines and brings it to the disk.

        Raises:
            OSError: the disk is full, or gone.
        """
        rest = memoryview("".join(f"{line}\n" for line in lines).encode())
        end = self._file.seek(0, os.SEEK_END)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
            _to_disk(self._file)
        except OSError as error:
            with suppress(OSError):  # else the next to open the file cuts off what is torn
                self._file.truncate(end)
            error.filename = str(self.path)
            raise
        for line in lines:
            parsed = json.loads(line)
            self.done.add(parsed["id"])
            self.failed += is_error(parsed)

    def drop_errors(self) -> int:
        """Takes out the errors that a server gave, so that their lines count as not asked; returns their number.

        A line that was not asked, as nothing could be read from it, keeps its error: it would come again.

        Raises:
            OSError: the file without them cannot be written; the answers are as they were.
        """
        if not self.failed:
            return 0
        target = Path(os.path.realpath(self.path))
        beside = target.parent / f".gesso-{os.urandom(8).hex()}"
        dropped = set()
        try:
            with target.open("rb") as old, beside.open("xb") as new:
                for raw in old:
                    line = json.loads(raw)
                    if line["response"] is not None and is_error(line):
                        dropped.add(line["id"])
                    else:
                        new.write(raw)
                _to_disk(new)
            if dropped:
                shutil.copymode(target, beside)
                self._file.close()
                try:
                    beside.replace(target)
                finally:
                    self._file = self.path.open("ab", buffering=0)
                _folder_to_disk(target.parent)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from error
        finally:
            beside.unlink(missing_ok=True)
        self.done -= dropped
        self.failed -= len(dropped)
        return len(dropped)

    def close(self) -> None:
        """Lets the file go."""
        try:
            self._file.close()
        finally:
            self._lock.close()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def is_error(line: dict[str, object]) -> bool:
    """Says whether the line of an answer is an error."""
    response = line["response"]
    return not isinstance(response, dict) or response["status_code"] >= 400


def _to_disk(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _folder_to_disk(folder: Path) -> None:
    """A new name of a file is safe once its folder is."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
