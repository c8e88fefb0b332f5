"""Draws tables of all kinds of values, and objects that hold lists and other objects."""

import json
from collections.abc import Callable

from gesso.tasks.skills.slots import Slots

Value = str | int | float | bool | None
Row = dict[str, Value]
NO_TEXTS = {"yes", "no", "on", "off", "y", "n", "true", "false", "null"}
"""Words that are other values in YAML 1.1."""
_COLUMNS = ("whole", "signed", "point", "signed point", "bool", "text", "address", "date", "version", "name")
_COLUMN_WEIGHTS = (0.12, 0.1, 0.14, 0.14, 0.2, 0.14, 0.06, 0.04, 0.02, 0.04)
_FLAGS = ("active", "enabled", "done", "paid", "ssl", "debug", "open", "valid", "visible", "tls", "admin", "verified")
_NULL_SHARE = 0.3
_ENDINGS = ("com", "org", "net", "io", "de", "local", "example")


def draw_text(draw: Callable[[], str]) -> str:
    """Draws until it is a text in YAML as well, without quotes."""
    while (text := draw()).lower() in NO_TEXTS:
        pass
    return text


def draw_key(slots: Slots) -> str:
    """Draws the name of a column, of one or two words."""
    key = draw_text(slots.stem if slots.rng.random() < 0.5 else lambda: slots.identifier(1))
    return key if slots.rng.random() < 0.8 else f"{key} {draw_text(slots.stem)}"


def draw_rows(slots: Slots, count: int, width: int, *, nulls: bool) -> list[Row]:
    """Draws rows whose columns are numbers of any sign, texts, addresses, dates, or true and false; or null."""
    rng = slots.rng
    kinds = rng.choices(_COLUMNS, _COLUMN_WEIGHTS, k=width)
    if width > 1 and rng.random() < 0.7:
        kinds[0] = rng.choice(("text", "name", "text", "address"))
    columns: dict[str, str] = {}
    for kind in kinds:
        columns[rng.choice(_FLAGS) if kind == "bool" and rng.random() < 0.6 else draw_key(slots)] = kind
    empty = rng.choice(list(columns)) if nulls and rng.random() < _NULL_SHARE else ""
    rows: list[Row] = [{key: draw_value(slots, kind) for key, kind in columns.items()} for _ in range(count)]
    if empty:
        rng.choice(rows)[empty] = None
    return rows


def draw_value(slots: Slots, kind: str) -> Value:
    """Draws a value of one kind; a number with a point has no zero at its end but the one behind the point."""
    rng = slots.rng
    sign = -1 if "signed" in kind and rng.random() < 0.6 else 1
    if kind == "bool":
        return rng.random() < 0.5
    if kind in ("whole", "signed"):
        return sign * slots.number(4)
    if kind.endswith("point"):
        size = round(slots.number(3) + rng.choice((0.0, 0.5, rng.randint(1, 99) / 100)), 2)
        return sign * size if size else size
    if kind == "date":
        return f"{rng.randint(1990, 2030)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    if kind == "version":
        return f"{rng.randint(0, 9)}.{rng.randint(0, 20)}.{rng.randint(0, 9)}"
    if kind == "address":
        host = f"{draw_text(slots.stem)}.{rng.choice(_ENDINGS)}"
        return rng.choice((f"{draw_text(slots.stem)}.{host}", f"{draw_text(slots.stem)}@{host}", host, "localhost"))
    if kind == "name":
        return slots.name()
    return draw_text(slots.word) if rng.random() < 0.8 else f"{draw_text(slots.word)} {draw_text(slots.word)}"


def plain(value: object) -> str:
    """Writes a value as YAML, CSV and Markdown have it."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def draw_nested(slots: Slots) -> dict[str, object]:
    """Draws an object of one to three values, of which one or two are lists or objects."""
    rng = slots.rng
    found: dict[str, object] = {}
    kinds = (
        ["list", rng.choice(("list", "object"))] if rng.random() < 0.25 else [rng.choice(("list", "list", "object"))]
    )
    kinds += ["plain"] * rng.randint(0 if len(kinds) > 1 else 1, 2)
    rng.shuffle(kinds)
    for kind in kinds:
        key = draw_key(slots)
        if kind == "plain":
            found[key] = draw_rows(slots, 1, 1, nulls=False)[0].popitem()[1]
        elif kind == "object":
            found[key] = draw_rows(slots, 1, rng.randint(1, 3), nulls=False)[0]
        else:
            column = rng.choice(("text", "text", "text", "name", "whole", "signed", "point"))
            found[key] = [draw_value(slots, column) for _ in range(rng.randint(2, 4))]
    return found


def nested_yaml(data: dict[str, object], indent: str = "  ") -> str:
    """Writes an object in YAML, its lists behind `indent`."""
    lines = []
    for key, value in data.items():
        if isinstance(value, dict):
            lines += [f"{key}:", *(f"  {name}: {plain(inner)}" for name, inner in value.items())]
        elif isinstance(value, list):
            lines += [f"{key}:", *(f"{indent}- {plain(item)}" for item in value)]
        else:
            lines.append(f"{key}: {plain(value)}")
    return "\n".join(lines)


def nested_given(slots: Slots, form: str, data: dict[str, object]) -> str:
    """Writes an object as others do: JSON indented or not, YAML with lists indented, not, or within brackets."""
    if form == "json":
        return json.dumps(data, indent=slots.rng.choice((None, None, 2)))
    if slots.rng.random() < 0.15:
        short = {key: f"[{', '.join(map(plain, v))}]" if isinstance(v, list) else v for key, v in data.items()}
        return nested_yaml(short)
    return nested_yaml(data, slots.rng.choice(("  ", "  ", "")))


def padded_markdown(slots: Slots, table: str) -> str:
    """Writes a Markdown table with other rules: aligned, narrow, padded with spaces, or without outer bars."""
    rng = slots.rng
    rows = [line.strip("| ").split(" | ") for line in table.split("\n")]
    kind = rng.choice(("padded", "padded", "aligned", "aligned", "tight", "open"))
    if kind == "aligned":
        rule = [rng.choice((":---", "---:", ":---:", ":--", "--:", ":-:", "---")) for _ in rows[1]]
        return "\n".join(f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[2:]))
    if kind == "tight":
        return "\n".join(f"|{'|'.join(row)}|" for row in rows)
    if kind == "open":
        return "\n".join(" | ".join(row) for row in rows)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    rule_text = "|".join("-" * (width + 2) for width in widths)
    return "\n".join(f"|{rule_text}|" if i == 1 else f"| {line} |" for i, line in enumerate(lines))
