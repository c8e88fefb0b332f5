"""Runs in several processes, quickly: one interpreter imports everything, and its forks meet in a file."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

PARENT = """
import json, os, sys, traceback
import torch
import torch.distributed as dist
from train import {module}

def member(rank, size, meeting, function, arguments):
    dist.init_process_group("gloo", store=dist.FileStore(meeting, size), rank=rank, world_size=size)
    os.environ["WORLD_SIZE"], os.environ["RANK"] = str(size), str(rank)
    getattr({module}, function)(*arguments)

torch.compile = lambda function, **_: function
for number, (size, function, arguments) in enumerate(json.loads(sys.argv[2])):
    members = []
    if not size:
        getattr({module}, function)(*arguments)
    for rank in range(size):
        if not (pid := os.fork()):
            try:
                member(rank, size, os.path.join(sys.argv[1], f"{{number}}.meeting"), function, arguments)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        members.append(pid)
    while members:
        ended, status = os.wait()
        members.remove(ended)
        if status:  # who waits for one that has failed waits for ever: all end with this process
            sys.exit(1)
"""
ENVIRONMENT = os.environ | {
    "PYTHONPATH": os.pathsep.join(sys.path),
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo",
}


Job = tuple[int, str, list[Any]]
"""A number of processes, a function of a module of these tests that each of them calls, and its arguments. Where the
number is 0, the process calls it that later ones are forked from."""


def run_forks(meeting: Path, module: str, *jobs: Job) -> None:
    """Runs jobs one after the other, with functions of `module`; ends with the first that fails."""
    meeting.mkdir()
    command = [sys.executable, "-W", "ignore", "-c", PARENT.format(module=module), str(meeting), json.dumps(jobs)]
    said = meeting / "said"
    with said.open("w") as file:
        parent = subprocess.Popen(command, env=ENVIRONMENT, stdout=file, stderr=file, start_new_session=True)
        try:
            status = parent.wait(timeout=200)
        finally:
            with contextlib.suppress(ProcessLookupError):  # no fork is left, whatever happened
                os.killpg(parent.pid, signal.SIGKILL)
            parent.wait()
    assert status == 0, said.read_text("utf-8")
