"""Gives commands the options of the table, and declares those that several commands have besides.

A command says by `takes` which options it has. It is then called with `options`, the keywords of a request that were
given, and with a dataclass of rows, such as `LoadOptions`, for every parameter that is annotated as one.
"""

import functools
import inspect
import itertools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer.models import OptionInfo

from gesso.cli.flag_names import refusal_with_flags
from gesso.cli.option_rows import annotation, flag, parted, read
from gesso.cli.output import note
from gesso.errors import OptionError
from gesso.generation import STRATEGIES, engine_options
from gesso.load_options import DEFAULT_MODEL, MODEL, LoadOptions
from gesso.options import Choice, Option, Switch, options_of

if TYPE_CHECKING:
    from gesso.engine.engine import Engine

OUTPUT = "Output"


def strategy_options() -> tuple[str, ...]:
    """Returns the options that choose a sampler, a schedule and a stopping rule, and those of each of them."""
    return tuple(name for role, registry in STRATEGIES.items() for name in (role, *registry.options()))


def takes(
    names: Iterable[str] = (),
    *,
    but: Sequence[str] = (),
    load: Sequence[str] = tuple(options_of(LoadOptions)),
    model: str = DEFAULT_MODEL,
    helps: Mapping[str, str] | None = None,
    words: Mapping[str, tuple[str, ...]] | None = None,
    set_by: Mapping[str, str] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns a decorator that gives a command options of the table.

    Args:
        names: those of a request that it has; what has no flag is left out.
        but: which of them, or of a dataclass of rows, it does not have.
        load: those of loading a model; `LoadOptions` gets the rest at their defaults.
        model: the one that is loaded where nobody names another.
        helps: what an option says in this command.
        words: the words that an option takes in this command, where it has fewer than the table says.
        set_by: flags of a config's settings that are named otherwise, such as `keep_checkpoints`.
    """
    table = engine_options()
    rows = {name: table[name] for name in names if name not in but and table[name].flag is not None}
    for name, fewer in (words or {}).items():
        rows[name] = replace(rows[name], kind=Choice(fewer))

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        own = inspect.signature(command).parameters
        kinds: dict[str, Any] = {name: its.annotation for name, its in own.items() if is_dataclass(its.annotation)}
        parts = {name: _rows_of(kind, load, but, model) for name, kind in kinds.items()}
        shown = [*rows.values(), *itertools.chain(*parts.values())]
        flags = {**_own_flags(own.values()), **_row_flags(shown), **(set_by or {})}

        @functools.wraps(command)
        def called(**values: Any) -> Any:
            given = {name: values.pop(name) for name in rows}
            told = {name: {row.name: values.pop(row.name) for row in part} for name, part in parts.items()}
            try:
                if "options" in own:
                    # Values are checked here: a mistake must not wait for a model to be loaded.
                    values["options"] = {
                        name: rows[name].check(read(rows[name], value))
                        for name, value in given.items()
                        if _is_given(value)
                    }
                values |= {name: kind(**told[name]) for name, kind in kinds.items()}
                return command(**values)
            except OptionError as error:
                strategies = [name for registry in STRATEGIES.values() for name in registry.names]
                named = refusal_with_flags(error, flags, strategies)
                if named is error:
                    raise
                raise named from None

        kept = [parameter for name, parameter in own.items() if name != "options" and name not in parts]
        texts = helps or {}, words or {}
        made = [_parameter(None, row, False if isinstance(row.kind, Switch) else None, *texts) for row in rows.values()]
        made += [_parameter(kinds[name], row, row.default, *texts) for name, part in parts.items() for row in part]
        parameters = [*(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in kept), *made]
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return called

    return decorate


def _rows_of(kind: type, load: Sequence[str], but: Sequence[str], model: str) -> list[Option]:
    """The rows of a dataclass that a command has."""
    if kind is not LoadOptions:
        return [row for name, row in options_of(kind).items() if name not in but]
    rows = [options_of(kind)[name] for name in load]
    return [replace(row, default=model) if row.name == "model" else row for row in rows]


def _row_flags(rows: Iterable[Option]) -> dict[str, str]:
    """The flags of rows, by name; `model` is a word of messages, too."""
    written = {row.name: row.flag for row in rows if row.flag is not None and row.name != "model"}
    return {name: flags.split()[0].split("/")[0] for name, flags in written.items()}


def _own_flags(parameters: Iterable[inspect.Parameter]) -> dict[str, str]:
    """The flags that a command declares beside the rows, by the names of its parameters; but that of `model`."""
    found = {}
    for parameter in parameters:
        for declared in get_args(parameter.annotation)[1:]:
            if isinstance(declared, OptionInfo) and parameter.name != "model":
                written = (word for word in declared.param_decls or () if word.startswith("--"))
                found[parameter.name] = next(written, f"--{parameter.name.replace('_', '-')}").split("/")[0]
    return found


def _is_given(value: Any) -> bool:
    """Where it was not, the checkpoint's default holds."""
    return value is not None and value is not False and value != []


def _parameter(
    declaring: type | None, row: Option, default: Any, helps: Mapping[str, str], words: Mapping[str, tuple[str, ...]]
) -> inspect.Parameter:
    model = row.default if row.name == "model" else None
    made = _annotated(declaring, row.name, helps.get(row.name), model, words.get(row.name))
    return inspect.Parameter(row.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=made)


@functools.cache
def _annotated(
    declaring: type | None,
    name: str,
    help: str | None,  # noqa: A002
    model: str | None,
    words: tuple[str, ...] | None,
) -> Any:
    """What typer reads of a row, made once for all commands: it is a part of every start. A request's are declared by
    no single class."""
    row = (engine_options() if declaring is None else options_of(declaring))[name]
    row = row if model is None else replace(row, default=model)
    row = row if words is None else replace(row, kind=Choice(words))
    return Annotated[annotation(row), flag(row, help)]


def load_engine(load: LoadOptions) -> "Engine":
    """Loads what the command line names.

    Raises:
        UserError: see `gesso.load`.
    """
    from gesso.cli.progress import working

    given = {name: getattr(load, name) for name in _LOAD if name != "model"}
    with working(f"loading {load.model}"), warnings.catch_warnings():
        # Torch is loaded here, under the same line: it takes longer than many a model.
        from gesso import api
        from gesso.cli.model_notes import note_other_base
        from gesso.models.other_base import OtherBaseWarning

        warnings.simplefilter("ignore", OtherBaseWarning)  # which is said in a line below
        engine = api.load(load.model, **given, tell=note)
    note_other_base(load.adapter, load.model)
    return engine


# Options of commands that are not in the table


_LOAD = options_of(LoadOptions)
LOADING = tuple(name for name in _LOAD if name != "adapter")
"""How a model is loaded by a command whose adapters are a server's, or that has none."""
Model = Annotated[str, flag(_LOAD["model"])]
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
AsJsonLine = Annotated[bool, typer.Option("--json", help="Print one JSON line.", rich_help_panel=OUTPUT)]

ContextParallel = Annotated[
    int, typer.Option(metavar="N", help="Split every sequence over N of the processes that torchrun starts.")
]
Targets = Annotated[
    list[str] | None, typer.Option("--target", help="Layers with a delta, a shell pattern on names; may be repeated.")
]
Optimizer = Annotated[str, typer.Option(help="adamw, adamw8bit with 8-bit moments, or muon with full.")]
Keep = Annotated[int, typer.Option(help="Newest checkpoints kept, besides the best.")]
Within = Annotated[
    float | None,
    typer.Option(
        metavar="MINUTES",
        help="What the whole run may take: the learning rate falls along it, so that it is done when it is over.",
    ),
]
Export = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Also write the result here, without the optimiser: model in bfloat16, or adapter."
    ),
]
Estimate = Annotated[bool, typer.Option("--estimate", help="Print the memory that a step will take, and end.")]


def split_answers(joined: str | None, single: list[str] | None) -> tuple[str, ...]:
    """Splits answers given as one text with commas, and one by one."""
    return *(parted(joined) if joined is not None else ()), *(single or ())
