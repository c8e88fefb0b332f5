"""The index of a checkpoint in several files."""

import json
from pathlib import Path

import pytest

from gesso.errors import CheckpointError
from gesso.models.saving import write_index
from gesso.models.weight_index import INDEX, read_index


def test_what_is_written_is_read(tmp_path: Path) -> None:
    for file, size in {"a.safetensors": 5, "b.safetensors": 7}.items():
        (tmp_path / file).write_bytes(bytes(size))
    weight_map = {"y": "b.safetensors", "x": "a.safetensors", "z": "b.safetensors"}
    assert write_index(tmp_path, weight_map) == 12
    assert read_index(tmp_path) == weight_map
    assert json.loads((tmp_path / INDEX).read_text("utf-8"))["metadata"] == {"total_size": 12}


@pytest.mark.parametrize("text", ["{}", '{"weight_map": ["a"]}', '{"weight_map": {"a": 1}}', "[]", "{", None])
def test_an_index_that_names_no_files_is_refused(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / INDEX).write_text(text, "utf-8")
    with pytest.raises(CheckpointError, match=INDEX):
        read_index(tmp_path)
