"""Processes of ranks outlive the thread that started them, and are set up alike."""

import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.distributed as dist

from gesso.ranks.processes import Rendezvous, Starter, join

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


@pytest.mark.parametrize("rank", [0, 1])
def test_no_rank_on_a_gpu_has_cudnn_attend(rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    devices, uses = [], [True]
    monkeypatch.setattr(torch.cuda, "set_device", devices.append)
    monkeypatch.setattr(torch.backends.cuda, "enable_cudnn_sdp", uses.append)
    monkeypatch.setattr(dist, "init_process_group", lambda *_, **__: None)
    join(Rendezvous("ranks", rank, 2, f"cuda:{rank}", 1.0, 1, "model", "bfloat16", None, ring=False))
    assert devices == [torch.device("cuda", rank)]
    assert uses[-1] is False
