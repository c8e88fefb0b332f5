"""Runs in several processes, quickly: one interpreter imports everything, and its forks meet in a file."""

import json
import os
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
    for rank in range(size):
        if not (pid := os.fork()):
            try:
                member(rank, size, os.path.join(sys.argv[1], f"{{number}}.meeting"), function, arguments)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        members.append(pid)
    failed = False
    while members:
        ended, status = os.wait()
        members.remove(ended)
        if status and not failed:  # who waits for one that has failed waits for ever
            failed = True
            for pid in members:
                os.kill(pid, 9)
    if failed:
        sys.exit(1)
"""
ENVIRONMENT = os.environ | {
    "PYTHONPATH": os.pathsep.join(sys.path),
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo",
}


def run_forks(meeting: Path, module: str, *jobs: tuple[int, str, list[Any]]) -> None:
    """Runs jobs one after the other, each a number of processes, a function of a module of these tests, and its
    arguments; every process of a job calls the function."""
    meeting.mkdir()
    command = [sys.executable, "-c", PARENT.format(module=module), str(meeting), json.dumps(jobs)]
    done = subprocess.run(command, env=ENVIRONMENT, check=False, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
