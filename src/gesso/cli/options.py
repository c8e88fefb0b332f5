"""Gives commands the options of the table, and declares those that several commands have besides.

A command says by `takes` which options it has. It is then called with `options`, the keywords of a request that were
given, with a dataclass of rows, such as `LoadOptions`, for every parameter that is annotated as one, and with what was
given of a config for every parameter that is annotated as `Given` of it.
"""

import functools
import inspect
import itertools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import typer
from typer.models import OptionInfo

from gesso.cli.flag_names import refusal_with_flags
from gesso.cli.given import Given
from gesso.cli.option_rows import annotation, first_flag, flag, parted, read
from gesso.cli.output import note
from gesso.errors import OptionError
from gesso.generation import STRATEGIES, engine_options
from gesso.load_options import DEFAULT_MODEL, MODEL, LoadOptions
from gesso.options import Choice, Option, Switch, options_of

if TYPE_CHECKING:
    from gesso.cli.remote import ServedModel
    from gesso.engine.engine import Engine

OUTPUT = "Output"


def strategy_options() -> tuple[str, ...]:
    """Returns the options that choose a sampler, a schedule and a stopping rule, and those of each of them."""
    return tuple(name for role, registry in STRATEGIES.items() for name in (role, *registry.options()))


def takes(
    names: Iterable[str] = (),
    *,
    but: Sequence[str] = (),
    model: str = DEFAULT_MODEL,
    helps: Mapping[str, str] | None = None,
    words: Mapping[str, tuple[str, ...]] | None = None,
    rows: Mapping[type, Sequence[str]] | None = None,
    usual: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns a decorator that gives a command options of the table.

    Args:
        names: those of a request that it has; what has no flag is left out.
        but: which of them, or of a dataclass of rows such as `LoadOptions`, it does not have.
        model: the one that is loaded where nobody names another.
        helps: what an option says in this command.
        words: the words that an option takes in this command, where it has fewer than the table says.
        rows: those of a config that it has, by dataclass, where it has not all.
        usual: defaults of a config's settings in this command; None where a default says nothing there.
    """
    table, helps, words, usual = engine_options(), helps or {}, words or {}, usual or {}
    asked = {name: _narrowed(table[name], words) for name in names if name not in but and table[name].flag is not None}

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        own = inspect.signature(command).parameters
        kinds: dict[str, Any] = {name: its.annotation for name, its in own.items() if is_dataclass(its.annotation)}
        parts = {name: _rows_of(kind, but, model) for name, kind in kinds.items()}
        configs = {
            name: get_args(its.annotation)[0] for name, its in own.items() if get_origin(its.annotation) is Given
        }
        settings = {name: _settings_of(kind, (rows or {}).get(kind), words) for name, kind in configs.items()}
        shown = [*asked.values(), *itertools.chain(*parts.values(), *settings.values())]
        flags = {**_own_flags(own.values()), **_row_flags(shown)}

        @functools.wraps(command)
        def called(**values: Any) -> Any:
            given = {row.name: values.pop(row.name) for row in shown}
            try:
                # Values are checked here: a mistake must not wait for a model to be loaded.
                if "options" in own:
                    values["options"] = _checked(asked.values(), given)
                values |= {
                    name: kind(**{row.name: given[row.name] for row in parts[name]}) for name, kind in kinds.items()
                }
                values |= {name: Given(kind, _checked(settings[name], given), usual) for name, kind in configs.items()}
                return command(**values)
            except OptionError as error:
                strategies = [name for registry in STRATEGIES.values() for name in registry.names]
                named = refusal_with_flags(error, flags, strategies)
                if named is error:
                    raise
                raise named from None

        kept = [its for name, its in own.items() if name != "options" and name not in parts and name not in configs]
        made = [
            _parameter(None, row, False if isinstance(row.kind, Switch) else None, helps, words)
            for row in asked.values()
        ]
        made += [
            _parameter(kinds[name], row, row.default, helps, words) for name, part in parts.items() for row in part
        ]
        made += [_setting(row, helps, usual) for row in itertools.chain(*settings.values())]
        parameters = [*(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in kept), *made]
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return called

    return decorate


def _rows_of(kind: type, but: Sequence[str], model: str) -> list[Option]:
    """The rows of a dataclass that a command has."""
    rows = [row for name, row in options_of(kind).items() if name not in but]
    return [replace(row, default=model) if kind is LoadOptions and row.name == "model" else row for row in rows]


def _settings_of(config: type, names: Sequence[str] | None, words: Mapping[str, tuple[str, ...]]) -> list[Option]:
    """The settings of a config that a command has; each may be left out, also one that is on or off."""
    rows = options_of(config)
    shown = [name for name, row in rows.items() if row.flag is not None] if names is None else names
    return [replace(_narrowed(rows[name], words), optional=True) for name in shown]


def _narrowed(row: Option, words: Mapping[str, tuple[str, ...]]) -> Option:
    """The row with fewer words, where a command has fewer."""
    return replace(row, kind=Choice(words[row.name])) if row.name in words else row


def _checked(rows: Iterable[Option], given: Mapping[str, Any]) -> dict[str, Any]:
    """The values that were given, as a configuration holds them."""
    return {row.name: row.check(read(row, given[row.name])) for row in rows if _is_given(row, given[row.name])}


def _row_flags(rows: Iterable[Option]) -> dict[str, str]:
    """The flags of rows, by name; `model` is a word of messages, too."""
    return {row.name: first_flag(row) for row in rows if row.flag is not None and row.name != "model"}


def _own_flags(parameters: Iterable[inspect.Parameter]) -> dict[str, str]:
    """The flags that a command declares beside the rows, by the names of its parameters; but that of `model`."""
    found = {}
    for parameter in parameters:
        for declared in get_args(parameter.annotation)[1:]:
            if isinstance(declared, OptionInfo) and parameter.name != "model":
                written = (word for word in declared.param_decls or () if word.startswith("--"))
                found[parameter.name] = next(written, f"--{parameter.name.replace('_', '-')}").split("/")[0]
    return found


def _is_given(row: Option, value: Any) -> bool:
    """Where it was not, a default holds."""
    return value is not None and value != [] and (value is not False or row.optional)


def _parameter(
    declaring: type | None, row: Option, default: Any, helps: Mapping[str, str], words: Mapping[str, tuple[str, ...]]
) -> inspect.Parameter:
    model = row.default if row.name == "model" else None
    made = _annotated(declaring, row.name, helps.get(row.name), model, words.get(row.name))
    return inspect.Parameter(row.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=made)


def _setting(row: Option, helps: Mapping[str, str], usual: Mapping[str, Any]) -> inspect.Parameter:
    """The parameter of a config's setting, which says what holds where it is left out."""
    value = usual.get(row.name, row.default)
    text = ", ".join(value) if isinstance(value, tuple) else "" if value is None or value is False else str(value)
    declared = flag(row, helps.get(row.name), text or row.unset)
    return inspect.Parameter(
        row.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[annotation(row), declared]
    )


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


def load_served(server: str, load: LoadOptions, *, named: bool, api_key: str | None) -> "ServedModel":
    """Returns a model behind a server in the place of one that is loaded.

    Args:
        named: whether somebody named the model; else it is the server's first.

    Raises:
        OptionError: other options of loading are given, which mean nothing there; or see `ServedModel`.
        HubError: there is no such server, or it lets nobody in.
    """
    from gesso.cli.failure import needs
    from gesso.errors import OptionError

    if load != LoadOptions(model=load.model):
        *others, last = (first_flag(row) for name, row in _LOAD.items() if name != "model")
        message = f"--server has a model of its own: {', '.join(others)} and {last} mean nothing"
        raise OptionError(message, option="server")
    with needs("server", "--server needs"):
        from gesso.cli.remote import ServedModel
    return ServedModel(server, load.model if named else None, api_key)


# Options of commands that are not in the table


_LOAD = options_of(LoadOptions)
Model = Annotated[str, flag(_LOAD["model"])]
ModelName = Annotated[str, typer.Argument(metavar="MODEL", help=_LOAD["model"].help)]
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

Out = Annotated[Path | None, typer.Option(help="Folder of the run; a run that is there already goes on.")]
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
