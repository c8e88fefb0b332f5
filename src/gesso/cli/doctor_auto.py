"""Tells what `auto` picks on this machine's CPU, for `gesso doctor`."""

import os
from typing import Any


def automatic() -> dict[str, Any]:
    """Tells what `auto` would pick on this machine's CPU, and what that was measured by."""
    import torch

    from gesso.models.device import pick_device
    from gesso.models.dtype import CPU_FLOAT32_BYTES, FREE_SHARE, pick_dtype
    from gesso.nn.bfloat16_products import multiplies_in_float32
    from gesso.nn.cpu_threads import VARIABLES as THREADS
    from gesso.nn.cpu_threads import best_threads
    from gesso.nn.host_memory import available_bytes
    from gesso.nn.matmul_rates import bfloat16_speed

    cpu, large = torch.device("cpu"), CPU_FLOAT32_BYTES // 4 + 1
    own = any(name in os.environ for name in THREADS)
    return {
        "device": pick_device("auto").type,
        "threads": torch.get_num_threads() if own else min(best_threads(), torch.get_num_threads()),
        "bfloat16_speed": round(bfloat16_speed(), 2),
        "bfloat16_in_float32": multiplies_in_float32(),
        "dtype": {
            "small_or_packed": str(pick_dtype("auto", cpu)).removeprefix("torch."),
            "large": str(pick_dtype("auto", cpu, large)).removeprefix("torch."),
        },
        "large_from_bytes": CPU_FLOAT32_BYTES,
        "float32_up_to_bytes": max(CPU_FLOAT32_BYTES, int(FREE_SHARE * available_bytes())),
    }


def automatic_rows(auto: dict[str, Any]) -> dict[str, str]:
    """Puts what `automatic` found into words, by name."""
    speed = f"bfloat16 matmuls are {auto['bfloat16_speed']:.2f} times as fast as float32"
    if auto["bfloat16_in_float32"]:
        speed += ", so gesso's kernels multiply bfloat16 weights in float32"
    small, large = auto["dtype"]["small_or_packed"], auto["dtype"]["large"]
    if large == "float32":
        dtype = f"{small} on the CPU while it takes at most {auto['float32_up_to_bytes'] / 1e9:.1f} GB, then bfloat16"
    else:
        dtype = f"{small} on the CPU, {large} where that takes over {auto['large_from_bytes'] / 1e9:.0f} GB"
    return {
        "device": auto["device"],
        "threads": f"{auto['threads']} on the CPU: performance cores within this process's share",
        "dtype": f"{dtype}: {speed}",
        "mode": "by the costs of a step and of a token, measured of each model",
    }
