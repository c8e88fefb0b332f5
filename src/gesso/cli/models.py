"""`gesso models`: what is here and what it is made of."""

import json
from typing import Annotated

import typer

from gesso.cli import options as opt
from gesso.cli.help import Command, Group

models = typer.Typer(
    cls=Group,
    help="List models and what they can do, or show one.",
    invoke_without_command=True,
    rich_markup_mode=None,
    no_args_is_help=False,
)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@models.callback()
def _list(context: typer.Context, as_json: AsJson = False) -> None:
    if context.invoked_subcommand is not None:
        return
    from rich.console import Console
    from rich.table import Table

    from gesso.models.describe import folder_bytes
    from gesso.models.hub import bundled, cached, resolve

    rows = [(name, "bundled", folder_bytes(resolve(name))) for name in bundled()]
    rows += [(model.name, "hub cache", model.bytes) for model in cached()]
    if as_json:
        print(json.dumps([{"name": n, "where": w, "bytes": b} for n, w, b in rows]))
        return
    table = Table("model", "where", "size", box=None, pad_edge=False)
    for name, where, size in rows:
        table.add_row(name, where, f"{size / 1e6:,.1f} MB")
    Console(highlight=False).print(table)


@models.command(cls=Command)
def show(
    model: Annotated[str, typer.Argument(help="Bundled name, checkpoint folder or Hugging Face id.")],
    as_json: AsJson = False,
    offline: opt.Offline = False,
) -> None:
    """Sizes, parameters and defaults of one model."""
    from rich.console import Console
    from rich.table import Table

    from gesso.models.describe import describe
    from gesso.models.hub import resolve

    facts = describe(resolve(model, offline=offline))
    if as_json:
        print(json.dumps(facts))
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in facts.items():
        shown = f"{value:,}" if isinstance(value, int) else str(value)
        table.add_row(name.replace("_", " "), shown)
    Console(highlight=False).print(table)
