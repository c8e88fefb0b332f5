"""Implements `gesso eval`."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gesso.cli import options as opt
from gesso.cli.likelihood import measure_likelihood
from gesso.cli.output import note, print_json, print_table
from gesso.control.search_options import SearchOptions
from gesso.generation import PENALTIES
from gesso.load_options import DEFAULT_MODEL, LoadOptions
from gesso.options import Integer

if TYPE_CHECKING:
    from rich.table import Table

    from gesso.tasks.base import Example, Task
    from gesso.train.evaluate import GroupScore, TaskScore
    from gesso.train.intervals import Interval


_DENOISING = (
    "max_new_tokens",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    *PENALTIES,
    "penalty_window",
    "max_denoising_steps",
    "restart_steps",
    "mode",
    "canvas_width",
    "stop_at_end",
    "verify",
    "verify_threshold",
    "guidance_scale",
    "guidance_start",
    "guidance_end",
    "negative_prompt",
    "image_budget",
)
_MEASURING = {"rich_help_panel": "Measuring"}
_HELPS = {
    "raw": "Ask the pairs of --data as they are, without the chat template, as finetune --raw teaches them.",
    "check": "Stop at an answer that this finds right: task (the task's own check, by the prompt alone), reference "
    "(its grader, which knows the right answer: what search could gain at most), or FILE.py:FUNCTION.",
}


@opt.takes(
    (*_DENOISING, "raw", *opt.strategy_options()),
    but=("reference", "model"),
    helps=_HELPS,
)
def evaluate(
    options: dict[str, Any],
    load: LoadOptions,
    search: SearchOptions,
    model: opt.ModelName = DEFAULT_MODEL,
    task: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="This task, not the model's own. May be repeated.", **_MEASURING),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Ask what the lines of a file of training data ask instead: right is what a line answers, or the same "
            "JSON. May be repeated.",
            **_MEASURING,
        ),
    ] = None,
    examples: Annotated[
        int | None,
        typer.Option(
            "--examples",
            "-n",
            metavar="N",
            help="Held-out prompts of each task, or lines of a file: of --data drawn by --seed, of --likelihood the "
            "first. [default: 200; all of a file]",
            **_MEASURING,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the prompts and of the sampling.", **_MEASURING)] = 0,
    other_pictures: Annotated[
        bool,
        typer.Option(
            "--other-pictures", help="Ask again of another picture: the answer has to change with it.", **_MEASURING
        ),
    ] = False,
    as_json: opt.AsJsonLine = False,
    failures: Annotated[
        int,
        typer.Option(metavar="N", help="Show so many wrong answers of each task.", rich_help_panel=opt.OUTPUT),
    ] = 0,
    likelihood: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Measure how likely the answers of a file of training data are instead: exactly by the causal pass, "
            "and bounded by the denoiser.",
            **_MEASURING,
        ),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Noisy copies of each canvas for that bound; 0 leaves it out. [default: 32]", **_MEASURING
        ),
    ] = None,
) -> int:
    """Measure a model on held-out prompts: answers exactly right, and the denoising steps they took."""
    import dataclasses

    from rich.console import Console

    from gesso.errors import OptionError
    from gesso.tasks.registry import default_tasks

    if failures < 0:
        raise OptionError(f"--failures must be at least 0, got {failures}", option="failures")
    if likelihood is not None or samples is not None:
        others = {"task": task, "best_of": search.best_of, "particles": search.particles, "data": data, **options}
        others |= {"failures": failures or None, "other_pictures": other_pictures or None}
        model_load = dataclasses.replace(load, model=model)
        return measure_likelihood(model_load, likelihood, samples, seed, examples, as_json, others)
    if examples is not None:
        Integer(minimum=1).check("examples", examples)
    for name, value in (("task", task), ("other_pictures", other_pictures)):
        if data and value:
            raise OptionError(f"--{name.replace('_', '-')} does not go with --data", option=name)
    if data and search.check in ("task", "reference"):
        message = f"--check {search.check} knows a task's own prompts: with --data name FILE.py:FUNCTION"
        raise OptionError(message, option="check")
    raw = options.get("raw", False)
    if raw and not data:
        raise OptionError("--raw needs --data: the prompts of tasks go through the chat template", option="raw")
    planned = _of_files(data, examples, seed, raw) if data else _of_tasks(task or default_tasks(model), examples, seed)
    names = list(planned)
    from gesso.train.evaluate import evaluate_examples

    engine = opt.load_engine(dataclasses.replace(load, model=model))
    console = Console(stderr=True, highlight=False)
    scores: list[TaskScore] = []
    with suppress(KeyboardInterrupt):  # what is measured is shown first
        for name, (measured, draw) in planned.items():
            with console.status(name) as status:
                cases = draw()
                status.update(f"{name}: {len(cases)} prompts")
                score = evaluate_examples(engine, measured, cases, seed, options, search, other_pictures=other_pictures)
                scores.append(dataclasses.replace(score, task=name))
    left = names[len(scores) :]
    if as_json:
        found = {"model": model, "seed": seed, "tasks": [dataclasses.asdict(score) for score in scores]}
        print_json({**found, "left": list(left)} if left else found)
    elif scores:
        _show(scores, failures)
    if left:
        note(f"not measured: {', '.join(left)}")
        raise KeyboardInterrupt
    return 0


_Planned = dict[str, tuple["Task", "Callable[[], list[Example]]"]]
"""Tasks by what they are called, each with what draws its prompts."""


def _of_tasks(names: Sequence[str], examples: int | None, seed: int) -> _Planned:
    from gesso.tasks.registry import find_task
    from gesso.train.evaluate import EXAMPLES, held_out_examples

    tasks, count = {name: find_task(name) for name in names}, EXAMPLES if examples is None else examples
    return {name: (task, partial(held_out_examples, task, count, seed)) for name, task in tasks.items()}


def _of_files(paths: Sequence[Path], examples: int | None, seed: int, raw: bool) -> _Planned:
    from gesso.train.file_task import FileTask

    tasks = {path: FileTask(path, raw=raw) for path in paths}  # which are read before the model is
    names = [path.name for path in tasks]
    for path, task in tasks.items():
        if examples is not None and examples > (lines := len(task.examples)):
            note(f"{path} has {lines:,} line{'s' * (lines != 1)} to ask, and --examples asks for more: all are asked")
    return {
        path.name if names.count(path.name) == 1 else str(path): (task, partial(task.chosen, examples, seed))
        for path, task in tasks.items()
    }


def _show(scores: "list[TaskScore]", failures: int) -> None:
    from rich.console import Console

    from gesso.cli.render import printable

    shown = Console(highlight=False)
    print_table(shown, _summary(scores))
    for score in scores:
        if score.groups or score.shares:
            shown.print()
            print_table(shown, _details(score))
    for score in scores:
        for prompt, expected, found in score.wrong[:failures]:
            gap = "\n" if "\n" in expected else " "
            print(f"\n[{score.task}] {prompt}\nexpected:{gap}{expected}\nfound:{gap}{printable(found)}")


def _summary(scores: "list[TaskScore]") -> "Table":
    """A line for each task."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, collapse_padding=True)
    table.add_column("task", overflow="fold")
    for head in ("right", "95%\ninterval", "steps/\ncanvas", "95th\npct", "tokens/\nforward", "s/\nanswer"):
        table.add_column(head, no_wrap=True)
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
        ("passes/answer", number(group.mean_passes, group.mean_passes_interval)),
        ("  95th pct", f"{group.p95_passes:.0f}"),
        ("latency, s", number(group.mean_seconds, group.mean_seconds_interval)),
    ]
