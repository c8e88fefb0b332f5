"""Asks to change the case of words, and the style of identifiers."""

import re
from collections.abc import Callable, Sequence
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.entries import draw_entries
from gesso.tasks.skills.layouts import draw_layout
from gesso.tasks.skills.patterns import Phrasings, read_phrasings
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots

_UPPER = read_phrasings("casing", "upper")
_LOWER = read_phrasings("casing", "lower")
_TITLE = read_phrasings("casing", "title")


def _camel(words: Sequence[str]) -> str:
    return words[0] + "".join(word.capitalize() for word in words[1:])


def _pascal(words: Sequence[str]) -> str:
    return "".join(word.capitalize() for word in words)


_STYLES: dict[str, tuple[str, Callable[[Sequence[str]], str]]] = {
    "snake": ("[snake_case|snake case]", "_".join),
    "camel": ("[camelCase|camel case]", _camel),
    "pascal": ("[PascalCase|Pascal case]", _pascal),
    "kebab": ("[kebab-case|kebab case]", "-".join),
    "constant": ("[CONSTANT_CASE|constant case|SCREAMING_SNAKE_CASE]", lambda words: "_".join(words).upper()),
    "dot": ("[dot.case|dot case]", ".".join),
}
_STYLE = read_phrasings("casing", "style")
_SENTENCE = read_phrasings("casing", "sentence")
_SWAP = read_phrasings("casing", "swap")
_SIMPLE = re.compile(r"[\w ,.!?;:]+")
"""Texts of which nobody doubts where words begin."""


class Casing(Skill):
    """Asks such as `Write in upper case: grelt fig` -> `GRELT FIG`; `Convert to camelCase: max_grelt` -> `maxGrelt`."""

    name = "casing"
    phrasings: ClassVar = {
        "upper": _UPPER, "lower": _LOWER, "title": _TITLE, "style": _STYLE, "sentence": _SENTENCE, "swap": _SWAP
    }  # fmt: skip

    def draw(self, slots: Slots) -> Example:
        """Draws one to five words, a list or prose for a change of case, or two to four words for a change of
        style."""
        rng = slots.rng
        if rng.random() < 0.45:
            return self._style(slots)
        given = _text(slots)
        kind = rng.choices(("upper", "lower", "title", "sentence", "swap"), (0.42, 0.27, 0.19, 0.07, 0.05))[0]
        if kind in ("title", "sentence") and not _SIMPLE.fullmatch(given):
            given = " ".join(slots.words(rng.randint(2, 5)))
        if kind == "lower":
            capitals = rng.random() < 0.7
            given = given.upper() if capitals else given.title()
            prompt = slots.request(_LOWER, given, loose=True, without="" if capitals else "capitals|upper")
            return Example(self.name, prompt, given.lower(), kind=slots.kind(kind))
        if kind == "sentence":
            given = " ".join(slots.sentence(slots.words(rng.randint(2, 6))))
            given = rng.choice((given.upper(), given.lower(), given.title()))
            return Example(
                self.name, slots.request(_SENTENCE, given, loose=True), given.capitalize(), kind=slots.kind(kind)
            )
        if kind == "swap":
            given = " ".join(rng.choice((word, word.title(), word.upper())) for word in slots.words(rng.randint(1, 3)))
            return Example(self.name, slots.request(_SWAP, given), given.swapcase(), kind=slots.kind(kind))
        if kind == "upper" and rng.random() < 0.2:
            given = given.title()
        phrasings, answer = (_UPPER, given.upper()) if kind == "upper" else (_TITLE, _capitalized(given))
        return Example(self.name, slots.request(phrasings, given, loose=True), answer, kind=slots.kind(kind))

    def _style(self, slots: Slots) -> Example:
        rng = slots.rng
        words = [slots.stem() for _ in range(rng.randint(2, 4))]
        if rng.random() < 0.12:
            words[-1] = str(slots.number(2))
        old, new = rng.sample(sorted(_STYLES), 2)
        apart = " ".join(words) if rng.random() < 0.7 else " ".join(words).title()
        given = apart if rng.random() < 0.25 or words[-1].isdigit() else _STYLES[old][1](words)
        style = slots.choice(Phrasings((_STYLES[new][0],), (_STYLES[new][0],)))
        prompt = slots.request(_STYLE, given, style=style)
        return Example(self.name, prompt, _STYLES[new][1](words), kind=slots.kind("style"))


def _text(slots: Slots) -> str:
    """Words, a plain sentence, prose with its marks or a list."""
    rng = slots.rng
    kind = rng.choices(("words", "plain", "prose", "list"), (0.4, 0.2, 0.25, 0.15))[0]
    if kind == "plain":
        return " ".join(slots.plain_sentence())
    if kind == "prose":
        return slots.prose()
    if kind == "list":
        return draw_layout(rng).answer(draw_entries(slots, rng.randint(2, 5)))
    return " ".join(slots.sentence(slots.words(rng.randint(1, 5))))


def _capitalized(text: str) -> str:
    """The text with a capital at the beginning of each word."""
    return re.sub(r"[^\s]+", lambda word: word[0].capitalize(), text)
