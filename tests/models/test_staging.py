"""What lies in a folder is replaced as a whole, or left as it was."""

import errno
import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from oracle import SHAPES, make_oracle, random_model

from gesso.config import LoraConfig
from gesso.models import saving
from gesso.models.adapter_files import save_adapter
from gesso.models.adapters import attach
from gesso.models.hf_generation_config import OWN_FILE
from gesso.models.loading import load_folder
from gesso.models.quantization import modelopt
from gesso.models.run_folders import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from gesso.models.saving import save_folder
from gesso.models.staging import NAME, staged
from gesso.models.weight_index import INDEX


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_new_files_replace_old_ones_and_stale_ones_go(tmp_path: Path) -> None:
    for name in ("config.json", "old.weights", "notes.txt"):
        (tmp_path / name).write_text("old", "utf-8")
    with staged(tmp_path, lambda name: name.endswith(".weights")) as partial:
        (partial / "config.json").write_text("new", "utf-8")
        (partial / "new.weights").write_text("new", "utf-8")
        assert set(files(partial)) == {"config.json", "new.weights"}
    assert files(tmp_path) == {"config.json": b"new", "new.weights": b"new", "notes.txt": b"old"}


def test_what_is_broken_off_leaves_the_folder_alone(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("old", "utf-8")

    def broken_off() -> None:
        with staged(tmp_path, lambda name: True) as partial:
            (partial / "config.json").write_text("new", "utf-8")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken_off()
    assert files(tmp_path) == {"config.json": b"old"}


def test_an_error_names_the_folder_and_leaves_none_that_was_not_there(tmp_path: Path) -> None:
    def full(folder: Path, *place: str) -> None:
        with staged(folder) as partial:
            (partial / "config.json").touch()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), *place)

    (tmp_path / "empty").mkdir()
    for name, place, told in (("new", (), str(tmp_path / "new")), ("empty", ("a.json",), "a.json")):
        with pytest.raises(OSError, match="No space left on device") as failed:
            full(tmp_path / name, *place)
        assert failed.value.filename == told
    assert list(tmp_path.rglob("*")) == [tmp_path / "empty"]


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    (tmp_path / NAME / "half.safetensors").touch()
    with staged(tmp_path) as partial:
        assert not list(partial.iterdir())
    assert not list(tmp_path.iterdir())


def test_a_folder_is_no_checkpoint_while_its_files_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_text("old", "utf-8")
    seen = []
    replace = shutil.os.replace  # type: ignore[attr-defined]

    def watched(source: Path, target: Path) -> None:
        replace(source, target)
        seen.append((target.name, (tmp_path / "config.json").exists()))

    monkeypatch.setattr("gesso.models.staging.os.replace", watched)
    with staged(tmp_path) as partial:
        for name in ("config.json", "model.safetensors"):
            (partial / name).write_text("new", "utf-8")
    assert seen == [("model.safetensors", False), ("config.json", True)]


@pytest.fixture
def sharded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(saving, "SHARD_BYTES", 20_000)
    save_folder(random_model(SHAPES["plain"]), tmp_path / "sharded")
    assert (tmp_path / "sharded" / INDEX).exists()
    return tmp_path / "sharded"


def test_a_checkpoint_that_is_saved_over_half_way_stays_what_it_was(
    sharded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(sharded)
    model = load_folder(sharded, "cpu", "float32")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    write, written = saving.write_tensors, []

    def interrupted(path: Path, tensors: dict[str, torch.Tensor]) -> None:
        written.append(path)
        if len(written) == 3:
            raise KeyboardInterrupt
        write(path, tensors)

    monkeypatch.setattr(saving, "write_tensors", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_folder(model, sharded)
    assert files(sharded) == before


def test_nothing_of_another_checkpoint_stays_that_would_be_read(
    sharded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_oracle(tmp_path / "base")
    (sharded / OWN_FILE).write_text("{}", "utf-8")
    (sharded / modelopt.FILE).write_text(json.dumps({"quantization": {"quant_algo": "FP8"}}), "utf-8")
    (sharded / "model-00001.safetensors").touch()
    (sharded / "notes.txt").touch()
    monkeypatch.setattr(saving, "SHARD_BYTES", 10**9)
    save_folder(load_folder(tmp_path / "base", "cpu", "float32"), sharded)
    assert set(files(sharded)) == {"config.json", "generation_config.json", "model.safetensors", "notes.txt"}
    load_folder(sharded, "cpu", "float32")


def test_an_adapter_that_cannot_be_saved_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def save(rank: int) -> None:
        model, config = random_model(SHAPES["plain"]), LoraConfig(rank=rank)
        attach(model, config)
        save_adapter(model, config, tmp_path, "base")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    save(2)
    before = files(tmp_path)
    assert set(before) == {ADAPTER_CONFIG, ADAPTER_WEIGHTS}
    monkeypatch.setattr("gesso.models.adapter_files.write_json", full)
    with pytest.raises(OSError, match="No space"):
        save(3)
    assert files(tmp_path) == before
