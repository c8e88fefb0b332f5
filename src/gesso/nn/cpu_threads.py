"""Chooses how many threads a CPU's matmuls take: one for each core that is as fast as the fastest, and no more than may
run at once.

PyTorch takes one for each logical processor that it may run on. Two that share a core share its arithmetic, a slow core
of a hybrid processor holds up all the others, and in a container that is given two processors' time of sixty-four
threads wait for each other.
"""

import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import torch

from gesso.load_options import LoadOptions
from gesso.options import options_of

SYSTEM, GROUP = Path("/sys/devices"), Path("/sys/fs/cgroup/cpu.max")
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables by which a user decides; then nothing is chosen."""

_decided = False


def decide(threads: int | None) -> None:
    """Takes so many threads, because the user says so: `use_performance_cores` lets them be. None says nothing.

    Raises:
        OptionError: none, or so many that libraries would end the process.
    """
    if threads is None:
        return
    threads = options_of(LoadOptions)["threads"].check(threads)
    global _decided  # noqa: PLW0603 - as PyTorch's own number is the process's
    _decided = True
    torch.set_num_threads(threads)


def use_performance_cores() -> None:
    """Takes `best_threads` where PyTorch would take more; neither user nor environment may have decided."""
    if _decided or any(name in os.environ for name in VARIABLES):
        return
    best = best_threads()
    if best < torch.get_num_threads():
        torch.set_num_threads(best)


def best_threads() -> int:
    """Counts the performance cores that this process may use, by what the system says of them, or fewer where its share
    of processor time is less."""
    allowed = allowed_cpus()
    cores = _apple_cores() if sys.platform == "darwin" else performance_cores(allowed)
    return max(1, min(cores or len(allowed), quota() or len(allowed)))


def allowed_cpus() -> set[int]:
    """Returns the logical processors that this process may compute on; all of the machine where the system does not
    say."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def performance_cores(allowed: Collection[int], system: Path = SYSTEM) -> int:
    """Counts the fastest cores among logical processors, each once.

    Args:
        system: where Linux describes processors: Intel's `cpu_core/cpus`, ARM's `cpu_capacity`, and which share a core.
    """
    fast = _listed(system / "cpu_core" / "cpus") & set(allowed) or set(allowed)
    strength = {cpu: _number(system / "cpu" / f"cpu{cpu}" / "cpu_capacity") or 0 for cpu in fast}
    top = max(strength.values(), default=0)
    # A core that is nearly as strong as the strongest (a "prime" one) counts, too.
    cores = {cpu for cpu in fast if 2 * strength[cpu] > top or not top}
    topology = {cpu: system / "cpu" / f"cpu{cpu}" / "topology" / "thread_siblings_list" for cpu in cores}
    return len({min(_listed(path) & set(allowed), default=cpu) for cpu, path in topology.items()})


def quota(path: Path = GROUP) -> int | None:
    """Reads how many processors' time this container may use, rounded up; None without a bound."""
    try:
        share, period = path.read_text("ascii").split()[:2]
        return -(-int(share) // int(period))
    except (OSError, ValueError):  # no such file, or "max"
        return None


def _listed(path: Path) -> set[int]:
    """Reads numbers such as `0-3,8`; an empty set where there is no such file."""
    try:
        ranges = [part.split("-") for part in path.read_text("ascii").strip().split(",") if part]
        return {number for part in ranges for number in range(int(part[0]), int(part[-1]) + 1)}
    except (OSError, ValueError):
        return set()


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text("ascii"))
    except (OSError, ValueError):
        return None


def _apple_cores() -> int | None:
    asked = ["/usr/sbin/sysctl", "-n", "hw.perflevel0.physicalcpu"]
    try:
        return int(subprocess.run(asked, capture_output=True, text=True, check=True, timeout=5).stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
