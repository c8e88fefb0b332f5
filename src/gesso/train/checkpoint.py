"""Checkpoints of a run: each is a folder that loads as a model, beside the optimiser's state.

`step-000250/` is written under another name and renamed when it is complete, so a folder of that name is whole.
Everything random is a function of the seed and the step, so the step is all the state there is besides tensors.
"""

import json
import os
import shutil
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from gesso.errors import CheckpointError, TrainingError
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.loading import load_folder, read_generation_defaults, read_json, save_folder
from gesso.train.config import Recipe

STATE = "trainer.json"
OPTIMIZER = "optimizer.safetensors"


def write_text_files(recipe: Recipe, folder: Path) -> None:
    """Tokenizer, its config and the chat template."""
    folder.mkdir(parents=True, exist_ok=True)
    recipe.tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(recipe.tokenizer_config, indent=2) + "\n", "utf-8")
    (folder / "chat_template.jinja").write_text(recipe.chat_template, encoding="utf-8")


def save_checkpoint(
    recipe: Recipe, model: DiffusionGemma, optimizer: torch.optim.Optimizer, step: int, out: Path
) -> Path:
    """Write `step-NNNNNN` atomically and remove all but the newest `keep_checkpoints`."""
    final = out / f"step-{step:06d}"
    partial = out / f".{final.name}.partial"
    try:
        shutil.rmtree(partial, ignore_errors=True)
        save_folder(model, partial, generation=recipe.generation)
        write_text_files(recipe, partial)
        names = [name for name, _ in model.named_parameters()]
        state = optimizer.state_dict()["state"]
        tensors = {
            f"{key}.{names[index]}": value.detach().cpu().contiguous()
            for index, entries in state.items()
            for key, value in entries.items()
        }
        save_file(tensors, partial / OPTIMIZER)
        (partial / STATE).write_text(json.dumps({"recipe": recipe.name, "step": step}) + "\n", encoding="utf-8")
        shutil.rmtree(final, ignore_errors=True)
        os.replace(partial, final)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise TrainingError(f"the checkpoint of step {step} could not be written: {error}") from error
    for old in checkpoints(out)[: -recipe.train.keep_checkpoints]:
        shutil.rmtree(old)
    return final


def export(checkpoint: Path, folder: Path, dtype: str = "bfloat16") -> None:
    """The model of a checkpoint without its optimiser, as it is given away: weights in `dtype`, text files."""
    model = load_folder(checkpoint, "cpu", "float32")
    generation = read_generation_defaults(checkpoint, model.config)
    save_folder(model, folder, dtype=dtype, generation=generation, source=checkpoint)


def checkpoints(out: Path) -> list[Path]:
    """Whole checkpoints of a run, oldest first."""
    return sorted(path for path in out.glob("step-*") if (path / STATE).exists())


def resume(recipe: Recipe, model: DiffusionGemma, optimizer: torch.optim.Optimizer, folder: Path) -> int:
    """Put a checkpoint's weights and optimiser state in place; returns the step it was written at.

    Raises:
        CheckpointError: the folder belongs to another recipe or model, or a file is cut short.
    """
    state = read_json(folder / STATE)
    if state.get("recipe") != recipe.name:
        raise CheckpointError(f"{folder} belongs to recipe {state.get('recipe')!r}, not {recipe.name!r}")
    step = state.get("step")
    if not isinstance(step, int):
        raise CheckpointError(f"{folder / STATE} names no step")
    try:
        model.load_state_dict(load_folder(folder, str(model.device), "float32").state_dict())
    except RuntimeError:
        raise CheckpointError(f"{folder} holds a model of another shape than recipe {recipe.name!r}") from None
    try:
        tensors = load_file(folder / OPTIMIZER, device=str(model.device))
    except Exception as error:
        raise CheckpointError(f"{folder / OPTIMIZER} cannot be read: {error}") from None
    numbers = {name: index for index, (name, _) in enumerate(model.named_parameters())}
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    entries: dict[int, dict[str, torch.Tensor]] = {index: {} for index in numbers.values()}
    for name, tensor in tensors.items():
        key, _, parameter = name.partition(".")
        # A step count has no shape; everything else has its parameter's.
        if parameter not in numbers or tensor.shape not in (torch.Size(), shapes[parameter]):
            raise CheckpointError(f"{folder / OPTIMIZER}: {name} belongs to no parameter of the model")
        entries[numbers[parameter]][key] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": entries})
    return step
