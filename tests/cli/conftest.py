import io
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from engine.tiny import make_tiny_folder

from gesso.cli.app import run
from gesso.models import hub
from gesso.runner import model_runner


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Gesso = Callable[..., Outcome]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="session")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of bundled models in which `mini` and `skills` are a tiny random checkpoint."""
    folder = tmp_path_factory.mktemp("bundled")
    make_tiny_folder(folder / "mini")
    (folder / "skills").symlink_to("mini")
    return folder


@pytest.fixture
def gesso(bundled: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Gesso:
    """Runs a command line in this process, behind a pipe; `stdin` is a text, or None for a terminal."""
    monkeypatch.setattr(hub, "_bundled_folder", lambda: bundled)
    monkeypatch.setattr(hub, "cached", list)
    # `--device auto` is the CPU, so that results are the same everywhere.
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setenv("COLUMNS", "100")

    def call(*arguments: object, stdin: str | None = None) -> Outcome:
        monkeypatch.setattr(sys, "stdin", Terminal() if stdin is None else io.StringIO(stdin))
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


@pytest.fixture
def interrupt_at(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Ctrl-C during pass number so and so."""
    assert threading.current_thread() is threading.main_thread()
    step = model_runner.denoise_step
    passes = [0]

    def install(*numbers: int) -> None:
        def interrupted(*arguments: Any) -> None:
            step(*arguments)
            passes[0] += 1
            if passes[0] in numbers:
                signal.raise_signal(signal.SIGINT)

        monkeypatch.setattr(model_runner, "denoise_step", interrupted)

    return install
