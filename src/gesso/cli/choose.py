"""Implements `gesso choose`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gesso.cli import options as opt
from gesso.cli.output import print_json, print_table
from gesso.cli.progress import run_shown
from gesso.load_options import LoadOptions

if TYPE_CHECKING:
    from gesso.control.choose import ChooseResult

_ANSWERS = "Answers to choose from"
_MEDIA = ("images", "videos", "image_budget", "video_budget", "video_fps", "video_frames")
Answers = Annotated[
    str | None,
    typer.Option("--options", metavar="TEXT", help="The answers, separated by commas.", rich_help_panel=_ANSWERS),
]
Answer = Annotated[
    list[str] | None,
    typer.Option(
        "--option", metavar="TEXT", help="One answer, commas and all. May be repeated.", rich_help_panel=_ANSWERS
    ),
]


@opt.takes(
    (*_MEDIA, "raw", "seed"),
    helps={
        "images": "An image that the prompt is about, before its text.",
        "videos": "A clip that the prompt is about, behind the images.",
    },
)
def choose(
    options: dict[str, Any],
    load: LoadOptions,
    context: typer.Context,
    prompt: opt.Prompt = None,
    joined: Answers = None,
    option: Answer = None,
    system: opt.System = None,
    as_json: opt.AsJson = False,
) -> None:
    """Show how likely the model finds each of some given answers."""
    import dataclasses

    from gesso.cli.generate import read_prompt
    from gesso.control.answers import checked_answers
    from gesso.errors import OptionError

    if options.get("raw") and system is not None:
        raise OptionError("--raw takes the prompt as it is; --system needs the chat template", option="raw")
    answers = opt.split_answers(joined, option)
    if not answers:
        raise OptionError("give the answers, as in --options yes,no,unsure", option="options")
    text = read_prompt(prompt)
    # Before the model is loaded.
    checked_answers(answers)
    from gesso.cli.model_notes import is_named, suited

    shown = [name for name in ("images", "videos") if options.get(name)]
    beside = "\n".join(answers)
    load = suited(load, text, named=is_named(context), options=shown, beside=beside, alone=system is None)
    engine = opt.load_engine(load)
    from gesso.control.choose import choose as choose_job
    from gesso.engine.media import media_options, with_media

    before = [] if system is None else [{"role": "system", "content": system}]
    messages = [*before, *with_media(text, media_options(options))]
    result = run_shown(engine, choose_job(engine, text if options.get("raw") else messages, answers, **options))
    if as_json:
        print_json({**dataclasses.asdict(result), "best": result.best.text})
    else:
        _show(result)


def _show(result: "ChooseResult") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("answer", overflow="fold")
    table.add_column("denoising", justify="right", no_wrap=True)
    table.add_column("causal", justify="right", no_wrap=True)
    for choice in sorted(result.choices, key=lambda choice: -choice.causal_logprob):
        style = "bold" if choice is result.best else ""
        table.add_row(Text(choice.text), f"{choice.denoising:.1%}", f"{choice.causal:.1%}", style=style)
    console = Console(highlight=False)
    print_table(console, table)
    console.print(f"shares among these answers, uncalibrated; seed {result.seed}", style="dim")
