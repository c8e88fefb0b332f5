"""Quantizing while a checkpoint arrives: the same bits as from a folder, over every break, and nothing else on the
disk."""

import json
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from oracle import Shape, random_model
from safetensors.torch import load_file, save_file
from torch import Tensor

from gesso.errors import CheckpointError, HubError, OptionError
from gesso.models.loading import load_folder
from gesso.models.quantization import stream
from gesso.models.quantization.convert import QuantizeReport, quantize_folder
from gesso.models.quantization.plan import Quantization
from gesso.models.quantization.stream import quantize_stream
from gesso.models.quantization.stream_plan import make_plan, read_source
from gesso.models.remote import look_up
from gesso.models.saving import save_folder
from gesso.models.weight_index import INDEX, SINGLE
from gesso.nn.quant.integer import Int4, Int8
from models.breaking_hub import FIRST, REPO, SECOND, Hub, point_at, serving, write_in_two

CHOSEN = Quantization(Int8(), Int4(32), Int8())
VISION = "model.encoder.vision_tower.patch.weight"
Q_PROJ = "model.decoder.layers.0.self_attn.q_proj.weight"
Q_PROJ_COPY = "model.encoder.language_model.layers.0.self_attn.q_proj.weight"
TABLE = "model.decoder.embed_tokens.weight"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint in two files, with biases, a vision tensor and a second copy of the table. Do not write into it."""
    folder = tmp_path_factory.mktemp("stream") / "source"
    shape = Shape("sf", hidden=64, mlp=96, head_dim=16, full_head_dim=32, expert_size=32, bias=True)
    save_folder(random_model(shape), folder, dtype="bfloat16")
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    tensors |= {VISION: torch.ones(3, 2, dtype=torch.bfloat16), "lm_head.weight": tensors[TABLE].clone()}
    write_in_two(folder, tensors)
    (folder / "chat_template.jinja").write_text("{{ messages }}", "utf-8")
    return folder


@pytest.fixture(scope="module")
def straight(source: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, QuantizeReport]:
    """The same, quantized from its folder."""
    out = tmp_path_factory.mktemp("straight") / "out"
    return out, quantize_folder(source, out, CHOSEN)


@pytest.fixture
def hub(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving(Hub(source)) as served:
        point_at(served, tmp_path / "cache", monkeypatch)
        monkeypatch.setattr(stream, "FILE_BYTES", 20_000)
        monkeypatch.setattr("gesso.models.byte_stream.PIECE", 4096)
        yield served


def pulled(out: Path, progress: Any = lambda taken: None) -> QuantizeReport:
    return quantize_stream(out, CHOSEN, make_plan(read_source(look_up(REPO)), out, CHOSEN), progress)


def weights(folder: Path) -> dict[str, Tensor]:
    return {name: tensor for path in folder.glob("*.safetensors") for name, tensor in load_file(path).items()}


def assert_same(out: Path, straight: tuple[Path, QuantizeReport], report: QuantizeReport) -> None:
    found, expected = weights(out), weights(straight[0])
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in found)
    assert report.worst_error == straight[1].worst_error
    assert report.worst_tensor == straight[1].worst_tensor
    assert not out.with_name("out.partial").exists()
    assert (out / "chat_template.jinja").exists()


def test_the_bits_are_those_of_a_folder(hub: Hub, tmp_path: Path, straight: tuple[Path, QuantizeReport]) -> None:
    taken: list[int] = []
    report = pulled(tmp_path / "out", taken.append)
    assert_same(tmp_path / "out", straight, report)
    assert len(list((tmp_path / "out").glob("*.safetensors"))) > 3
    assert sum(taken) == sum((hub.folder / file).stat().st_size for file in (FIRST, SECOND))
    load_folder(tmp_path / "out", "cpu")
    left = {path.name for path in (tmp_path / "cache").rglob("*")}  # whole weights never lie on the disk
    assert not {FIRST, SECOND} & left


def test_breaks_change_nothing(hub: Hub, tmp_path: Path, straight: tuple[Path, QuantizeReport]) -> None:
    hub.breaks[FIRST] = [3, 0, 100, 0, 1, 7777, 33]
    hub.statuses[SECOND] = [500, 503]
    assert_same(tmp_path / "out", straight, pulled(tmp_path / "out"))


@pytest.mark.parametrize(
    ("after", "error"),
    [(1, KeyboardInterrupt()), (150_000, OSError(28, "No space left")), (280_000, KeyboardInterrupt())],
)
def test_another_process_goes_on(
    hub: Hub, tmp_path: Path, straight: tuple[Path, QuantizeReport], after: int, error: BaseException
) -> None:
    taken: list[int] = []

    def stop(count: int) -> None:
        taken.append(count)
        if sum(taken) >= after:
            raise error

    with pytest.raises(type(error)):
        pulled(tmp_path / "out", stop)
    assert not (tmp_path / "out").exists()
    state = tmp_path / "out.partial" / "conversion.json"
    noted = json.loads(state.read_text("utf-8")) if state.exists() else None
    hub.asked.clear()
    again: list[int] = []
    assert_same(tmp_path / "out", straight, pulled(tmp_path / "out", again.append))
    if noted is not None:
        assert again[0] >= noted["position"]
        first = [text for text in hub.ranges(FIRST) if text.startswith(f"bytes={noted['position']}-")]
        assert first or FIRST in noted["files_done"]
    if after > 1:
        assert noted is not None


def test_a_write_that_fails_leaves_what_was_written(
    hub: Hub, tmp_path: Path, straight: tuple[Path, QuantizeReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Path] = []
    original = stream.write_tensors

    def full(path: Path, tensors: dict[str, Tensor]) -> None:
        if len(written) == 2:
            raise OSError(28, "No space left on device", str(path))
        written.append(path)
        original(path, tensors)

    with monkeypatch.context() as patched:
        patched.setattr(stream, "write_tensors", full)
        with pytest.raises(OSError, match="No space left"):
            pulled(tmp_path / "out")
    assert all(path.exists() for path in written)
    times = [path.stat().st_mtime_ns for path in written]
    assert_same(tmp_path / "out", straight, pulled(tmp_path / "out"))
    assert [(tmp_path / "out" / path.name).stat().st_mtime_ns for path in written] == times


@pytest.mark.parametrize("file", [FIRST, SECOND])
def test_what_was_made_of_a_damaged_file_is_thrown_away(
    hub: Hub, tmp_path: Path, straight: tuple[Path, QuantizeReport], file: str
) -> None:
    hub.damaged.add(file)
    with pytest.raises(HubError, match=f"{file} arrived damaged"):
        pulled(tmp_path / "out")
    noted = json.loads((tmp_path / "out.partial" / "conversion.json").read_text("utf-8"))
    assert noted["files_done"] == ([] if file == FIRST else [FIRST])
    assert set(noted["made_of"]) == set(noted["files_done"])
    hub.damaged.clear()
    hub.asked.clear()
    assert_same(tmp_path / "out", straight, pulled(tmp_path / "out"))
    assert f"bytes=0-{(hub.folder / file).stat().st_size - 1}" in hub.ranges(file)


@pytest.mark.parametrize("damaged", [Q_PROJ, Q_PROJ_COPY])
def test_copies_in_a_damaged_file_are_not_compared(
    hub: Hub, source: Path, tmp_path: Path, straight: tuple[Path, QuantizeReport], damaged: str
) -> None:
    tensors = weights(source)
    hub.folder = changed(source, tmp_path / "copied")
    for file in (FIRST, SECOND, INDEX):
        (hub.folder / file).unlink()
    save_file(tensors | {Q_PROJ_COPY: tensors[Q_PROJ].clone()}, hub.folder / SINGLE)
    hub.damaged.add(SINGLE)
    hub.damaged_at[SINGLE] = place_of(damaged, hub.folder / SINGLE)
    with pytest.raises(HubError, match=f"{SINGLE} arrived damaged"):
        pulled(tmp_path / "out")
    noted = json.loads((tmp_path / "out.partial" / "conversion.json").read_text("utf-8"))
    assert noted["digests"] == noted["errors"] == {}
    hub.damaged.clear()
    assert_same(tmp_path / "out", straight, pulled(tmp_path / "out"))


def place_of(name: str, path: Path) -> int:
    """Returns where the first byte of a tensor stands in its file."""
    content = path.read_bytes()
    length = 8 + int.from_bytes(content[:8], "little")
    begin: int = json.loads(content[8:length])[name]["data_offsets"][0]
    return length + begin


def test_other_formats_begin_anew(hub: Hub, tmp_path: Path, straight: tuple[Path, QuantizeReport]) -> None:
    out, other = tmp_path / "out", Quantization(Int8(), Int8())
    hub.breaks[SECOND] = [10**9, 10**9, 9000, *[0] * 10]
    with pytest.raises(HubError, match="broke off"):
        quantize_stream(out, other, make_plan(read_source(look_up(REPO)), out, other))
    hub.breaks.clear()
    assert_same(out, straight, pulled(out))


def test_the_disk_is_asked_before_a_weight_is_fetched(
    hub: Hub, tmp_path: Path, straight: tuple[Path, QuantizeReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    needed = make_plan(read_source(look_up(REPO)), tmp_path / "out", CHOSEN).bytes_written
    assert needed == sum(part.nbytes for part in weights(straight[0]).values())
    hub.asked.clear()
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(0, 0, needed - 1))
    with pytest.raises(OptionError, match=r"--out .* needs [0-9.]+ KB, and its disk has"):
        pulled(tmp_path / "out")
    assert f"bytes=0-{(hub.folder / FIRST).stat().st_size - 1}" not in hub.ranges(FIRST)
    assert not (tmp_path / "out.partial").exists()


def changed(source: Path, folder: Path, **tensors: Tensor | None) -> Path:
    """The checkpoint with other tensors; None for one that is missing."""
    folder.mkdir()
    for path in source.iterdir():
        if path.suffix != ".safetensors":
            (folder / path.name).write_bytes(path.read_bytes())
    write_in_two(folder, {name: part for name, part in (weights(source) | tensors).items() if part is not None})
    return folder


def test_checkpoints_that_cannot_be_used_are_refused(hub: Hub, source: Path, tmp_path: Path) -> None:
    table = weights(source)[TABLE]
    cases: dict[str, tuple[dict[str, Tensor | None], str]] = {
        "copy": ({"lm_head.weight": table + 1}, "lm_head.weight differs from"),
        "nan": ({TABLE: table * float("nan"), "lm_head.weight": None}, "not finite"),
        "lost": ({"model.decoder.norm.weight": None}, "tensors missing in"),
        "foreign": ({"model.other": table}, "unknown tensors in"),
        "shape": ({TABLE: table[:-1].clone(), "lm_head.weight": None}, "has shape"),
        "kind": ({TABLE: table.to(torch.int8), "lm_head.weight": None}, "is I8: quantized"),
    }
    for name, (tensors, message) in cases.items():
        hub.folder = changed(source, tmp_path / name, **tensors)
        for cache in (tmp_path / "cache").glob("models--*"):
            cache.rename(tmp_path / f"{name}-cache")
        with pytest.raises(CheckpointError, match=message):
            pulled(tmp_path / f"{name}-out")
