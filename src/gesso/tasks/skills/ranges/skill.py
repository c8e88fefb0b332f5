"""Asks to count from any number to any other, up or down, in steps, odd or even ones, multiples, or letters.

Rows of other numbers (`number_rows`), of names (`name_rows`) and rows that have gaps (`gaps`), too.
"""

import re
import string
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.layouts import COMMAS, LINES, SPACES, Layout
from gesso.tasks.skills.numerals import spell
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.ranges.gaps import BLANKS, DOTS, draw_blanks, draw_dots
from gesso.tasks.skills.ranges.name_rows import NAME_PHRASINGS, NAME_ROWS
from gesso.tasks.skills.ranges.number_rows import NUMBER_PHRASINGS, NUMBER_ROWS
from gesso.tasks.skills.ranges.rows import draw_border
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots

_UP = read_phrasings("ranges", "up")
_DOWN = read_phrasings("ranges", "down")
_STEPS = read_phrasings("ranges", "steps")
_TO = read_phrasings("ranges", "to")
_KIND = read_phrasings("ranges", "kind")
_MULTIPLES = read_phrasings("ranges", "multiples")
_LETTERS = read_phrasings("ranges", "letters")
_FIRST = read_phrasings("ranges", "first")
_ROWS = NUMBER_ROWS | NAME_ROWS
_KINDS = {
    "up": 0.24, "down": 0.1, "steps": 0.09, "to": 0.03, "kind": 0.04, "multiples": 0.03, "letters": 0.04, "first": 0.03,
    "by": 0.055, "steps down": 0.03, "decimals": 0.03, "python": 0.06, "after": 0.03, "names": 0.04, "labels": 0.04,
    "padded": 0.025, "years": 0.02, "in digits": 0.02, "in words": 0.015, "other letters": 0.02, "either": 0.06,
    "times": 0.025, "dates": 0.025, "ordinals": 0.02, "doubling": 0.02, "blanks": 0.03, "dots": 0.04,
}  # fmt: skip
_LONGEST = 14
_BELOW_ZERO = 0.08
_OF_NUMBERS = re.compile(r"\b(count\w*|integers?|numbers?|steps?)\b", re.IGNORECASE)
"""What a request with numbers below zero is about: there is no page -4."""
_TOLD = read_phrasings("ranges", "told")
_LIKE = read_phrasings("ranges", "like")
_LAYOUTS = {
    "lines": LINES, "spaces": SPACES, "commas": COMMAS, "tight": Layout(","), "semicolons": Layout("; "),
    "dashes": Layout("-"), "slashes": Layout("/"), "bullets": Layout("\n", item="- {}"),
    "stars": Layout("\n", item="* {}"), "brackets": Layout(", ", whole="[{}]"), "quotes": Layout(", ", item='"{}"'),
    "pipes": Layout(" | "), "plus": Layout("+"), "arrows": Layout(" -> "), "nothing": Layout(""),
}  # fmt: skip
"""How a request may tell what the numbers are to be written in, by the word before its patterns."""
_LIKE_LAYOUTS = ("dashes", "slashes", "pipes", "plus", "arrows", "tight", "semicolons", "spaces", "brackets", "quotes")
_TOLD_SHARE, _LIKE_SHARE = 0.24, 0.15
_TELLS = re.compile(
    r"comma|line\b|lines|space|list|bullet|array|row|column|print|seq |sep=|\n|^~?(what|which|how|who|can|could)\b",
    re.IGNORECASE,
)
"""Requests that say so themselves, or are questions."""
_JOINS = ("dashes", "plus", "slashes")
"""Layouts for items without signs of their own."""
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?")
_BARE = ("python", "labels", "padded", "blanks", "dots")
"""Kinds whose patterns that stand alone are not put into other words, nor ended by a full stop."""


