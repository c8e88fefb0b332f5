"""Digests of checkpoints, and what is said where the file is of no use."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gesso.errors import DataError
from gesso.lab.statistics import Answer
from gesso.lab.store import Place, Store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "checkpoint"
    made.mkdir()
    (made / "config.json").write_text("{}", "utf-8")
    (made / "model.safetensors").write_bytes(bytes(3 * 2**20))
    return made


def test_every_byte_of_a_checkpoint_counts(folder: Path, tmp_path: Path) -> None:
    weights = folder / "model.safetensors"
    with Store(tmp_path / "lab.sqlite") as store:
        before = store.weights_digest(folder)
        assert store.weights_digest(folder) == before
        changed = bytearray(weights.read_bytes())
        changed[len(changed) // 2] = 1
        weights.write_bytes(changed)
        os.utime(weights, ns=(0, 0))
        assert store.weights_digest(folder) != before
        (folder / "config.json").rename(folder / "other.json")
        assert store.weights_digest(folder) not in (before, "")


def test_a_file_that_did_not_change_is_not_read_again(folder: Path, tmp_path: Path) -> None:
    weights = folder / "model.safetensors"
    with Store(tmp_path / "lab.sqlite") as store:
        before = store.weights_digest(folder)
    when = weights.stat().st_mtime_ns
    weights.write_bytes(b"x" * weights.stat().st_size)
    os.utime(weights, ns=(when, when))
    with Store(tmp_path / "lab.sqlite") as store:
        assert store.weights_digest(folder) == before
    with Store(tmp_path / "another.sqlite") as store:
        assert store.weights_digest(folder) != before


def test_a_file_that_is_refused_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, opened, connect = tmp_path / "other.sqlite", [], sqlite3.connect

    def remembered(*arguments: Any, **options: Any) -> sqlite3.Connection:
        opened.append(connect(*arguments, **options))
        return opened[-1]

    with closing(connect(path)) as base, base:
        base.execute("CREATE TABLE mine (x)")
    monkeypatch.setattr(sqlite3, "connect", remembered)
    with pytest.raises(DataError, match="another program's data"):
        Store(path)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        opened[0].execute("SELECT 1")


def test_a_file_that_fails_in_the_midst_of_a_run_is_one_line(folder: Path, tmp_path: Path) -> None:
    path, place = tmp_path / "lab.sqlite", Place("w", "t", "s", 0)
    with Store(path) as store:
        with sqlite3.connect(path) as other:
            other.executescript("DROP TABLE answers; DROP TABLE files")
        other.close()
        with pytest.raises(DataError, match=r"lab\.sqlite cannot be used"):
            store.add(place, "m", [(Answer(0, True, 1, 1, 0.5), "p", "text")])
        with pytest.raises(DataError, match=r"lab\.sqlite cannot be used"):
            store.answers(place, ["p"])
        with pytest.raises(DataError, match=r"lab\.sqlite cannot be used"):
            store.weights_digest(folder)
