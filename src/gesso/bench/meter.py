"""Measures peak memory and energy of a stretch of work, as far as the device tells them."""

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import torch

PROC = Path("/proc/self")


class MemoryMeter:
    """Counts the bytes at the peak over what was held when the meter was made.

    On a CPU they are the resident size of the process. What it does not give back counts on, so that a cell may show
    memory that an earlier one asked for.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._held = self._now()
        self.exact = True
        """Whether the peak is that of the work since `start` alone; where the system cannot forget an earlier peak,
        it is that of the process."""

    def start(self) -> None:
        """Forgets what was before."""
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
            return
        try:
            (PROC / "clear_refs").write_text("5")
        except OSError:
            self.exact = False

    def peak(self) -> int:
        """Returns the peak since `start`, in bytes."""
        if self._device.type == "cuda":
            return max(0, torch.cuda.max_memory_allocated(self._device) - self._held)
        return max(0, _highest() - self._held)

    def _now(self) -> int:
        if self._device.type == "cuda":
            return torch.cuda.memory_allocated(self._device)
        if (PROC / "statm").exists():
            return int((PROC / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return _highest()


def _highest() -> int:
    if (PROC / "status").exists():
        line = next(line for line in (PROC / "status").read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


class EnergyMeter:
    """Reads the energy counter of an NVIDIA device, with pynvml where that is installed."""

    def __init__(self, device: torch.device) -> None:
        self._nvml: Any = None
        self._handle: Any = None
        if device.type != "cuda":
            return
        try:
            nvml = importlib.import_module("pynvml")
            nvml.nvmlInit()
            uuid = f"GPU-{torch.cuda.get_device_properties(device).uuid}"
            self._handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
            nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)
        except Exception:  # noqa: BLE001 - no pynvml, no driver, or a device without a counter: no energy is told
            return
        self._nvml = nvml

    def joules(self) -> float | None:
        """Returns the joules since the driver was loaded; None where the device does not tell."""
        if self._nvml is None:
            return None
        return float(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)) / 1e3
