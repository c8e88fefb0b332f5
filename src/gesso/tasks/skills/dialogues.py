"""Holds short conversations about a list that is changed turn by turn."""

import json
from collections.abc import Callable, Sequence
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.patterns import Phrasings, read_phrasings, with_small_letter
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots

Items = list[str]

_FIRST = read_phrasings("dialogues", "first")
_SORT = read_phrasings("dialogues", "sort")
_REVERSE = read_phrasings("dialogues", "reverse")
_UPPER = read_phrasings("dialogues", "upper")
_LOWER = read_phrasings("dialogues", "lower")
_ADD = read_phrasings("dialogues", "add")
_DROP = read_phrasings("dialogues", "drop")
_SWAP = read_phrasings("dialogues", "swap")
_JSON = read_phrasings("dialogues", "json")
_LINES = read_phrasings("dialogues", "lines")
_FIRST_ONE = read_phrasings("dialogues", "first_one")
_LAST_ONE = read_phrasings("dialogues", "last_one")
_COUNT = read_phrasings("dialogues", "count")

_CHANGES: tuple[tuple[Phrasings, Callable[[Items], Items]], ...] = (
    (_SORT, lambda items: sorted(items, key=str.lower)),
    (_REVERSE, lambda items: items[::-1]),
    (_UPPER, lambda items: [item.upper() for item in items]),
    (_LOWER, lambda items: [item.lower() for item in items]),
)
_VIEWS: tuple[tuple[Phrasings, Callable[[Items], str]], ...] = (
    (_JSON, json.dumps),
    (_LINES, "\n".join),
    (_FIRST_ONE, lambda items: items[0]),
    (_LAST_ONE, lambda items: items[-1]),
    (_COUNT, lambda items: str(len(items))),
)
_VIEW_SHARE = 0.3


class Dialogues(Skill):
    """Asks such as `Repeat: grelt, fig` - `grelt, fig` - `Now in upper case.` -> `GRELT, FIG`."""

    name = "dialogues"
    phrasings: ClassVar = {
        "first": _FIRST, "sort": _SORT, "reverse": _REVERSE, "upper": _UPPER, "lower": _LOWER, "add": _ADD,
        "drop": _DROP, "swap": _SWAP, "json": _JSON, "lines": _LINES, "one": _FIRST_ONE, "last": _LAST_ONE,
        "count": _COUNT,
    }  # fmt: skip

    def draw(self, slots: Slots) -> Example:
        """Draws a list of two to four words and one to three changes; the last turn may ask about it instead."""
        rng = slots.rng
        items = slots.words(rng.randint(2, 4))
        separator = rng.choice((", ", ", ", " "))
        turns = [_polish(slots, slots.choice(_FIRST, items=separator.join(items))), separator.join(items)]
        count = rng.choices((1, 2, 3), (0.55, 0.3, 0.15))[0]
        for _ in range(count):
            ask, items = _change(slots, items)
            turns += [_polish(slots, ask), separator.join(items)]
        if rng.random() < _VIEW_SHARE:
            phrasings, view = rng.choice(_VIEWS)
            turns[-2:] = [_polish(slots, slots.choice(phrasings)), view(_list(turns[-3], separator))]
        *history, prompt, answer = turns
        return Example(
            self.name, prompt, answer, kind=slots.kind(f"{len(history) // 2} before"), history=tuple(history)
        )

    def split_key(self, example: Example) -> str:
        """Returns the whole conversation: the last request is the same in many."""
        return "\n".join((*example.history, example.prompt))


def _list(text: str, separator: str) -> Items:
    return text.split(separator)


def _change(slots: Slots, items: Sequence[str]) -> tuple[str, Items]:
    rng = slots.rng
    kind = rng.choices(("plain", "add", "drop", "swap"), (0.6, 0.15, 0.13, 0.12))[0]
    if kind == "plain" or (kind == "drop" and len(items) < 2):
        phrasings, change = rng.choice(_CHANGES)
        return slots.choice(phrasings), change(list(items))
    while (new := slots.word()) in map(str.lower, items):
        pass
    word = rng.choice(items)
    if kind == "add":
        return slots.choice(_ADD, word=new), [*items, new]
    if kind == "drop":
        return slots.choice(_DROP, word=word), [item for item in items if item != word]
    return slots.choice(_SWAP, word=word, new=new), [new if item == word else item for item in items]


def _polish(slots: Slots, ask: str) -> str:
    if slots.rng.random() < 0.2:
        ask = with_small_letter(ask)
    return ask.rstrip(".?") if slots.rng.random() < 0.25 else ask
