"""Makes parameters of the command line from rows of the table of options, and reads their values back."""

import functools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from gesso.cli.flag_names import with_flags
from gesso.errors import OptionError
from gesso.generation import STRATEGIES, engine_options
from gesso.load_options import MODEL
from gesso.options import (
    Choice,
    Files,
    Integer,
    IntegerOrWord,
    Number,
    OneOf,
    Option,
    PinnedTokens,
    StrategyName,
    Switch,
    Texts,
    TokenIds,
    options_of,
)

LONGEST_METAVAR = 18
_RULE = re.compile(r"::=|:\s")
"""What a grammar has, and no name of a file."""
STRATEGIES_GROUP = "Of one sampler, schedule or stopping rule"
"""Heading of the options that only some strategy has, which is not the default."""


def first_flag(row: Option) -> str:
    """Returns the flag of a row, of several the first."""
    assert row.flag is not None
    return row.flag.split()[0].split("/")[0]


def flag(row: Option, help: str | None = None, default: str = "") -> Any:  # noqa: A002
    """Returns the `typer.Option` of a row; `help` says it in another way, and `default` what holds without it."""
    assert row.flag is not None
    text = with_flags(help or row.help, _flags())
    facts = "; ".join(fact for fact in (row.unit, row.kind.bounds) if fact)
    owner = f" ({row.owner})" if _is_choice(row) else ""
    if row.group == MODEL and isinstance(row.default, str):
        default = row.default
    metavar = None if isinstance(row.kind, Switch) else _metavar(row)
    words, offer = "", None
    if metavar == "NAME" and isinstance(row.kind, Choice | StrategyName):
        words, offer = f" One of {', '.join(row.kind.words)}.", _offer(row.kind)
    brackets = "".join(f" [{part}]" for part in (facts, default and f"default: {default}") if part)
    return typer.Option(
        *row.flag.split(),
        help=f"{text}{words}{_form(row)}{owner}{brackets}",
        metavar=metavar,
        show_default=False,
        autocompletion=offer,
        rich_help_panel=(STRATEGIES_GROUP if _is_of_others(row) else row.group) or None,
    )


def _offer(kind: Choice | StrategyName) -> Callable[[str], list[str]]:
    """Returns what offers a shell the words of an option."""

    def offer(incomplete: str) -> list[str]:
        return [word for word in kind.words if word.startswith(incomplete)]

    return offer


@functools.cache
def _flags() -> dict[str, str]:
    """The flags of options, by the names that other interfaces have for them."""
    return {row.name: row.flag.split()[0] for row in engine_options().values() if row.flag is not None}


def _is_choice(row: Option) -> bool:
    """Whether it goes with some strategies only, there being others."""
    return any(row.owner.startswith(registry.label) and len(registry.names) > 1 for registry in STRATEGIES.values())


def _is_of_others(row: Option) -> bool:
    """Says whether it is an option of strategies that have to be chosen, and not of a default one."""
    of_some = [registry for registry in STRATEGIES.values() if row.owner.startswith(registry.label)]
    return any(row.name not in options_of(registry.get(registry.default)) for registry in of_some)


def _form(row: Option) -> str:
    """How a value is written, where that is not plain."""
    if row.source == "commas":
        return " Separated by commas."
    if row.source in ("file", "schema file"):
        return " A file, or the text itself."
    if isinstance(row.kind, Texts | Files):
        return " May be repeated."
    if isinstance(row.kind, TokenIds):
        return " Separated by commas."
    return " Ids separated by commas, _ where it is free." if isinstance(row.kind, PinnedTokens) else ""


def _metavar(row: Option) -> str:
    kind = row.kind
    if row.source in ("file", "schema file"):
        return "FILE|TEXT"
    if isinstance(kind, Files):
        return "FILE"
    if isinstance(kind, Choice | StrategyName):
        words = "|".join(kind.words)
        return words if len(words) <= LONGEST_METAVAR else "NAME"
    if isinstance(kind, IntegerOrWord):
        return "|".join(("N", *kind.words))
    names: dict[type, str] = {Integer: "N", OneOf: "N", Number: "X", TokenIds: "IDS", PinnedTokens: "IDS"}
    return names.get(type(kind), "TEXT")


def annotation(row: Option) -> Any:
    """Returns the type that typer reads a row's value as; None, false or an empty list is a value that was not
    given."""
    kind = row.kind
    if isinstance(kind, Switch):
        return bool | None if row.optional else bool
    if isinstance(kind, Integer | OneOf | Number):
        return (float if isinstance(kind, Number) else int) | None
    if isinstance(kind, Files):  # not as paths, in which an address would lose a slash
        return list[str] | None
    return list[str] | None if isinstance(kind, Texts) and row.source != "commas" else str | None


def read(row: Option, value: Any) -> Any:
    """Returns what a given value means.

    Raises:
        OptionError: token ids that are none; a file that cannot be read, or is no JSON.
    """
    assert row.flag is not None
    name = first_flag(row)
    if row.source == "file":
        return _read_file(row, name, value)
    if row.source == "schema file":
        return _read_schema(row, name, value)
    if row.source == "commas":
        return parted(value)
    if isinstance(row.kind, Texts | Files):
        return tuple(value)
    if isinstance(row.kind, TokenIds):
        return _token_ids(row, name, value)
    if isinstance(row.kind, PinnedTokens):
        return _token_ids(row, name, value, free="_")
    if isinstance(row.kind, IntegerOrWord):
        return int(value) if value.removeprefix("-").isdecimal() else value
    return value


def parted(joined: str) -> tuple[str, ...]:
    """Splits a text at its commas; white space around a part does not belong to it."""
    return tuple(part.strip() for part in joined.split(","))


def _read_file(row: Option, name: str, given: str) -> str:
    """The text of a file, or what is given where it has rules or several lines, as no file's name has."""
    if _RULE.search(given) or "\n" in given:
        return given
    path = _path(row, name, given)
    try:
        return path.read_text(encoding="utf-8-sig")  # which drops a byte order mark
    except OSError as error:
        raise OptionError(f"{name} {path}: {error.strerror}", option=row.name) from None
    except UnicodeDecodeError as error:
        raise OptionError(f"{name} {path}: no UTF-8 text: {error}", option=row.name) from None


def _read_schema(row: Option, name: str, given: str) -> Any:
    """The schema of a file, or what is given where it is an object of JSON."""
    from gesso.constraints.json_bundle import read_schema

    if given.lstrip().startswith("{"):
        try:
            return json.loads(given)
        except (ValueError, RecursionError) as error:
            raise OptionError(f"{name}: no JSON: {error}", option=row.name) from None
    path = _path(row, name, given)
    try:
        return read_schema(path)
    except OptionError as error:
        raise OptionError(f"{name} {error}", option=row.name) from None


def _path(row: Option, name: str, given: str) -> Path:
    if not given:
        raise OptionError(f"{name}: it is empty, and names a file", option=row.name)
    return Path(given)


def _token_ids(row: Option, name: str, text: str, free: str | None = None) -> tuple[int | None, ...]:
    """Numbers with commas between them; None for `free`."""
    try:
        return tuple(None if part.strip() == free else int(part) for part in text.split(","))
    except ValueError:
        example = "5,17,204" if free is None else f"5,{free},204"
        message = f"{name} takes token ids separated by commas, such as {example}"
        raise OptionError(message, option=row.name) from None
