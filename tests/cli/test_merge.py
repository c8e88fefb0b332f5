"""`gesso merge`: what it writes, and over what."""

import re
import shutil
from collections import namedtuple
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from cli.conftest import Gesso
from gesso.config import LoraConfig
from gesso.models import dtype, saving
from gesso.models.adapter_files import save_adapter
from gesso.models.adapters import attach
from gesso.models.loading import load_folder
from gesso.models.run_folders import ADAPTER_CONFIG
from gesso.models.weight_index import INDEX


@pytest.fixture
def adapter(bundled: Path, tmp_path: Path) -> Path:
    model, config = load_folder(bundled / "mini", "cpu", "float32"), LoraConfig(rank=2)
    attach(model, config)
    save_adapter(model, config, tmp_path / "adapter", "mini")
    return tmp_path / "adapter"


def test_float32_is_what_is_stored_though_auto_takes_bfloat16(
    gesso: Gesso, bundled: Path, adapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dtype, "CPU_FLOAT32_BYTES", 0)
    monkeypatch.setattr(dtype, "available_bytes", lambda: 0)
    assert gesso("merge", adapter, "--out", tmp_path / "out", "--dtype", "float32").code == 0
    stored, merged = (load_file(folder / "model.safetensors") for folder in (bundled / "mini", tmp_path / "out"))
    assert stored.keys() == merged.keys()
    assert all(torch.equal(stored[name], merged[name]) for name in stored), "a fresh adapter changes nothing"
    assert any(not torch.equal(tensor, tensor.bfloat16().float()) for tensor in stored.values())


def test_an_adapter_of_another_model_wants_its_name(gesso: Gesso, adapter: Path, tmp_path: Path) -> None:
    config = adapter / ADAPTER_CONFIG
    config.write_text(config.read_text("utf-8").replace('"mini"', '"theirs"'), encoding="utf-8")
    refused = gesso("merge", adapter, "--out", tmp_path / "out")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "was trained on theirs: name the model to fold it into" in refused.err
    assert gesso("merge", adapter, "--model", "mini", "--out", tmp_path / "out").code == 0
    for nothing in (tmp_path, tmp_path / "none"):
        refused = gesso("merge", nothing, "--out", tmp_path / "more")
        assert (refused.code, f"no adapter_config.json in {nothing}" in refused.err) == (2, True)
    run = tmp_path / "run"
    shutil.copytree(adapter, run / "adapter")
    refused = gesso("merge", run, "--model", "mini", "--out", tmp_path / "more")
    assert f"that is the folder of a run; its adapter is {run / 'adapter'}" in refused.err


