"""Keeps answers in a small SQLite file, so that a run goes on where the last one ended and adds to it.

An answer is known by the model's weights, the task, the setting, the seed, and the example's place and prompt: where a
model or a task has changed, its old answers stay in the file and are not used. Those of another version of gesso, which
may answer otherwise, are made anew.
"""

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from gesso import __version__
from gesso.errors import DataError
from gesso.lab.statistics import Answer

SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
    weights TEXT NOT NULL,     -- digest of the checkpoint, its dtype and the type of its device
    task TEXT NOT NULL,
    setting TEXT NOT NULL,     -- its options as JSON, in alphabetical order
    seed INTEGER NOT NULL,     -- of the set of examples; example n is sampled with seed + n
    number INTEGER NOT NULL,   -- place of the example, from 0
    prompt TEXT NOT NULL,      -- digest of its prompt
    model TEXT NOT NULL,       -- what the run called the checkpoint
    is_right INTEGER NOT NULL,
    passes INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    seconds REAL NOT NULL,
    answer TEXT NOT NULL,
    version TEXT NOT NULL,     -- of gesso
    PRIMARY KEY (weights, task, setting, seed, number, prompt)
)
"""
FILES = """
CREATE TABLE IF NOT EXISTS files (
    path TEXT PRIMARY KEY,
    size INTEGER NOT NULL,     -- bytes
    modified INTEGER NOT NULL, -- nanoseconds; with another size or time the file is read again
    digest TEXT NOT NULL
)
"""
APPLICATION = 0x67736C62
"""Marks the file as one of these."""


@dataclass(frozen=True, slots=True)
class Place:
    """Names the answers of one setting to one set of examples."""

    weights: str
    task: str
    setting: str
    seed: int


def digest(text: str) -> str:
    """Returns a short digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Store:
    """Reads and writes answers. It is a context manager.

    Raises:
        DataError: by every method, where the file cannot be read or written: it is locked, damaged, or the disk full.
    """

    def __init__(self, path: Path) -> None:
        """Opens the file, or makes it.

        Raises:
            DataError: it cannot be opened, or is something else.
        """
        self._path = path
        with self._telling():
            self._base = sqlite3.connect(path, timeout=30)
            try:
                self._prepare()
            except BaseException:
                self._base.close()
                raise

    def _prepare(self) -> None:
        with closing(self._base.execute("PRAGMA application_id")) as found:
            mark = found.fetchone()[0]
        with closing(self._base.execute("SELECT count(*) FROM sqlite_master")) as found:
            empty = found.fetchone()[0] == 0
        if mark != APPLICATION and not empty:
            raise DataError(f"{self._path} holds another program's data")
        with self._base:
            self._base.execute(f"PRAGMA application_id = {APPLICATION}")
            self._base.execute(SCHEMA)
            self._base.execute(FILES)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Makes one line of what the database raises."""
        try:
            yield
        except sqlite3.Error as error:
            raise DataError(f"{self._path} cannot be used: {error}") from None

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._base.close()

    def weights_digest(self, folder: Path) -> str:
        """Returns a digest of a checkpoint: of all its files, each of which is read whole once."""
        files = sorted(path for path in folder.iterdir() if path.is_file())
        return digest("\n".join(f"{path.name} {self._file_digest(path.resolve())}" for path in files))

    def _file_digest(self, path: Path) -> str:
        status = path.stat()
        known = (str(path), status.st_size, status.st_mtime_ns)
        query = "SELECT digest FROM files WHERE path = ? AND size = ? AND modified = ?"
        with self._telling(), closing(self._base.execute(query, known)) as rows:
            found: tuple[str] | None = rows.fetchone()
        if found is not None:
            return found[0]
        with path.open("rb") as file:
            made = hashlib.file_digest(file, "sha256").hexdigest()
        with self._telling(), self._base:
            self._base.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", (*known, made))
        return made

    def known(self, place: Place) -> int:
        """Returns how many examples there are up to the last one with an answer."""
        query = (
            "SELECT coalesce(max(number) + 1, 0) FROM answers "
            "WHERE weights = ? AND task = ? AND setting = ? AND seed = ? AND version = ?"
        )
        values = (place.weights, place.task, place.setting, place.seed, __version__)
        with self._telling(), closing(self._base.execute(query, values)) as found:
            count: int = found.fetchone()[0]
        return count

    def answers(self, place: Place, prompts: list[str]) -> dict[int, Answer]:
        """Returns the answers that are there, by number.

        Args:
            prompts: digests of the examples' prompts; an answer to another prompt is none.
        """
        query = (
            "SELECT number, is_right, passes, tokens, seconds, prompt FROM answers "
            "WHERE weights = ? AND task = ? AND setting = ? AND seed = ? AND version = ? AND number < ?"
        )
        values = (place.weights, place.task, place.setting, place.seed, __version__, len(prompts))
        with self._telling(), closing(self._base.execute(query, values)) as found:
            return {
                number: Answer(number, bool(right), passes, tokens, seconds)
                for number, right, passes, tokens, seconds, prompt in found
                if prompt == prompts[number]
            }

    def add(self, place: Place, model: str, made: Iterable[tuple[Answer, str, str]]) -> None:
        """Adds answers, all or none; one that is there already is replaced.

        Args:
            made: each with the digest of its prompt, and its text.
        """
        rows = [
            (place.weights, place.task, place.setting, place.seed, answer.number, prompt, model, int(answer.right),
             answer.passes, answer.tokens, answer.seconds, text, __version__)
            for answer, prompt, text in made
        ]  # fmt: skip
        with self._telling(), self._base:
            self._base.executemany(f"INSERT OR REPLACE INTO answers VALUES ({', '.join('?' * 13)})", rows)
