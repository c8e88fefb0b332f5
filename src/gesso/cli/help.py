"""Help pages that fit: no description is cut short, and in a narrow terminal an option's stands below its name."""

from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

NARROW = 70
"""Columns below which names and descriptions have no room side by side."""
NARROW_NAME = 8
"""Columns that a name may have there before the description goes to the next line."""
_HelpFormatter: Any = typer.Context.formatter_class


class HelpFormatter(_HelpFormatter):  # type: ignore[misc]
    """Lays out a help page."""

    def write_dl(self, rows: Sequence[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl(rows, col_max if self.width >= NARROW else NARROW_NAME, col_spacing)


class Context(typer.Context):
    """The context of a command line, which knows how help is laid out."""

    formatter_class = HelpFormatter


class Command(TyperCommand):
    """A command with such help."""

    context_class = Context


class Group(TyperGroup):
    """Commands with such help; each is listed with the whole first line of its description."""

    context_class = Context

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - click's signature
        """List the commands."""
        rows = [(name, command.get_short_help_str(limit=1000)) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
