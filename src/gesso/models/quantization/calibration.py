"""Calibrates a conversion: observes the whole model once, then scales every part of it before it is packed.

What was observed lies beside the files that are written, so that a conversion that was broken off goes on without
running the model again.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from gesso.errors import CheckpointError, OptionError
from gesso.models.hf_config import CALIBRATION
from gesso.models.loading import load_folder
from gesso.models.quantization.activations import OBSERVED, observe
from gesso.models.quantization.folding import Folds, fold
from gesso.models.quantization.plan import Quantization, write_quantization
from gesso.models.quantization.resume import ACTIVATIONS, Written
from gesso.models.saving import write_tensors
from gesso.models.state_dict_adapter import to_hf
from gesso.models.tensors import check_finite, find_tensor, open_file
from gesso.nn.quant.base import Format

CONDITIONER = "self_conditioning."


@dataclass(frozen=True, slots=True)
class Calibration:
    """Names the prompts that a model is observed with."""

    prompts: tuple[tuple[int, ...], ...]
    """Token ids, at least one of each."""

    def check(self, chosen: Quantization) -> None:
        """Checks what can be checked before anything is read.

        Raises:
            OptionError: no prompt, or nothing that scales could be for.
        """
        if not self.prompts or not all(self.prompts):
            raise OptionError("calibration needs a prompt at least, and none that is empty", option="calibrate")
        if chosen.dense is None and chosen.experts is None:
            raise OptionError(
                "--calibrate scales linear layers and experts, and neither is packed: leave it out", option="calibrate"
            )

    def described(self, chosen: Quantization, source: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what a checkpoint says of it.

        Args:
            source: tells the weights that are converted apart from others.
        """
        told = json.dumps([self.prompts, write_quantization(chosen), source], sort_keys=True)
        return {
            "prompts": len(self.prompts),
            "tokens": sum(map(len, self.prompts)),
            "id": hashlib.sha256(told.encode()).hexdigest()[:16],
        }


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """Reports the relative errors of the products that scales were found for, the root of their mean squares.

    They are of activations of the same prompts that decided nothing.
    """

    before: float
    """Error without scales."""
    after: float
    products: int
    scaled: int
    """Products for which a scale was better than none."""


class Calibrator:
    """Folds scales into the parts of a model, one after the other."""

    def __init__(
        self,
        folder: Path,
        partial: Path,
        calibration: Calibration,
        forms: Mapping[str, Format],
        found: Mapping[str, tuple[str, Path]],
        experts: int,
        done: Written,
    ) -> None:
        """Observes the model in `folder`, or reads what was observed before.

        Args:
            partial: where files are written.
            forms: of the layers that are packed, by name.
            found: Hugging Face name and file of every tensor, by ours.
            experts: of a layer.
            done: notes what is done and found.
        """
        self._forms, self._found, self._experts, self._done = forms, found, experts, done
        if not (done.observed and (partial / ACTIVATIONS).exists()):
            seen = observe(load_folder(folder, "cpu"), calibration.prompts)
            for name, tensor in seen.items():
                _check(name, tensor)
            write_tensors(partial / ACTIVATIONS, {name: tensor.contiguous() for name, tensor in seen.items()})
            done.observed = True
            done.save(partial)
        self._seen: dict[str, Tensor] = load_file(partial / ACTIVATIONS)

    def folds(self, names: Sequence[str]) -> Folds:
        """Returns what becomes of the tensors of a file, by our names, and notes the errors."""
        parts = {".".join(name.split(".")[:2]) + "." for name in names if name.startswith("layers.")}
        parts |= {CONDITIONER} if any(name.startswith(CONDITIONER) for name in names) else set()
        if not parts:
            return Folds()
        (part,) = parts
        found = fold(part, self._forms, self._seen, self._read, self._experts)
        for name, choice in found.choices.items():
            self._done.products[name] = (choice.exponent, choice.before, choice.after)
        return found

    def _read(self, name: str, place: int | slice) -> Tensor:
        hf_name, path = self._found[name]
        with open_file(path) as file:
            tensor: Tensor = find_tensor(file, hf_name, path)[place]
        check_finite(hf_name, tensor)
        return tensor


def _check(name: str, tensor: Tensor) -> None:
    try:
        check_finite(name, tensor)
    except CheckpointError:
        raise CheckpointError(f"the model cannot be calibrated: {name} are not finite with its own weights") from None


def observed_norms(names: Sequence[str]) -> set[str]:
    """Returns the Hugging Face names of the norms whose weights may change, of tensors by our names."""
    return {to_hf(name) for name in names if name.removesuffix(".weight").endswith(OBSERVED)}


def report(done: Written) -> CalibrationReport | None:
    """Sums up what a conversion noted; None where nothing was scaled."""
    if not done.products:
        return None
    exponents, before, after = zip(*done.products.values(), strict=True)
    without, scaled = (math.sqrt(sum(error * error for error in errors) / len(errors)) for errors in (before, after))
    return CalibrationReport(without, scaled, len(exponents), sum(exponent > 0 for exponent in exponents))


def with_calibration(described: dict[str, Any], calibration: dict[str, Any] | None) -> dict[str, Any]:
    """Returns the `quantization_config` of a checkpoint that was calibrated, or not."""
    return described if calibration is None else described | {CALIBRATION: calibration}
