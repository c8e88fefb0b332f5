"""Plans which layers of a model are quantized, and in which format: in memory and in `config.json`.

`quantization_config` of a checkpoint that gesso wrote:

    {
        "quant_method": "gesso",
        "dense": {"bits": 8},
        "experts": {"bits": 4, "group_size": 64},
        "embedding": {"bits": 8}
    }

A part that is not named stays as it was. Norms and routers always do. `"calibration"` says that scales were folded into
norms and weights, which nothing that reads them need know (`calibration`, `folding`).
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import nn

from gesso.errors import CheckpointError, OptionError
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.hf_config import CALIBRATION, QUANT_METHOD, calibration_of, quantization_of
from gesso.nn.experts import Experts
from gesso.nn.quant.base import Format
from gesso.nn.quant.integer import GROUP_SIZES, Int4, Int8
from gesso.nn.quant.layers import QuantizedExperts, QuantizedLinear, quantized_like
from gesso.nn.quant.nf4 import NF4
from gesso.nn.quant.vocabulary import QuantizedVocabulary
from gesso.nn.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Quantization:
    """Names the formats of the parts of a model; None leaves a part as it is."""

    dense: Format | None = None
    """Format of linear layers but routers."""
    experts: Format | None = None
    embedding: Format | None = None
    """Format of the tied table: embedding, head and self-conditioning at once."""

    def of(self, module: nn.Module) -> Format | None:
        """Returns the format of a layer, where it is one that can be quantized."""
        if isinstance(module, Vocabulary):
            return self.embedding
        return self.experts if isinstance(module, Experts) else self.dense


PARTS = tuple(field.name for field in fields(Quantization))
QLORA = Quantization(NF4(), NF4())


def replace_layers(
    model: DiffusionGemma, chosen: Quantization, only: Container[str] | None = None
) -> dict[str, Format]:
    """Puts empty quantized layers in the place of those that `chosen` names; returns their names and formats.

    Args:
        only: names of the layers that may be replaced; None for all.

    Raises:
        OptionError: a layer's width cannot be cut into groups.
    """
    replaced: dict[str, Format] = {}
    for name, module in list(model.named_modules()):
        form = chosen.of(module)
        if form is None or name.endswith("router.proj") or (only is not None and name not in only):
            continue
        try:
            with torch.device("meta"):
                new = _packed_like(module, form)
        except ValueError as error:
            raise OptionError(f"{name} cannot be held in 4 bits: {error}") from None
        if new is not None:
            parent, _, label = name.rpartition(".")
            setattr(model.get_submodule(parent), label, new)
            replaced[name] = form
    return replaced


def _packed_like(module: nn.Module, form: Format) -> nn.Module | None:
    return QuantizedVocabulary.like(module, form) if isinstance(module, Vocabulary) else quantized_like(module, form)


def refuse_quantized(model: nn.Module, doing: str) -> None:
    """Refuses a model with a quantized layer, because what is being done needs full weights.

    Raises:
        OptionError: a layer is quantized.
    """
    for name, module in model.named_modules():
        if isinstance(module, QuantizedLinear | QuantizedExperts | QuantizedVocabulary):
            raise OptionError(f"{doing} needs whole weights, and {name} is quantized: use the model it was made from")


def write_quantization(chosen: Quantization) -> dict[str, Any]:
    """Returns the `quantization_config` that describes `chosen`."""
    parts = {name: getattr(chosen, name) for name in PARTS}
    return {"quant_method": QUANT_METHOD, **{name: _write(form) for name, form in parts.items() if form is not None}}


def _write(form: Format) -> dict[str, int | str]:
    if isinstance(form, Int4):
        return {"bits": 4, "group_size": form.group_size}
    if isinstance(form, NF4):
        return {"bits": 4, "levels": NF4.kernel}
    assert isinstance(form, Int8)
    return {"bits": 8}


def name_formats(chosen: Quantization) -> str:
    """Names the formats of the parts in words."""
    forms = ((part, getattr(chosen, part)) for part in PARTS)
    named = (
        f"{part} {form.kernel}{f' (groups of {form.group_size})' if isinstance(form, Int4) else ''}"
        for part, form in forms
        if form is not None
    )
    return ", ".join(named)


def read_quantization(raw: Mapping[str, Any]) -> Quantization | None:
    """Reads what a `config.json` says of its weights; None where they are not quantized.

    Raises:
        CheckpointError: another program's quantization, or one that is not understood.
    """
    found = quantization_of(raw)
    if found is None:
        return None
    for key in found:
        if key not in ("quant_method", CALIBRATION, *PARTS):
            raise CheckpointError(f"config.json: quantization_config: unknown key {key!r}")
    calibration_of(raw)
    return Quantization(**{part: _read(part, found.get(part)) for part in PARTS})


def _read(part: str, raw: Any) -> Format | None:
    match raw:
        case None:
            return None
        case {"bits": 8, **others} if not others:
            return Int8()
        case {"bits": 4, "group_size": int(size), **others} if size in GROUP_SIZES and not others:
            return Int4(size)
        case {"bits": 4, "levels": NF4.kernel, **others} if not others:
            return NF4()
    raise CheckpointError(f"config.json: quantization_config.{part} {raw!r} is not understood")
