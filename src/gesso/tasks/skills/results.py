"""Asks to say what a called function returned: the model called it, and its result stands behind the call."""

import json
from collections.abc import Callable
from typing import Any, ClassVar

from gesso.tasks.base import Call, Example
from gesso.tasks.skills.calls import Calls, read_call
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots
from gesso.tasks.words import words_of

Fields = dict[str, Any]

_DONE = ("ok", "OK", "done", "Done.", "success", "", "null", "true", '{"ok": true}', '{"success": true}')
_WRONG = (
    "not found", "no such entry", "timeout", "access denied", "service unavailable", "invalid argument", "unknown name",
    "rate limit reached", "connection refused",
)  # fmt: skip
_KEYS = words_of("""
    status id name city date time price total count amount degrees temperature humidity wind sky rain pressure speed
    level minutes seconds remaining ends_at started_at departs arrives departure_time arrival_time platform track
    carrier seats stock available color size weight distance duration title author url phone email address country
    message sender recipient sent_at rating score category result value unit currency balance owner version
""")
_NUMBERS = words_of("""
    id price total count amount degrees temperature humidity wind rain pressure speed level minutes seconds remaining
    platform track seats stock weight distance duration rating score value balance
""")
_FLAGS, _CLOCKS = (
    ("available",),
    words_of("time ends_at started_at departs arrives departure_time arrival_time sent_at"),
)
_LISTS = words_of("results items data rows matches entries hits records list found")
_NOTHING = (
    "[]", "{}", '{"results": []}', '{"items": []}', '{"count": 0, "results": []}', '{"matches": [], "total": 0}',
)  # fmt: skip
_KIND_SHARES = {
    "fields": 0.4, "text": 0.19, "rows": 0.14, "values": 0.09, "done": 0.07, "failed": 0.08, "nothing": 0.03,
}  # fmt: skip


class Results(Skill):
    """Asks such as `What is the weather in Drasto?`, called and answered by `{"sky": "grey", "degrees": 21}` ->
    `sky: grey, degrees: 21`."""

    name = "results"
    phrasings: ClassVar = Calls.phrasings

    def draw(self, slots: Slots) -> Example:
        """Draws a request, the call that it asks for, and what comes back: an object, text, several objects, a list,
        word of success or of an error, or nothing."""
        asked = Calls().draw(slots)
        kind = slots.rng.choices(tuple(_KIND_SHARES), tuple(_KIND_SHARES.values()))[0]
        result, answer = _KINDS[kind](slots)
        call = read_call(asked.answer)
        return Example(
            self.name, asked.prompt, answer, kind=slots.kind(kind), tools=asked.tools,
            call=Call(call["name"], call["arguments"], result),
        )  # fmt: skip

    def grade(self, example: Example, text: str) -> bool:
        """Accepts what the reference says, in whatever case, with or without a full stop."""
        return _bare(text) == _bare(example.answer)

    def split_key(self, example: Example) -> str:
        """Returns request and result: the request is the same in many."""
        assert example.call is not None
        return f"{example.prompt}\n{example.call.result}"


def told(fields: Fields) -> str:
    """Says what an object holds, as `name: value`, those of an object in it as if they were its own, and a list in it
    as in a sentence."""
    parts = []
    for key, value in fields.items():
        parts.append(told(value) if isinstance(value, dict) else f"{key.replace('_', ' ')}: {_written(value)}")
    return ", ".join(parts)


def _written(value: Any) -> str:
    if isinstance(value, list):
        *before, last = map(_written, value)
        return f"{', '.join(before)} and {last}"
    return value if isinstance(value, str) else json.dumps(value)


def _bare(text: str) -> str:
    return text.strip().removesuffix(".").lower()


def _fields(slots: Slots) -> tuple[str, str]:
    fields = _object(slots, _keys(slots, slots.rng.choice((1, 2, 2, 3, 3, 4, 4, 5, 6))))
    drawn = slots.rng.random()
    if drawn < 0.08:
        key = slots.rng.choice(list(fields))
        fields[key] = slots.words(slots.rng.choice((2, 2, 3))) if slots.rng.random() < 0.7 else slots.numbers(2, 3)
    elif drawn < 0.22:
        outer = _keys(slots, 1)[0]
        fields = {**_object(slots, [key for key in _keys(slots, 1) if key != outer]), outer: fields}
    return _json(slots, fields), told(fields)


