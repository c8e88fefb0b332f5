"""Implements `gesso doctor`: what this machine has, what it can do, and what is missing."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gesso.cli import options as opt
from gesso.cli.doctor_parts import NEEDED, missing_parts, version_of
from gesso.cli.output import format_bytes, print_table

if TYPE_CHECKING:
    import torch

VARIABLES = (
    "CUDA_VISIBLE_DEVICES", "GESSO_IMPORT", "GESSO_KERNEL_CACHE", "HF_ENDPOINT", "HF_HOME", "HF_HUB_CACHE",
    "HF_HUB_OFFLINE", "MKL_NUM_THREADS", "OMP_NUM_THREADS",
    "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SDK_DISABLED", "OTEL_SERVICE_NAME",
    "OTEL_TRACES_EXPORTER", "OTEL_TRACES_SAMPLER", "PYTORCH_CUDA_ALLOC_CONF",
)  # fmt: skip
"""Environment variables that change how gesso works."""
MATMUL = {"cpu": 512, "mps": 2048, "cuda": 4096}
"""Rows and columns of the matrices that are multiplied, by kind of device."""
BUSY = 0.5
"""Processes that wanted the CPU in the last minute, over its cores, from which on its rates say little."""
SECONDS = 0.1
"""Seconds for which a rate is measured, and longer by the call that exceeds them."""


def doctor(as_json: opt.AsJsonLine = False) -> None:
    """Show versions, devices, measured rates and caches, and how to install what is missing."""
    from gesso.cli.output import print_json
    from gesso.cli.progress import working

    with working("asking the machine"):
        facts = examine()
    if as_json:
        print_json(facts)
    else:
        _show(facts)


def examine() -> dict[str, Any]:
    """Collects all that `gesso doctor` tells. Sizes are bytes, rates are per second."""
    import platform

    import torch

    from gesso.bench.machine import describe_machine
    from gesso.cli.doctor_auto import automatic

    machine = describe_machine(torch.device("cpu"))
    return {
        "versions": {"python": platform.python_version(), "gesso": version_of("gesso")}
        | {package: version_of(package) for package in NEEDED}
        | {"transformers": version_of("transformers")},
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": {
            "name": machine["cpu"],
            "cores": machine["cores"],
            "threads": machine["threads"],
            "load": machine["load"],
            "instructions": torch.backends.cpu.get_cpu_capability(),
            "packed_weights": _byte_products(),
        },
        "auto": automatic(),
        "devices": [_device(torch.device(name)) for name in _devices()],
        "caches": _caches(),
        "environment": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "missing": missing_parts(),
    }


def _byte_products() -> str | None:
    """Returns how packed weights are multiplied on the CPU; None where they are turned back first."""
    from gesso.kernels import host

    if not host.available():
        return None
    from gesso.kernels.host.library import best_dot

    return best_dot()


def _devices() -> list[str]:
    import torch

    found = [f"cuda:{index}" for index in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    return found + (["mps"] if torch.backends.mps.is_available() else []) + ["cpu"]


def _device(device: "torch.device") -> dict[str, Any]:
    import torch

    from gesso.bench.machine import free_bytes
    from gesso.models.dtype import DTYPES
    from gesso.nn.host_memory import total_bytes

    name, total = device.type, None
    if device.type == "cuda":
        found = torch.cuda.get_device_properties(device)
        name, total = f"{found.name}, compute capability {found.major}.{found.minor}", found.total_memory
    elif device.type == "cpu":
        total = total_bytes()
    rates = {dtype_name: _operations(device, dtype) for dtype_name, dtype in DTYPES.items()}
    return {
        "device": str(device),
        "name": name,
        "memory": total,
        "free": free_bytes(device),
        "matmul_operations": rates,
        "link": _link(device),
    }


def _operations(device: "torch.device", dtype: "torch.dtype") -> float | None:
    """Multiplications and additions a second of a product of square matrices; None where there is no such product."""
    import torch

    from gesso.bench.machine import synchronise

    size = MATMUL[device.type]
    try:
        left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
        torch.mm(left, right)
        synchronise(device)
        best, until = float("inf"), time.perf_counter() + SECONDS
        while time.perf_counter() < until:
            started = time.perf_counter()
            torch.mm(left, right)
            synchronise(device)
            best = min(best, time.perf_counter() - started)
    except (RuntimeError, TypeError):
        return None
    return 2 * size**3 / best


def _link(device: "torch.device") -> float | None:
    """Bytes a second from pinned host memory to a GPU, which offloading lives by; None for other devices."""
    if device.type != "cuda":
        return None
    from gesso.nn.device_store import CudaStore

    return CudaStore(device).rate()


def _caches() -> dict[str, Any]:
    from huggingface_hub import constants, get_token

    from gesso.kernels.host import object_cache

    path, kernels = Path(constants.HF_HUB_CACHE), object_cache.folder()
    return {
        "hub": str(path),
        "bytes": folder_size(path),
        "logged_in": get_token() is not None,
        "kernels": None if kernels is None else str(kernels),
        "kernel_bytes": 0 if kernels is None else folder_size(kernels),
    }


def folder_size(path: Path) -> int:
    """Counts the bytes of the files below a folder, each once; 0 where there is none."""
    size, seen = 0, set()
    for folder, _, files in os.walk(path):
        for name in files:
            try:
                found = (Path(folder) / name).lstat()
            except OSError:
                continue
            if (found.st_dev, found.st_ino) not in seen:
                seen.add((found.st_dev, found.st_ino))
                size += found.st_size
    return size


def _show(facts: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from gesso.cli.doctor_auto import automatic_rows

    console = Console(highlight=False)

    def section(title: str, rows: dict[str, str]) -> None:
        table = Table(box=None, show_header=False, pad_edge=False)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in rows.items():
            table.add_row(Text(f"  {name}"), Text(value))
        console.print(Text(title, "bold"))
        print_table(console, table)

    section("versions", {name: found or "not installed" for name, found in facts["versions"].items()})
    cpu = facts["cpu"]
    products = f"packed weights: {cpu['packed_weights'] or 'dequantized'}"
    processor = f"{cpu['name']}, {cpu['cores']} cores, {cpu['threads']} threads, {cpu['instructions']}, {products}"
    rows = {"system": facts["system"], "processor": processor}
    if (load := cpu["load"]) is not None and load > BUSY * cpu["cores"]:
        rows["busy"] = f"a load of {load:g} in the last minute: rates and what rests on them are what others left"
    section("machine", rows)
    section("what auto picks", automatic_rows(facts["auto"]))
    for device in facts["devices"]:
        rates = device["matmul_operations"].items()
        total = "" if device["memory"] is None else f" of {format_bytes(device['memory'])}"
        rows = {"memory": f"{format_bytes(device['free'])}{total} free"}
        rows |= {name: "no matmul" if rate is None else f"{_rate(rate)} matmul" for name, rate in rates}
        if device["link"] is not None:
            rows["link"] = f"{device['link'] / 1e9:,.1f} GB/s from host memory"
        section(f"device {device['device']}" + (f" ({device['name']})" if ":" in device["device"] else ""), rows)
    caches = facts["caches"]
    token = "a token is stored" if caches["logged_in"] else "no token; private and gated models need hf auth login"
    section("Hugging Face", {"cache": f"{caches['hub']} ({format_bytes(caches['bytes'])})", "login": token})
    kept = caches["kernels"]
    kernels = (
        "none: they are compiled in every process"
        if kept is None
        else f"{kept} ({format_bytes(caches['kernel_bytes'])})"
    )
    section("compiled kernels", {"cache": kernels})
    if facts["environment"]:
        section("environment", facts["environment"])
    missing = sorted(facts["missing"], key=lambda part: not part["in_all"])
    if not any(part["in_all"] for part in missing):
        console.print(Text(f"every optional part{' of gesso[all]' if missing else ''} is installed"))
    for part in missing:
        head = ("missing: ", "bold yellow") if part["in_all"] else ("left out: ", "dim")
        console.print(Text.assemble(head, f"{', '.join(part['packages'])} ({part['for']})"))
        console.print(Text(f"  {part['install']}"), soft_wrap=True)


def _rate(operations: float) -> str:
    return f"{operations / 1e12:,.1f} TFLOP/s" if operations >= 1e12 else f"{operations / 1e9:,.1f} GFLOP/s"
