"""Converts a checkpoint folder into a smaller one: weights in 8 or 4 bits, a file for each layer.

Matrices are read, packed and let go a tile of rows at a time, fused experts one expert at a time. What is held at once
is the packed layer that is being written, and a tile in fp32.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gesso.errors import CheckpointError, GessoError, OptionError
from gesso.json_files import read_json
from gesso.models import hf_generation_config
from gesso.models.card import CARD, read_card
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.loading import (
    packed_names,
    read_model_config,
    stored_quantization,
    weight_files,
)
from gesso.models.quantization import calibration, resume
from gesso.models.quantization.calibration import Calibration, CalibrationReport, Calibrator
from gesso.models.quantization.folding import Folds
from gesso.models.quantization.plan import Quantization, replace_layers, write_quantization
from gesso.models.quantization.resume import Written
from gesso.models.quantization.tiles import check_disk, form_of, pack_tiles, places
from gesso.models.saving import copy_text_files, refuse_filled, write_index, write_json, write_tensors
from gesso.models.state_dict_adapter import to_hf
from gesso.models.tensors import check_copies, check_finite, open_checked, read_tensor, sources
from gesso.nn.quant.base import Format

Progress = Callable[[int, int], None]
"""Is called with the number of files written and the number of all."""


@dataclass(frozen=True, slots=True)
class QuantizeReport:
    """Reports the sizes and the largest error of a quantized checkpoint."""

    bytes_before: int
    """Bytes of the weights' files."""
    bytes_after: int
    worst_error: float
    """Largest |W - packed W| / |W| (Frobenius) of a tensor."""
    worst_tensor: str
    """Hugging Face name of that tensor."""
    calibration: CalibrationReport | None = None
    """Errors of layers' products; None where the conversion was not calibrated."""


def quantize_folder(
    source: Path,
    out: Path,
    chosen: Quantization,
    progress: Progress = lambda done, of: None,
    calibrate: Calibration | None = None,
) -> QuantizeReport:
    """Writes the checkpoint in `source` to `out`, quantized as `chosen` says; what is not quantized stays as it is
    stored.

    Everything is written beside `out` first, file by file: a conversion that is broken off leaves no checkpoint behind,
    and the same conversion goes on from its last whole file.

    Args:
        calibrate: scale input features by their activations on these prompts, and fold the scales into the norms and
            weights before them; None rounds weights as they are.

    Raises:
        OptionError: nothing to do, a folder that is not empty, too little space, a layer's width that cannot be cut
            into groups, or nothing to calibrate.
        CheckpointError: a source that cannot be used, or is quantized already.
    """
    out = check_out(out, chosen)
    if calibrate is not None:
        calibrate.check(chosen)
    plan = _plan(source, chosen, calibrate)
    partial = resume.partial_of(out)
    of = resume.fingerprint(plan.files.values(), write_quantization(chosen))
    calibrated = None if calibrate is None else calibrate.described(chosen, of["files"])
    with resume.started(partial, calibration.with_calibration(of, calibrated), Written) as done:
        try:
            _check_space(out, plan, written=sum((partial / shard).stat().st_size for shard in done.shards))
        except OptionError:
            if not done.shards:  # what is done already waits for room
                shutil.rmtree(partial, ignore_errors=True)
            raise
        try:
            scales = None
            if calibrate is not None:
                experts = plan.packed.config.num_experts
                scales = Calibrator(source, partial, calibrate, plan.forms, plan.found, experts, done)
            _write_shards(plan, partial, done, scales, progress)
            after = finish_folder(source, partial, out, chosen, done, calibrated)
        except GessoError:  # it would end so again
            shutil.rmtree(partial, ignore_errors=True)
            raise
    before = sum(path.stat().st_size for path in set(plan.files.values()))
    return QuantizeReport(before, after, done.worst, done.tensor, calibration.report(done))


@dataclass(frozen=True, slots=True)
class _Plan:
    """Tells what is made of each tensor of a checkpoint."""

    files: dict[str, Path]
    """The file of each tensor, by Hugging Face name."""
    plain: dict[str, Tensor]
    """Tensors of the text model, without storage, by our name."""
    packed: DiffusionGemma
    """The quantized model, without storage."""
    forms: dict[str, Format]
    """Formats of its layers."""
    found: dict[str, tuple[str, Path]]
    """Hugging Face name and file of each tensor of the text model, by our name."""
    others: dict[str, Path]
    """Files of tensors that are copied as they are, such as those of a vision tower, by Hugging Face name."""

    def shards(self) -> dict[str, list[str]]:
        """Returns the tensors of each file that is written: a layer's, and those of no layer; `others` come last."""
        layers: dict[str, list[str]] = {}
        for name in self.plain:
            layers.setdefault(".".join(name.split(".")[:2]) if name.startswith("layers.") else "", []).append(name)
        parts = [*layers.values(), *([list(self.others)] if self.others else [])]
        return {f"model-{i:05d}-of-{len(parts):05d}.safetensors": names for i, names in enumerate(parts, 1)}


def _plan(source: Path, chosen: Quantization, calibrate: Calibration | None) -> _Plan:
    """Finds what is made of each tensor; see `quantize_folder`."""
    plain, packed, forms = plan_folder(source, chosen)
    files = weight_files(source)
    found = sources(source, files, plain)
    changed = {to_hf(name) for name in plain if form_of(name, forms)}
    if calibrate is not None:
        changed |= calibration.observed_norms(list(plain))
    known = {hf_name for hf_name, _ in found.values()}.union(check_copies(files, changed, torch.float32))
    others = {name: path for name, path in files.items() if name not in known}
    return _Plan(files, plain, packed, forms, found, others)