def _rows(slots: Slots) -> tuple[str, str]:
    keys = _keys(slots, slots.rng.randint(1, 3))
    rows = [_object(slots, keys) for _ in range(slots.rng.randint(2, 3))]
    shown = {slots.rng.choice(_LISTS): rows} if slots.rng.random() < 0.35 else rows
    return _json(slots, shown), "\n".join(map(told, rows))


def _values(slots: Slots) -> tuple[str, str]:
    count = slots.rng.randint(2, 4)
    values = slots.words(count) if slots.rng.random() < 0.7 else slots.numbers(count, 3)
    shown = {slots.rng.choice(_LISTS): values} if slots.rng.random() < 0.2 else values
    return _json(slots, shown), ", ".join(map(_written, values))


def _text(slots: Slots) -> tuple[str, str]:
    """Text that stands as it is, without what is around it."""
    drawn = slots.rng.random()
    if drawn < 0.25:
        text = str(slots.number(4))
    elif drawn < 0.5:
        text = f"{slots.word()}, {slots.number(2)} {slots.rng.choice(('degrees', 'minutes', 'items', 'km', 'euros'))}"
    else:
        text = " ".join(slots.sentence(slots.words(slots.rng.randint(1, 3))))
        text = f"{text[0].upper()}{text[1:]}." if drawn < 0.75 else text
    return text, text


def _done(slots: Slots) -> tuple[str, str]:
    return slots.rng.choice(_DONE), "Done."


def _failed(slots: Slots) -> tuple[str, str]:
    wrong = slots.rng.choice(_WRONG) if slots.rng.random() < 0.6 else f"no {slots.word()} named {slots.word()}"
    shown: Any = slots.rng.choice((
        {"error": wrong}, {"error": wrong}, {"status": "error", "message": wrong}, {"success": False, "error": wrong},
        {"error": {"code": slots.number(3), "message": wrong}},
    ))  # fmt: skip
    return _json(slots, shown), f"It failed: {wrong}."


def _nothing(slots: Slots) -> tuple[str, str]:
    return slots.rng.choice(_NOTHING), "Nothing was found."


_KINDS: dict[str, Callable[[Slots], tuple[str, str]]] = {
    "fields": _fields, "rows": _rows, "values": _values, "text": _text, "done": _done, "failed": _failed,
    "nothing": _nothing,
}  # fmt: skip


def _json(slots: Slots, value: Any) -> str:
    indent = 2 if slots.rng.random() < 0.1 else None
    separators = (",", ":") if indent is None and slots.rng.random() < 0.3 else None
    return json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)


def _keys(slots: Slots, count: int) -> list[str]:
    """Distinct names of fields, some of them made up."""
    known = slots.rng.sample(_KEYS, count)
    return list(dict.fromkeys(slots.identifier() if slots.rng.random() < 0.25 else key for key in known))


def _object(slots: Slots, keys: list[str]) -> Fields:
    return {key: _value(slots, key) for key in keys}


def _value(slots: Slots, key: str) -> str | int | float | bool:
    rng = slots.rng
    if key in _FLAGS:
        return rng.random() < 0.5
    if key in _CLOCKS:
        return f"{rng.randrange(24):02}:{rng.randrange(60):02}"
    if key in _NUMBERS or (key not in _KEYS and rng.random() < 0.4):
        number = slots.number(3)
        return -number if rng.random() < 0.06 else number if rng.random() < 0.8 else number + rng.randrange(1, 10) / 10
    if key in ("city", "country"):
        return slots.city()
    if key in ("name", "author", "sender", "recipient", "owner"):
        return slots.name() if rng.random() < 0.5 else slots.first_name()
    return " ".join(slots.words(rng.choice((1, 1, 2, 3))))
