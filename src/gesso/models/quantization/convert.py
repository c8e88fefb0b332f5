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
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.loading import (
    OWN_DEFAULTS,
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
from gesso.models.saving import copy_text_files, refuse_filled, write_json, write_tensors
from gesso.models.state_dict_adapter import to_hf
from gesso.models.tensors import INDEX, check_copies, check_finite, open_checked, read_tensor, sources
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
    plain, packed, forms = plan_folder(source, chosen)
    files = weight_files(source)
    found = sources(source, files, plain)
    changed = {to_hf(name) for name in plain if form_of(name, forms)}
    changed |= set() if calibrate is None else calibration.observed_norms(list(plain))
    repeated = set(check_copies(files, changed, torch.float32))
    own = {hf_name for hf_name, _ in found.values()}
    others = {name: path for name, path in files.items() if name not in own | repeated}
    partial = resume.partial_of(out)
    of = resume.fingerprint(files.values(), write_quantization(chosen))
    told = None if calibrate is None else calibrate.described(chosen, of["files"])
    layers: dict[str, list[str]] = {}
    for name in plain:
        layers.setdefault(".".join(name.split(".")[:2]) if name.startswith("layers.") else "", []).append(name)
    work = [*layers.values(), list(others)] if others else list(layers.values())
    shards = [f"model-{i + 1:05d}-of-{len(work):05d}.safetensors" for i in range(len(work))]
    with resume.started(partial, calibration.with_calibration(of, told), Written) as done:
        written = sum((partial / shard).stat().st_size for shard in done.shards)
        try:
            _check_space(out, packed, forms, found, others, written)
        except OptionError:
            if not done.shards:  # what is done already waits for room
                shutil.rmtree(partial, ignore_errors=True)
            raise
        try:
            experts = packed.config.num_experts
            scales = None if calibrate is None else Calibrator(source, partial, calibrate, forms, found, experts, done)
            for number, (file, names) in enumerate(zip(shards, work, strict=True)):
                progress(number, len(shards))
                if file in done.shards:
                    continue
                folds = Folds() if scales is None else scales.folds(names)
                held: dict[str, Tensor] = {}
                for name in names:
                    held |= (
                        _copy(name, others[name])
                        if name in others
                        else _pack(name, *found[name], plain[name], form_of(name, forms), done, folds)
                    )
                write_tensors(partial / file, held)
                done.weight_map |= dict.fromkeys(held, file)
                done.shards.append(file)
                done.save(partial)
            after = finish_folder(source, partial, out, chosen, done, told)
        except GessoError:  # it would end so again
            shutil.rmtree(partial, ignore_errors=True)
            raise
    before = sum(path.stat().st_size for path in set(files.values()))
    return QuantizeReport(before, after, done.worst, done.tensor, calibration.report(done))


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
    after = sum((partial / file).stat().st_size for file in done.shards)
    weight_map = dict(sorted(done.weight_map.items()))
    write_json(partial / INDEX, {"metadata": {"total_size": after}, "weight_map": weight_map})
    copy_text_files(source, partial)
    for name in ("generation_config.json", OWN_DEFAULTS):
        if (source / name).exists():
            shutil.copy(source / name, partial)
    described = {"quantization_config": calibration.with_calibration(write_quantization(chosen), calibrated)}
    write_json(partial / "config.json", read_json(source / "config.json") | described)
    os.replace(partial, out)
    for name in (resume.FILE, calibration.FILE):  # not before it has its name: without them nothing goes on
        with suppress(OSError):  # what stays is read by nobody
            (out / name).unlink(missing_ok=True)
    return after


def _copy(name: str, path: Path) -> dict[str, Tensor]:
    return {name: read_tensor(name, path)}


def _pack(
    name: str, hf_name: str, path: Path, like: Tensor, form: Format | None, done: Written, folds: Folds
) -> dict[str, Tensor]:
    """Returns what is written of one tensor, by Hugging Face name."""
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


def _check_space(
    out: Path,
    packed: DiffusionGemma,
    forms: dict[str, Format],
    found: dict[str, tuple[str, Path]],
    others: dict[str, Path],
    written: int,
) -> None:
    """Raises OptionError where the disk has no room for the packed tensors and those that are copied, but for the bytes
    that are written."""
    state, new = packed.state_dict(), packed_names(packed, forms)
    needed = sum(state[name].nbytes for name in new) - written
    for hf_name, path in [*(found[name] for name in state if name not in new), *others.items()]:
        needed += read_tensor(hf_name, path).nbytes
    check_disk(out, needed)
