"""`gesso eval`."""

from typing import Annotated

import typer

from gesso.cli import options as opt


def evaluate(
    model: Annotated[str, typer.Argument(help="Bundled name, checkpoint folder or Hugging Face id.")] = "mini",
    task: Annotated[list[str] | None, typer.Option(help="Only this task; may be repeated.")] = None,
    examples: Annotated[int, typer.Option("--examples", "-n", help="Held-out prompts of each task.")] = 200,
    seed: Annotated[int, typer.Option(help="Of the prompts and of the sampling.")] = 0,
    max_denoising_steps: opt.MaxSteps = None,
    entropy_bound: opt.EntropyBound = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON line.")] = False,
    failures: Annotated[int, typer.Option(help="Show so many wrong answers of each task.")] = 0,
    device: opt.Device = "auto",
    dtype: opt.Dtype = "auto",
    offline: opt.Offline = False,
) -> int:
    """Measure a model on held-out prompts: answers exactly right, and the denoising steps they took."""
    import dataclasses
    import json

    from rich.console import Console
    from rich.table import Table

    from gesso.errors import OptionError
    from gesso.tasks.registry import MINI_SKILLS, TASKS

    names = task or list(MINI_SKILLS)
    for name in names:
        if name not in TASKS:
            raise OptionError(f"no task {name!r}; known: {', '.join(TASKS)}")
    if examples < 1:
        raise OptionError(f"--examples must be at least 1, got {examples}")
    from gesso.api import load
    from gesso.train.evaluate import evaluate_task

    engine = load(model, device, dtype, offline=offline)
    console = Console(stderr=True, highlight=False)
    options = {"max_denoising_steps": max_denoising_steps, "entropy_bound": entropy_bound}
    scores = []
    for name in names:
        with console.status(f"{name}: {examples} prompts"):
            scores.append(evaluate_task(engine, TASKS[name], examples, seed, options))
    if as_json:
        print(json.dumps({"model": model, "seed": seed, "tasks": [dataclasses.asdict(score) for score in scores]}))
        return 0
    table = Table("task", "right", "95% interval", "steps/canvas", "95th pct", "tokens/forward", "s/answer", box=None)
    for score in scores:
        low, high = score.interval
        table.add_row(
            score.task,
            f"{score.right / score.examples:.1%}",
            f"{low:.1%} to {high:.1%}",
            f"{score.mean_steps:.1f}",
            f"{score.p95_steps:.0f}",
            f"{score.tokens_per_forward:.1f}",
            f"{score.seconds / score.examples:.2f}",
        )
    Console(highlight=False).print(table)
    for score in scores:
        for prompt, expected, found in score.wrong[:failures]:
            print(f"\n[{score.task}] {prompt}\nexpected: {expected}\nfound:    {found}")
    return 0
