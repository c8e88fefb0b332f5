from pathlib import Path

import pytest
from engine.tiny import make_tiny_folder

from gesso.api import load
from gesso.engine.engine import Engine


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_folder(tmp_path_factory.mktemp("checkpoint") / "tiny")


@pytest.fixture(scope="session")
def tiny(tiny_folder: Path) -> Engine:
    return load(tiny_folder, "cpu")
