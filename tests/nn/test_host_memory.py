"""Freed memory is kept: no new pages in a steady run. What there is, is counted on every system."""

import ctypes
import os
import platform
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from gesso.nn import host_memory
from gesso.nn.host_memory import available_bytes, total_bytes
from gesso.runner.memory import cache_memory

PASSES = """
import ctypes
import platform
import resource
import torch
from gesso.nn.host_memory import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        parts = [torch.zeros(3 << 20, dtype=torch.uint8) for _ in range(10)]
        del parts
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

if platform.libc_ver()[0] == "glibc":
    ctypes.CDLL(None).mallopt(-1, 1 << 17)  # what glibc begins with, before it has seen large tensors go
faults()
before = faults()
{setting}
faults()
print(before, faults())
"""


def faults(setting: str, **environment: str) -> tuple[int, int]:
    """Pages that a steady run of a process of its own asks for, before and after the setting."""
    code = PASSES.format(setting=setting)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean | environment, capture_output=True, text=True, check=True, timeout=120
    )
    before, after = map(int, done.stdout.split())
    return before, after


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it is glibc that gives memory back")
def test_no_pages_are_asked_for_twice() -> None:
    before, kept = faults("assert keep_freed_memory()")
    assert kept < before / 10


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it is glibc that gives memory back")
def test_what_the_user_set_is_left_alone() -> None:
    before, left = faults("assert not keep_freed_memory()", MALLOC_TRIM_THRESHOLD_="131072")
    assert left > 0.9 * before > 1000


def test_memory_is_counted() -> None:
    assert 0 < available_bytes() <= total_bytes()


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text + "\n", "ascii")
    return folder


NEWER = {"memory.max": "3000", "memory.current": "1500", "memory.stat": "anon 800\ninactive_file 600"}
OLDER = {
    "memory/memory.limit_in_bytes": "3000",
    "memory/memory.usage_in_bytes": "1500",
    "memory/memory.stat": "inactive_file 1\ntotal_inactive_file 600",
}


@pytest.mark.parametrize("files", [NEWER, OLDER], ids=["newer", "older"])
def test_a_container_has_what_it_may_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str]
) -> None:
    bound = host_memory.container_bytes(write(tmp_path, files))
    assert bound == (3000, 900)
    monkeypatch.setattr(host_memory, "container_bytes", lambda: bound)
    assert (total_bytes(), available_bytes()) == (3000, 2100)
    monkeypatch.setattr(host_memory, "container_bytes", lambda: (3000, 3001))  # for a moment
    assert available_bytes() == 0


def test_a_container_without_a_bound_has_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert host_memory.container_bytes(tmp_path / "none") == (None, 0)
    assert host_memory.container_bytes(write(tmp_path, NEWER | {"memory.max": "max"})) == (None, 0)
    monkeypatch.setattr(host_memory, "container_bytes", lambda: (None, 0))
    total = total_bytes()
    monkeypatch.setattr(host_memory, "container_bytes", lambda: (1 << 63, 0))  # what older systems say of no bound
    assert total_bytes() == total > 3000


class Kernel32:
    """Answers as Windows does."""

    def GlobalMemoryStatusEx(self, status: Any) -> int:
        found = status._obj
        assert found.dwLength == ctypes.sizeof(found) == 64
        found.ullTotalPhys, found.ullAvailPhys = 16 << 30, 3 << 30
        return 1


def test_memory_is_counted_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(ctypes, "windll", SimpleNamespace(kernel32=Kernel32()), raising=False)
    monkeypatch.delattr(os, "sysconf")
    assert (total_bytes(), available_bytes()) == (16 << 30, 3 << 30)
    assert cache_memory(torch.device("cpu"), 0) == 4 << 30
