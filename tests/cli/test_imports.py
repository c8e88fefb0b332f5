"""`gesso --import`: samplers and tasks of a user's own on the command line, as somebody runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples/sampler.ipynb"
TASK = """
from gesso.tasks.base import Example, Task
from gesso.tasks.registry import register

class Dashes(Task):
    name = "dashes"

    def sample(self, rng):
        words = rng.sample(["pear", "fig", "plum", "kiwi", "apple", "lime"], 3)
        return Example(self.name, "Join with dashes: " + ", ".join(words), "-".join(words))

register(Dashes())
"""
SEEDED = """
from dataclasses import dataclass
from gesso.diffusion.samplers import SAMPLERS, Sampler
from gesso.options import option

@SAMPLERS.register("own")
@dataclass(frozen=True)
class Own(Sampler):
    seed: int = option(1, "Positions.")
"""
TAKEN = "sampler own: another option is called seed, which is no sampler's"
PROMPT = "Sort: pear, fig, apple, kiwi"


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gesso", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    (tmp_path / "growing.py").write_text(next("".join(c["source"]) for c in cells if c["cell_type"] == "code"))
    (tmp_path / "dashes.py").write_text(TASK)
    return tmp_path


def test_a_sampler_of_ones_own_has_its_options_on_the_command_line(folder: Path) -> None:
    asked = ("generate", "--model", "mini", "--sampler", "growing_share", "--first", "0.5", "--seed", "1", PROMPT)
    flagged = run(folder, "--import=growing.py", *asked)
    assert (flagged.returncode, flagged.stdout) == (0, "apple, fig, kiwi, pear\n"), flagged.stderr
    refused = run(folder, *asked[:6], "2", PROMPT, GESSO_IMPORT="growing.py")
    assert refused.returncode == 2
    assert refused.stderr == "gesso: --first must be at most 1, got 2.0\n"
    assert run(folder, *asked).returncode == 2, "it is nobody's without"


def test_a_task_of_ones_own_is_measured(folder: Path) -> None:
    asked = ("eval", "mini", "--task", "dashes", "-n", "2", "--json")
    found = run(folder, "--import", "dashes.py", "--import", "growing.py", *asked)
    assert found.returncode == 0, found.stderr
    (score,) = json.loads(found.stdout)["tasks"]
    assert (score["task"], score["examples"]) == ("dashes", 2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "gesso: there is no file {file}"),
        ("x = 1 / 0", "gesso: {file} cannot be imported: ZeroDivisionError: division by zero (line 1)"),
        (
            SEEDED,
            f"gesso: {{file}} cannot be imported: TypeError: {TAKEN} (line 6)",
        ),
    ],
)
def test_what_cannot_be_imported_is_two_lines(folder: Path, text: str | None, said: str) -> None:
    file = folder / "own.py"
    if text is not None:
        file.write_text(text)
    result = run(folder, "--import", "own.py", "generate", PROMPT)
    assert result.returncode == 2
    assert result.stderr == said.format(file=file) + "\n  --import or GESSO_IMPORT names it\n"


def test_it_stands_before_the_command(folder: Path) -> None:
    result = run(folder, "generate", "--import", "growing.py", PROMPT)
    assert result.returncode == 2
    assert "--import stands before the command" in result.stderr
