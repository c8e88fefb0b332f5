from pathlib import Path

import pytest
from engine.tiny import make_tiny_folder


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_folder(tmp_path_factory.mktemp("checkpoint") / "tiny")
