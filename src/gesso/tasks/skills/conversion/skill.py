"""Asks to turn small tables and objects from JSON, CSV, YAML or Markdown into another of these."""

import json
import re
from collections.abc import Callable, Sequence
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.conversion.everyday import draw_everyday
from gesso.tasks.skills.conversion.forms import PHRASINGS as FORM_PHRASINGS
from gesso.tasks.skills.conversion.forms import draw_json_lines, draw_pairs, draw_pretty
from gesso.tasks.skills.conversion.values import (
    NO_TEXTS,
    Row,
    draw_nested,
    draw_rows,
    draw_text,
    draw_value,
    nested_given,
    nested_yaml,
    padded_markdown,
    plain,
)
from gesso.tasks.skills.layouts import COMMAS, SPACES, draw_layout
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots
from gesso.tasks.to_json import same_json

_ASK = read_phrasings("conversion", "ask")
_AROUND = read_phrasings("conversion", "around")
_DELIMITED_IN = read_phrasings("conversion", "delimited in")
_DELIMITED_OUT = read_phrasings("conversion", "delimited out")
_INTO = {form: read_phrasings("conversion", f"into {form}") for form in ("json", "csv", "yaml", "markdown")}
_LIST = read_phrasings("conversion", "list")
_LISTS: dict[str, Callable[[Sequence[str]], str]] = {
    "a JSON array": json.dumps,
    "a JSON list": json.dumps,
    "a YAML list": lambda items: "\n".join(f"- {item}" for item in items),
    "a Markdown list": lambda items: "\n".join(f"- {item}" for item in items),
    "a bulleted list": lambda items: "\n".join(f"- {item}" for item in items),
    "CSV": ",".join,
    "comma separated values": ",".join,
    "a numbered list": lambda items: "\n".join(f"{i}. {item}" for i, item in enumerate(items, 1)),
}
_KINDS = {
    "table": 0.36, "everyday": 0.16, "list": 0.1, "values": 0.13, "nested": 0.09, "delimited": 0.06, "pretty": 0.04,
    "pairs": 0.035, "json lines": 0.025,
}  # fmt: skip
_FENCED_SHARE, _OTHERWISE_SHARE = 0.1, 0.25
_AROUND_SHARE, _INTO_SHARE = 0.3, 0.22
_OF_TABLES = r"\b(rows?|lines?|records?|entries|objects|columns?|header|table)\b"
_OF_ROWS = r"header|column|\b(rows?|records?|entries|objects)\b"
"""What a single object has none of."""
_OF_LISTS = re.compile(
    r"(a|an) JSON (array|list)|(array|list) of( JSON)? objects|object (per|for each) (row|line|record)"
)
"""Requests for JSON that want a list even of one row."""
_FEWEST_SPACED = 3
"""Two words with a space between them could be one item."""
_ARTICLE_TWICE = re.compile(r"\b(which|the|what) a (?=markdown table)", re.IGNORECASE)
_DELIMITERS = {";": "semicolon", "\t": "tab", "|": "pipe"}


def _json(rows: Sequence[Row]) -> str:
    return json.dumps(rows[0] if len(rows) == 1 else list(rows))


def _csv(rows: Sequence[Row]) -> str:
    return "\n".join(",".join(map(plain, row)) for row in ([*rows[0]], *(row.values() for row in rows)))


def _yaml(rows: Sequence[Row]) -> str:
    if len(rows) == 1:
        return "\n".join(f"{key}: {plain(value)}" for key, value in rows[0].items())
    return "\n".join(
        f"{'  ' if i else '- '}{key}: {plain(value)}" for row in rows for i, (key, value) in enumerate(row.items())
    )


def _markdown(rows: Sequence[Row]) -> str:
    rule = ["---"] * len(rows[0])
    lines = ([*rows[0]], rule, *(row.values() for row in rows))
    return "\n".join(f"| {' | '.join(map(plain, line))} |" for line in lines)


