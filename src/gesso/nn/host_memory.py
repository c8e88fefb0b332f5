"""Keeps memory of the host between passes, and counts what there is.

glibc gives the memory of freed tensors back to the system and asks for it anew in the next pass, page by page: up to a
fifth of a pass's time. Told to keep it, it asks once.
"""

import ctypes
import functools
import os
import platform
import sys
from pathlib import Path

KEPT = (1 << 31) - 1
"""Bytes of free memory at the end of the heap that are kept; glibc allows no more."""
APART = 1 << 25
"""Bytes from which on a tensor has memory of its own, given back at once; glibc allows no more."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # <malloc.h>
GROUP = Path("/sys/fs/cgroup")
"""Where Linux bounds what a container may use."""
_GROUP_FILES = (
    ("memory.max", "memory.current", "memory.stat"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
)
"""Files of the bound, of what is used, and of what that is, in the two versions of control groups."""
_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


@functools.cache
def keep_freed_memory() -> bool:
    """Makes the allocator keep freed memory, in the whole process; does nothing where the user has set the allocator,
    or where it is not glibc's.

    Returns:
        Whether it is kept.
    """
    if platform.libc_ver()[0] != "glibc" or any(name in os.environ for name in _SETTINGS):
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(_MMAP_THRESHOLD, APART)) and bool(mallopt(_TRIM_THRESHOLD, KEPT))


def total_bytes() -> int:
    """Counts the bytes of memory that the machine has, or the container may use."""
    if sys.platform == "win32":
        return int(_windows_status().ullTotalPhys)
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(total, container_bytes()[0] or total)


def available_bytes() -> int:
    """Counts the bytes of host memory that can still be had without swapping, in this container where it is one; all
    there are where the system does not say."""
    if sys.platform == "win32":
        return int(_windows_status().ullAvailPhys)
    path, available = Path("/proc/meminfo"), total_bytes()
    if path.exists():
        line = next(line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("MemAvailable"))
        available = min(available, 1024 * int(line.split()[1]))
    limit, used = container_bytes()
    return available if limit is None else min(available, max(0, limit - used))


def container_bytes(group: Path = GROUP) -> tuple[int | None, int]:
    """Reads how many bytes of memory this container may use, None without a bound, and how many it does, files that can
    be read again left out."""
    for bound, usage, kinds in _GROUP_FILES:
        try:
            limit, used = (int((group / name).read_text("ascii")) for name in (bound, usage))
            lines = [line.split() for line in (group / kinds).read_text("ascii").splitlines()]
        except (OSError, ValueError):  # no such file, or "max"
            continue
        kept = {name: int(number) for name, number in lines}
        return limit, used - kept.get("total_inactive_file", kept.get("inactive_file", 0))
    return None, 0


class _WindowsStatus(ctypes.Structure):
    """Holds what Windows says of its memory: `MEMORYSTATUSEX` of <sysinfoapi.h>."""

    _fields_ = (
        ("dwLength", ctypes.c_uint32),
        ("dwMemoryLoad", ctypes.c_uint32),
        ("ullTotalPhys", ctypes.c_uint64),
        ("ullAvailPhys", ctypes.c_uint64),
        ("ullTotalPageFile", ctypes.c_uint64),
        ("ullAvailPageFile", ctypes.c_uint64),
        ("ullTotalVirtual", ctypes.c_uint64),
        ("ullAvailVirtual", ctypes.c_uint64),
        ("ullAvailExtendedVirtual", ctypes.c_uint64),
    )


def _windows_status() -> _WindowsStatus:
    status = _WindowsStatus(dwLength=ctypes.sizeof(_WindowsStatus))
    if sys.platform == "win32" and not ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        raise ctypes.WinError()
    return status
