"""Draws tables as people have them: common columns, few rows, mostly small numbers."""

from collections.abc import Callable, Mapping

from gesso.tasks.skills.conversion.values import NO_TEXTS, Row, Value, draw_text
from gesso.tasks.skills.slots import Slots
from gesso.tasks.words import COLOURS, words_of

_TABLES = (
    "name age", "name age city", "name city", "name score", "name points", "name team points", "player goals",
    "name email", "name role", "user role", "user active", "id name", "id name age", "id user", "id title done",
    "item price", "item qty", "item qty price", "product price stock", "fruit count", "fruit colour", "fruit price",
    "animal legs", "animal age", "pet owner", "city temp", "city country", "country population", "day temp",
    "day hours", "day shift worker", "month sales", "month rain", "year sales", "match result", "team wins losses",
    "team points", "title year", "title author", "book pages", "film year", "song minutes", "task done",
    "task owner done", "task hours", "key value", "host port", "server status", "host ip", "letter place",
    "word count", "size stock", "room floor", "room seats", "pupil grade", "subject grade", "kid height",
    "code label", "from to", "date amount", "drink price", "plant height", "a b", "lang year", "sku qty",
)  # fmt: skip
_SHAPES, _SHAPE_WEIGHTS = (1, 2, 3, 4), (0.1, 0.45, 0.32, 0.13)
_KINDS: Mapping[str, str] = {
    kind: name
    for name, kinds in {
        "person": "name player user owner worker author pupil kid",
        "place": "city country from to",
        "colour": "colour",
        "small": "age score points goals legs temp wins losses hours minutes floor qty count seats a b id",
        "number": "price stock sales rain pages population height port amount",
        "year": "year",
        "flag": "active done",
        "day": "day",
        "month": "month",
        "grade": "grade letter",
        "email": "email",
        "date": "date",
        "ip": "ip",
        "code": "sku code",
    }.items()
    for kind in kinds.split()
}
_DAYS = words_of("Monday Tuesday Wednesday Thursday Friday Saturday Sunday mon tue wed thu fri sat sun")
_MONTHS = words_of("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec January February March April June July August")


def _number(slots: Slots) -> Value:
    """A whole number most often, or one with a point."""
    if slots.rng.random() < 0.25:
        return round(slots.rng.randint(0, 99) + slots.rng.choice((0.5, 0.25, 0.9, 0.99, 0.4)), 2)
    return slots.number(4)


_DRAWN: Mapping[str, Callable[[Slots], Value]] = {
    "person": lambda slots: draw_text(slots.first_name),
    "place": lambda slots: draw_text(slots.city),
    "colour": lambda slots: slots.rng.choice(COLOURS),
    "small": lambda slots: slots.rng.randint(0, 12) if slots.rng.random() < 0.5 else slots.rng.randint(1, 99),
    "number": _number,
    "year": lambda slots: slots.rng.randint(1950, 2035),
    "flag": lambda slots: slots.rng.random() < 0.5,
    "day": lambda slots: slots.rng.choice(_DAYS),
    "month": lambda slots: slots.rng.choice(_MONTHS),
    "grade": lambda slots: slots.rng.choice("ABCDEF"),
    "email": lambda slots: f"{slots.stem()}@{slots.stem()}.{slots.rng.choice(('com', 'org', 'net', 'io'))}",
    "date": lambda slots: f"20{slots.rng.randint(10, 35)}-{slots.rng.randint(1, 12):02}-{slots.rng.randint(1, 28):02}",
    "ip": lambda slots: f"10.0.{slots.rng.randint(0, 9)}.{slots.rng.randint(1, 99)}",
    "code": lambda slots: f"{slots.rng.choice('ABCKQTXZ')}{slots.rng.choice('ABKQTXZ')}-{slots.number(3)}",
}
_SMALL_SHARE, _CAPITAL_SHARE = 0.35, 0.12


def draw_everyday(slots: Slots) -> list[Row]:
    """Draws one to four rows of two or three columns; a third all in small letters, a few with capital names."""
    rng = slots.rng
    keys = rng.choice(_TABLES).split()
    if rng.random() < 0.3:
        keys = rng.sample(keys, len(keys))
    count = rng.choices(_SHAPES, _SHAPE_WEIGHTS)[0]
    small = rng.random() < _SMALL_SHARE
    rows = [{key: _value(slots, key, small) for key in keys} for _ in range(count)]
    if rng.random() < _CAPITAL_SHARE:
        return [{key.capitalize(): value for key, value in row.items()} for row in rows]
    return rows


def _value(slots: Slots, key: str, small: bool) -> Value:
    kind = _KINDS.get(key)
    if kind is None:
        return draw_text(slots.word)
    value = _DRAWN[kind](slots)
    if isinstance(value, str) and small and value.lower() not in NO_TEXTS:
        return value.lower()
    return value
