"""The command as a process of its own: how quickly it answers, and how it ends."""

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import gesso
from gesso.api import load

HEAVY = ("torch", "transformers", "rich", "tokenizers", "huggingface_hub", "safetensors", "jinja2", "numpy")
LIMIT = 0.3
"""Seconds of processor time for `gesso --help`."""


@pytest.fixture
def environment() -> dict[str, str]:
    source = str(Path(gesso.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "default"}


def test_help_imports_nothing_heavy(environment: dict[str, str]) -> None:
    code = """
import contextlib, io, json, sys
from gesso.cli.app import run
with contextlib.redirect_stdout(io.StringIO()):
    for command in ([], ["generate"], ["chat"], ["models"], ["models", "show"], ["train"], ["eval"], ["replay"]):
        assert run([*command, "--help"]) == 0
    assert run(["--version"]) == 0
print(json.dumps(sorted(sys.modules)))
"""
    out = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert set(json.loads(out.stdout)) & set(HEAVY) == set()


def test_help_is_quick(environment: dict[str, str]) -> None:
    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    seconds = []
    for _ in range(5):
        before = used()
        subprocess.run([sys.executable, "-m", "gesso", "--help"], env=environment, capture_output=True, check=True)
        seconds.append(used() - before)
    assert min(seconds) < LIMIT


def test_ctrl_c_ends_a_long_answer_cleanly(environment: dict[str, str], bundled: Path) -> None:
    command = [sys.executable, "-m", "gesso", "generate", "hi", "--model", str(bundled / "mini"), "--seed", "1"]
    process = subprocess.Popen(
        [*command, "--device", "cpu", "--ignore-eos", "--max-new-tokens", "4000"],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )
    assert process.stdout is not None
    first = process.stdout.read(1)  # something is committed
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == b""
    text = (first + out).decode("utf-8")
    assert text.endswith("\n")
    block = load(bundled / "mini", "cpu").generate("hi", seed=1, max_new_tokens=8, ignore_eos=True)
    assert text.startswith(block.text.rstrip("\ufffd"))


def test_a_reader_that_goes_away_is_no_error(environment: dict[str, str]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "gesso", "train", "--help"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    err = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=60), err) == (0, b"")


def test_a_mistake_shows_no_traceback(environment: dict[str, str]) -> None:
    outcome = subprocess.run(
        [sys.executable, "-m", "gesso", "generate", "x", "--seed", "abc"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (outcome.returncode, outcome.stdout, outcome.stderr.count("\n")) == (2, "", 1)
