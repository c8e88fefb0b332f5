"""Servers that benchmarks measure, each in a process of its own, and the processor time of a process."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def python_server(
    *arguments: str, environment: Mapping[str, str] | None = None, cores: Sequence[int] = ()
) -> Iterator[tuple[str, int]]:
    """A Python process that prints its address when it is up, until the end; yields that and the process id.

    Args:
        environment: in the place of this process's; None for the same.
        cores: which alone it computes on; () for those of this process.

    Raises:
        SystemExit: it printed no address.
    """
    command = [sys.executable, *arguments]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        if cores:
            os.sched_setaffinity(process.pid, cores)
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        if found is None:
            sys.exit(f"{' '.join(command)} did not start")
        yield found[0], process.pid
    finally:
        process.terminate()
        process.wait()


@contextmanager
def gesso_server(
    *arguments: str, environment: Mapping[str, str] | None = None, cores: Sequence[int] = ()
) -> Iterator[tuple[str, int]]:
    """A command of gesso that serves on a free port; see `python_server`."""
    command = ("-m", "gesso", *arguments[:1], "--port", "0", *arguments[1:])
    with python_server(*command, environment=environment, cores=cores) as found:
        yield found


def first_thread_seconds(pid: int) -> float:
    """The time that the first thread of a process has computed, to the nanosecond; all of a router is in it (Linux)."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def processor_seconds(pid: int) -> float:
    """The time that a process has computed, its threads together (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
