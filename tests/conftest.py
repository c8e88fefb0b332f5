"""Shared by all tests: one thread, hypothesis without a clock, and reference checkpoints made once a session."""

import gc
import logging
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings
from oracle import SHAPES, Pair, make_oracle
from thorough import THOROUGH, cases

from gesso.api import load
from gesso.engine.engine import Engine
from gesso.models.loading import load_folder

torch.set_num_threads(1)
gc.set_threshold(700, 10, 200)  # few sweeps over all that is imported
# Whoever starts the tests in the background may have Ctrl-C ignored, and children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "gesso",
    deadline=None,
    derandomize=not THOROUGH,
    max_examples=cases(60, 300),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("gesso")


def pytest_configure(config: pytest.Config) -> None:
    """Compiles kernels once in a run of the tests, not once in each of its processes; takes none of an earlier run."""
    if not hasattr(config, "workerinput"):
        os.environ["GESSO_KERNEL_CACHE"] = tempfile.mkdtemp(prefix="gesso-kernels-")
        config.add_cleanup(lambda: shutil.rmtree(os.environ["GESSO_KERNEL_CACHE"]))


def pytest_collection_finish() -> None:
    """Takes what was imported and collected, which stays to the end, out of what every collection of garbage visits.

    Loggers of PyTorch's that keep to themselves pass on what they are told: pytest attaches to each that does not, in
    every test three times.
    """
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith("torch") and isinstance(logger, logging.Logger):
            logger.propagate = True
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _logs() -> Iterator[None]:
    """Takes back what a server that ran in the tests' own process set for all logs."""
    loggers = [logging.getLogger(name) for name in ("gesso", "gesso.access", "uvicorn.error", "opentelemetry")]
    before = [(logger.handlers, logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
        logger.handlers, logger.propagate = handlers, propagate
        if logger.level != level:  # whoever sets it has every logger forget what it knows of levels
            logger.setLevel(level)


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Pair]:
    """`pair("window_2")`: that shape's checkpoint; made on first use and kept. Do not write into its folder."""
    made: dict[str, Pair] = {}

    def make(name: str) -> Pair:
        if name not in made:
            folder = tmp_path_factory.mktemp("oracle") / name
            reference = make_oracle(folder, SHAPES[name], seed=sorted(SHAPES).index(name))
            made[name] = Pair(SHAPES[name], folder, reference, load_folder(folder, "cpu", "float32"))
        return made[name]

    return make


@pytest.fixture
def foreign_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working folder has files named like modules that gesso imports."""
    for name in ("gesso", "queue", "random", "secrets"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a foreign file was run')\n")
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def seeing_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random checkpoint with a vision tower."""
    from engine.seeing import make_seeing_folder

    return make_seeing_folder(tmp_path_factory.mktemp("seeing") / "model")


@pytest.fixture
def seeing(seeing_folder: Path) -> Engine:
    """An engine of it; its runner has seen nothing yet."""
    return load(seeing_folder, "cpu")


@pytest.fixture
def dequantized(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packed weights are turned back and multiplied, as on machines without compiled kernels: nothing is rounded."""
    monkeypatch.setattr("gesso.kernels.host.available", lambda: False)