def _write_shards(plan: _Plan, partial: Path, done: Written, scales: Calibrator | None, progress: Progress) -> None:
    """Writes the files that are not done yet."""
    shards = plan.shards()
    for number, (file, names) in enumerate(shards.items()):
        progress(number, len(shards))
        if file in done.shards:
            continue
        folds = Folds() if scales is None else scales.folds(names)
        held: dict[str, Tensor] = {}
        for name in names:
            copied = plan.others.get(name)
            held |= _pack(name, plan, done, folds) if copied is None else {name: read_tensor(name, copied)}
        write_tensors(partial / file, held)
        done.weight_map |= dict.fromkeys(held, file)
        done.shards.append(file)
        done.save(partial)


def check_out(out: Path, chosen: Quantization) -> Path:
    """Checks what can be checked before anything is read; returns the folder that `out` names, links followed.

    Raises:
        OptionError: nothing to do, a folder that is not empty, or one whose place another cannot take.
    """
    if chosen == Quantization():
        raise OptionError("--dense, --experts and --embedding are all none: nothing would be quantized", option="dense")
    refuse_filled(out)
    place = out.resolve()
    if place == Path.cwd() or os.path.ismount(place):
        raise OptionError(
            f"--out {out} is the current folder or a whole disk, which cannot be replaced: name one below it",
            option="out",
        )
    resume.partial_of(place)
    return place


def plan_folder(source: Path, chosen: Quantization) -> tuple[dict[str, Tensor], DiffusionGemma, dict[str, Format]]:
    """Returns the tensors of the whole model, without storage, the quantized model, likewise, and its layers' formats.

    Args:
        source: a folder with `config.json`; weights are not looked at.

    Raises:
        OptionError: a layer's width that cannot be cut into groups.
        CheckpointError: a source that cannot be used, or is quantized already.
    """
    config = read_model_config(source)
    if stored_quantization(source) is not None:
        raise CheckpointError(f"{source} is quantized already: quantize the model it was made from")
    with torch.device("meta"):
        plain, packed = DiffusionGemma(config).state_dict(), DiffusionGemma(config)
    return plain, packed, replace_layers(packed, chosen)


def finish_folder(
    source: Path,
    partial: Path,
    out: Path,
    chosen: Quantization,
    done: Written,
    calibrated: dict[str, Any] | None = None,
) -> int:
    """Writes what a checkpoint has beside weights, and gives it its name; returns the bytes of its weights' files.

    Where it cannot get its name, all that is written waits for the same conversion.

    Args:
        calibrated: what it says of its calibration.

    Raises:
        OSError: something cannot be written, or `out` has been filled meanwhile.
    """
    after = write_index(partial, done.weight_map)
    copy_text_files(source, partial)
    _copy_card(source, partial)
    for name in (hf_generation_config.FILE, hf_generation_config.OWN_FILE):
        if (source / name).exists():
            shutil.copy(source / name, partial)
    described = {"quantization_config": calibration.with_calibration(write_quantization(chosen), calibrated)}
    write_json(partial / "config.json", read_json(source / "config.json") | described)
    os.replace(partial, out)
    for name in (resume.FILE, resume.ACTIVATIONS):  # not before it has its name: without them nothing goes on
        with suppress(OSError):  # what stays is read by nobody
            (out / name).unlink(missing_ok=True)
    return after


def _copy_card(source: Path, folder: Path) -> None:
    """Writes the card of the source, which says that its figures are those of the first weights that were measured."""
    if (card := read_card(source)) is not None:
        measured_on = card.measured_on or "the weights before they were quantized"
        write_json(folder / CARD, read_json(source / CARD) | {"measured_on": measured_on})


def _pack(name: str, plan: _Plan, done: Written, folds: Folds) -> dict[str, Tensor]:
    """Returns what is written of a tensor of the text model, by Hugging Face name."""
    (hf_name, path), like, form = plan.found[name], plan.plain[name], form_of(name, plan.forms)
    with open_checked(hf_name, path, like, packed=False) as file:
        if form is None:
            tensor = file.get_tensor(hf_name)
            check_finite(hf_name, tensor)
            return {hf_name: folds.norms.get(name, tensor)}
        tiles = ((place, folds.apply(name, place, tile)) for place, tile in _tiles(file, hf_name, like))
        made = pack_tiles(name, like, form, tiles)
    if made.error >= done.worst:
        done.worst, done.tensor = made.error, hf_name
    return made.parts


def _tiles(file: Any, hf_name: str, like: Tensor) -> Iterator[tuple[int | slice, Tensor]]:
    """Yields the tiles of a tensor, and where they stand."""
    whole = file.get_slice(hf_name)
    for place in places(like):
        yield place, whole[place]


def _check_space(out: Path, plan: _Plan, *, written: int) -> None:
    """Raises OptionError where the disk has no room for the packed tensors and those that are copied, but for the bytes
    that are `written` already."""
    state, new = plan.packed.state_dict(), packed_names(plan.packed, plan.forms)
    needed = sum(state[name].nbytes for name in new) - written
    for hf_name, path in [*(plan.found[name] for name in state if name not in new), *plan.others.items()]:
        needed += read_tensor(hf_name, path).nbytes
    check_disk(out, needed)