_FORMATS: dict[str, tuple[Callable[[Sequence[Row]], str], tuple[str, ...]]] = {
    "json": (_json, ("JSON", "JSON", "json")),
    "csv": (_csv, ("CSV", "CSV", "csv", "comma separated values")),
    "yaml": (_yaml, ("YAML", "YAML", "yaml", "yml")),
    "markdown": (_markdown, ("Markdown", "Markdown", "markdown", "md")),
}
_NEW_NAMES = {"markdown": ("Markdown", "Markdown", "markdown", "md", "a Markdown table", "a markdown table")}
"""What people call a format that they want, where it is not what they call what they have."""
_SHAPES = ((1, 2), (1, 3), (2, 2), (2, 3), (3, 2), (1, 4), (3, 3))
_SHAPE_WEIGHTS = (0.18, 0.16, 0.26, 0.14, 0.16, 0.06, 0.04)


class Conversion(Skill):
    """Asks such as `Convert this CSV to YAML:` and a table of any words and numbers -> the same in YAML."""

    name = "conversion"
    phrasings: ClassVar = {
        "": _ASK, "list": _LIST, "around": _AROUND, "delimited in": _DELIMITED_IN, "delimited out": _DELIMITED_OUT,
        **_INTO, **FORM_PHRASINGS,
    }  # fmt: skip

    def draw(self, slots: Slots) -> Example:
        """Draws a table of one to four rows and two to four columns, an object that holds others, a plain list, or a
        form of JSON."""
        kind = slots.rng.choices(tuple(_KINDS), tuple(_KINDS.values()))[0]
        if kind == "list":
            return self._list(slots)
        if kind == "nested":
            data = draw_nested(slots)
            old, new = slots.rng.sample(("json", "yaml"), 2)
            answer = json.dumps(data) if new == "json" else nested_yaml(data)
            given = _fenced(slots, old, nested_given(slots, old, data))
            prompt = _worded(slots, old, new, given, without=_OF_TABLES)
            return Example(self.name, prompt, answer, kind=slots.kind("nested"))
        if kind == "delimited":
            return self._delimited(slots)
        if kind in ("pretty", "pairs", "json lines"):
            return self._form(slots, kind)
        old, new = slots.rng.sample(sorted(_FORMATS), 2)
        if kind == "everyday":
            rows = draw_everyday(slots)
        else:
            rows = _table(slots) if kind == "table" else _values(slots, nulls={old, new} == {"json", "yaml"})
        given = _FORMATS[old][0](rows)
        if slots.rng.random() < (2 * _OTHERWISE_SHARE if old == "markdown" else _OTHERWISE_SHARE):
            given = _otherwise(slots, old, given)
        keyed = old in ("json", "yaml")
        without = (_OF_ROWS if len(rows) == 1 else "header|column") if keyed else ""
        prompt = _worded(slots, old, new, _fenced(slots, old, given), without=without)
        answer = _FORMATS[new][0](rows)
        if new == "json" and len(rows) == 1 and _OF_LISTS.search(prompt):
            answer = f"[{answer}]"
        return Example(self.name, prompt, answer, kind=slots.kind(new if kind == "table" else kind))

    def _form(self, slots: Slots, kind: str) -> Example:
        if kind == "json lines":
            formats = [(names[0], write) for form, (write, names) in _FORMATS.items() if form != "yaml"]
            prompt, answer = draw_json_lines(slots, formats)
        else:
            prompt, answer = (draw_pretty if kind == "pretty" else draw_pairs)(slots)
        return Example(self.name, prompt, answer, kind=slots.kind(kind))

    def _list(self, slots: Slots) -> Example:
        rng = slots.rng
        new, write = rng.choice(tuple(_LISTS.items()))
        count = rng.randint(2, 5)
        if rng.random() < 0.2:
            numbers = [draw_value(slots, "signed" if rng.random() < 0.3 else "whole") for _ in range(count)]
            given, answer = [str(number) for number in numbers], write([plain(number) for number in numbers])
            answer = json.dumps(numbers) if "JSON" in new else answer
        else:
            given = [draw_text(slots.word) for _ in range(count)]
            answer = write(given)
        layout = draw_layout(rng)
        minus = layout.separator == " - " and any(text.startswith("-") for text in given)
        if layout.write(given) == answer or (layout == SPACES and count < _FEWEST_SPACED) or minus:
            layout = COMMAS
        prompt = slots.request(_LIST, layout.write(given), loose=layout == SPACES, new=new)
        return Example(self.name, prompt, answer, kind=slots.kind("list"))

    def _delimited(self, slots: Slots) -> Example:
        """Draws a table with semicolons, tabs or bars between its columns, which the request tells, and another."""
        rng = slots.rng
        sign, name = rng.choice(tuple(_DELIMITERS.items()))
        rows = _table(slots) if rng.random() < 0.5 else _values(slots, nulls=False)
        form = rng.choice(("json", "json", "csv", "yaml", "markdown"))
        text, delimited = _FORMATS[form][0](rows), _csv(rows).replace(",", sign)
        into = rng.random() < 0.65
        ask, given = (_DELIMITED_IN, delimited) if into else (_DELIMITED_OUT, text)
        prompt = slots.request(ask, given, other=rng.choice(_FORMATS[form][1]), sep=name, seps=f"{name}s")
        return Example(self.name, prompt, text if into else delimited, kind=slots.kind("delimited"))

    def grade(self, example: Example, text: str) -> bool:
        """Accepts the reference's lines, white space at their ends aside; JSON by its value, one row as a list, too,
        but where its lines and spaces are what was asked for."""
        if example.kind.startswith(("pretty", "json lines")):
            return text.strip() == example.answer
        if example.answer[0] in "[{":
            return same_json(example.answer, text) or same_json(f"[{example.answer}]", text)
        lines, reference = ([line.rstrip() for line in t.strip().split("\n")] for t in (text, example.answer))
        return lines == reference


