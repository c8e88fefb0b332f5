"""Writes texts that a request asks the label of: one beside the request, or several with marks before them or not."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from gesso.tasks.skills.patterns import read_phrasings, says_below
from gesso.tasks.skills.slots import Slots
from gesso.tasks.words import words_of

Item = TypeVar("Item")
SEVERAL = read_phrasings("labels", "several")
"""Requests for a label of each of several texts."""
_HEADINGS = read_phrasings("labels", "headings")
_NUMBERED = ("{}. ", "{}. ", "{}) ", "({}) ", "{}: ", "{} - ", "#{} ")
_LETTERED = ("{}: ", "{}: ", "{}. ", "{}) ", "({}) ", "{} - ")
_KEPT = ("({}) ", "#{} ")
"""Marks that are named with their signs."""
_PLAIN_LISTS = ("{}", "{}", "{}", "- {}", "- {}", "* {}")
_SEPARATORS = ("; ", " | ", " / ")
_LONGEST_IN_LINE = 40
_MARKED_SHARE = 0.45
_NO_THINGS = frozenset(
    words_of("""
    a an and are as at be been but by can could did do does for from had has have he her him his how i if in is it its
    less may me might more must my no nor not of on or our shall she should so than that the their them then these they
    this those to too us was we were what when where which who why will with would yes you your
""")
)
"""Words that cannot be the name of a thing."""


@dataclass(frozen=True, slots=True)
class Marks:
    """Holds what stands before each of several texts, and what each is called by."""

    before: tuple[str, ...]
    names: tuple[str, ...]
    """Empty where the marks tell nothing."""

    def write(self, texts: Sequence[str]) -> str:
        """Returns the texts, a line each."""
        return "\n".join(f"{mark}{text}" for mark, text in zip(self.before, texts, strict=True))


def draw_marks(rng: random.Random, count: int, *, named: bool | None = None) -> Marks:
    """Draws numbers or letters before texts, or marks without a name; `named` says which."""
    if named is False or (named is None and rng.random() >= _MARKED_SHARE):
        return Marks((rng.choice(_PLAIN_LISTS).format(""),) * count, ())
    kind = rng.choices(("numbers", "letters", "small"), (0.55, 0.33, 0.12))[0]
    names = [str(i + 1) if kind == "numbers" else "ABCDE"[i] if kind == "letters" else "abcde"[i] for i in range(count)]
    mark = rng.choice(_NUMBERED if kind == "numbers" else _LETTERED)
    before = tuple(mark.format(name) for name in names)
    return Marks(
        before, tuple(sign.strip() if mark in _KEPT else name for sign, name in zip(before, names, strict=True))
    )


def draw_thing(slots: Slots) -> str:
    """Draws a word that may stand for a thing."""
    while (word := slots.word()) in _NO_THINGS:
        pass
    return word


def differing(draw: Callable[[Item], str], items: Sequence[Item]) -> list[str]:
    """Draws a text for each item, no two the same."""
    found: list[str] = []
    for item in items:
        while (text := draw(item)) in found:
            pass
        found.append(text)
    return found


def several(slots: Slots, ask: str, texts: Sequence[str], labels: Sequence[str]) -> tuple[str, str]:
    """Returns a message that asks for the label of each text, and the labels in the form of the texts."""
    rng = slots.rng
    short = "line" not in ask.lower() and all(
        len(text) < _LONGEST_IN_LINE and not set(";|/,.?!") & set(text) for text in texts
    )
    if short and rng.random() < 0.3:
        separator = rng.choice(_SEPARATORS)
        return f"{_opened(ask)} {separator.join(texts)}", separator.join(labels)
    marks = draw_marks(rng, len(texts))
    return with_list(slots, ask, marks.write(texts)), marks.write(labels)


def with_list(slots: Slots, ask: str, listing: str) -> str:
    """Returns a request with lines behind it, or before it."""
    rng = slots.rng
    gap = rng.choice(("\n", "\n", "\n\n"))
    if says_below(ask) or rng.random() < 0.75:
        head = _opened(ask) if rng.random() < 0.3 else ask
        return f"{head}{gap}{listing}"
    return f"{listing}{gap}{ask.rstrip(':')}"


def place(slots: Slots, ask: str, text: str) -> str:
    """Returns a request and its text as people put them: quoted, behind a dash, with a heading, in a fence, one after
    the other."""
    rng = slots.rng
    ask = ask.removeprefix("~")
    bare = ask.rstrip(".:")
    quote = '"' if '"' not in text else "'" if "'" not in text else ""
    quoted = f"{quote}{text}{quote}"
    heading = slots.choice(_HEADINGS)
    mark = rng.choice(("\n", "\n\n"))
    ways: tuple[tuple[int, str], ...] = (
        (4, f"{_opened(ask)} {text}"),
        (4, f"{_opened(ask)} {quoted}"),
        (2, f"{ask} {quoted}"),
        (3, f"{bare.rstrip('?')} {rng.choice(('-', '->', '|', '=>', '...'))} {rng.choice((text, quoted))}"),
        (4, f"{ask}{mark}> {text}"),
        (3, f"{ask}{mark}{text}"),
        (3, f"{ask}{mark}{quoted}"),
        (2, f"{ask}{mark}{heading}: {text}"),
        (1, f'{ask}{mark}"""{text}"""'),
        (1, f"{ask}{mark}```\n{text}\n```"),
        (1, f"{bare} ({text})"),
        (1, f"{bare} [{text}]"),
    )
    behind = (
        (5, f"{quoted} {ask}"),
        (4, f"{text}{mark}{ask}"),
        (3, f"> {text}{mark}{ask}"),
        (3, f"{heading}: {text}{mark}{ask}"),
        (2, f"{heading}: {quoted} {ask}"),
        (1, f"{quoted} - {ask}"),
        (1, f"{quoted} -> {ask}"),
    )
    ways = ways if says_below(ask) else ways + behind
    return rng.choices([way for _, way in ways], [weight for weight, _ in ways])[0]


def _opened(ask: str) -> str:
    """The request with a colon at its end."""
    return f"{ask.rstrip('.:?')}:" if not ask.endswith("?") or len(ask) < 40 else ask


def same_labels(text: str, answer: str) -> bool:
    """Says whether labels are the same, in whatever case, with or without full stops."""
    found, wanted = ([line.strip().rstrip(".").lower() for line in side.strip().split("\n")] for side in (text, answer))
    return found == wanted
