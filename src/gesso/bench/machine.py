"""Describes the machine and measures how fast it reads and multiplies."""

import os
import platform
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from gesso.bench.floor import Rates
from gesso.config import ModelConfig
from gesso.nn.cpu_threads import allowed_cpus
from gesso.nn.host_memory import available_bytes
from gesso.nn.linear import linear

CPU_BUFFER, BUFFER = 2**28, 2**30
"""Bytes that are read to measure the bandwidth: far more than a cache holds."""
WIDEST = 1 << 16
"""Rows of the table that a measured matmul has at most."""
TRIALS, LEAST_SECONDS = 7, 0.005


def synchronise(device: torch.device) -> None:
    """Waits until the device has done all it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def describe_machine(device: torch.device) -> dict[str, Any]:
    """Describes what a reader of the figures needs to know, without names of hosts or users."""
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "cpu": _cpu(),
        "cores": len(allowed_cpus()),
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "torch": str(torch.__version__),
    }


def _cpu() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def free_bytes(device: torch.device) -> int:
    """Counts the bytes of memory that can still be had on the device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    if device.type == "mps":
        return int(torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory())
    return available_bytes()


@torch.inference_mode()
def measure_rates(config: ModelConfig, rows: int, dtype: torch.dtype, device: torch.device) -> Rates:
    """Measures the best of a large sum and a large copy, and the best matmul of `rows` tokens with a matrix of the
    model."""
    size, mlp, expert = config.hidden_size, config.intermediate_size, config.moe_intermediate_size
    shapes = {(size, mlp), (mlp, size), (size, 2 * expert), (expert, size), (size, min(config.vocab_size, WIDEST))}
    for layer in config.layers:
        heads = config.num_attention_heads * layer.head_dim
        shapes |= {(size, heads), (heads, size)}
    operations = 0.0
    for inner, out in sorted(shapes):
        x = torch.randn(rows, inner, device=device, dtype=dtype)
        weight = torch.randn(out, inner, device=device, dtype=dtype)
        seconds = _fastest(partial(linear, x, weight), device)
        operations = max(operations, 2 * rows * inner * out / seconds)
    source = torch.ones((CPU_BUFFER if device.type == "cpu" else BUFFER) // 4, device=device)
    target = torch.empty_like(source)
    summed = source.nbytes / _fastest(source.sum, device)
    copied = 2 * source.nbytes / _fastest(lambda: target.copy_(source), device)
    return Rates(bytes=max(summed, copied), operations=operations)


def _fastest(work: Callable[[], object], device: torch.device) -> float:
    """Seconds of one call, the best of several trials of as many calls as a clock can tell apart."""

    def trial(calls: int) -> float:
        synchronise(device)
        started = time.perf_counter()
        for _ in range(calls):
            work()
        synchronise(device)
        return time.perf_counter() - started

    calls = 1
    while trial(calls) < LEAST_SECONDS:
        calls *= 2
    return min(trial(calls) for _ in range(TRIALS)) / calls
