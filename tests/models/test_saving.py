"""Files of tensors as they are written."""

from pathlib import Path

import torch
from safetensors import safe_open

from gesso.models.saving import write_safetensors


def test_files_of_the_same_tensors_and_texts_are_the_same(tmp_path: Path) -> None:
    tensors, texts = {"b": torch.ones(3), "a": torch.zeros(2, 2)}, {"zz": '{"a\u00e9\x1f\\": [1]}', "aa": "x", "mm": ""}
    path, written = tmp_path / "file.safetensors", set()
    for _ in range(8):
        write_safetensors(tensors, path, texts)
        written.add(path.read_bytes())
    assert len(written) == 1
    with safe_open(path, "pt") as file:
        assert file.metadata() == {"format": "pt"} | texts
        assert all(torch.equal(file.get_tensor(name), tensor) for name, tensor in tensors.items())
