"""Asks to turn small tables from JSON, CSV, YAML or Markdown into another of these."""

import json
from collections.abc import Callable, Sequence
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.layouts import draw_layout
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots
from gesso.tasks.to_json import same_json

Row = dict[str, str | int | float]

_ASK = read_phrasings("conversion", "ask")
_LIST = read_phrasings("conversion", "list")
_LISTS: dict[str, Callable[[Sequence[str]], str]] = {
    "a JSON array": json.dumps,
    "a JSON list": json.dumps,
    "a YAML list": lambda items: "\n".join(f"- {item}" for item in items),
    "a Markdown list": lambda items: "\n".join(f"- {item}" for item in items),
    "a bulleted list": lambda items: "\n".join(f"- {item}" for item in items),
    "CSV": ",".join,
    "comma separated values": ",".join,
}
_LIST_SHARE, _FENCED_SHARE, _OTHERWISE_SHARE = 0.12, 0.1, 0.2


def _json(rows: Sequence[Row]) -> str:
    return json.dumps(rows[0] if len(rows) == 1 else list(rows))


def _csv(rows: Sequence[Row]) -> str:
    return "\n".join(",".join(map(str, row)) for row in ([*rows[0]], *(row.values() for row in rows)))


def _yaml(rows: Sequence[Row]) -> str:
    if len(rows) == 1:
        return "\n".join(f"{key}: {value}" for key, value in rows[0].items())
    return "\n".join(
        f"{'  ' if i else '- '}{key}: {value}" for row in rows for i, (key, value) in enumerate(row.items())
    )


def _markdown(rows: Sequence[Row]) -> str:
    rule = ["---"] * len(rows[0])
    lines = ([*rows[0]], rule, *(row.values() for row in rows))
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


_FORMATS: dict[str, tuple[Callable[[Sequence[Row]], str], tuple[str, ...]]] = {
    "json": (_json, ("JSON", "JSON", "json")),
    "csv": (_csv, ("CSV", "CSV", "csv", "comma separated values")),
    "yaml": (_yaml, ("YAML", "YAML", "yaml", "yml")),
    "markdown": (_markdown, ("Markdown", "Markdown", "markdown", "md")),
}
_NO_TEXTS = {"yes", "no", "on", "off", "y", "n", "true", "false", "null"}
"""Words that are other values in YAML 1.1."""
_SHAPES = ((1, 2), (1, 3), (2, 2), (2, 3), (3, 2), (1, 4))
_SHAPE_WEIGHTS = (0.25, 0.2, 0.25, 0.1, 0.1, 0.1)


class Conversion(Skill):
    """Asks such as `Convert this CSV to YAML:` and a table of any words and numbers -> the same in YAML."""

    name = "conversion"
    phrasings: ClassVar = {"": _ASK, "list": _LIST}

    def draw(self, slots: Slots) -> Example:
        """Draws a table of one to three rows and two to four columns, or a plain list."""
        rng = slots.rng
        if rng.random() < _LIST_SHARE:
            items = [_text(slots.word) for _ in range(rng.randint(2, 5))]
            new, write = rng.choice(tuple(_LISTS.items()))
            prompt = slots.request(_LIST, draw_layout(rng).write(items), new=new)
            return Example(self.name, prompt, write(items), kind=slots.kind("list"))
        old, new = rng.sample(sorted(_FORMATS), 2)
        count, width = rng.choices(_SHAPES, _SHAPE_WEIGHTS)[0]
        keys = [slots.stem() for _ in range(width)] if rng.random() < 0.7 else slots.identifiers(width, 1)
        keys = list(dict.fromkeys(key for key in keys if key.lower() not in _NO_TEXTS)) or [_text(slots.stem)]
        numeric = [rng.random() < 0.45 for _ in keys]
        rows: list[Row] = [
            {key: _number(slots) if is_number else _cell(slots) for key, is_number in zip(keys, numeric, strict=True)}
            for _ in range(count)
        ]
        names = (rng.choice(_FORMATS[old][1]), rng.choice(_FORMATS[new][1]))
        given = _FORMATS[old][0](rows)
        if rng.random() < _OTHERWISE_SHARE:
            given = _otherwise(slots, old, given)
        if rng.random() < _FENCED_SHARE:
            given = f"```{rng.choice((old, ''))}\n{given}\n```"
        prompt = slots.request(_ASK, given, old=names[0], new=names[1])
        return Example(self.name, prompt, _FORMATS[new][0](rows), kind=slots.kind(new))

    def grade(self, example: Example, text: str) -> bool:
        """Accepts the reference's lines, white space at their ends aside; JSON by its value, one row as a list, too."""
        if example.answer[0] in "[{":
            return same_json(example.answer, text) or same_json(f"[{example.answer}]", text)
        lines, reference = ([line.rstrip() for line in t.strip().split("\n")] for t in (text, example.answer))
        return lines == reference


def _otherwise(slots: Slots, form: str, given: str) -> str:
    """The data as others write them: indented, with other delimiters, or with narrow rules."""
    if form == "json":
        return json.dumps(json.loads(given), indent=2)
    if form == "csv":
        return given.replace(",", slots.rng.choice((", ", ";", "\t", "|")))
    if form == "markdown":
        return given.replace("| ---", "|---").replace("--- |", "---|")
    return given


def _number(slots: Slots) -> int | float:
    """A whole number, or one with a point."""
    if slots.rng.random() < 0.15:
        return round(slots.number(3) + slots.rng.randint(1, 99) / 100, 2)
    return slots.number(4)


def _cell(slots: Slots) -> str:
    kind = slots.rng.random()
    if kind < 0.04:
        return slots.rng.choice("ABKQTXZ") + f"{slots.rng.choice('ABKQTXZ')}-{slots.number(3)}"
    if kind < 0.12:
        return f"{_text(slots.word)} {_text(slots.word)}"
    return _text(slots.word if kind < 0.6 else slots.first_name if kind < 0.8 else slots.city)


def _text(draw: Callable[[], str]) -> str:
    """Draws until it is a text in YAML as well, without quotes."""
    while (text := draw()).lower() in _NO_TEXTS:
        pass
    return text
