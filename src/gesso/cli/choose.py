"""`gesso choose`."""

from typing import TYPE_CHECKING, Annotated

import typer

from gesso.cli import options as opt
from gesso.cli.progress import run_shown, working

if TYPE_CHECKING:
    from gesso.control.choose import ChooseResult

Prompt = Annotated[str | None, typer.Argument(help="The prompt; read from standard input where it is left out or -.")]
Options = Annotated[str | None, typer.Option("--options", help="The answers, separated by commas.")]
Answer = Annotated[list[str] | None, typer.Option("--option", help="One answer, commas and all; may be repeated.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON line with the whole result.")]
Raw = Annotated[bool, typer.Option("--raw", help="Take the prompt as it is, without the chat template.")]


def choose(
    prompt: Prompt = None,
    options: Options = None,
    option: Answer = None,
    model: opt.Model = "mini",
    system: opt.System = None,
    raw: Raw = False,
    seed: opt.Seed = None,
    as_json: AsJson = False,
    adapter: opt.Adapter = None,
    device: opt.Device = "auto",
    dtype: opt.Dtype = "auto",
    offline: opt.Offline = False,
) -> None:
    """Show how likely the model finds each of some given answers."""
    import dataclasses
    import json

    from gesso.cli.generate import read_prompt
    from gesso.errors import OptionError

    if raw and system is not None:
        raise OptionError("--raw takes the prompt as it is; --system needs the chat template")
    answers = opt.split_answers(options, option)
    if not answers:
        raise OptionError("give the answers, as in --options yes,no,unsure")
    text = read_prompt(prompt)
    from gesso.api import load
    from gesso.control.choose import choose as choose_job

    with working(f"loading {model}"):
        engine = load(model, device, dtype, offline=offline, adapter=adapter)
    turns = [("system", system), ("user", text)]
    messages = [{"role": role, "content": content} for role, content in turns if content is not None]
    result = run_shown(engine, choose_job(engine, text if raw else messages, answers, raw=raw, seed=seed))
    if as_json:
        print(json.dumps({**dataclasses.asdict(result), "best": result.best.text}, ensure_ascii=False))
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
    console.print(table)
    console.print(f"shares among these answers, uncalibrated; seed {result.seed}", style="dim")
