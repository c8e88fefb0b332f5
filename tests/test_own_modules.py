"""Processes of gesso run none of the files that happen to lie in the working folder."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from gesso.api import load
from gesso.own_modules import command_of
from gesso.router.spawn import Spawner


@pytest.fixture(autouse=True)
def foreign_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lie in the working folder, named like modules that gesso imports."""
    folder = tmp_path / "wörk 'n\""
    folder.mkdir()
    for name in ("gesso", "queue", "random", "secrets"):
        (folder / f"{name}.py").write_text("raise SystemExit('a foreign file was run')\n")
    monkeypatch.chdir(folder)


def test_a_module_gets_its_arguments() -> None:
    done = subprocess.run([*command_of("gesso"), "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[:6], done.stderr) == (0, "gesso ", "")


def test_a_server_that_the_router_starts() -> None:
    async def said() -> bytes:
        process = await Spawner(1, ["--help"], "key")._run()
        out, _ = await process.communicate()
        return out

    assert b"Usage: gesso serve" in asyncio.run(said())


def test_ranks_of_a_model() -> None:
    with load("mini", "cpu", tensor_parallel=2) as engine:
        assert engine.generate("What is 4 + 5?", max_new_tokens=4, seed=1).text
