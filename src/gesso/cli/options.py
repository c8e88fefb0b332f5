"""Makes parameters of commands from the table of options, and reads their values back.

A command says by `takes` which options it has. It is then called with `options`, the keywords of a request that were
given, and with `load`, which model is loaded and how.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gesso.errors import OptionError
from gesso.generation import STRATEGIES, engine_options
from gesso.load_options import MODEL, LoadOptions
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

if TYPE_CHECKING:
    from gesso.engine.engine import Engine

OUTPUT = "Output"
LONGEST_METAVAR = 18
STRATEGIES_GROUP = "Of one sampler, schedule or stopping rule"
"""Heading of the options that only some strategy has, which is not the default."""


def flag(row: Option, help: str | None = None) -> Any:  # noqa: A002
    """Returns the `typer.Option` of a row; `help` says it in another way."""
    assert row.flag is not None
    text = help or row.help
    facts = "; ".join(fact for fact in (row.unit, row.kind.bounds) if fact)
    owner = f" ({row.owner})" if _is_choice(row) else ""
    default = f" [default: {row.default}]" if row.group == MODEL and isinstance(row.default, str) else ""
    metavar = None if isinstance(row.kind, Switch) else _metavar(row)
    words = ""
    if metavar == "NAME" and isinstance(row.kind, Choice | StrategyName):
        words = f" One of {', '.join(row.kind.words)}."
    return typer.Option(
        *row.flag.split(),
        help=f"{text}{words}{_form(row)}{owner}{f' [{facts}]' if facts else ''}{default}",
        metavar=metavar,
        show_default=False,
        rich_help_panel=(STRATEGIES_GROUP if _is_of_others(row) else row.group) or None,
    )


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
    if isinstance(row.kind, Texts | Files):
        return " May be repeated."
    if isinstance(row.kind, TokenIds):
        return " Separated by commas."
    return " Ids separated by commas, _ where it is free." if isinstance(row.kind, PinnedTokens) else ""


def _metavar(row: Option) -> str:
    kind = row.kind
    if row.source in ("file", "json file") or isinstance(kind, Files):
        return "FILE"
    if isinstance(kind, Choice | StrategyName):
        words = "|".join(kind.words)
        return words if len(words) <= LONGEST_METAVAR else "NAME"
    if isinstance(kind, IntegerOrWord):
        return f"N|{kind.word}"
    names: dict[type, str] = {Integer: "N", OneOf: "N", Number: "X", TokenIds: "IDS", PinnedTokens: "IDS"}
    return names.get(type(kind), "TEXT")


def annotation(row: Option) -> Any:
    """Returns the type that typer reads a row's value as; None, false or an empty list is a value that was not
    given."""
    kind = row.kind
    if row.source in ("file", "json file"):
        return Path | None
    if isinstance(kind, Switch):
        return bool
    if isinstance(kind, Integer | OneOf | Number):
        return (float if isinstance(kind, Number) else int) | None
    if isinstance(kind, Files):
        return list[Path] | None
    return list[str] | None if isinstance(kind, Texts) and row.source != "commas" else str | None


def read(row: Option, value: Any) -> Any:
    """Returns what a given value means.

    Raises:
        OptionError: token ids that are none; a file that cannot be read, or is no JSON.
    """
    assert row.flag is not None
    name = row.flag.split()[0]
    if row.source == "file":
        return _read_file(row, name, value)
    if row.source == "json file":
        return _read_json(row, name, value)
    if row.source == "commas":
        return tuple(value.split(","))
    if isinstance(row.kind, Texts | Files):
        return tuple(value)
    if isinstance(row.kind, TokenIds):
        return _token_ids(row, name, value)
    if isinstance(row.kind, PinnedTokens):
        return _token_ids(row, name, value, free="_")
    if isinstance(row.kind, IntegerOrWord):
        return int(value) if value.removeprefix("-").isdecimal() else value
    return value


def _read_file(row: Option, name: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise OptionError(f"{name} {path}: {error.strerror}", option=row.name) from None
    except UnicodeDecodeError as error:
        raise OptionError(f"{name} {path}: no UTF-8 text: {error}", option=row.name) from None


def _read_json(row: Option, name: str, path: Path) -> Any:
    import json

    text = _read_file(row, name, path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{name} {path}: no JSON: {error}", option=row.name) from None


def _token_ids(row: Option, name: str, text: str, free: str | None = None) -> tuple[int | None, ...]:
    """Numbers with commas between them; None for `free`."""
    try:
        return tuple(None if part.strip() == free else int(part) for part in text.split(","))
    except ValueError:
        example = "5,17,204" if free is None else f"5,{free},204"
        message = f"{name} takes token ids separated by commas, such as {example}"
        raise OptionError(message, option=row.name) from None


# Commands


def strategy_options() -> tuple[str, ...]:
    """Returns the options that choose a sampler, a schedule and a stopping rule, and those of each of them."""
    return tuple(name for role, registry in STRATEGIES.items() for name in (role, *registry.options()))


def takes(
    names: Iterable[str] = (),
    *,
    but: Sequence[str] = (),
    load: Sequence[str] = tuple(options_of(LoadOptions)),
    helps: Mapping[str, str] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns a decorator that gives a command options of the table.

    Args:
        names: those of a request that it has; what has no flag is left out.
        but: which of them it does not have.
        load: those of loading a model; `load` gets the rest at their defaults.
        helps: what an option says in this command.
    """
    table, loading = engine_options(), options_of(LoadOptions)
    rows = {name: table[name] for name in names if name not in but and table[name].flag is not None}
    load_rows = {name: loading[name] for name in load}

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        own = inspect.signature(command).parameters

        @functools.wraps(command)
        def called(**values: Any) -> Any:
            given = {name: values.pop(name) for name in rows}
            loaded = {name: values.pop(name) for name in load_rows}
            if "options" in own:
                values["options"] = {name: read(rows[name], value) for name, value in given.items() if _is_given(value)}
            if "load" in own:
                values["load"] = LoadOptions(**loaded)
            return command(**values)

        kept = [parameter for name, parameter in own.items() if name not in ("options", "load")]
        made = [_parameter(row, False if isinstance(row.kind, Switch) else None, helps or {}) for row in rows.values()]
        made += [_parameter(row, row.default, helps or {}) for row in load_rows.values()]
        parameters = [*(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in kept), *made]
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return called

    return decorate


