"""Draws other forms of JSON: over several lines, without spaces, an object a line, and as lines of `key=value`."""

import json
from collections.abc import Callable, Sequence

from gesso.tasks.skills.conversion.everyday import draw_everyday
from gesso.tasks.skills.conversion.values import Row, draw_nested, draw_rows, draw_text, nested_yaml, plain
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.slots import Slots

_PRETTY = read_phrasings("conversion", "pretty")
_COMPACT = read_phrasings("conversion", "compact")
_PAIRS = read_phrasings("conversion", "pairs")
_INTO_PAIRS = read_phrasings("conversion", "into pairs")
_JSON_LINES = read_phrasings("conversion", "json lines")
_ASK = read_phrasings("conversion", "ask")
PHRASINGS = {
    "pretty": _PRETTY, "compact": _COMPACT, "pairs": _PAIRS, "into pairs": _INTO_PAIRS, "json lines": _JSON_LINES,
}  # fmt: skip
_OF_ONE = r"table|this data"
"""Words of requests that would call the lines something else."""
_OF_JSON = ("JSON", "JSON", "json")
_OF_YAML = ("YAML", "YAML", "yaml", "yml")


def draw_pretty(slots: Slots) -> tuple[str, str]:
    """Asks for JSON over several lines with two spaces, or without any space."""
    rng = slots.rng
    rows = draw_everyday(slots)[:2] if rng.random() < 0.6 else []
    data = (rows if len(rows) > 1 else rows[0]) if rows else draw_nested(slots)
    if rng.random() < 0.6:
        given = json.dumps(data, separators=(",", ":")) if rng.random() < 0.4 else json.dumps(data)
        return slots.request(_PRETTY, given), json.dumps(data, indent=2)
    given = json.dumps(data, indent=2) if rng.random() < 0.6 else json.dumps(data)
    return slots.request(_COMPACT, given), json.dumps(data, separators=(",", ":"))


def draw_pairs(slots: Slots) -> tuple[str, str]:
    """Asks for lines of `key=value` as JSON or YAML, or the other way."""
    rng = slots.rng
    data = _settings(slots)
    as_json = rng.random() < 0.6
    text = json.dumps(data) if as_json else nested_yaml(data)
    name = rng.choice(_OF_JSON if as_json else _OF_YAML)
    if rng.random() < 0.6:
        between = rng.choice(("=", "=", "=", " = "))
        given = "\n".join(f"{key}{between}{plain(value)}" for key, value in data.items())
        return slots.request(_PAIRS, given, new=name), text
    return slots.request(_INTO_PAIRS, text, old=name), "\n".join(f"{key}={plain(value)}" for key, value in data.items())


def _settings(slots: Slots) -> dict[str, object]:
    """Draws two to four settings, none of which has a space."""
    rng = slots.rng
    rows = draw_rows(slots, 1, rng.choice((2, 2, 3, 4)), nulls=False)[0]
    upper = rng.random() < 0.3
    found: dict[str, object] = {}
    for key, value in rows.items():
        name = key.replace(" ", "_")
        one = draw_text(slots.word) if isinstance(value, str) and " " in value else value
        found[name.upper() if upper else name] = one
    return found


def draw_json_lines(slots: Slots, formats: Sequence[tuple[str, Callable[[Sequence[Row]], str]]]) -> tuple[str, str]:
    """Asks for a JSON object a line of a table in one of the formats, or the other way."""
    rng = slots.rng
    rows = draw_everyday(slots)[:3]
    while len(rows) == 1:
        rows = draw_everyday(slots)[:3]
    lines = "\n".join(map(json.dumps, rows))
    name, write = rng.choice(formats)
    if rng.random() < 0.65:
        return slots.request(_JSON_LINES, write(rows), old=name), lines
    new = "a JSON array" if name == "JSON" else name
    return slots.request(_ASK, lines, old=rng.choice(("JSONL", "JSON Lines")), new=new, without=_OF_ONE), write(rows)
