"""Writes and resumes checkpoints of a run: each is a folder that loads as a model or an adapter, beside the optimiser's
state.

`step-000250/` is written under another name and renamed when it is complete, so a folder of that name is whole.
Everything random is a function of the seed and the step, so a few numbers are all the state there is besides tensors.
"""

import dataclasses
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file

from gesso.errors import CheckpointError, ConfigError, TrainingError
from gesso.json_files import read_json
from gesso.models.adapter_files import load_adapter_weights, read_adapter_config, save_adapter, unlike_layer
from gesso.models.base_weights import numbers_of
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.expert_parts import is_of_experts
from gesso.models.loading import load_folder, read_generation_defaults
from gesso.models.run_folders import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from gesso.models.saving import save_folder, write_safetensors
from gesso.models.staging import staged
from gesso.models.vision_loading import load_vision
from gesso.models.vision_tower import VisionModel
from gesso.train.distributed import ProcessGroup, full_tensor, local_shard, shard_like
from gesso.train.expert_parallel import experts_held
from gesso.train.identity import STARTING_ADAPTER, WEIGHTS
from gesso.train.optimizer import load_state_tensors, state_tensors
from gesso.train.recipe import Recipe
from gesso.train.records import Progress
from gesso.train.vision import resume_vision

STATE = "trainer.json"
_NAME = re.compile(r"step-\d{6,}")
OPTIMIZER = "optimizer.safetensors"
PRECISION = "precision"
"""Names what a run may go on with another of: its steps are then not those that it would have taken."""
RATE = "learning_rate"
"""Names the highest learning rate of a run, with which it goes on where none is given."""
_REMEDY = "go on with the same, or train into another folder"
_DIGESTS = {
    "data": "was trained on other data, or on the same read otherwise",
    WEIGHTS: "was trained from other base weights",
    STARTING_ADAPTER: "went on from another adapter, or from none (--adapter)",
}
"""What is said of a run whose digest of that name is another."""
_PASSES = ("in canvases", "in the causal pass alone")


def checkpoint_path(out: Path, step: int) -> Path:
    """Returns the folder of the checkpoint at `step`."""
    return out / f"step-{step:06d}"


def save_checkpoint(
    recipe: Recipe,
    identity: dict[str, object],
    model: DiffusionGemma,
    optimizer: torch.optim.Optimizer,
    progress: Progress,
    out: Path,
    group: ProcessGroup,
    vision: VisionModel | None = None,
) -> Path:
    """Writes `step-NNNNNN` atomically and removes all but the newest `keep_checkpoints` and the best.

    All processes of a group call this; one writes.

    Args:
        identity: of the run (`identity_of`).
        vision: the tower that is trained, where one is.

    Raises:
        TrainingError: the disk is full, or the folder cannot be written.
    """
    final = checkpoint_path(out, progress.step)
    partial = out / f".{final.name}.partial"
    try:
        if group.is_main:
            shutil.rmtree(partial, ignore_errors=True)
        _write_model(recipe, model, partial, group, vision)
        tensors = {}
        for name, tensor in state_tensors(model, optimizer, vision):
            if group.is_main:
                tensors[name] = tensor.cpu().contiguous()
        if group.is_main:
            if recipe.adapter is None:
                recipe.text.write(partial)
            write_safetensors(tensors, partial / OPTIMIZER)
            told = {PRECISION: precision(recipe, group), RATE: recipe.train.learning_rate}
            state = json.dumps({**identity, **told, **dataclasses.asdict(progress)})
            (partial / STATE).write_text(state + "\n", encoding="utf-8")
            shutil.rmtree(final, ignore_errors=True)
            os.replace(partial, final)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise TrainingError(f"the checkpoint of step {progress.step} could not be written: {error}") from error
    if group.is_main:
        best = checkpoint_path(out, progress.best_step or 0)
        for old in checkpoints(out)[: -recipe.train.keep_checkpoints]:
            if old not in (best, final):
                remove(old)
    group.barrier()
    return final


