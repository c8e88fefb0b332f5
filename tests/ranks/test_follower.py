"""A follower that fails says why: to its leader what its user can mend, on standard error anything else."""

import socket
import subprocess
import sys

import pytest

from gesso.errors import CheckpointError, ImageError, UserError
from gesso.ranks.refusal import Refusal


@pytest.mark.parametrize("error", [CheckpointError("x.weight: bad"), ImageError("no", option="images", hint="yes")])
def test_a_refusal_says_the_error_again(error: UserError) -> None:
    found = Refusal.of(error).error
    assert type(found) is type(error)
    assert (str(found), found.option, found.hint) == (str(error), error.option, error.hint)


def test_what_nobody_foresaw_is_printed_before_the_process_ends() -> None:
    program = "import sys; sys.argv[1:] = ['-1']; from gesso.ranks.follower import run; run(None)"
    ended = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "Traceback" in ended.stderr
    assert "negative file descriptor" in ended.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_signals_to_all_processes_are_the_leader_s() -> None:
    """A terminal sends them to the whole group, and what ends a service to each of its processes."""
    program = """
import signal, sys
from gesso.ranks import follower
def receive(channel):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.raise_signal(number)
follower.receive = receive
follower.run(None)
"""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [sys.executable, "-c", program, str(theirs.fileno())]
        ended = subprocess.run(command, pass_fds=[theirs.fileno()], timeout=60, capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")
