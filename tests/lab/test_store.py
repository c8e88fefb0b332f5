"""Digests of checkpoints."""

import os
from pathlib import Path

import pytest

from gesso.lab.store import Store


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