def test_an_adapter_on_another_bundled_model_is_said(
    gesso: Gesso, bundled: Path, adapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = f"gesso: warning: {adapter} was trained on mini, and skills is another model\n"
    request = ("generate", "What is 2 + 2?", "--adapter", adapter, "--max-denoising-steps", 1)
    merging = ("merge", adapter, "--out", tmp_path / "out")
    for command in (request, merging):
        outcome = gesso(*command, "--model", "skills")
        assert outcome.code == 0, outcome.err
        assert outcome.err.count(told) == 1
    for model in ("mini", bundled / "skills"):
        assert "warning" not in gesso(*request, "--model", model).err
    (tmp_path / "skills").symlink_to(bundled / "mini")
    monkeypatch.chdir(tmp_path)
    assert "warning" not in gesso(*request, "--model", "skills").err, "a folder of that name comes first"
    empty = gesso("generate", "hi", "--adapter", "")
    assert (empty.code, "adapter is empty, and names a folder" in empty.err) == (2, True)


def test_an_adapter_on_other_weights_is_said_whatever_they_are_called(
    gesso: Gesso, bundled: Path, tmp_path: Path
) -> None:
    (tmp_path / "data.jsonl").write_text('{"prompt": "a", "completion": "b"}\n', encoding="utf-8")
    base, other, run = tmp_path / "base", tmp_path / "other", tmp_path / "run"
    for folder in (base, other):
        shutil.copytree(bundled / "mini", folder)
    tensors = load_file(other / "model.safetensors")
    save_file({name: 1.1 * tensor for name, tensor in tensors.items()}, other / "model.safetensors")
    learning = ("finetune", tmp_path / "data.jsonl", "--held-out", 0, "--max-length", 64, "--steps", 1)
    assert gesso(*learning, "--model", base, "--out", run).code == 0
    adapter = run / "adapter"
    told = f"gesso: warning: {adapter} was trained on other weights ({base}) than those of {other}\n"
    request = ("generate", "What is 2 + 2?", "--adapter", adapter, "--max-denoising-steps", 1)
    more = (*learning, "--adapter", adapter, "--out")
    merging = ("merge", adapter, "--out")
    (tmp_path / "requests.jsonl").write_text("no request\n", encoding="utf-8")
    batch = ("batch", tmp_path / "requests.jsonl", "--out", tmp_path / "answers", "--adapter", f"mine={adapter}")
    for command in (request, batch, (*more, tmp_path / "more"), (*merging, tmp_path / "merged")):
        outcome = gesso(*command, "--model", other)
        assert outcome.code == int(command is batch), outcome.err  # whose only line is no request
        assert outcome.err.count(told) == 1
    assert gesso("quantize", base, "--to", "int8", "--out", tmp_path / "packed").code == 0
    shutil.rmtree(base)
    for command in ((*more, tmp_path / "again"), (*more, tmp_path / "packed-run", "--model", tmp_path / "packed")):
        outcome = gesso(*command)
        assert (outcome.code, "warning" in outcome.err) == (0, False), outcome.err


def test_a_folder_that_holds_something_is_left_alone(
    gesso: Gesso, adapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    monkeypatch.setattr(saving, "SHARD_BYTES", 60_000)
    assert gesso("merge", adapter, "--out", out).code == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert INDEX in before
    again = gesso("merge", adapter, "--out", out)
    assert (again.code, again.err.count("\n")) == (2, 1)
    assert f"--out {out} is there already and no empty folder: name another" in again.err
    write, written = saving.write_tensors, []

    def full(path: Path, tensors: dict[str, torch.Tensor]) -> None:
        written.append(path)
        if len(written) == 3:
            raise OSError(28, "No space left on device", str(path))
        write(path, tensors)

    monkeypatch.setattr(saving, "write_tensors", full)
    refused = gesso("merge", adapter, "--out", tmp_path / "other", "--dtype", "float32")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "No space left on device" in refused.err
    assert not (tmp_path / "other").exists()
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_the_disk_is_asked_before_weights_are_read(
    gesso: Gesso, bundled: Path, adapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = sum(tensor.numel() for tensor in load_file(bundled / "mini" / "model.safetensors").values())
    usage = namedtuple("usage", "total used free")
    for dtype_name, size in ("float32", 4), ("bfloat16", 2):
        merging = ("merge", adapter, "--out", tmp_path / dtype_name, "--dtype", dtype_name)
        monkeypatch.setattr("shutil.disk_usage", lambda path, free=size * stored - 1000: usage(0, 0, free))
        monkeypatch.setattr("gesso.models.loading.load_folder", pytest.fail)
        refused = gesso(*merging)
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert re.search(r"--out .* needs [0-9.]+ KB, and its disk has [0-9.]+ KB free", refused.err)
        monkeypatch.setattr("shutil.disk_usage", lambda path, free=size * stored: usage(0, 0, free))
        monkeypatch.setattr("gesso.models.loading.load_folder", load_folder)
        assert gesso(*merging).code == 0


def test_weights_that_float16_cannot_hold_are_named(gesso: Gesso, bundled: Path, adapter: Path, tmp_path: Path) -> None:
    model = load_folder(bundled / "mini", "cpu", "float32")
    with torch.no_grad():
        model.norm.weight.mul_(1e6)
    saving.save_folder(model, tmp_path / "large", source=bundled / "mini")
    refused = gesso("merge", adapter, "--model", tmp_path / "large", "--out", tmp_path / "out", "--dtype", "float16")
    assert refused.code == 2
    assert "too large for float16: take another dtype" in refused.err
    assert not (tmp_path / "out").exists()
