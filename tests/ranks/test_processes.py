"""Processes of ranks outlive the thread that started them."""

import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from gesso.ranks.processes import Starter

CHILD = """
import ctypes, os, signal, socket, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
channel = socket.socket(fileno=int(sys.argv[1]))
channel.sendall(b"up")
channel.recv(1)
channel.sendall(b"on")
"""
"""Asks to end with who has started it, as a follower does, and answers once more when it is asked to."""


def test_a_process_goes_on_when_the_thread_that_asked_for_it_ends() -> None:
    starter = Starter()
    ours, theirs = socket.socketpair()
    ours.settimeout(60)
    with ours, theirs:
        with ThreadPoolExecutor(1) as pool:
            command = [sys.executable, "-c", CHILD, str(theirs.fileno())]
            process = pool.submit(starter.start, command, theirs.fileno()).result()
            assert ours.recv(2) == b"up"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        ours.sendall(b"?")
        assert ours.recv(2) == b"on"
        assert process.wait(60) == 0


def test_what_cannot_be_started_is_told_and_the_next_one_starts() -> None:
    starter = Starter()
    null = os.open(os.devnull, os.O_RDONLY)
    try:
        with pytest.raises(FileNotFoundError):
            starter.start(["/nowhere/python"], null)
        assert starter.start([sys.executable, "-c", ""], null).wait(60) == 0
    finally:
        os.close(null)
