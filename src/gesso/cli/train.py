"""`gesso train`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gesso.cli import options as opt

if TYPE_CHECKING:
    from gesso.train.trainer import StepRecord


def train(
    recipe: Annotated[str | None, typer.Argument(help="Name of a recipe; left out, the recipes are listed.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; runs/RECIPE without it.")] = None,
    device: opt.Device = "auto",
    stop_at: Annotated[int | None, typer.Option(help="End after this step; the schedule stays the recipe's.")] = None,
    max_minutes: Annotated[float | None, typer.Option(help="Write a checkpoint and end after so many minutes.")] = None,
    export: Annotated[
        Path | None, typer.Option(help="Also write the last checkpoint's model here, in bfloat16, without optimiser.")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="CPU threads; all cores without it.")] = None,
) -> int:
    """Train by a recipe; a run that was cut off goes on from its newest checkpoint."""
    from gesso.errors import OptionError
    from gesso.train.recipes import RECIPES, load_recipe

    if recipe is None:
        for name, make in RECIPES.items():
            print(f"{name}  {(make.__doc__ or '').strip().splitlines()[0]}")
        return 0
    for option, value in (("--stop-at", stop_at), ("--max-minutes", max_minutes), ("--threads", threads)):
        if value is not None and value <= 0:
            raise OptionError(f"{option} must be above 0, got {value}")
    import torch
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from gesso.train.checkpoint import export as write_export
    from gesso.train.trainer import train as run

    if threads is not None:
        torch.set_num_threads(threads)
    plan = load_recipe(recipe)
    columns = (
        TextColumn("step"),
        MofNCompleteColumn(),
        BarColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
    )
    folder = out or Path("runs") / plan.name
    with Progress(*columns) as progress:
        task = progress.add_task("train", total=min(plan.train.steps, stop_at or plan.train.steps), note="starting")

        def on_step(step: int, record: "StepRecord | None") -> None:
            if record is not None:
                note = f"loss {record.denoiser_loss:.4f} {record.tokens_per_second:,.0f} tok/s"
                progress.update(task, note=note)
            progress.update(task, completed=step)

        path = run(plan, folder, device=device, stop_at=stop_at, max_minutes=max_minutes, on_step=on_step)
    print(path)
    if export is not None:
        write_export(path, export)
        print(export)
    return 0