def _is_given(value: Any) -> bool:
    """Where it was not, the checkpoint's default holds."""
    return value is not None and value is not False and value != []


def _parameter(row: Option, default: Any, helps: Mapping[str, str]) -> inspect.Parameter:
    made = _annotated(row.name, row.group, helps.get(row.name))
    return inspect.Parameter(row.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=made)


@functools.cache
def _annotated(name: str, group: str, help: str | None) -> Any:  # noqa: A002
    """What typer reads of a row, made once for all commands: it is a part of every start."""
    row = (_LOAD if group == MODEL else engine_options())[name]
    return Annotated[annotation(row), flag(row, help)]


def load_engine(load: LoadOptions) -> "Engine":
    """Loads what the command line names.

    Raises:
        UserError: see `gesso.load`.
    """
    from gesso import api
    from gesso.cli.failure import remark
    from gesso.cli.progress import working

    given = {
        name: getattr(load, name)
        for name in ("device", "dtype", "offline", "adapter", "cuda_graphs", "tensor_parallel", "pipeline_parallel")
    }
    with working(f"loading {load.model}"):
        return api.load(load.model, **given, device_memory=load.device_memory, tell=remark)


# Options of commands that are not in the table


_LOAD = options_of(LoadOptions)
Model = Annotated[str, flag(_LOAD["model"])]
Device = Annotated[str, flag(_LOAD["device"])]
Dtype = Annotated[str, flag(_LOAD["dtype"])]
Offline = Annotated[bool, flag(_LOAD["offline"])]
Server = Annotated[
    str | None,
    typer.Option(metavar="URL", help="An OpenAI-compatible server, to use its model.", rich_help_panel=MODEL),
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        metavar="KEY", envvar="GESSO_API_KEY", help="The key that the server asks for.", rich_help_panel=MODEL
    ),
]
System = Annotated[str | None, typer.Option(metavar="TEXT", help="A system message.", rich_help_panel="Answer")]
OneChoice = Annotated[
    list[str] | None,
    typer.Option(
        "--choice",
        metavar="TEXT",
        help="One such answer, commas and all. May be repeated.",
        rich_help_panel="Constraints (one at most)",
    ),
]
Prompt = Annotated[
    str | None,
    typer.Argument(metavar="PROMPT", help="The prompt; read from standard input where it is left out or -."),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON line with the whole result.", rich_help_panel=OUTPUT)
]

ContextParallel = Annotated[
    int, typer.Option(metavar="N", help="Split every sequence over N of the processes that torchrun starts.")
]
StopAt = Annotated[int | None, typer.Option(metavar="N", help="End after this step; the schedule stays as it is.")]
MaxMinutes = Annotated[
    float | None, typer.Option(metavar="X", help="Write a checkpoint and end after so many minutes.")
]
Threads = Annotated[int | None, typer.Option(metavar="N", help="CPU threads; all cores without it.")]
Plot = Annotated[bool, typer.Option("--plot", help="Draw the losses into loss.png at the end.")]
TensorBoard = Annotated[bool, typer.Option("--tensorboard", help="Write TensorBoard's files as well.")]
Export = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Also write the result here, without the optimiser: model in bfloat16, or adapter."
    ),
]
Estimate = Annotated[bool, typer.Option("--estimate", help="Print the memory that a step will take, and end.")]


def split_answers(joined: str | None, single: list[str] | None) -> tuple[str, ...]:
    """Splits answers given as one text with commas, and one by one."""
    return *(joined.split(",") if joined is not None else ()), *(single or ())