def _write_model(
    recipe: Recipe, model: DiffusionGemma, folder: Path, group: ProcessGroup, vision: VisionModel | None
) -> None:
    if recipe.adapter is None:
        save_folder(
            model,
            folder,
            generation=recipe.generation,
            source=recipe.start,
            vision=vision,
            gather=full_tensor,
            writes=group.is_main,
        )
    else:
        numbers = numbers_of(recipe.start) if group.is_main and recipe.start is not None else None
        save_adapter(
            model,
            recipe.adapter,
            folder,
            recipe.base,
            gather=full_tensor,
            writes=group.is_main,
            numbers=numbers,
        )


def export(checkpoint: Path, folder: Path, dtype: str = "bfloat16") -> None:
    """Writes what a checkpoint trained, without its optimiser, as it is given away: weights in `dtype` and text files,
    or the adapter."""
    if (checkpoint / ADAPTER_CONFIG).exists():
        with staged(folder) as partial:
            for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS):
                shutil.copy(checkpoint / name, partial / name)
        return
    model = load_folder(checkpoint, "cpu", "float32")
    generation = read_generation_defaults(checkpoint, model.config)
    trained = read_json(checkpoint / STATE).get("vision") == "trained"
    vision = load_vision(checkpoint, "cpu", "float32") if trained else None
    save_folder(model, folder, dtype=dtype, generation=generation, source=checkpoint, vision=vision)


def checkpoints(out: Path) -> list[Path]:
    """Returns the complete checkpoints of a run, oldest first."""
    found = (path for path in out.glob("step-*") if _NAME.fullmatch(path.name) and (path / STATE).exists())
    return sorted(found, key=step_of)


def step_of(checkpoint: Path) -> int:
    """Returns the step a checkpoint was written at, by its name."""
    return int(checkpoint.name.removeprefix("step-"))


