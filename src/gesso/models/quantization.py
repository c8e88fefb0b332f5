"""Which layers of a model are held in few bits, and in which format: in memory and in `config.json`.

`quantization_config` of a checkpoint that gesso wrote:

    {"quant_method": "gesso", "dense": {"bits": 8}, "experts": {"bits": 4, "group_size": 64}}

A part that is not named stays as it was. Embedding table, norms and routers always do.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from gesso.errors import CheckpointError, OptionError
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.hf_config import QUANT_METHOD, quantization_of
from gesso.nn.experts import Experts
from gesso.nn.quantized import NF4, Format, QuantizedExperts, QuantizedLinear, quantized_like
from gesso.nn.weight_only import GROUP_SIZES, Int4, Int8


@dataclass(frozen=True, slots=True)
class Quantization:
    """Formats of the two parts of a model; None leaves a part as it is."""

    dense: Format | None = None
    """Of linear layers but routers."""
    experts: Format | None = None


QLORA = Quantization(NF4(), NF4())


def replace_layers(
    model: DiffusionGemma, chosen: Quantization, only: Container[str] | None = None
) -> dict[str, Format]:
    """Put empty layers in few bits in the place of those that `chosen` names; returns their names and formats.

    Args:
        only: names of the layers that may be replaced; None for all.

    Raises:
        OptionError: a layer's width cannot be cut into groups.
    """
    replaced: dict[str, Format] = {}
    for name, module in list(model.named_modules()):
        form = chosen.experts if isinstance(module, Experts) else chosen.dense
        if form is None or name.endswith("router.proj") or (only is not None and name not in only):
            continue
        try:
            with torch.device("meta"):
                new = quantized_like(module, form)
        except ValueError as error:
            raise OptionError(f"{name} cannot be held in 4 bits: {error}") from None
        if new is not None:
            parent, _, label = name.rpartition(".")
            setattr(model.get_submodule(parent), label, new)
            replaced[name] = form
    return replaced


def refuse_quantized(model: torch.nn.Module, doing: str) -> None:
    """Raises OptionError where a layer is held in few bits: what is being done needs whole weights."""
    for name, module in model.named_modules():
        if isinstance(module, QuantizedLinear | QuantizedExperts):
            raise OptionError(f"{doing} needs whole weights, and {name} is quantized: use the model it was made from")


def write_quantization(chosen: Quantization) -> dict[str, Any]:
    """The `quantization_config` that says what `chosen` says."""
    parts = {"dense": chosen.dense, "experts": chosen.experts}
    return {"quant_method": QUANT_METHOD, **{name: _write(form) for name, form in parts.items() if form is not None}}


def _write(form: Format) -> dict[str, int]:
    if isinstance(form, Int4):
        return {"bits": 4, "group_size": form.group_size}
    assert isinstance(form, Int8)
    return {"bits": 8}


def read_quantization(raw: Mapping[str, Any]) -> Quantization | None:
    """What a `config.json` says of its weights; None where they are whole.

    Raises:
        CheckpointError: another program's quantization, or one that is not understood.
    """
    found = quantization_of(raw)
    if found is None:
        return None
    for key in found:
        if key not in ("quant_method", "dense", "experts"):
            raise CheckpointError(f"config.json: quantization_config: unknown key {key!r}")
    return Quantization(*(_read(part, found.get(part)) for part in ("dense", "experts")))


def _read(part: str, raw: Any) -> Format | None:
    match raw:
        case None:
            return None
        case {"bits": 8, **others} if not others:
            return Int8()
        case {"bits": 4, "group_size": size, **others} if size in GROUP_SIZES and not others:
            return Int4(size)
    raise CheckpointError(f"config.json: quantization_config.{part} {raw!r} is not understood")
