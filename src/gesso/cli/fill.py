"""Implements `gesso fill`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gesso.cli import options as opt
from gesso.cli.files import check_has_place, check_output, check_replaceable, read_text, write_atomically
from gesso.cli.output import print_json, write_exactly
from gesso.cli.progress import run_shown
from gesso.load_options import LoadOptions
from gesso.options import Integer

if TYPE_CHECKING:
    from gesso.control.fill import FillResult
    from gesso.control.holes import Document

SAMPLING = ("temperature", "top_k", "top_p", "min_p")
MODES = ("canvas", "ar")
"""Modes in which holes are filled."""
File = Annotated[
    str,
    typer.Argument(metavar="FILE", help="A text with holes such as {{ }} or {{city: 2-12}}; - reads standard input."),
]
Instruction = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT", help="What the holes are to hold, or the text is to do.", rich_help_panel="What is asked"
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the filled text to this file.", rich_help_panel=opt.OUTPUT),
]
InPlace = Annotated[
    bool,
    typer.Option("--in-place", help="Write it to the file itself, whole or not at all.", rich_help_panel=opt.OUTPUT),
]
Alternatives = Annotated[
    int,
    typer.Option(metavar="N", help="Other texts that --json tells of each hole, at most.", rich_help_panel=opt.OUTPUT),
]


@opt.takes(
    (
        *("seed", "max_new_tokens", "mode", "canvas_length", "max_denoising_steps", "restart_steps"),
        *opt.strategy_options(),
        *SAMPLING,
    ),
    helps={
        "max_new_tokens": "Most tokens of a hole that says no length, and no more than a canvas has room for.",
        "mode": "canvas, or ar (token by token: what stands behind a hole decides how much of it is taken).",
    },
    words={"mode": MODES},
)
def fill(
    options: dict[str, Any],
    load: LoadOptions,
    context: typer.Context,
    file: File,
    instruction: Instruction = None,
    output: Output = None,
    in_place: InPlace = False,
    as_json: opt.AsJson = False,
    alternatives: Alternatives = 3,
) -> None:
    """Fill the holes of a text; all around them stays as it is, byte for byte."""
    import dataclasses

    from gesso.control.holes import parse_document
    from gesso.errors import OptionError

    Integer(minimum=0).check("alternatives", alternatives)
    if in_place and output is not None:
        raise OptionError("--in-place and --output contradict each other", option="in_place")
    if in_place:
        check_has_place(file)
    data, text = read_text(file)
    # A text without a hole, and what cannot be written, are refused before the model is loaded.
    document = parse_document(text)
    if in_place:
        check_replaceable(Path(file))
    if output is not None:
        check_output(output, "output")
    from gesso.cli.model_notes import is_named, suited

    around = "\n".join(document.texts)
    of_canvases = [name for name in options if (name, options[name]) != ("mode", "ar")]
    load = suited(load, instruction or "", named=is_named(context), options=of_canvases, beside=around)
    engine = opt.load_engine(load)
    from gesso.control.fill import fill as fill_job
    from gesso.whole_file import write_whole

    job = fill_job(
        engine,
        document,
        instruction or "",
        alternatives=alternatives,
        **options,
    )
    result = run_shown(engine, job)
    if in_place:
        write_atomically(Path(file), data, result.text.encode())
    elif output is not None:
        write_whole(output, result.text.encode())
    if as_json:
        print_json(dataclasses.asdict(result))
    elif sys.stdout.isatty():
        _show(document, result)
    elif not in_place and output is None:
        write_exactly(result.text.encode())


def _show(document: "Document", result: "FillResult") -> None:
    """The text with its holes in colour, and how they were found."""
    from itertools import zip_longest

    from rich.console import Console
    from rich.text import Text

    from gesso.cli.render import flow, printable

    shown = Text()
    for text, hole in zip_longest(document.texts, result.holes):
        shown.append(printable(text.replace("\r\n", "\n")))
        shown.append(printable(hole.text) if hole is not None else "", "bold green")
    console = Console(highlight=False)
    console.print(shown, soft_wrap=True)
    facts = [f"{result.denoising_steps} steps", f"{result.seconds:.2f} s", f"seed {result.seed}"]
    if result.truncated:
        facts.append("text far from a hole was left out")
    console.print(flow(facts, console.width), style="dim")
