"""Serves `GET /v1/options`: the table of options, for whoever builds a form of it."""

from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel

from gesso.generation import engine_options
from gesso.options import Choice, Integer, IntegerOrWord, Number, Option, StrategyName, Switch, Text, Texts
from gesso.server.context import Context

OptionType = Literal["integer", "number", "switch", "choice", "text", "texts", "integer_or_word", "json"]
_BOUNDS = ("minimum", "above", "maximum", "below")


class OptionCard(BaseModel):
    """Describes one option of a request. Bounds that an option does not have are left out."""

    name: str
    field: str
    """Path of its field in a request."""
    type: OptionType
    """`json` is any other value, such as a list of token ids."""
    help: str
    group: str
    unit: str = ""
    owner: str = ""
    """The strategy whose option it is."""
    default: Any = None
    """What this server takes where a request does not say; null where that is `unset`."""
    unset: str = ""
    """What null means."""
    minimum: float | None = None
    above: float | None = None
    """Excluded, as `below` is."""
    maximum: float | None = None
    below: float | None = None
    words: list[str] = []
    """What may be chosen, or the word that may stand in the place of a number."""


class OptionList(BaseModel):
    """Lists the options in the order of the table."""

    object: Literal["list"]
    data: list[OptionCard]


def option_routes(context: Context) -> APIRouter:
    """Makes the route of the table over this engine."""
    router = APIRouter(tags=["models"])

    @router.get("/v1/options", response_model_exclude_unset=True)
    async def options() -> OptionList:
        """Lists the options of a request, with their units, bounds and defaults."""
        defaults = context.service.engine.defaults
        cards = [_card(row, getattr(defaults, row.name, row.default)) for row in engine_options().values() if row.field]
        return OptionList(object="list", data=cards)

    return router


def _card(row: Option, default: Any) -> OptionCard:
    kind, facts = row.kind, dict[str, Any]()
    facts |= {name: text for name in ("unit", "owner", "unset") if (text := getattr(row, name))}
    if isinstance(kind, Integer | Number):
        facts |= {name: bound for name in _BOUNDS if (bound := getattr(kind, name)) is not None}
    elif isinstance(kind, IntegerOrWord):
        facts |= {"minimum": kind.minimum, "maximum": kind.maximum, "words": list(kind.words)}
    elif isinstance(kind, Choice | StrategyName):
        facts["words"] = list(kind.words)
    return OptionCard(
        name=row.name,
        field=row.field or "",
        type=_type(row),
        help=row.help,
        group=row.group,
        default=default,
        **facts,
    )


def _type(row: Option) -> OptionType:
    names: dict[type, OptionType] = {
        Integer: "integer",
        Number: "number",
        Switch: "switch",
        Choice: "choice",
        StrategyName: "choice",
        Text: "text",
        Texts: "texts",
        IntegerOrWord: "integer_or_word",
    }
    return names.get(type(row.kind), "json")
