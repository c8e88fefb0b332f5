"""Commands that take a GGUF file where a model is named."""

from pathlib import Path

import pytest
from models.gguf.published import SHAPE, write_published

from cli.conftest import Gesso


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny random model in GGUF."""
    from oracle import make_oracle

    monkeypatch.setattr("huggingface_hub.utils._cache_assets.HF_ASSETS_CACHE", str(tmp_path / "assets"))
    make_oracle(tmp_path / "released", SHAPE)
    return write_published(tmp_path / "tiny.gguf", tmp_path / "released")


def test_it_is_shown_quantized_and_asked(gesso: Gesso, published: Path, tmp_path: Path) -> None:
    shown = gesso("models", "show", published)
    assert shown.code == 0
    assert "GGUF, most of it F32" in shown.out
    assert gesso("quantize", published, "--to", "int8", "--out", tmp_path / "small").code == 0
    for model in (published, tmp_path / "small"):
        asked = gesso("generate", "-m", model, "--seed", 1, "--max-new-tokens", 4, "--plain", "the kettle")
        assert asked.code == 0, asked.err


def test_a_file_that_is_none_is_one_line_and_code_2(gesso: Gesso, tmp_path: Path) -> None:
    path = tmp_path / "notes.gguf"
    path.write_text("no model")
    asked = gesso("generate", "-m", path, "hi")
    assert asked.code == 2
    assert "truncated or no GGUF file" in asked.err
    assert len(asked.err.splitlines()) == 1