class Ranges(Skill):
    """Asks such as `Count from 8997 to 9003` -> `8997, 8998, 8999, 9000, 9001, 9002, 9003`."""

    name = "ranges"
    phrasings: ClassVar = {
        "up": _UP, "down": _DOWN, "steps": _STEPS, "to": _TO, "kind": _KIND, "multiples": _MULTIPLES,
        "letters": _LETTERS, "first": _FIRST, "told": _TOLD, "like": _LIKE, "blanks": BLANKS, "dots": DOTS,
        **NUMBER_PHRASINGS, **NAME_PHRASINGS,
    }  # fmt: skip

    def draw(self, slots: Slots) -> Example:
        """Draws two to fourteen numbers of up to six digits, or up to thirty below 1,000; one in twenty begins at 1 and
        does not say so, a few are below zero."""
        rng = slots.rng
        kind = rng.choices(tuple(_KINDS), tuple(_KINDS.values()))[0]
        if kind in ("blanks", "dots"):
            text, answer = (draw_blanks if kind == "blanks" else draw_dots)(slots)
            return Example(self.name, _framed(slots, kind, text), answer, kind=slots.kind(kind))
        layout: Layout | None = None
        if kind in _ROWS:
            ask, found, layout = _ROWS[kind](slots).worded(slots)
        else:
            ask, found = self._plain(slots, kind)
        if layout is None:
            ask, layout = _told(slots, ask, found)
        return Example(self.name, _framed(slots, kind, ask), layout.write(found), kind=slots.kind(kind))

    def _plain(self, slots: Slots, kind: str) -> tuple[str, list[str]]:
        """Draws numbers a step apart, multiples or letters, and the request."""
        rng = slots.rng
        if kind == "letters":
            first, last = sorted(rng.sample(range(26), 2))
            found = list(string.ascii_lowercase[first : last + 1])
            if rng.random() < 0.4:
                found = [letter.upper() for letter in found]
            values: dict[str, object] = {"a": found[0], "b": found[-1]}
        elif kind == "multiples":
            step, count = rng.choice((rng.randint(2, 12), rng.randint(2, 99))), rng.randint(2, 10)
            found = [str(step * (i + 1)) for i in range(count)]
            values = {"n": count, "s": step}
        else:
            found, values = _numbers(slots, kind)
        ask = slots.choice(self.phrasings[kind], **values)
        while "-" in f"{values.get('a')}{values.get('b')}" and not _OF_NUMBERS.search(ask):
            ask = slots.choice(self.phrasings[kind], **values)
        return ask, found


def _framed(slots: Slots, kind: str, ask: str) -> str:
    """Draws the whole message."""
    return ask[1:] if kind in _BARE and ask.startswith("~") and slots.rng.random() < 0.8 else slots.frame(ask)


def _told(slots: Slots, ask: str, found: list[str]) -> tuple[str, Layout]:
    """Says now and then how the row is to be written, by the name of the signs or by a beginning of it."""
    if len(found) < 2 or not ask[-1].isalnum() or slots.rng.random() >= _TOLD_SHARE or _TELLS.search(ask):
        return ask, COMMAS
    alone = "~" if ask.startswith("~") else ""
    plain, numeric = all(item.isdigit() for item in found), all(map(_NUMBER.fullmatch, found))
    while True:
        if len(found) > 3 and slots.rng.random() < _LIKE_SHARE:
            name = slots.rng.choice(_LIKE_LAYOUTS)
            start = _LAYOUTS[name].write(found[: slots.rng.randint(2, 3)])
            start = start.removesuffix("]")
            text = slots.choice(_LIKE, ask=ask.removeprefix("~"), start=start)
        else:
            name, text = slots.choice(_TOLD, ask=ask.removeprefix("~")).split(" ", 1)
        layout = _LAYOUTS[name]
        fits = plain or name not in _JOINS
        if not numeric and (name == "brackets" or ("number" in text and "number" not in ask)):
            fits = False
        elif name == "spaces":
            fits = not any(" " in item for item in found)
        elif name == "nothing":
            fits = all(len(item) == 1 for item in found)
        if fits:
            return alone + text if not text.startswith("~") else text, layout


def _numbers(slots: Slots, kind: str) -> tuple[list[str], dict[str, object]]:
    """Numbers a step apart, and what the request says of them."""
    rng = slots.rng
    digits = rng.choices((1, 2, 3, 4, 5, 6), (0.15, 0.3, 0.25, 0.15, 0.08, 0.07))[0]
    count = rng.randint(2, min(_LONGEST, 44 // (digits + 1)))
    if digits in (2, 3) and rng.random() < 0.2:
        count = rng.randint(_LONGEST, 30)
    start = slots.number(digits) if rng.random() < 0.7 else draw_border(rng, count)
    if kind == "to":
        start = 1
    elif digits < 3 and kind in ("up", "down", "steps") and rng.random() < _BELOW_ZERO:
        start = -rng.randint(1, count + 2)
    step = 2 if kind == "kind" else rng.choice((2, 3, 4, 5, 10, 20, 25, 50, 100)) if kind == "steps" else 1
    numbers = [start + i * step for i in range(count)]
    if kind == "down":
        numbers.reverse()
    first, last = numbers[0], numbers[-1]
    texts = list(map(str, numbers))
    values: dict[str, object] = {"a": texts[0], "b": texts[-1], "s": step, "n": count}
    if kind == "steps" and digits < 3 and rng.random() < 0.2:
        # The same in quarters or halves.
        part = rng.choice((2, 4))
        texts = [f"{number / part:g}" for number in numbers]
        return texts, {"a": texts[0], "b": texts[-1], "s": f"{step / part:g}", "n": count}
    if min(first, last) >= 0 and max(first, last) < 1000 and rng.random() < 0.05:
        values |= {"a": spell(first), "b": spell(last)}
    if kind == "kind":
        values |= {
            "kind": "odd" if first % 2 else "even",
            "a": first - rng.randint(0, 1),
            "b": last + rng.randint(0, 1),
        }
    return texts, values
