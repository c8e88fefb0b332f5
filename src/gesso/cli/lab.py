"""Implements `gesso lab`."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gesso.cli import options as opt
from gesso.cli.files import check_output
from gesso.cli.output import print_json, print_table
from gesso.load_options import LoadOptions
from gesso.options import Integer

if TYPE_CHECKING:
    from gesso.lab.grid import Grid
    from gesso.lab.run import LabResult

_COMPARING = {"rich_help_panel": "Comparing"}
SHOWN = (0, 1, 2, 3, 5, 8, 9)
"""Columns of the report that a terminal has room for."""
WIDE = 80
"""Columns of a terminal that has this room; a narrower one wraps lines, as settings would have the width of a word."""


@opt.takes((), but=("model",))
def lab(
    load: LoadOptions,
    grid: Annotated[
        Path | None, typer.Argument(metavar="GRID", help="A JSON file of models, tasks, settings and their product.")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", "-m", metavar="NAME", help="May be repeated.", **_COMPARING)
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="This task, not each model's own. May be repeated.", **_COMPARING),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="TEXT",
            help='Options of a setting, as in "sampler=maskgit max_denoising_steps=8"; "" is the model\'s own. May be '
            "repeated; the first is what the others are compared with.",
            **_COMPARING,
        ),
    ] = None,
    examples: Annotated[
        int, typer.Option("--examples", "-n", metavar="N", help="Held-out prompts of each task.", **_COMPARING)
    ] = 100,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the prompts and of the sampling.", **_COMPARING)] = 0,
    max_minutes: Annotated[
        float | None, typer.Option(metavar="X", help="Begin nothing more after so many minutes.", **_COMPARING)
    ] = None,
    store: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Where answers are kept; the next run goes on from it.",
            rich_help_panel=opt.OUTPUT,
        ),
    ] = Path("lab.sqlite"),
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write tables and plots as a page of HTML.", rich_help_panel=opt.OUTPUT),
    ] = None,
    as_json: opt.AsJsonLine = False,
) -> int:
    """Compare settings on tasks: a grid with paired seeds, intervals and tests, which goes on where it ended."""
    import dataclasses

    from gesso.cli.progress import working
    from gesso.errors import OptionError

    Integer(minimum=1).check("examples", examples)
    if max_minutes is not None and not 0 < max_minutes < math.inf:
        raise OptionError(f"--max-minutes must be above 0 and finite, got {max_minutes:g}", option="max_minutes")
    if report is not None and report.resolve() in [file.resolve() for file in (store, grid) if file is not None]:
        raise OptionError(f"--report is {report}, which is read from: name another file", option="report")
    if report is not None:
        check_output(report, "report")
    if grid is None and not (model or task or setting):
        raise OptionError('there is nothing to compare: give a GRID, or --set, as in --set "" --set sampler=maskgit')
    wanted = _grid(grid, model, task, setting)
    from gesso.lab.report import write_report
    from gesso.lab.run import run_grid
    from gesso.lab.store import Store

    with Store(store) as kept, working("gesso lab") as tell:
        result = run_grid(
            wanted,
            lambda name: opt.load_engine(dataclasses.replace(load, model=name)),
            kept,
            examples=examples,
            seed=seed,
            max_seconds=None if max_minutes is None else 60 * max_minutes,
            adapter=None if load.adapter is None else Path(load.adapter),
            offline=load.offline,
            progress=tell,
        )
    if report is not None:
        write_report(result, report)
    if as_json:
        rows = [dataclasses.asdict(row) for row in result.rows]
        print_json({**dataclasses.asdict(result), "rows": rows, "store": str(store)})
    else:
        _show(result)
    return 0


def _grid(path: Path | None, model: list[str] | None, task: list[str] | None, setting: list[str] | None) -> "Grid":
    """What is compared: a file's grid, whose parts the command line's take the place of."""
    import dataclasses

    from gesso.lab.grid import Grid, Setting, read_grid

    found = Grid() if path is None else read_grid(path)
    given: dict[str, Any] = {}
    if model:
        given["models"] = tuple(model)
    if task:
        given["tasks"] = tuple(task)
    if setting:
        given["settings"] = tuple(Setting(_options(text)) for text in setting)
    return dataclasses.replace(found, **given)


def _options(text: str) -> dict[str, Any]:
    """Options of a setting; values are JSON, or words."""
    import json
    import shlex

    from gesso.errors import OptionError

    try:
        parts = shlex.split(text)
    except ValueError as error:
        raise OptionError(f"--set {text!r}: {error}", option="set") from None
    options: dict[str, Any] = {}
    for part in parts:
        name, equals, value = part.partition("=")
        if not equals or not name:
            raise OptionError(f"--set takes NAME=VALUE, got {part!r}", option="set")
        name = name.replace("-", "_")
        if name in options:
            raise OptionError(f"--set {text!r}: {name} is given twice", option="set")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options


def _show(result: "LabResult") -> None:
    """A table for each model and task."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from gesso.lab.report import AREA, HEADS, cells, groups
    from gesso.lab.statistics import accuracy_under_parallelism

    console = Console(highlight=False)
    for model, task, rows in groups(result.rows):
        table = Table(box=None, pad_edge=False, title=f"{model} {task}", title_justify="left")
        for place in SHOWN:
            table.add_column(HEADS[place], overflow="fold", justify="right" if place else "left", no_wrap=place > 0)
        for row in rows:
            told = cells(row)
            table.add_row(*(Text(told[place]) for place in SHOWN), style="bold" if row.best else "")
        print_table(console, table, WIDE)
        area = accuracy_under_parallelism([(row.tokens_per_forward, row.right / row.examples) for row in rows])
        console.print(f"{AREA}: {area:.0f}", style="dim")
    console.print("p (Holm): how likely chance alone makes such a difference to the first setting", style="dim")
    left = f"; {result.missing} left for another run" if result.missing else ""
    console.print(f"{result.made} answers made{left}", style="dim")
