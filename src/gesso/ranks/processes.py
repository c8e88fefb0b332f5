"""Starts the ranks of one model on this machine, and ends them."""

import atexit
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from queue import SimpleQueue

import torch
import torch.distributed as dist

from gesso.errors import OptionError, RankLostError
from gesso.models.device import avoid_cudnn_attention
from gesso.options.user_code import path_flags
from gesso.ranks.group import RankGroup, receive, send
from gesso.ranks.refusal import Refusal

CHECK = "GESSO_CHECK_RANKS"
"""Variable of the environment that has the ranks compare what they decide."""
LOADING_SECONDS = 1800.0
"""Seconds within which every rank must have read its part."""


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Tells a rank where it meets the others and what it loads."""

    file: str
    rank: int
    size: int
    device: str
    seconds: float
    threads: int
    folder: str
    dtype: str
    adapter: str | None
    """Folder of an adapter that is merged into the weights."""
    ring: bool
    """Whether ranks send to the next one, and the last to the first."""


def join(plan: Rendezvous) -> RankGroup:
    """Joins the process group; all ranks call this together.

    Raises:
        RankLostError: another rank did not come.
    """
    device = torch.device(plan.device)
    avoid_cudnn_attention(device)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    else:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    limit, back = timedelta(seconds=plan.seconds), None
    try:
        dist.init_process_group(
            "nccl" if device.type == "cuda" else "gloo",
            init_method=f"file://{plan.file}",
            rank=plan.rank,
            world_size=plan.size,
            timeout=limit,
        )
        if plan.ring:
            back = dist.new_group(timeout=limit)
    except RuntimeError as error:
        raise RankLostError(f"rank {plan.rank} of {plan.size} could not join the others: {error}") from error
    return RankGroup(plan.rank, plan.size, device, checks=bool(os.environ.get(CHECK)), back=back)


def rank_devices(device: torch.device, size: int, option: str) -> list[str]:
    """Returns the device of each rank: a GPU for each, or the CPU for all.

    Args:
        option: which asks for so many ranks.

    Raises:
        OptionError: too few GPUs, one to begin with that is not the first, or a device that has no collectives.
    """
    if device.type == "cpu":
        return ["cpu"] * size
    if device.type != "cuda":
        raise OptionError(f"{option} runs on CUDA or on the CPU, not on {device}", option=option)
    if device.index:
        raise OptionError(
            f"{option} takes GPUs from cuda:0 on, not from {device}: leave its number out", option="device"
        )
    if (count := torch.cuda.device_count()) < size:
        raise OptionError(f"{option} {size} needs as many GPUs; here are {count}", option=option)
    return [f"cuda:{rank}" for rank in range(size)]


class Starter:
    """Starts processes from one thread that lives as long as this process does.

    Linux ends a follower with the thread that has started it (see `gesso.ranks.follower`), and a thread that loads a
    model may end long before the model is done with.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = SimpleQueue[tuple[Sequence[str], int, "Future[subprocess.Popen[bytes]]"]]()
        self._thread: threading.Thread | None = None

    def start(self, command: Sequence[str], number: int) -> subprocess.Popen[bytes]:
        """Starts a process that inherits one open file.

        Args:
            number: of the file.

        Raises:
            OSError: the system starts none.
        """
        with self._lock:
            if self._thread is None or not self._thread.is_alive():  # it is not in a fork of this process
                self._thread = threading.Thread(target=self._run, name="gesso-starter", daemon=True)
                self._thread.start()
        started = Future[subprocess.Popen[bytes]]()
        self._asked.put((command, number, started))
        return started.result()

    def _run(self) -> None:
        while True:
            command, number, started = self._asked.get()
            try:
                started.set_result(subprocess.Popen(command, pass_fds=[number]))
            except BaseException as error:
                started.set_exception(error)


_STARTER = Starter()


class RankProcesses:
    """Holds the processes of the followers.

    Life cycle: made, `start` joins them to this process, `wait` until all have loaded, `close` ends them; the end of
    this process ends them too.
    """

    def __init__(
        self,
        module: str,
        folder: Path,
        dtype: str,
        adapter: str | None,
        device: torch.device,
        size: int,
        seconds: float,
        *,
        option: str,
        ring: bool = False,
    ) -> None:
        """
        Args:
            module: that a follower runs.
            seconds: within which a rank must answer while something is computed.
            option: which asks for so many ranks.
            ring: whether ranks send to the next one, and the last to the first.

        Raises:
            OptionError: there are not so many devices, or this process has ranks already.
        """
        if dist.is_initialized():
            raise OptionError("this process computes another model over ranks already", option=option)
        self._devices = rank_devices(device, size, option)
        self._module, self._seconds = module, seconds
        self._plan = (str(folder), dtype, adapter, ring)
        self._channels: list[socket.socket] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._folder = tempfile.TemporaryDirectory(prefix="gesso-ranks-")

    @property
    def running(self) -> bool:
        """Says whether every follower is there; one that hangs is."""
        return bool(self._processes) and all(process.poll() is None for process in self._processes)

    @property
    def pids(self) -> list[int]:
        """Returns the process ids of the followers, by rank from 1 on."""
        return [process.pid for process in self._processes]

    def start(self) -> RankGroup:
        """Starts the followers and joins them as rank 0.

        Raises:
            RankLostError: one of them ended before it had joined.
        """
        size = len(self._devices)
        threads = max(1, torch.get_num_threads() // size) if self._devices[0] == "cpu" else torch.get_num_threads()
        plans = [
            Rendezvous(str(Path(self._folder.name) / "ranks"), rank, size, device, self._seconds, threads, *self._plan)
            for rank, device in enumerate(self._devices)
        ]
        atexit.register(self.close)
        for plan in plans[1:]:
            ours, theirs = socket.socketpair()
            with theirs:
                command = [sys.executable, *path_flags(), "-m", self._module, str(theirs.fileno())]
                self._processes.append(_STARTER.start(command, theirs.fileno()))
            ours.settimeout(LOADING_SECONDS)
            self._channels.append(ours)
            send(ours, plan)
        torch.set_num_threads(threads)
        # Whoever meets waits only so long: everybody is up first.
        self._hear("ended before it had joined")
        for channel in self._channels:
            channel.settimeout(self._seconds)
            send(channel, None)
        group = join(plans[0])
        group.followers = self._channels
        return group

    def wait(self) -> list[int]:
        """Waits until every follower has loaded its part; returns how many numbers each of them holds.

        Raises:
            UserError: one cannot load its part, and says why.
            RankLostError: one has ended.
        """
        for channel in self._channels:
            channel.settimeout(LOADING_SECONDS)
        counts = self._hear("ended while it loaded its part")
        for channel in self._channels:
            channel.settimeout(self._seconds)
        return counts

    def _hear(self, failure: str) -> list[int]:
        """Waits for a number from every follower."""
        found = []
        for rank, channel in enumerate(self._channels, start=1):
            number = receive(channel)
            if number is None:
                raise RankLostError(f"rank {rank} of {len(self._devices)} {failure}")
            if isinstance(number, Refusal):
                raise number.error
            found.append(number)
        return found

    def close(self) -> None:
        """Ends the followers, hung ones too, and leaves the process group."""
        for channel in self._channels:
            channel.close()
        for process in self._processes:
            process.kill()
            process.wait()
        self._channels, self._processes = [], []
        if dist.is_initialized():
            with contextlib.suppress(RuntimeError):
                dist.destroy_process_group()
        self._folder.cleanup()
        atexit.unregister(self.close)
