"""`gesso eval`."""

from typing import TYPE_CHECKING, Annotated

import typer

from gesso.cli import options as opt

if TYPE_CHECKING:
    from rich.table import Table

    from gesso.train.evaluate import GroupScore, Interval, TaskScore


def evaluate(
    model: Annotated[str, typer.Argument(help="Bundled name, checkpoint folder or Hugging Face id.")] = "mini",
    task: Annotated[list[str] | None, typer.Option(help="This task, not the model's own; may be repeated.")] = None,
    examples: Annotated[int, typer.Option("--examples", "-n", help="Held-out prompts of each task.")] = 200,
    seed: Annotated[int, typer.Option(help="Of the prompts and of the sampling.")] = 0,
    max_denoising_steps: opt.MaxSteps = None,
    entropy_bound: opt.EntropyBound = None,
    mode: opt.Mode = None,
    canvas_width: opt.CanvasWidth = None,
    stop_at_end: opt.StopAtEnd = False,
    verify: opt.Verify = None,
    verify_threshold: opt.VerifyThreshold = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON line.")] = False,
    failures: Annotated[int, typer.Option(help="Show so many wrong answers of each task.")] = 0,
    adapter: opt.Adapter = None,
    device: opt.Device = "auto",
    dtype: opt.Dtype = "auto",
    offline: opt.Offline = False,
) -> int:
    """Measure a model on held-out prompts: answers exactly right, and the denoising steps they took."""
    import dataclasses
    import json

    from rich.console import Console

    from gesso.cli.render import printable
    from gesso.errors import OptionError
    from gesso.tasks.registry import TASKS, default_tasks

    names = task or default_tasks(model)
    for name in names:
        if name not in TASKS:
            raise OptionError(f"no task {name!r}; known: {', '.join(TASKS)}")
    if examples < 1:
        raise OptionError(f"--examples must be at least 1, got {examples}")
    from gesso.api import load
    from gesso.train.evaluate import evaluate_task

    engine = load(model, device, dtype, offline=offline, adapter=adapter)
    console = Console(stderr=True, highlight=False)
    options = {
        "max_denoising_steps": max_denoising_steps,
        "entropy_bound": entropy_bound,
        "mode": mode,
        "canvas_width": canvas_width,
        "stop_at_end": stop_at_end or None,
        "verify": opt.read_rounds(verify),
        "verify_threshold": verify_threshold,
    }
    scores = []
    for name in names:
        with console.status(f"{name}: {examples} prompts"):
            scores.append(evaluate_task(engine, TASKS[name], examples, seed, options))
    if as_json:
        print(json.dumps({"model": model, "seed": seed, "tasks": [dataclasses.asdict(score) for score in scores]}))
        return 0
    shown = Console(highlight=False)
    shown.print(_summary(scores))
    for score in scores:
        if score.groups or score.shares:
            shown.print()
            shown.print(_details(score))
    for score in scores:
        for prompt, expected, found in score.wrong[:failures]:
            gap = "\n" if "\n" in expected else " "
            print(f"\n[{score.task}] {prompt}\nexpected:{gap}{expected}\nfound:{gap}{printable(found)}")
    return 0


def _summary(scores: "list[TaskScore]") -> "Table":
    """A line for each task."""
    from rich.table import Table

    heads = ("task", "right", "95% interval", "steps/canvas", "95th pct", "tokens/forward", "s/answer")
    table = Table(*heads, box=None, pad_edge=False, collapse_padding=True)
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
    return table


def _details(score: "TaskScore") -> "Table":
    """A column for all examples and for each group of them; 95% intervals stand below."""
    from rich.table import Table

    columns: dict[str, GroupScore] = {"all": score, **score.groups}
    heads = (f"{name} ({group.examples})" for name, group in columns.items())
    table = Table(score.task, *heads, box=None, pad_edge=False)
    for lines in zip(*(_lines(group) for group in columns.values()), strict=True):
        table.add_row(lines[0][0], *(shown for _, shown in lines))
    return table


def _lines(group: "GroupScore") -> list[tuple[str, str]]:
    def percent(value: float, interval: "Interval") -> str:
        return f"{value:.1%}\n{interval[0]:.1%} to {interval[1]:.1%}"

    def number(value: float, interval: "Interval") -> str:
        return f"{value:.1f}\n{interval[0]:.1f} to {interval[1]:.1f}"

    return [
        ("right", percent(group.right / group.examples, group.interval)),
        *((name, percent(share.value, share.interval)) for name, share in group.shares.items()),
        ("steps/canvas", number(group.mean_steps, group.mean_steps_interval)),
        ("  95th pct", f"{group.p95_steps:.0f}"),
        ("steps/answer", number(group.mean_example_steps, group.mean_example_steps_interval)),
        ("  95th pct", f"{group.p95_example_steps:.0f}"),
        ("latency, s", number(group.mean_seconds, group.mean_seconds_interval)),
    ]
