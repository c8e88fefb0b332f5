"""Implements `gesso train`."""

import dataclasses
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gesso.cli import options as opt
from gesso.cli.given import Given
from gesso.cli.run_options import RunOptions
from gesso.train.config import TrainConfig

if TYPE_CHECKING:
    from gesso.train.estimate_vision import ImageLoad
    from gesso.train.recipe import Recipe
    from gesso.train.records import Outcome


@opt.takes(
    rows={TrainConfig: ("within_minutes", "context_parallel", "precision")},
    usual={"precision": None},
    helps={"precision": "Type of the products; the recipe's own without it."},
)
def train(
    run: RunOptions,
    settings: Given[TrainConfig],
    recipe: Annotated[str | None, typer.Argument(help="Name of a recipe; left out, the recipes are listed.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; runs/RECIPE without it.")] = None,
    export: opt.Export = None,
    estimate: opt.Estimate = False,
) -> int:
    """Train by a recipe; a run that was cut off goes on from its newest checkpoint."""
    from gesso.errors import OptionError
    from gesso.train.recipes import load_recipe

    if recipe is None:
        given = {"out": out, **settings.values, "export": export, "estimate": estimate}
        given |= {name: getattr(run, name) for name in ("stop_at", "max_minutes", "plot", "tensorboard")}
        if asked := [name for name, value in given.items() if value not in (None, False)]:
            raise OptionError("name a recipe to train; without one the recipes are listed", option=asked[0])
        _print_recipes()
        return 0
    plan = load_recipe(recipe)
    if plan.start is not None and not plan.start.exists():
        hint = f"{_written_by(plan.start)} would write it; gesso train lists what needs no such folder"
        raise OptionError(f"{recipe} goes on from {plan.start}, which is not here", hint=hint)
    plan = dataclasses.replace(plan, train=dataclasses.replace(plan.train, **settings.values))
    if estimate:
        from gesso.cli.memory import print_estimate
        from gesso.models.device import pick_device
        from gesso.models.quantization.plan import QLORA

        images, seen = _images(plan)
        # The widest canvases take most; an example fills as many as are trained on.
        longest = plan.model.canvas_length * (1 + plan.train.canvases_per_example)
        return print_estimate(
            plan.model,
            plan.train,
            pick_device(run.device),
            tokens=longest + seen,
            answer=longest - plan.model.canvas_length,
            adapter=plan.adapter,
            quantize=None if plan.quantize is None else QLORA,
            generation=plan.generation,
            images=images,
            teacher=plan.distill is not None and plan.adapter is None,
        )
    from gesso.cli.training import run_command

    folder = out or Path("runs") / plan.name
    run.prepare(folder, export=export)
    return run_command(plan, folder, run, partial(_print_checkpoint, folder, export))


def _print_recipes() -> None:
    from gesso.train.recipes import LATER, RECIPES, about

    width = max(map(len, RECIPES))
    print("From random weights, or from a bundled model as it is bundled now:")
    for name in RECIPES:
        if name not in LATER:
            print(f"  {name:{width}}  {about(name)}")
    print("\nThe line of the bundled skills, each from what another run left in runs/:")
    for name in sorted(LATER, key=lambda name: int(name.rpartition("-")[2])):
        print(f"  {name:{width}}  {about(name)}")


def _written_by(folder: Path) -> str:
    """The commands that write the weights a recipe of a line starts from."""
    run = folder.parent.name
    mean = " and then python -m gesso.train.mean_weights" if folder.name == "mean" else ""
    return f"gesso train {run}{mean}"


def _print_checkpoint(out: Path, export: Path | None, outcome: "Outcome") -> None:
    """Prints the newest checkpoint, and writes the best weights to `export`."""
    print(outcome.last)
    if export is not None:
        from gesso.cli.run_options import note_export
        from gesso.train.checkpoint import export as write_export

        note_export(out, export)
        write_export(outcome.best or outcome.last, export)
        print(export)


def _images(plan: "Recipe") -> "tuple[ImageLoad | None, int]":
    """The images of an example with most of them among those of the first steps, and its soft tokens."""
    from gesso.models.vision_config import read_vision_config
    from gesso.train.estimate_vision import ImageLoad

    if plan.vision == "none" or plan.model.vision_config is None:
        return None, 0
    lengths = [plan.model.canvas_length, *(width.canvas_length for width in plan.train.narrow)]
    step = plan.train.steps - 1  # in the last stage, which has all
    spans = [conversation.images for length in lengths for conversation in plan.examples.batch(step, 64, length)]
    most = max(map(len, spans))
    soft = max((image.length for images in spans for image in images), default=0)
    tower = read_vision_config(plan.model.vision_config)
    return ImageLoad(tower, most, soft, plan.vision == "trained"), most * soft
