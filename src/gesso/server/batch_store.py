"""Stores files and batches: what they are in SQLite, what files hold beside it in a folder.

A file is there once its row is: its bytes are brought to the disk first. Bytes without a row, which a process that was
killed leaves behind, are removed when the store is opened. Everything is bounded: a file, all files, and the batches.
"""

import contextlib
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gesso.errors import OptionError
from gesso.file_lock import hold
from gesso.server.batch_models import Batch, FileObject
from gesso.server.errors import ApiError

_TABLES = """
CREATE TABLE IF NOT EXISTS files (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE, purpose TEXT, expires INTEGER, bytes INTEGER,
    document TEXT
);
CREATE TABLE IF NOT EXISTS batches (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE, over INTEGER, input TEXT, document TEXT
);
"""


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """Bounds what a store holds."""

    file_bytes: int = 200 * 2**20
    """Bytes of one file."""
    all_bytes: int = 10 * 2**30
    """Bytes of all files together."""
    files: int = 10_000
    batches: int = 1_000
    """Batches that are not over; those that are, are kept up to ten times as many, and the oldest go."""
    lines: int = 50_000
    """Lines of one batch."""
    keep_seconds: int = 30 * 24 * 3600
    """How long the files of answers are kept."""


@contextlib.contextmanager
def open_store(folder: Path) -> Iterator["BatchStore"]:
    """Opens a store for as long as the context lasts.

    Raises:
        OptionError: the folder cannot be written, or another process has it open.
    """
    try:
        store = BatchStore(folder)
    except (OSError, sqlite3.Error) as error:
        raise OptionError(f"--batch-folder: {folder} cannot be used: {error}", option="batch_folder") from None
    with contextlib.closing(store):
        yield store


