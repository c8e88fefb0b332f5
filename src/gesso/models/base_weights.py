"""Tells whether an adapter was trained on the weights that it is put on.

A name does not tell: folders are moved, and copies in fewer bits have the same base. So an adapter's file keeps a few
numbers of its base's weights, and they are compared up to what rounding to 16 bits makes of them. Norms behind a branch
are stored whole in every quantized checkpoint, calibrated ones too, and routers in all but GGUF files; matrices are
compared where both are whole, which tells a model from what was merged or trained from it.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from gesso.models.gguf.names import is_gguf
from gesso.models.loading import read_model_config, stored_quantization, weight_files
from gesso.models.state_dict_adapter import to_hf
from gesso.models.tensors import read_tensor

METADATA = "gesso_base"
"""Key of the numbers in the metadata of an adapter's file, where other programs do not meet them."""
_NORMS = ("post_attention_norm.weight",)
_ROUTERS = ("router.proj.weight",)
_MATRICES = ("attention.q_proj.weight", "attention.o_proj.weight", "mlp.down_proj.weight")
_NUMBERS = 32
"""Numbers that are kept of a tensor, evenly spread."""
_TOLERANCE = 0.01
"""Relative difference (2-norm) up to which they are the same; rounding to bfloat16 makes 0.004 at most."""

Numbers = dict[str, list[float]]
"""A few numbers of some tensors, by Hugging Face name."""


def numbers_of(folder: Path) -> Numbers:
    """Returns a few numbers of the weights in a folder.

    Raises:
        CheckpointError, ConfigError: they cannot be read.
    """
    last = len(read_model_config(folder).layers) - 1
    files = weight_files(folder)
    parts: tuple[str, ...] = _NORMS
    if not any(is_gguf(path) for path in files.values()):
        parts += _ROUTERS if stored_quantization(folder) is not None else _ROUTERS + _MATRICES
    names = ["norm.weight", *(f"layers.{layer}.{part}" for layer in sorted({0, last // 2, last}) for part in parts)]
    return {name: _some(name, files[name]) for name in map(to_hf, names) if name in files}


def _some(name: str, path: Path) -> list[float]:
    flat = read_tensor(name, path).flatten()
    # In fp32, as ever: adapters hold the numbers of these places. Its last one may be rounded up, past the end.
    places = torch.linspace(0, len(flat) - 1, min(_NUMBERS, len(flat))).long().clamp_(max=len(flat) - 1)
    return [float(f"{number:.5g}") for number in flat[places].tolist()]


def describe(numbers: Numbers) -> dict[str, str]:
    """Returns the metadata of an adapter's file that keeps the numbers of its base; empty without any."""
    return {METADATA: json.dumps(numbers)} if numbers else {}


def differs(adapter: Path, folder: Path) -> bool:
    """Says whether an adapter was trained on other weights than those in a folder.

    Args:
        adapter: the adapter's file; False where it does not tell, as one of another program or of an older gesso, and
            where it cannot be read, which whoever loads it says.

    Raises:
        CheckpointError, ConfigError: the weights cannot be read.
    """
    known = _kept(adapter)
    if not known:
        return False
    found = numbers_of(folder)
    return any(_unlike(numbers, found[name]) for name, numbers in known.items() if name in found)


def _kept(adapter: Path) -> Mapping[str, list[float]]:
    try:
        with safe_open(adapter, framework="pt") as file:
            told = json.loads((file.metadata() or {}).get(METADATA, "{}"))
    except (SafetensorError, OSError, ValueError, RecursionError):
        return {}
    if not isinstance(told, dict):
        return {}
    return {name: numbers for name, numbers in told.items() if _are_numbers(numbers)}


def _are_numbers(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(number, int | float) for number in value)


def _unlike(known: list[float], found: list[float]) -> bool:
    if len(known) != len(found):
        return True
    a, b = torch.tensor(known), torch.tensor(found)
    return bool((a - b).norm() > _TOLERANCE * torch.maximum(a.norm(), b.norm()))
