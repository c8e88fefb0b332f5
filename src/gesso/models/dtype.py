"""Chooses the dtype that a model is loaded in."""

import torch

from gesso.errors import OptionError
from gesso.nn.host_memory import available_bytes
from gesso.nn.matmul_rates import bfloat16_speed

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
CPU_FLOAT32_BYTES = 4 * 10**9
"""Bytes up to which fp32 is taken whatever is faster, so that small models say the same on every CPU."""
FREE_SHARE = 0.7
"""Share of the free memory that fp32 weights may take: caches and passes need the rest."""


def dtype_name(dtype: str | torch.dtype) -> str:
    """Returns the name of a dtype, which may be PyTorch's own: `float32` of `torch.float32`."""
    return str(dtype).removeprefix("torch.")


def pick_dtype(name: str, device: torch.device, parameters: int = 0) -> torch.dtype:
    """Resolves the name of a dtype: `auto` is float32 on the CPU where what is not packed takes up to
    `CPU_FLOAT32_BYTES` then, or up to `FREE_SHARE` of the memory that is free if this CPU's matmuls in bfloat16 are
    measured to be slower than in fp32; else it is bfloat16.

    Args:
        parameters: numbers of the model that are not packed.

    Raises:
        OptionError: the dtype does not exist.
    """
    if name == "auto":
        name = "float32" if device.type == "cpu" and _prefers_float32(4 * parameters) else "bfloat16"
    if name not in DTYPES:
        raise OptionError(f"dtype {name!r} does not exist; known: auto, {', '.join(DTYPES)}", option="dtype")
    return DTYPES[name]


def _prefers_float32(needed: int) -> bool:
    """Says whether a CPU holds what is not packed in fp32, in which it takes `needed` bytes."""
    if needed <= CPU_FLOAT32_BYTES:
        return True
    return needed <= FREE_SHARE * available_bytes() and bfloat16_speed() < 1
