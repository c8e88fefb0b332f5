"""Tensors of GGUF files: numbers, pieces, types, and what is refused."""

import json
import re
import shutil
import sys
from pathlib import Path

import gguf
import pytest
import torch
from gguf import GGMLQuantizationType as Kind

from gesso.errors import CheckpointError
from gesso.extras import pip_install
from gesso.models.gguf import file
from gesso.models.gguf.file import GgufFile, metadata, table_beside, written_table
from gesso.models.tensors import open_file, read_tensor
from models.gguf.published import as_turned_back, write_published

TABLE = "model.decoder.embed_tokens.weight"
EXPERTS = "model.decoder.layers.1.experts.gate_up_proj"
NORM = "model.decoder.norm.weight"


def test_whole_numbers_come_as_they_are(released: Path, whole: Path) -> None:
    with open_file(whole) as opened, open_file(released / "model.safetensors") as expected:
        names = [name for name in expected.keys() if "vision" not in name]  # noqa: SIM118 - no mapping
        assert sorted(opened.keys()) == sorted(names)
        for name in names:
            assert opened.get_slice(name).get_dtype() == "F32"
            assert opened.get_slice(name).get_shape() == expected.get_slice(name).get_shape()
            assert torch.equal(opened.get_tensor(name), expected.get_tensor(name))


@pytest.mark.parametrize("kind", [Kind.Q8_0, Kind.Q4_0, Kind.Q5_1, Kind.BF16], ids=lambda kind: kind.name)
def test_packed_numbers_are_what_the_package_makes_of_them(released: Path, tmp_path: Path, kind: Kind) -> None:
    path = write_published(tmp_path / "packed.gguf", released, kind=kind)
    with open_file(path) as opened:
        for name in (TABLE, EXPERTS):
            assert opened.get_slice(name).get_dtype() == "BF16"
            packed = as_turned_back(read_tensor(name, released / "model.safetensors"), kind)
            assert torch.equal(opened.get_tensor(name), packed)
        assert opened.get_slice(NORM).get_dtype() == "F32"


def test_half_precision_stays(released: Path, tmp_path: Path) -> None:
    path = write_published(tmp_path / "half.gguf", released, kind=Kind.F16)
    with open_file(path) as opened:
        assert (opened.get_slice(TABLE).get_dtype(), opened.get_tensor(TABLE).dtype) == ("F16", torch.float16)


def test_a_part_is_the_same_as_of_the_whole(released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_published(tmp_path / "packed.gguf", released, kind=Kind.Q8_0)
    with open_file(path) as opened:
        whole = opened.get_tensor(EXPERTS), opened.get_tensor(TABLE)
        monkeypatch.setattr(file, "PIECE", 300)
        experts, table = opened.get_slice(EXPERTS), opened.get_slice(TABLE)
        assert torch.equal(experts[2], whole[0][2])
        assert torch.equal(table[5:90], whole[1][5:90])
        assert torch.equal(table[380:], whole[1][380:])
        assert torch.equal(opened.get_tensor(TABLE), whole[1])
        assert table[7:7].shape == (0, 64)
        assert torch.equal(experts[:, 3:9, :5], whole[0][:, 3:9, :5])
        with pytest.raises(ValueError, match="steps of 2"):
            table[::2]


@pytest.mark.parametrize("size", [0, 3, 100, 20_000, -1])
def test_a_truncated_file_is_refused(whole: Path, tmp_path: Path, size: int) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(whole.read_bytes()[:size])
    with pytest.raises(CheckpointError, match=r"cut\.gguf is truncated or no GGUF file"):
        GgufFile(path)


def test_another_format_is_refused(released: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(released / "model.safetensors", tmp_path / "other.gguf"))
    with pytest.raises(CheckpointError, match="no GGUF file"):
        GgufFile(path)


def test_one_of_several_parts_is_refused(released: Path, tmp_path: Path) -> None:
    path = write_published(tmp_path / "part.gguf", released, changes={"split.count": 3})
    with pytest.raises(CheckpointError, match=r"part\.gguf is one of 3 parts: join them"):
        GgufFile(path)


@pytest.mark.parametrize(
    ("shape", "message"), [((8,), r"output_norm.* is a vector of I32"), ((2, 4), r"output_norm.* is I32, which")]
)
def test_a_type_that_cannot_be_turned_back_is_refused_by_name(
    tmp_path: Path, shape: tuple[int, ...], message: str
) -> None:
    writer = gguf.GGUFWriter(tmp_path / "whole.gguf", "diffusion-gemma")
    writer.add_tensor("output_norm.weight", torch.arange(8, dtype=torch.int32).view(shape).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with open_file(tmp_path / "whole.gguf") as opened, pytest.raises(CheckpointError, match=message):
        opened.get_tensor(NORM)


def test_what_was_cut_off_since_it_was_looked_at_is_refused(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    table_beside(path).write_text(json.dumps(written_table(whole)))
    (tmp_path / "held").write_bytes(whole.read_bytes()[:50_000])
    path.symlink_to(tmp_path / "held")
    with open_file(path) as opened, pytest.raises(CheckpointError, match=r"cut\.gguf is truncated: blk\.2"):
        opened.get_tensor("model.decoder.layers.2.mlp.up_proj.weight")


def test_a_tensor_that_is_not_there_is_named(whole: Path) -> None:
    with pytest.raises(CheckpointError, match="lacks nothing"):
        read_tensor("nothing", whole)


def test_without_the_package_one_line_says_what_to_install(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file._read_header.cache_clear()
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(CheckpointError, match=re.escape(pip_install("gguf"))):
        GgufFile(whole)
    monkeypatch.undo()
    assert metadata(whole, "general.architecture") == "diffusion-gemma"


def test_a_file_that_changes_is_read_anew(released: Path, tmp_path: Path) -> None:
    path = write_published(tmp_path / "a.gguf", released)
    assert metadata(path, "diffusion.canvas_length") == 16
    write_published(path, released, changes={"diffusion.canvas_length": 8, "general.name": "other"})
    assert metadata(path, "diffusion.canvas_length") == 8
