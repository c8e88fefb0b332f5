"""Implements `gesso models`: what is here, what it is made of, and what it can do."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gesso.cli import options as opt
from gesso.cli.help import Command, Group
from gesso.cli.output import format_bytes, print_json, print_table
from gesso.cli.progress import stdout_console, working
from gesso.errors import OptionError

if TYPE_CHECKING:
    from gesso.models.card import ModelCard


class _Models(Group):
    """Takes the name of a model in the place of a command: `gesso models mini` is `gesso models show mini`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Finds the command that the first argument names, or `show`."""
        return super().resolve_command(ctx, args if args[0] in self.commands else ["show", *args])


models = typer.Typer(
    cls=_Models,
    help="List models and what they can do, or show one.",
    invoke_without_command=True,
    rich_markup_mode=None,
    no_args_is_help=False,
)
UNTRAINED = "format only: it was not trained for them"
"""Said of tool calls or thinking that a model's tokenizer and template know, and the model does not."""
UNKNOWN = "in its format; no card says whether it was trained for them"
"""And where nothing says whether it does."""


@models.callback()
def _list(context: typer.Context, as_json: opt.AsJsonLine = False) -> None:
    if context.invoked_subcommand is not None:
        if as_json:
            raise OptionError("--json stands behind the name: gesso models show NAME --json", option="as_json")
        return
    from rich.table import Table
    from rich.text import Text

    from gesso.models.hub import bundled, cached, resolve

    with working("reading the models"):
        from gesso.models.describe import folder_bytes

        folders = [(name, "bundled", resolve(name)) for name in bundled()]
        found = [
            {"name": name, "where": where, "bytes": folder_bytes(folder), **_brief(folder)}
            for name, where, folder in folders
        ]
        found += [{"name": m.name, "where": "hub cache", "bytes": m.bytes, **_brief(m.path)} for m in cached()]
    if as_json:
        print_json(found)
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("model", overflow="fold")
    table.add_column("where")
    for head in ("size", "parameters", "context", "canvas"):
        table.add_column(head, justify="right", no_wrap=True)
    for model in found:
        figures = (_figure(model.get(name)) for name in ("parameters", "context", "canvas_length"))
        table.add_row(model["name"], model["where"], format_bytes(model["bytes"]), *figures)
    console = stdout_console()
    print_table(console, table)
    console.print()
    for model in found:
        console.print(Text.assemble((model["name"], "bold"), ": ", _sentence(model)))
    console.print(Text("gesso models show NAME has the examples, the intervals and all figures", "dim"))


@models.command(cls=Command)
def show(
    model: opt.ModelName,
    as_json: opt.AsJsonLine = False,
    offline: opt.Offline = False,
    device_memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Also show what would lie on a GPU of which this may be used, such as 8GB, and what would stream.",
        ),
    ] = None,
) -> None:
    """Show what a model can do, its size, its shape and its default settings."""
    from rich.table import Table
    from rich.text import Text

    from gesso.models.card import read_card
    from gesso.models.hub import resolve

    folder = resolve(model, offline=offline)
    card = read_card(folder)
    with working(f"reading {model}"):
        from gesso.models.describe import describe

        facts = {**describe(folder), **_abilities(folder, card)}
    if device_memory is not None:
        facts["device_memory"] = _offload(folder, device_memory)
    if as_json:
        print_json(facts)
        return
    console = stdout_console()
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        if name not in ("skills", "measured_on", "limits"):
            table.add_row(name.replace("_", " "), f"{value:,}" if isinstance(value, int) else str(value))
    print_table(console, table)
    if card is None:
        return
    console.print()
    if card.measured_on:
        console.print(Text(f"measured on {card.measured_on}:"))
    skills = Table("skills", "right", "95% interval", "goal", "steps", box=None, pad_edge=False)
    for skill in card.skills:
        interval = f"{skill.low:.1%} to {skill.high:.1%}"
        skills.add_row(skill.name, f"{skill.right:.1%}", interval, f"{skill.goal:.0%}", f"{skill.steps:.1f}")
    print_table(console, skills)
    console.print()
    for skill in card.skills:
        console.print(Text.assemble((skill.name, "bold"), ": ", skill.example))
    if card.limits:
        console.print(Text.assemble("\n", ("limits", "bold"), ": ", card.limits))


