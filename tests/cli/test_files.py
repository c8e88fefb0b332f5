"""Input without an end is refused, and so is what has no place to be written in."""

import os
import sys
from pathlib import Path

import pytest
from engine.tiny import reciter

from cli.conftest import Gesso
from gesso import api
from gesso.cli.app import run


def address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux for the memory in use")
@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["generate"], "the prompt on standard input is longer than 67,108,864 characters"),
        (["edit", "-", "x"], "standard input is longer than 67,108,864 bytes"),
        (["fill", "/dev/zero"], "/dev/zero is longer than 67,108,864 bytes"),
        (["chat"], "a line of standard input is longer than 67,108,864 characters"),
    ],
)
def test_input_without_an_end_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str], told: str
) -> None:
    resource = pytest.importorskip("resource", reason="nothing bounds memory here")
    model = reciter("fig")
    monkeypatch.setattr(api, "load", lambda *_, **__: model)
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (address_space() + 2**30, before[1]))  # else it would take all there is
    try:
        with Path("/dev/zero").open(encoding="utf-8") as endless:
            monkeypatch.setattr(sys, "stdin", endless)
            code = run(command)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert (code, capsys.readouterr().err) == (2, f"gesso: {told}\n")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no such pipes here")
@pytest.mark.parametrize("command", [["fill"], ["edit", "x"]])
def test_a_pipe_has_no_place(gesso: Gesso, tmp_path: Path, command: list[str]) -> None:
    """It is not waited for either."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    outcome = gesso(command[0], pipe, *command[1:], "--in-place")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == f"gesso: --in-place needs a file: {pipe} is a pipe or a device\n"