def _worded(slots: Slots, old: str, new: str, given: str, without: str) -> str:
    """Draws the request: with the data around, behind or before it, some in words of the new form alone."""
    old_name = slots.rng.choice(_FORMATS[old][1])
    new_name = slots.rng.choice(_NEW_NAMES.get(new, _FORMATS[new][1]))
    if old == "csv" and "," not in given:
        old_name = "CSV"
    kind = slots.rng.random()
    if kind < _AROUND_SHARE:
        return slots.choice(_AROUND, data=given, old=old_name, new=new_name)
    ask = _INTO[new] if kind < _AROUND_SHARE + _INTO_SHARE else _ASK
    return _ARTICLE_TWICE.sub(r"\1 ", slots.request(ask, given, without=without, old=old_name, new=new_name))


def _fenced(slots: Slots, form: str, given: str) -> str:
    name = slots.rng.choice((form, ""))
    if form == "csv" and "," not in given:
        name = ""
    return f"```{name}\n{given}\n```" if slots.rng.random() < _FENCED_SHARE else given


def _table(slots: Slots) -> list[Row]:
    """Draws rows of texts and numbers above zero."""
    rng = slots.rng
    count, width = rng.choices(_SHAPES, _SHAPE_WEIGHTS)[0]
    keys = [slots.stem() for _ in range(width)] if rng.random() < 0.7 else slots.identifiers(width, 1)
    keys = list(dict.fromkeys(key for key in keys if key.lower() not in NO_TEXTS)) or [draw_text(slots.stem)]
    numeric = [rng.random() < 0.45 for _ in keys]
    return [
        {key: _number(slots) if is_number else _cell(slots) for key, is_number in zip(keys, numeric, strict=True)}
        for _ in range(count)
    ]


def _values(slots: Slots, *, nulls: bool) -> list[Row]:
    """Draws rows of all kinds of values."""
    count, width = slots.rng.choices(_SHAPES, _SHAPE_WEIGHTS)[0]
    return draw_rows(slots, count, width, nulls=nulls)


def _otherwise(slots: Slots, form: str, given: str) -> str:
    """The data as others write them: indented, with other delimiters, or with narrow rules."""
    if form == "json":
        return json.dumps(json.loads(given), indent=2)
    if form == "csv":
        return given.replace(",", slots.rng.choice((", ", ";", "\t", "|")))
    if form == "markdown":
        if slots.rng.random() < 0.75:
            return padded_markdown(slots, given)
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
        return f"{draw_text(slots.word)} {draw_text(slots.word)}"
    return draw_text(slots.word if kind < 0.6 else slots.first_name if kind < 0.8 else slots.city)
