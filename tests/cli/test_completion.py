"""What Tab offers, asked for as the shells ask."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import gesso
from gesso.cli.app import run
from gesso.cli.completion import WORDS
from gesso.train.recipes import RECIPES

Environment = dict[str, str]
HEAVY = {"torch", "rich", "huggingface_hub", "numpy", "tokenizers"}


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    hub = tmp_path / "hub"
    for name, kind in (("models--org--ours", "diffusion_gemma"), ("models--org--theirs", "gemma3")):
        snapshot = hub / name / "snapshots" / "0"
        snapshot.mkdir(parents=True)
        (snapshot / "config.json").write_text(json.dumps({"model_type": kind}))
    source = str(Path(gesso.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": source, "HF_HUB_CACHE": str(hub)}


Offered = Callable[..., tuple[int, str, str]]


@pytest.fixture
def offered(environment: Environment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Offered:
    """What the command answers to the script of a shell, the cursor at the end of the line: exit code and streams."""

    def ask(shell: str, line: str, **more: str) -> tuple[int, str, str]:
        asked = {
            "bash": {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)},
            "zsh": {"_TYPER_COMPLETE_ARGS": line},
            "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
        }[shell]
        with monkeypatch.context() as patch:
            for name, value in {**environment, **asked, "_GESSO_COMPLETE": f"complete_{shell}", **more}.items():
                patch.setenv(name, value)
            code = run([])
        out, err = capsys.readouterr()
        return code, out, err

    return ask


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("gesso gen", ["generate"]),
        ("gesso generate --model ", ["mini", "sight", "skills", "sudoku", "org/ours"]),
        ("gesso bench m", ["mini"]),
        ("gesso models show ", ["mini", "sight", "skills", "sudoku", "org/ours"]),
        ("gesso generate --mode ", ["canvas", "ar", "auto"]),
        ("gesso fill --mode ", ["canvas", "ar"]),
        ("gesso finetune --method q", ["qlora"]),
        ("gesso reinforce --method ", ["lora", "full"]),
        ("gesso train mini --precision b", ["bfloat16"]),
        ("gesso generate --sampler ent", ["entropy_bound"]),
        ("gesso eval mini --task sudo", ["sudoku"]),
        ("gesso train sk", ["skills", "skills-gpu"]),
        ("gesso generate --entropy", ["--entropy-bound"]),
        ("gesso fill ", []),
        ("gesso generate --json-schema sche", []),
    ],
)
def test_bash_is_offered(offered: Offered, line: str, words: list[str]) -> None:
    """Nothing is the word for files: the script says `-o default`."""
    code, out, err = offered("bash", line)
    assert (code, out.split(), err) == (0, words, "")


def test_recipes_that_are_offered_exist() -> None:
    assert {*WORDS["recipe"]} < {*RECIPES}


def test_zsh_is_offered(offered: Offered) -> None:
    _, models, _ = offered("zsh", "gesso generate --model ")
    assert all(f'"{name}"' in models for name in ("mini", "sight", "skills", "sudoku", "org/ours"))
    assert "org/theirs" not in models
    assert offered("zsh", "gesso fill ")[1] == "_files\n"


def test_fish_is_offered(offered: Offered) -> None:
    assert offered("fish", "gesso bench ")[1].split() == ["mini", "sight", "skills", "sudoku", "org/ours"]
    for line, code in (("gesso bench ", 0), ("gesso fill ", 1)):
        assert offered("fish", line, _TYPER_COMPLETE_FISH_ACTION="is-args")[0] == code


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_its_script(offered: Offered, shell: str) -> None:
    code, script, _ = offered(shell, "", _GESSO_COMPLETE=f"source_{shell}")
    assert code == 0
    assert "_GESSO_COMPLETE" in script


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_a_line(environment: Environment, tmp_path: Path) -> None:
    """The script at work: its function is called as bash calls it."""
    launcher = tmp_path / "gesso"
    launcher.write_text(f'#!/bin/sh\nexec {sys.executable} -m gesso "$@"\n')
    launcher.chmod(0o755)
    script = f"""
source <(_GESSO_COMPLETE=source_bash gesso)
COMP_WORDS=(gesso generate --model m) COMP_CWORD=3
_gesso_completion {launcher}
echo "${{COMPREPLY[@]}}"
complete -p gesso
"""
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        env={**environment, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[0] == "mini"
    assert "-o default" in done.stdout


def test_nobody_waits_for_a_tab(environment: Environment) -> None:
    code = f"""
import json, os, sys
os.environ.update(COMP_WORDS="gesso generate --model ", COMP_CWORD="3", _GESSO_COMPLETE="complete_bash")
from gesso.cli.app import run
run([])
print(json.dumps(sorted(set(sys.modules) & {HEAVY!r})), file=sys.stderr)
"""
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stderr) == []
    assert time.monotonic() - started < 5, "a quarter of a second on an idle machine"


def test_the_cache_is_where_hugging_face_has_it(
    offered: Offered, environment: Environment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "hub").rename(tmp_path / "home" / "hub")
    del environment["HF_HUB_CACHE"]
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    assert "org/ours" in offered("bash", "gesso bench ", HF_HOME=str(tmp_path / "home"))[1]


def test_a_home_that_nobody_knows_hides_no_bundled_model(offered: Offered) -> None:
    code, out, err = offered("bash", "gesso bench ", HF_HUB_CACHE="~no-such-user/hub")
    assert (code, "mini" in out.split(), err) == (0, True, "")