def _offload(folder: Path, device_memory: str) -> str:
    """Says what would lie on a GPU, and what a pass would cost by this machine's link, where there is one.

    Raises:
        OptionError: no size, or too little for what cannot stream.
    """
    import torch

    from gesso.engine.constraint import TABLE_BYTES
    from gesso.models.loading import plan_folder_offload
    from gesso.nn.device_store import CudaStore
    from gesso.options.sizes import size_in_bytes
    from gesso.runner.offload import working_bytes

    limit = size_in_bytes(device_memory, "--device-memory")
    plan = plan_folder_offload(folder, "cuda", "auto", limit, working_bytes(TABLE_BYTES))
    if plan is None:
        return "all weights fit"
    link = CudaStore(torch.device("cuda")).rate() if torch.cuda.is_available() else None
    return plan.sentence(link)


def _abilities(folder: Path, card: "ModelCard | None") -> dict[str, Any]:
    """Whether there are tool calls, thinking and images, and the skills that were measured."""
    from gesso.text.output import CHANNEL
    from gesso.text.tool_calls import CALL

    def can(token: str, variable: str, trained: bool | None) -> str:
        templates = (folder / "chat_template.jinja", folder / "tokenizer_config.json")
        if not (_mentions(folder / "tokenizer.json", token) and any(_mentions(path, variable) for path in templates)):
            return "no"
        return {True: "yes", False: UNTRAINED, None: UNKNOWN}[trained]

    return {
        "tool_calls": can(CALL, "tools", None if card is None else card.tool_calls),
        "thinking": can(CHANNEL, "enable_thinking", None if card is None else card.thinking),
        "images": "yes" if _sees(folder) else "no",
        "skills": [asdict(skill) for skill in card.skills] if card is not None else [],
        "measured_on": card.measured_on if card is not None else "",
        "limits": card.limits if card is not None else "",
    }


def _sees(folder: Path) -> bool:
    """Whether there is a vision tower; weights that cannot be read have none."""
    from gesso.errors import GessoError
    from gesso.models.vision_loading import has_vision

    try:
        return has_vision(folder)
    except GessoError:
        return False


def _mentions(path: Path, word: str) -> bool:
    try:
        return word.encode() in path.read_bytes()
    except OSError:
        return False


def _brief(folder: Path) -> dict[str, Any]:
    """What the list has of a model; only `error` where its files cannot be used."""
    from gesso.errors import GessoError
    from gesso.models.card import read_card
    from gesso.models.describe import parameters, vision_parameters
    from gesso.models.family import read_shape

    try:
        config, card = read_shape(folder), read_card(folder)
    except GessoError as error:
        return {"error": str(error)}
    return {
        "parameters": parameters(config)[0] + (vision_parameters(folder, config) if _sees(folder) else 0),
        "context": config.max_position_embeddings,
        "canvas_length": config.canvas_length,
        **_abilities(folder, card),
    }


def _sentence(model: dict[str, Any]) -> str:
    """What a model of the list can do."""
    if "error" in model:
        return f"cannot be used: {model['error']}"
    known = ", ".join(f"{skill['name']} {_share(skill['right'])}" for skill in model["skills"])
    words = {"tool_calls": "tool calls", "thinking": "thinking", "images": "images"}
    able = [word for name, word in words.items() if model[name] in ("yes", UNKNOWN)]
    unable = [word for name, word in words.items() if model[name] not in ("yes", UNKNOWN)]
    parts = [known, ", ".join(able), f"no {', no '.join(unable)}" if unable else ""]
    return "; ".join(part for part in parts if part)


def _share(part: float) -> str:
    return f"{part:.1%}".replace(".0%", "%")


def _figure(number: int | None) -> str:
    if number is None:
        return "?"
    return f"{number / 1e9:.1f} B" if number >= 1e9 else f"{number / 1e6:.1f} M" if number >= 1e6 else f"{number:,}"
