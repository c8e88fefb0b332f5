import sys
from types import SimpleNamespace

import pytest
import torch

from gesso.bench import meter
from gesso.bench.meter import EnergyMeter, MemoryMeter

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)


def test_memory_before_the_start_is_forgotten() -> None:
    memory, size = MemoryMeter(CPU), 200 * 2**20
    memory.start()
    torch.ones(size // 4)
    assert 0.9 * size < memory.peak() < 2 * size
    memory.start()
    assert memory.peak() < 0.5 * size or not memory.exact


def test_a_peak_that_cannot_be_forgotten_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "PROC", meter.PROC / "nowhere")
    memory = MemoryMeter(CPU)
    memory.start()
    assert not memory.exact
    assert memory.peak() >= 0


def test_on_a_gpu_what_was_held_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 100)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", started.append)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _: 170)
    memory = MemoryMeter(CUDA)
    memory.start()
    assert (memory.peak(), memory.exact, started) == (70, True, [CUDA])


def test_energy_is_told_where_there_is_a_counter(monkeypatch: pytest.MonkeyPatch) -> None:
    assert EnergyMeter(CPU).joules() is None
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(uuid="12-34"))
    monkeypatch.setitem(sys.modules, "pynvml", None)  # not installed
    assert EnergyMeter(CUDA).joules() is None
    nvml = SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
        nvmlDeviceGetTotalEnergyConsumption=lambda handle: {"GPU-12-34": 2500}[handle],
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert EnergyMeter(CUDA).joules() == 2.5
    nvml.nvmlDeviceGetTotalEnergyConsumption = lambda handle: 1 / 0  # a device without a counter
    assert EnergyMeter(CUDA).joules() is None
