"""What `--help` looks like: options under the headings of their groups, in one column where the terminal is narrow.

Plain text rather than boxes: it is quick to make, the same in a pipe and on the generated page, and loses no columns.
"""

from typing import Any

import typer.core

GROUPS = (
    "Answer",
    "Constraints (one at most)",
    "Sampling",
    "Denoising",
    "Canvases and tokens",
    "Output",
    "Measuring",
    "Server",
    "Limits",
    "Model",
)
"""Headings in their order; others stand before them, and options without one at the end."""
OTHER = "Options"
NARROW = 72
"""Columns below which help stands under an option, not beside it."""
WIDEST_NAME = 30
"""Columns that an option may take beside its help; a longer one has its help below."""


def _rank(group: str) -> int:
    if group == OTHER:
        return len(GROUPS) + 1
    return GROUPS.index(group) if group in GROUPS else -1


class Command(typer.core.TyperCommand):
    """A command whose help is grouped."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options."""
        arguments, groups = [], dict[str, list[tuple[str, str]]]()
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            if parameter.param_type_name == "argument":
                # Its type stands behind its name, which says enough.
                arguments.append((record[0].split(" <")[0], record[1]))
            else:
                groups.setdefault(getattr(parameter, "rich_help_panel", None) or OTHER, []).append(record)
        if arguments:
            _write(formatter, "Arguments", arguments)
        for group in sorted(groups, key=_rank):
            _write(formatter, group, groups[group])


class Group(typer.core.TyperGroup):
    """A group of commands, each with its whole first sentence."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write options and commands."""
        records = [parameter.get_help_record(ctx) for parameter in self.get_params(ctx)]
        _write(formatter, OTHER, [record for record in records if record is not None])
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands in the order they were added."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, command.get_short_help_str(limit=1000)) for name, command in commands if command is not None]
        _write(formatter, "Commands", rows)


def _write(formatter: Any, heading: str, rows: list[tuple[str, str]]) -> None:
    """A section; the formatter knows how wide the terminal is."""
    with formatter.section(heading):
        if formatter.width >= NARROW:
            formatter.write_dl(rows, col_max=WIDEST_NAME)
            return
        for name, text in rows:
            formatter.write(f"{'':>{formatter.current_indent}}{name}\n")
            formatter.indent()
            formatter.indent()
            formatter.write_text(text)
            formatter.dedent()
            formatter.dedent()
