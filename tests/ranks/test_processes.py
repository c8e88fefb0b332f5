"""Processes of ranks outlive the thread that started them, and are set up alike."""

import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.distributed as dist

from gesso.api import load
from gesso.errors import OptionError
from gesso.ranks.processes import Rendezvous, Starter, join, rank_devices

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


def test_ranks_take_the_gpus_from_the_first_one_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    for name in ("cuda", "cuda:0"):
        assert rank_devices(torch.device(name), 2, "tensor_parallel") == ["cuda:0", "cuda:1"]
    with pytest.raises(OptionError, match="takes GPUs from cuda:0 on, not from cuda:1") as refusal:
        rank_devices(torch.device("cuda:1"), 2, "tensor_parallel")
    assert refusal.value.option == "device"
    with pytest.raises(OptionError, match="needs as many GPUs; here are 3"):
        rank_devices(torch.device("cuda"), 4, "tensor_parallel")


@pytest.mark.usefixtures("foreign_files")
def test_ranks_import_no_file_of_the_working_folder() -> None:
    with load("mini", "cpu", tensor_parallel=2) as engine:
        assert engine.generate("What is 4 + 5?", max_new_tokens=4, seed=1).text
