"""Makes fields of bodies from the table of options, by which errors find their fields too."""

import functools
import re
from collections import Counter
from collections.abc import Callable, Container, Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, create_model
from pydantic.fields import FieldInfo

from gesso.generation import engine_options
from gesso.options import (
    Choice,
    Integer,
    IntegerOrWord,
    Number,
    OneOf,
    Option,
    PinnedTokens,
    StrategyName,
    Switch,
    Text,
    TokenIds,
)
from gesso.server.schema import FirstError, TokenId

M = TypeVar("M", bound=BaseModel)
_BOUNDS = {"minimum": "ge", "above": "gt", "maximum": "le", "below": "lt"}
_ELSEWHERE = {"adapter": "model", "begun": "messages"}
"""Fields of a request that set what they do not name."""


def field_of(name: str) -> Any:
    """Returns the bounds and description of a request's option, for a field that a body declares by itself."""
    return _field(engine_options()[name])


def _field(row: Option) -> FieldInfo:
    kind, bounds = row.kind, dict[str, Any]()
    if isinstance(kind, Integer | Number):
        bounds = {ours: getattr(kind, theirs) for theirs, ours in _BOUNDS.items() if getattr(kind, theirs) is not None}
    unit = f" Unit: {row.unit}." if row.unit else ""
    info: FieldInfo = Field(description=f"{row.help}{unit}", **bounds)
    return info


def _annotation(row: Option) -> Any:
    """The type of a field that may be left out, its bounds with it."""
    kind = row.kind
    found: Any
    if isinstance(kind, Integer | Number):
        found = int if isinstance(kind, Integer) else float
    elif isinstance(kind, Switch):
        found = bool
    elif isinstance(kind, Text):
        found = str
    elif isinstance(kind, Choice | StrategyName):
        found = _literal(*kind.words)
    elif isinstance(kind, OneOf):
        found = _literal(*kind.numbers)
    elif isinstance(kind, IntegerOrWord):
        found = Annotated[int, Field(ge=kind.minimum, le=kind.maximum)] | _literal(*kind.words)
    elif isinstance(kind, TokenIds):
        found = Annotated[list[TokenId], FirstError, Field(min_length=1)]
    elif isinstance(kind, PinnedTokens):
        found = Annotated[list[TokenId | None], FirstError, Field(min_length=1)]
    else:
        raise TypeError(f"option {row.name}: {type(kind).__name__} has no form in JSON; a body has to declare it")
    return Annotated[found, _field(row)] | None


def _literal(*words: str | int) -> Any:
    return Literal.__getitem__(words)


def rows_under(prefix: str) -> Mapping[str, Option]:
    """Finds the options whose fields stand in one object of a request, by the names of the fields."""
    fields = {row.field: row for row in engine_options().values() if row.field is not None}
    return {field.removeprefix(prefix): row for field, row in fields.items() if field.startswith(prefix)}


def shared_rows(names: Container[str]) -> Mapping[str, Option]:
    """Finds those of the options whose fields stand in a request itself that another interface calls by the same
    `names`."""
    return {name: row for name, row in rows_under("").items() if name in names}


def with_options(rows: Mapping[str, Option]) -> Callable[[type[M]], type[M]]:
    """Makes a decorator that gives a body a field for every option, but for those that it declares itself."""

    def add(body: type[M]) -> type[M]:
        fields = {name: (_annotation(row), None) for name, row in rows.items() if name not in body.model_fields}
        made: Any = create_model(
            body.__name__,
            __base__=body,
            __module__=body.__module__,
            __doc__=body.__doc__,
            **fields,  # type: ignore[call-overload]
        )
        return made  # type: ignore[no-any-return]

    return add


def request_field(option: str | None) -> str | None:
    """Finds the path of a request's field that sets an option.

    What is no option of a request is a part of the body by its own name: arguments of jobs such as `instruction`.
    """
    if option is None:
        return None
    row = engine_options().get(option)
    return _ELSEWHERE.get(option, option if row is None else row.field)


def in_fields(message: str) -> str:
    """Writes the name of a request's field wherever a message names the option behind it, `max_tokens` for
    `max_new_tokens`."""
    fields = _renamed()
    return re.sub(rf"\b({'|'.join(fields)})\b", lambda found: fields[found[0]], message)


@functools.cache
def _renamed() -> Mapping[str, str]:
    """Options that have one field of their own, by another name; words of one part might be meant as words."""
    fields = {name: row.field for name, row in engine_options().items() if row.field and row.field != "*"}
    named = {name: field.rpartition(".")[2] for name, field in fields.items() if Counter(fields.values())[field] == 1}
    return {name: field for name, field in named.items() if field != name and "_" in name}
