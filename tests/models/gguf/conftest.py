"""One random checkpoint, and what it is in GGUF; folders that are made of files lie in a test's own."""

from pathlib import Path

import pytest

from models.gguf.published import make_folder, write_published


@pytest.fixture(scope="session")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint that transformers wrote. Do not write into it."""
    return make_folder(tmp_path_factory.mktemp("released") / "model")


@pytest.fixture(scope="session")
def whole(released: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same in GGUF, nothing packed."""
    return write_published(tmp_path_factory.mktemp("gguf") / "whole.gguf", released)


@pytest.fixture
def assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where folders of GGUF files are kept during a test."""
    place = tmp_path / "assets"
    monkeypatch.setattr("huggingface_hub.utils._cache_assets.HF_ASSETS_CACHE", str(place))
    return place