def remove(checkpoint: Path) -> None:
    """Removes a checkpoint; one that is half removed is none."""
    doomed = checkpoint.with_name(f".{checkpoint.name}.partial")
    shutil.rmtree(doomed, ignore_errors=True)
    os.replace(checkpoint, doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def remove_leftovers(out: Path) -> None:
    """Removes what a killed run was writing or removing."""
    for path in out.glob(".step-*.partial"):
        shutil.rmtree(path, ignore_errors=True)


def resume_newest(
    recipe: Recipe,
    identity: dict[str, object],
    model: DiffusionGemma,
    optimizer: torch.optim.Optimizer,
    out: Path,
    group: ProcessGroup,
    warn: Callable[[str], None],
    vision: VisionModel | None = None,
) -> Progress:
    """Resumes from the newest checkpoint in `out`, where there is any; one that is damaged is passed over for the one
    before it.

    Args:
        warn: is told of those that were passed over, and of another precision.

    Raises:
        CheckpointError: what `resume` says of the newest, where none can be gone on from.
    """
    damaged: list[CheckpointError] = []
    for folder in reversed(checkpoints(out)):
        try:
            progress = resume(recipe, identity, model, optimizer, folder, vision)
        except CheckpointError as error:
            damaged.append(error)
            continue
        for passed in damaged:
            warn(f"{passed}; going on from {folder.name}")
        before, now = precision_of(folder), precision(recipe, group)
        if before not in (None, now):
            warn(f"{folder} was trained in {before}, and goes on in {now}: --precision")
        return progress
    if damaged:
        raise damaged[0]
    return Progress()


def resume(
    recipe: Recipe,
    identity: dict[str, object],
    model: DiffusionGemma,
    optimizer: torch.optim.Optimizer,
    folder: Path,
    vision: VisionModel | None = None,
) -> Progress:
    """Puts a checkpoint's weights and optimiser state in place; returns the run's progress.

    Args:
        identity: of the run (`identity_of`).

    Raises:
        CheckpointError: the folder belongs to another recipe, start, model or data, or a file is cut short.
    """
    progress = _read_progress(recipe.name, identity, folder)
    if recipe.adapter is None:
        _resume_weights(model, folder, recipe.name)
        if vision is not None:
            resume_vision(vision, folder)
    else:
        found, ours = read_adapter_config(folder), recipe.adapter
        if (found.rank, found.scale) != (ours.rank, ours.scale):
            raise CheckpointError(
                f"{folder} holds an adapter of rank {found.rank} and alpha {found.alpha:g}, and this run has "
                f"{ours.rank} and {ours.alpha:g}: {_REMEDY}"
            )
        if (unlike := unlike_layer(model, folder)) is not None:
            raise CheckpointError(
                f"{folder} was trained with other settings (target: {unlike} has a delta on one side alone): {_REMEDY}"
            )
        load_adapter_weights(model, folder, shard_like)
    try:
        tensors = load_file(folder / OPTIMIZER)
    except Exception as error:
        raise CheckpointError(f"{folder / OPTIMIZER} cannot be read: {error}") from None
    try:
        load_state_tensors(model, optimizer, tensors, vision)
    except KeyError as error:
        raise CheckpointError(f"{folder / OPTIMIZER}: {error.args[0]} belongs to no parameter of the model") from None
    return progress


def precision(recipe: Recipe, group: ProcessGroup) -> str:
    """Returns the type of a run's products on the device at hand."""
    return "bfloat16" if recipe.train.is_half(group.device.type) else "float32"


def precision_of(checkpoint: Path) -> str | None:
    """Returns the type of the products that a checkpoint was trained with; None where it does not say."""
    found = read_json(checkpoint / STATE).get(PRECISION)
    return found if isinstance(found, str) else None


def _read_progress(recipe: str, identity: dict[str, object], folder: Path) -> Progress:
    state = {STARTING_ADAPTER: None} | read_json(folder / STATE)  # once it was written where there was one alone
    if state.get("recipe") != recipe:
        raise CheckpointError(f"{folder} belongs to recipe {state.get('recipe')!r}, not {recipe!r}: {_REMEDY}")
    # Another base has other settings, too; a setting says more than the digest of data that it is a part of.
    for name, ours in sorted(identity.items(), key=lambda item: (item[0] != WEIGHTS, item[0] in _DIGESTS)):
        if state.get(name, ours) != ours and not (name == "base" and WEIGHTS in state):
            what = _DIGESTS.get(name, f"was trained with other settings ({name} {state.get(name)!r}, now {ours!r})")
            bases = state.get("base"), identity.get("base")
            if name == WEIGHTS and bases[0] != bases[1]:
                what = f"was trained from {bases[0]}, and not from {bases[1]}"
            elif name == "denoiser_loss_weight":
                what = f"was trained {_PASSES[not state.get(name)]}, and not {_PASSES[not ours]} (--causal-only)"
            raise CheckpointError(f"{folder} {what}: {_REMEDY}")
    if not isinstance(state.get("step"), int):
        raise CheckpointError(f"{folder / STATE} names no step")
    return Progress(**{field.name: state[field.name] for field in dataclasses.fields(Progress) if field.name in state})


@torch.no_grad()
def _resume_weights(model: DiffusionGemma, folder: Path, recipe: str) -> None:
    own = experts_held(model)
    try:
        saved = load_folder(folder, "cpu", "float32", experts=own).state_dict()
    except ConfigError as error:
        raise CheckpointError(str(error)) from error
    for name, tensor in model.state_dict().items():
        is_part = own is not None and is_of_experts(name)
        target = local_shard(tensor) if is_part else tensor
        if name not in saved or saved[name].shape != target.shape:
            raise CheckpointError(f"{folder} holds a model of another shape than recipe {recipe!r}")
        target.copy_(saved[name] if is_part else shard_like(saved[name], tensor))
