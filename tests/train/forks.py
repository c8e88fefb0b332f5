"""Runs in several processes, quickly: they are forks of one interpreter with all imports, and meet in a file."""

import faulthandler
import importlib
import multiprocessing
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import connection, forkserver
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist

ENVIRONMENT = os.environ | {
    "PYTHONPATH": os.pathsep.join(sys.path),
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo",
}
SECONDS = 200
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["train.runs", "train.context_runs", "train.expert_runs", "torch._dynamo", "torchao.optim"]
)

Job = tuple[int, str, list[Any]]
"""A number of processes, a function of a module of these tests that each of them calls, and its arguments."""


def member(rank: int, size: int, meeting: Path, module: str, function: str, arguments: list[Any]) -> None:
    """Calls the function as one of the processes; what it raises, or where it crashes, is told in a file beside
    `meeting`."""
    said = meeting.with_name(f"{meeting.name}.{rank}").open("w", encoding="utf-8")
    faulthandler.enable(said)
    warnings.simplefilter("ignore")
    torch.compile = lambda function, **_: function  # it takes longer here than the steps
    os.environ["WORLD_SIZE"], os.environ["RANK"] = str(size), str(rank)
    try:
        store = dist.FileStore(str(meeting), size)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
        getattr(importlib.import_module(f"train.{module}"), function)(*arguments)
    except BaseException:
        traceback.print_exc(file=said)
        said.flush()
        os._exit(1)
    os._exit(0)


def start_interpreter() -> None:
    """Starts the interpreter that is forked, where there is none yet."""
    with mock.patch.dict(os.environ, ENVIRONMENT):
        forkserver.ensure_running()


def start_fork(function: Callable[..., None], *arguments: Any) -> ForkServerProcess:
    """Starts one process that calls a function of a module of these tests."""
    start_interpreter()
    process = CONTEXT.Process(target=function, args=arguments)
    process.start()
    return process


def run_forks(meeting: Path, module: str, *jobs: Job) -> None:
    """Runs jobs one after the other, with functions of `module`; ends with the first that fails."""
    meeting.mkdir()
    start_interpreter()
    for number, (size, function, arguments) in enumerate(jobs):
        place = meeting / f"{number}.meeting"
        with started([(rank, size, place, module, function, arguments) for rank in range(size)]) as members:
            deadline = time.monotonic() + SECONDS
            left = {process.sentinel: process for process in members}
            while left:
                ended = connection.wait(list(left), timeout=deadline - time.monotonic())
                assert ended, f"job {number} takes longer than {SECONDS} s"
                for sentinel in ended:
                    process = left.pop(sentinel)
                    process.join()
                    # Who waits for one that has failed waits for ever.
                    assert process.exitcode == 0, "\n".join(
                        said.read_text("utf-8") for said in meeting.glob("*.meeting.*")
                    )


@contextmanager
def started(members: list[tuple[Any, ...]]) -> Iterator[list[ForkServerProcess]]:
    """Starts processes; at the end none is left, whatever happened."""
    processes = [CONTEXT.Process(target=member, args=arguments) for arguments in members]
    try:
        for process in processes:
            process.start()
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.join()