class BatchStore:
    """Keeps files and batches in a folder. Any thread may call it.

    Raises:
        OptionError: another process has it open.
        OSError, sqlite3.Error: the folder cannot be written.
    """

    def __init__(self, folder: Path, limits: StoreLimits | None = None, clock: Callable[[], float] = time.time) -> None:
        self.limits = limits or StoreLimits()
        self.clock = clock
        self._folder = folder
        self._lock = threading.Lock()
        (folder / "files").mkdir(parents=True, exist_ok=True)
        (folder / "work").mkdir(exist_ok=True)
        self._held = (folder / "lock").open("ab")
        try:
            hold(self._held, f"--batch-folder: {folder} is another server's", "batch_folder")
        except BaseException:
            self._held.close()
            raise
        self._base = sqlite3.connect(folder / "batches.sqlite", check_same_thread=False, isolation_level=None)
        self._base.execute("PRAGMA journal_mode=WAL")
        self._base.execute("PRAGMA synchronous=FULL")
        self._base.executescript(_TABLES)
        known = {row[0] for row in self._base.execute("SELECT id FROM files")}
        for path in (folder / "files").iterdir():
            if path.name not in known:
                path.unlink()
        going = {row[0] for row in self._base.execute("SELECT id FROM batches WHERE NOT over")}
        for path in (folder / "work").iterdir():
            if path.name.partition(".")[0] not in going:
                path.unlink()

    def close(self) -> None:
        """Lets the database go."""
        with self._lock:
            self._base.close()
            self._held.close()

    def now(self) -> int:
        """Tells the time in whole Unix seconds."""
        return int(self.clock())

    # Files

    def new_path(self) -> Path:
        """Names a place for the bytes of a file that is on its way; the name is the file's id."""
        return self._folder / "files" / f"file-{secrets.token_hex(12)}"

    def check_room(self, size: int) -> None:
        """Refuses a file that is too large, or that there is no room for.

        Raises:
            ApiError: with the bound.
        """
        if size > self.limits.file_bytes:
            raise ApiError(413, f"a file may have {self.limits.file_bytes} bytes", param="file", code="file_too_large")
        with self._lock:
            count, held = self._base.execute("SELECT count(*), coalesce(sum(bytes), 0) FROM files").fetchone()
        if held + size > self.limits.all_bytes or count >= self.limits.files:
            raise ApiError(507, "the store of files is full; delete some", param="file", code="store_full")

    def add_file(self, path: Path, filename: str, purpose: str, seconds: int | None = None) -> FileObject:
        """Takes over bytes that lie at a path of `new_path`, which must be on the disk.

        Args:
            seconds: after which it is let go; None keeps it.
        """
        size, now = path.stat().st_size, self.now()
        expires = None if seconds is None else now + seconds
        file = FileObject(
            id=path.name, bytes=size, created_at=now, expires_at=expires, filename=filename, purpose=purpose
        )
        with self._lock:
            self._base.execute(
                "INSERT INTO files (id, purpose, expires, bytes, document) VALUES (?, ?, ?, ?, ?)",
                (file.id, purpose, expires, size, file.model_dump_json()),
            )
        return file

    def file(self, identity: str) -> FileObject:
        """Finds a file.

        Raises:
            ApiError: there is none of this id, or no longer.
        """
        self.sweep()
        with self._lock:
            row = self._base.execute("SELECT document FROM files WHERE id = ?", (identity,)).fetchone()
        if row is None:
            raise ApiError(404, f"there is no file {identity[:80]!r}", code="file_not_found")
        return FileObject.model_validate_json(row[0])

    def path(self, file: FileObject) -> Path:
        """Tells where a file's bytes are."""
        return self._folder / "files" / file.id

    def files(self, after: str | None, limit: int, purpose: str | None, order: str) -> tuple[list[FileObject], bool]:
        """Lists files behind one of them, and whether there are more.

        Raises:
            ApiError: there is no such file; see `batches`.
        """
        self.sweep()
        where, given = ("WHERE purpose = ?", [purpose]) if purpose is not None else ("", [])
        rows = self._page("files", after, limit, where, given, order)
        return [FileObject.model_validate_json(row) for row in rows[:limit]], len(rows) > limit

    def delete_file(self, identity: str) -> None:
        """Lets a file go.

        Raises:
            ApiError: there is none, or a batch needs it.
        """
        file = self.file(identity)
        with self._lock:
            used = self._base.execute("SELECT id FROM batches WHERE NOT over AND input = ?", (identity,)).fetchone()
            if used is not None:
                raise ApiError(409, f"batch {used[0]} needs this file; cancel it first", code="file_in_use")
            self._base.execute("DELETE FROM files WHERE id = ?", (identity,))
        self.path(file).unlink(missing_ok=True)

    def sweep(self) -> None:
        """Lets files go whose time is over, but for those that a batch needs."""
        with self._lock:
            gone = self._base.execute(
                "SELECT id FROM files WHERE expires <= ? AND id NOT IN (SELECT input FROM batches WHERE NOT over)",
                (self.now(),),
            ).fetchall()
            self._base.executemany("DELETE FROM files WHERE id = ?", gone)
        for (identity,) in gone:
            (self._folder / "files" / identity).unlink(missing_ok=True)

    # Batches

    def work_path(self, batch: Batch, kind: str) -> Path:
        """Names the journal of a batch's answers, or of its errors."""
        return self._folder / "work" / f"{batch.id}.{kind}"

    def add_batch(self, batch: Batch) -> None:
        """Stores a new batch.

        Raises:
            ApiError: too many are under way.
        """
        with self._lock:
            (open_,) = self._base.execute("SELECT count(*) FROM batches WHERE NOT over").fetchone()
            if open_ >= self.limits.batches:
                raise ApiError(429, f"{open_} batches are under way; come back later", code="too_many_batches")
            self._base.execute(
                "INSERT INTO batches (id, over, input, document) VALUES (?, 0, ?, ?)",
                (batch.id, batch.input_file_id, batch.model_dump_json()),
            )
            self._base.execute(
                "DELETE FROM batches WHERE over AND number <= (SELECT max(number) FROM batches) - ?",
                (10 * self.limits.batches,),
            )

    def put_batch(self, batch: Batch) -> None:
        """Writes what has become of a batch."""
        with self._lock:
            self._base.execute(
                "UPDATE batches SET over = ?, document = ? WHERE id = ?",
                (batch.over, batch.model_dump_json(), batch.id),
            )

    def batch(self, identity: str) -> Batch:
        """Finds a batch.

        Raises:
            ApiError: there is none of this id.
        """
        with self._lock:
            row = self._base.execute("SELECT document FROM batches WHERE id = ?", (identity,)).fetchone()
        if row is None:
            raise ApiError(404, f"there is no batch {identity[:80]!r}", code="batch_not_found")
        return Batch.model_validate_json(row[0])

    def batches(self, after: str | None, limit: int) -> tuple[list[Batch], bool]:
        """Lists batches, the newest first, behind one of them; and whether there are more.

        Raises:
            ApiError: there is none of that id, whose place in the list nobody knows.
        """
        rows = self._page("batches", after, limit, "", [], "desc")
        return [Batch.model_validate_json(row) for row in rows[:limit]], len(rows) > limit

    def next_batch(self) -> Batch | None:
        """Finds the oldest batch that is not over."""
        with self._lock:
            row = self._base.execute("SELECT document FROM batches WHERE NOT over ORDER BY number LIMIT 1").fetchone()
        return None if row is None else Batch.model_validate_json(row[0])

    def _page(
        self, table: str, after: str | None, limit: int, where: str, given: Sequence[object], order: str
    ) -> list[str]:
        sign = ">" if order == "asc" else "<"
        with self._lock:
            if after is not None:
                place = self._base.execute(f"SELECT number FROM {table} WHERE id = ?", (after,)).fetchone()
                if place is None:
                    message = f"after: there is nothing of the id {after[:80]!r} among the {table}"
                    raise ApiError(404, message, param="after", code="not_found")
                where, given = f"{where or 'WHERE 1'} AND number {sign} ?", [*given, *place]
            query = f"SELECT document FROM {table} {where} ORDER BY number {order} LIMIT ?"
            return [row[0] for row in self._base.execute(query, (*given, limit + 1))]
