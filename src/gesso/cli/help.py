"""Lays out help pages that fit the terminal.

No description is cut short, options stand under the headings of their groups, and in a narrow terminal a description
stands below its name. Plain text rather than boxes: quick to make, and no column is lost.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

NARROW = 70
"""Columns below which names and descriptions have no room side by side."""
NARROW_NAME = 4
"""Columns that a name may have there before the description goes to the next line."""
GROUPS = (
    *("Training", "Data", "Prompts and rewards", "Canvases", "Adapter", "Checkpoints and evaluation"),
    *("Answer", "Constraints (one at most)", "Sampling", "Denoising", "Guidance", "Search"),
    "Canvases and tokens",
    "Of one sampler, schedule or stopping rule",
    *("Comparing", "Measuring", "Server", "Limits", "Defaults of requests", "Output", "Model"),
)
"""Headings in their order; others stand before them, and options without one at the end."""
OTHER = "Options"
_HelpFormatter: Any = typer.Context.formatter_class


class HelpFormatter(_HelpFormatter):  # type: ignore[misc]
    """Lays out a help page."""

    def write_dl(self, rows: Sequence[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl(rows, col_max if self.width >= NARROW else NARROW_NAME, col_spacing)


def _rank(group: str) -> int:
    if group in GROUPS:
        return GROUPS.index(group) + 2
    return {"Arguments": 0, OTHER: len(GROUPS) + 2}.get(group, 1)


class Context(typer.Context):
    """Lays out the help of a command line by `HelpFormatter`."""

    formatter_class = HelpFormatter


def _takes_one(parameter: Any) -> bool:
    """Whether it is an option with one value."""
    return parameter.param_type_name == "option" and not (parameter.multiple or parameter.is_flag or parameter.count)


class Command(TyperCommand):
    """Lays out the help of a command that way."""

    context_class = Context

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Reads the command line; refuses an option of one value that is given twice, of which only the last would
        count, and an empty path, which would be the current folder."""
        given, _, order = self.make_parser(ctx).parse_args(list(args))
        rest = super().parse_args(ctx, args)
        parameter: Any
        for parameter, times in Counter(order).items():
            if times > 1 and not ctx.resilient_parsing and _takes_one(parameter):
                raise typer.BadParameter("it is given more than once, and takes one value", ctx, parameter)
        for parameter in self.get_params(ctx):
            values, found = given.get(parameter.name), ctx.params.get(parameter.name)
            is_path = any(isinstance(value, Path) for value in (found if isinstance(found, list | tuple) else [found]))
            if is_path and "" in (values if isinstance(values, list | tuple) else [values]):
                raise typer.BadParameter("it is empty, and names a file or a folder", ctx, parameter)
        return rest

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the arguments, and the options group by group."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and parameter.param_type_name == "argument":
                # The type that stands behind its name says nothing more.
                groups.setdefault("Arguments", []).append((record[0].split(" <")[0], record[1]))
            elif record is not None:
                groups.setdefault(getattr(parameter, "rich_help_panel", None) or OTHER, []).append(record)
        for group in sorted(groups, key=_rank):
            with formatter.section(group):
                formatter.write_dl(groups[group])


class Group(TyperGroup):
    """Lays out the help of a group that way; each command is listed with the whole first line of its description."""

    context_class = Context

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - click's signature
        """Lists the commands."""
        rows = [(name, command.get_short_help_str(limit=1000)) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
