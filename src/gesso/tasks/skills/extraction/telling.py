"""Writes sentences with values, and tells which facts they hold.

A sentence names its values in braces, `{payer/from:person}`: the names that a request may give a value, and behind the
colon how it is drawn, where that is not the first name.
"""

import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache

from gesso.tasks.skills.articles import with_articles
from gesso.tasks.skills.extraction.values import DRAWN, Value
from gesso.tasks.skills.patterns import Phrasings, expand
from gesso.tasks.skills.slots import Slots

_FIELD = re.compile(r"\{([\w/]+)(?::(\w+))?\}")
_OWN_NAME = 0.6
"""Share of the values that are asked for by their first name."""
_SMALL_SHARE, _SPACED_SHARE = 0.08, 0.35
_CODE_NAMES = frozenset({"how_many", "e_mail"})
"""Names that have no spaces in place of their underscores."""
_MEASURE = re.compile(
    r"[ -]?(%|°|percent|degrees|k?m|[cm]m|(?:kilo|centi|milli)?(?:met|lit)(?:re|er)s?|[km]?g|grams?|kilos?|ml|l|MB|GB"
    r"|hours?|minutes?|days?|seconds?|miles?|feet|points?|acres?|euros?|dollars?|pounds?)(?!\w)"
)


@dataclass(frozen=True, slots=True)
class Fact:
    """Holds a value that a text tells, and the names that a request may give it, its own first."""

    names: tuple[str, ...]
    value: Value


def pick(slots: Slots, phrasings: Phrasings) -> str:
    """Draws one of the patterns, expanded, its places still open."""
    return expand(slots.rng.choice(phrasings.unseen if slots.reworded else phrasings.seen), slots.rng)


@cache
def by_subject(patterns: tuple[str, ...]) -> dict[str, list[str]]:
    """Groups patterns by what stands before their first colon: the fact or the sort of values that they are about."""
    found: dict[str, list[str]] = {}
    for pattern in patterns:
        subject, text = pattern.split(": ", 1)
        found.setdefault(subject, []).append(text)
    return found


def tell(slots: Slots, pattern: str) -> tuple[str, list[Fact]]:
    """Fills the values of a sentence in, and returns it with its facts in order; a few are all in small letters."""
    facts: dict[str, Fact] = {}
    small = slots.rng.random() < _SMALL_SHARE

    def fill(found: re.Match[str]) -> str:
        names = tuple(found[1].split("/"))
        if names[0] not in facts:
            value = draw_value(
                slots, found[2] or names[0].rstrip("0123456789"), [fact.value for fact in facts.values()]
            )
            facts[names[0]] = Fact(names, _lower(value) if small else value)
        return written(slots.rng, facts[names[0]].value)

    text = with_articles(_FIELD.sub(fill, pattern))
    return (text.lower() if small else text), list(facts.values())


def is_measured(text: str, key: str, value: Value) -> bool:
    """Says whether a unit stands behind the number in the text, which people may want with it, or not."""
    if not isinstance(value, int | Decimal):
        return False
    place = re.search(rf"(?<![\w.]){re.escape(str(value))}(?![\d.]*\d)", text)
    unit = _MEASURE.match(text, place.end()) if place else None
    return unit is not None and unit[1] != key


def named(rng: random.Random, facts: list[Fact]) -> dict[str, Value]:
    """Chooses a name for each fact, no name twice."""
    found: dict[str, Value] = {}
    spaced = rng.random() < _SPACED_SHARE
    for fact in facts:
        free = [name for name in fact.names if name not in found]
        name = fact.names[0] if fact.names[0] in free and rng.random() < _OWN_NAME else rng.choice(free)
        if "_" in name and name not in _CODE_NAMES and spaced:
            name = name.replace("_", " ")
        found[name] = fact.value
    return found


def draw_value(slots: Slots, kind: str, others: list[Value]) -> Value:
    """Draws a value of a kind, none of the others of the text."""
    while True:
        value = DRAWN[kind](slots)
        if value not in others:
            return value


def written(rng: random.Random, value: Value) -> str:
    """Returns a value as a sentence has it: lists with "and"."""
    if not isinstance(value, list):
        return str(value)
    return f"{', '.join(value[:-1])}{', and ' if len(value) > 2 and rng.random() < 0.2 else ' and '}{value[-1]}"


def dumps(facts: Mapping[str, Value]) -> str:
    """Returns JSON, with numbers as the sentence writes them."""
    fields = (
        f"{json.dumps(key)}: {value if isinstance(value, Decimal) else json.dumps(value)}"
        for key, value in facts.items()
    )
    return f"{{{', '.join(fields)}}}"


def _lower(value: Value) -> Value:
    if isinstance(value, list):
        return [item.lower() for item in value]
    return value.lower() if isinstance(value, str) else value


def by_letters(facts: Sequence[Fact]) -> list[tuple[str, Value]]:
    """Returns what a text says about two or three: the facts `a`, `b` and `c` with `x`, `y` and `z`."""
    by_name = {fact.names[0]: fact.value for fact in facts}
    return [(str(by_name[key]), by_name[value]) for key, value in zip("abc", "xyz", strict=True) if key in by_name]
