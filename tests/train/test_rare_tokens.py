"""Tokens that training never showed are told apart again."""

from pathlib import Path

import pytest
import torch
from engine.tiny import make_tiny_folder
from safetensors.torch import load_file, save_file

from gesso.errors import CheckpointError
from gesso.train.rare_tokens import EMBEDDINGS, OWN_SHARE, fallen_together, main, spread


@pytest.fixture
def embedding() -> torch.Tensor:
    """Twelve tokens, of which 2, 5 and 7 are all but one."""
    table = torch.randn((12, 48), generator=torch.Generator().manual_seed(1))
    table[[5, 7]] = table[2] + 1e-3 * table[[5, 7]]
    return table


def test_those_that_are_alike_are_found(embedding: torch.Tensor) -> None:
    assert fallen_together(embedding).tolist() == [2, 5, 7]


def test_only_they_change_and_none_is_like_another(embedding: torch.Tensor) -> None:
    before = embedding.clone()
    assert spread(embedding) == 3
    assert fallen_together(embedding).numel() == 0
    changed = (embedding != before).any(dim=1).nonzero().flatten()
    assert changed.tolist() == [2, 5, 7]
    length = (embedding - before)[changed].norm(dim=1) / before[changed].norm(dim=1)
    assert torch.allclose(length, torch.full((3,), OWN_SHARE))
    again = before.clone()
    spread(again)
    assert torch.equal(again, embedding)


def test_a_checkpoint_is_copied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = tmp_path / "one", tmp_path / "other"
    make_tiny_folder(folder)
    tensors = load_file(folder / "model.safetensors")
    tensors[EMBEDDINGS][9] = tensors[EMBEDDINGS][8]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    main([str(folder), "--out", str(out)])
    assert capsys.readouterr().out == f"2 of {len(tensors[EMBEDDINGS])} tokens had fallen together\n"
    after = load_file(out / "model.safetensors")
    assert [name for name, tensor in after.items() if not torch.equal(tensor, tensors[name])] == [EMBEDDINGS]
    assert {path.name for path in out.iterdir()} == {path.name for path in folder.iterdir()}
    modes = {path.stat().st_mode for path in out.iterdir()}
    assert len(modes) == 1, "weights are read by whoever may read the rest"


def test_another_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="has no model"):
        main([str(tmp_path), "--out", str(tmp_path / "out")])
