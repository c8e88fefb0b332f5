"""A conversion that was broken off goes on from its last whole file, and another one begins anew."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from oracle import Shape, random_model
from safetensors.torch import load_file

from gesso.errors import OptionError
from gesso.models.loading import load_folder
from gesso.models.quantization import convert, resume
from gesso.models.quantization.convert import quantize_folder
from gesso.models.quantization.plan import Quantization
from gesso.models.saving import save_folder
from gesso.nn.quant.integer import Int4, Int8

CHOSEN = Quantization(Int8(), Int4(32))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("resume") / "source"
    shape = Shape(layers="ssf", hidden=64, mlp=96, head_dim=16, full_head_dim=32, expert_size=32)
    save_folder(random_model(shape), folder, dtype="bfloat16")
    return folder


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return {name: tensor for path in folder.glob("*.safetensors") for name, tensor in load_file(path).items()}


def broken_off(source: Path, out: Path, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Converts until `after` files are written."""
    written: list[Path] = []

    def write(path: Path, tensors: dict[str, torch.Tensor]) -> None:
        if len(written) == after:
            raise KeyboardInterrupt
        written.append(path)
        original(path, tensors)

    original = convert.write_tensors
    with monkeypatch.context() as patched:
        patched.setattr(convert, "write_tensors", write)
        with pytest.raises(KeyboardInterrupt):
            quantize_folder(source, out, CHOSEN)
    assert not out.exists()


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    written: list[Path] = []
    original = convert.write_tensors

    def write(path: Path, tensors: dict[str, torch.Tensor]) -> None:
        written.append(path)
        original(path, tensors)

    monkeypatch.setattr(convert, "write_tensors", write)
    return written


def test_it_goes_on_and_ends_as_if_nothing_had_happened(source: Path, tmp_path: Path, monkeypatch: Any) -> None:
    straight = quantize_folder(source, tmp_path / "straight", CHOSEN)
    broken_off(source, tmp_path / "out", monkeypatch, after=2)
    written = counted(monkeypatch)
    report = quantize_folder(source, tmp_path / "out", CHOSEN)
    assert len(written) == len(list((tmp_path / "straight").glob("*.safetensors"))) - 2
    assert report == straight
    found, expected = weights(tmp_path / "out"), weights(tmp_path / "straight")
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in found)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == sorted(
        p.name for p in (tmp_path / "straight").iterdir()
    )


def test_what_a_killed_process_left_of_a_file_does_not_stay(source: Path, tmp_path: Path, monkeypatch: Any) -> None:
    quantize_folder(source, tmp_path / "straight", CHOSEN)
    broken_off(source, tmp_path / "out", monkeypatch, after=2)
    for name in (".tmpAbCdEf", "model-00003-of-00004.partial"):  # the library's name, and ours
        (tmp_path / "out.partial" / name).write_bytes(b"x" * 100)
    written = counted(monkeypatch)
    quantize_folder(source, tmp_path / "out", CHOSEN)
    assert len(written) == len(list((tmp_path / "straight").glob("*.safetensors"))) - 2
    assert {path.name for path in (tmp_path / "out").iterdir()} == {p.name for p in (tmp_path / "straight").iterdir()}


def test_a_conversion_that_does_not_get_its_name_waits_for_it(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir()

    def fill(done: int, of: int) -> None:
        (out / "theirs").touch()

    with pytest.raises(OSError, match="not empty"):
        quantize_folder(source, out, CHOSEN, fill)
    with pytest.raises(OptionError, match="is there already and no empty folder"):
        quantize_folder(source, out, CHOSEN)
    (out / "theirs").unlink()
    written = counted(monkeypatch)
    quantize_folder(source, out, CHOSEN)
    assert not written
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert not (out / resume.FILE).exists()
    load_folder(out, "cpu")


@pytest.mark.parametrize("named", [False, True])
def test_a_process_that_ends_beside_the_renaming_leaves_a_conversion(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    out, replace = tmp_path / "out", os.replace

    def killed(old: Path, new: Path) -> None:
        if new != out or named:
            replace(old, new)
        if new == out:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            quantize_folder(source, out, CHOSEN)
    if named:
        with pytest.raises(OptionError, match="is there already and no empty folder"):
            quantize_folder(source, out, CHOSEN)
    else:
        quantize_folder(source, out, CHOSEN)
    load_folder(out, "cpu")  # with what says how far it is beside it, too


def test_two_at_once_do_not_convert_into_a_folder(source: Path, tmp_path: Path) -> None:
    refused: list[OptionError] = []

    def meanwhile(done: int, of: int) -> None:
        with pytest.raises(OptionError, match=r"out\.partial is being written by another process") as info:
            quantize_folder(source, tmp_path / "out", CHOSEN)
        refused.append(info.value)

    quantize_folder(source, tmp_path / "out", CHOSEN, meanwhile)
    assert len(refused) == len(list((tmp_path / "out").glob("*.safetensors")))
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("what", ["formats", "a file that is gone", "a file that is cut off"])
def test_another_conversion_begins_anew(source: Path, tmp_path: Path, monkeypatch: Any, what: str) -> None:
    out = tmp_path / "out"
    broken_off(source, out, monkeypatch, after=2)
    partial = out.with_name("out.partial")
    if what == "a file that is gone":
        next(partial.glob("*.safetensors")).unlink()
    if what == "a file that is cut off":
        (partial / resume.FILE).write_text("{}")
    written = counted(monkeypatch)
    quantize_folder(source, out, Quantization(Int8(), Int8()) if what == "formats" else CHOSEN)
    assert len(written) == len(list(out.glob("*.safetensors")))
    assert not partial.exists()


@pytest.mark.parametrize("told", [{"shards": 5}, {"shards": [1]}, {"weight_map": []}, {"worst": "x"}, {"observed": 3}])
def test_what_a_conversion_did_not_write_is_not_gone_on_from(tmp_path: Path, told: dict[str, Any]) -> None:
    of = {"formats": {}}
    resume.write_json(tmp_path / resume.FILE, {"of": of} | told)
    assert resume.peek(tmp_path, of, resume.Written) == resume.Written(of)


@pytest.mark.parametrize("what", ["folder", "file", "link"])
def test_a_folder_of_the_name_that_no_conversion_made_stays(source: Path, tmp_path: Path, what: str) -> None:
    partial = tmp_path / "out.partial"
    kept = partial if what == "file" else tmp_path / "theirs" / "file"
    if what == "folder":
        kept = partial / "file"
    kept.parent.mkdir(exist_ok=True)
    kept.write_text("mine", "utf-8")
    if what == "link":
        partial.symlink_to(kept.parent)
    with pytest.raises(OptionError, match=r"out\.partial.* of nothing that was broken off"):
        quantize_folder(source, tmp_path / "out", CHOSEN)
    assert kept.read_text("utf-8") == "mine"


def test_out_may_be_a_link_but_not_the_current_folder(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    quantize_folder(source, tmp_path / "link", CHOSEN)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "config.json").exists()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(OptionError, match="is the current folder") as refused:
        quantize_folder(source, Path(), CHOSEN)
    assert refused.value.option == "out"
