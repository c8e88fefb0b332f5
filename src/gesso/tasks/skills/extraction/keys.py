"""Writes the keys that a request names: in a row, in quotes, in braces, one a line, as an empty object."""

import json
import random
import re

from gesso.tasks.skills.extraction.telling import pick
from gesso.tasks.skills.patterns import Phrasings
from gesso.tasks.skills.slots import Slots
from gesso.tasks.words import words_of

_NO_NOUNS = frozenset(
    words_of("""
    who whom what where when at to from by via with dep arr leaves departs arrives opens closes begins is called
    how_many tall first last paid
""")
)
"""Keys that have no article before them."""
_SEPARATORS = (", ", ", ", ", ", ", ", ",", " / ", "/", " | ", " + ", " & ", "; ", " ", " n ", " and ")
OF_SEVERAL = re.compile(r"\b(are|these|those|them|their|each)\b")
"""Words of requests that speak of several keys."""
_AND = (" and ", " and ", " & ", ", and ")
_LINES = ("- {}", "- {}", "* {}", "{}", "{}", '- "{}"', "{}:")
_EMPTY = ("null", "null", "...", "?", "_")


def asked(slots: Slots, phrasings: Phrasings, keys: list[str], **values: str) -> str:
    """Draws a request and writes the keys into it."""
    rng = slots.rng
    pattern = pick(slots, phrasings)
    while len(keys) == 1 and "keys" in pattern and "{the}" not in pattern:
        several = OF_SEVERAL.search(pattern.replace("these keys", ""))
        if "json" in pattern.lower() and not several and rng.random() < 0.4:
            break
        pattern = pick(slots, phrasings)
    if len(keys) == 1:
        pattern = (
            pattern.replace("the keys {", "the key {").replace("keys {", "key {").replace("these keys", "this key")
        )
        pattern = pattern.replace("hat are {the}", "hat is {the}")
    return with_keys(rng, pattern, keys, **values)


def with_keys(rng: random.Random, pattern: str, keys: list[str], **values: str) -> str:
    """Writes the keys into a pattern."""
    texts = {
        "keys": _joined(rng, keys),
        "list": _listed(rng, keys),
        "the": _with_articles(rng, keys),
        "braces": braced(rng, keys),
        "lines": _on_lines(rng, keys),
        "empty": _emptied(rng, keys),
        **values,
    }
    return pattern.format_map(texts)


def _joined(rng: random.Random, keys: list[str]) -> str:
    quote = rng.choice(("{}", "{}", "{}", "{}", '"{}"', "'{}'", "`{}`"))
    written = [quote.format(key) for key in keys]
    if len(keys) == 1 or rng.random() < 0.3:
        return ", ".join(written)
    return f"{', '.join(written[:-1])}{rng.choice(_AND if len(keys) > 2 else _AND[:-1])}{written[-1]}"


def _listed(rng: random.Random, keys: list[str]) -> str:
    quote = rng.choice(("{}", "{}", "{}", "{}", '"{}"', "'{}'"))
    separator = rng.choice(_SEPARATORS)
    whole = rng.choice(("{}", "{}", "{}", "{}", "[{}]", "({})")) if "/" not in separator else "{}"
    return whole.format(separator.join(quote.format(key) for key in keys))


def _with_articles(rng: random.Random, keys: list[str]) -> str:
    if any(key in _NO_NOUNS or "_" in key or key[:1].isupper() for key in keys):
        return _joined(rng, keys)
    if rng.random() < 0.6:
        return " and ".join(filter(None, (", ".join(f"the {key}" for key in keys[:-1]), f"the {keys[-1]}")))
    return f"the {' and '.join(filter(None, (', '.join(keys[:-1]), keys[-1])))}"


def braced(rng: random.Random, keys: list[str]) -> str:
    """Returns the keys in braces."""
    quote = rng.choice(("{}", "{}", "{}", '"{}"'))
    inner = rng.choice((", ", ", ", ",", "; ")).join(quote.format(key) for key in keys)
    return rng.choice(("{%s}", "{%s}", "{ %s }")) % inner


def _on_lines(rng: random.Random, keys: list[str]) -> str:
    line = rng.choice(_LINES)
    if rng.random() < 0.15:
        return "\n".join(f"{number}. {key}" for number, key in enumerate(keys, start=1))
    return "\n".join(line.format(key) for key in keys)


def _emptied(rng: random.Random, keys: list[str]) -> str:
    value = rng.choice(_EMPTY)
    return f"{{{', '.join(f'{json.dumps(key)}: {value}' for key in keys)}}}"
