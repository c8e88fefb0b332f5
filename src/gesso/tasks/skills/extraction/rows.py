"""Asks for facts otherwise than as one object: an array of objects, values in a row or in lines, named lines."""

import random
from collections.abc import Mapping

from gesso.tasks.skills.extraction.keys import asked
from gesso.tasks.skills.extraction.placing import placed
from gesso.tasks.skills.extraction.telling import by_letters, dumps, pick, tell
from gesso.tasks.skills.extraction.values import Value
from gesso.tasks.skills.patterns import Phrasings, read_phrasings
from gesso.tasks.skills.slots import Slots

_ROWS = read_phrasings("record_extraction", "rows")
_ASK_ROWS = read_phrasings("record_extraction", "ask rows")
_IN_COMMAS = read_phrasings("record_extraction", "ask in commas")
_IN_LINES = read_phrasings("record_extraction", "ask in lines")
_WITH_NAMES = read_phrasings("record_extraction", "ask with names")
PHRASINGS: Mapping[str, Phrasings] = {
    "rows": _ROWS, "ask rows": _ASK_ROWS, "ask in commas": _IN_COMMAS, "ask in lines": _IN_LINES,
    "ask with names": _WITH_NAMES,
}  # fmt: skip


def draw_rows(slots: Slots) -> tuple[str, str]:
    """Draws a text of two or three of a kind, and a JSON array of an object for each."""
    rng = slots.rng
    pattern, names, values = pick(slots, _ROWS).split(" # ")
    text, facts = tell(slots, pattern)
    keys = [rng.choice(names.split("/")), rng.choice(values.split("/"))]
    if rng.random() < 0.1:
        keys.reverse()
    rows = [dict(zip(("name", "value"), pair, strict=True)) for pair in by_letters(facts)]
    order = ("name", "value") if keys[0] in names.split("/") else ("value", "name")
    objects = [dumps({key: row[part] for key, part in zip(keys, order, strict=True)}) for row in rows]
    return placed(slots, asked(slots, _ASK_ROWS, keys), text), f"[{', '.join(objects)}]"


def draw_values(slots: Slots, text: str, facts: Mapping[str, Value]) -> tuple[str, str]:
    """Asks for the facts of a text without JSON, in a layout that the request tells."""
    keys = list(facts)
    values = [str(value) for value in facts.values()]
    kind = slots.rng.choice(("commas", "lines", "lines", "names"))
    if kind == "commas" and any("," in value for value in values):
        kind = "lines"
    if kind == "commas":
        return placed(slots, asked(slots, _IN_COMMAS, keys), text), ", ".join(values)
    if kind == "lines":
        return placed(slots, asked(slots, _IN_LINES, keys), text), "\n".join(values)
    ask = asked(slots, _WITH_NAMES, keys, sample=keys[0], form=_form(slots.rng, keys))
    return placed(slots, ask, text), "\n".join(f"{key}: {value}" for key, value in zip(keys, values, strict=True))


def _form(rng: random.Random, keys: list[str]) -> str:
    end = rng.choice(("", "", " ...", " ___"))
    return "\n".join(f"{key}:{end}" for key in keys)
