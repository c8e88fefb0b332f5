"""Asks to change the case of words, and the style of identifiers."""

import re
from collections.abc import Callable
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.casing.parts import FIRST_LETTER, ONE_WORD, SMALL_LETTER, THAT_WORD, ask_part
from gesso.tasks.skills.casing.people import NAMES, REMARKS, ask_names, with_remark
from gesso.tasks.skills.casing.style_names import NAMED_STYLES
from gesso.tasks.skills.casing.styles import KEYS, SPLIT, STYLE, STYLES, ask_style
from gesso.tasks.skills.casing.texts import draw_swapped, draw_text
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.quotes import vary_quotes
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots

_UPPER = read_phrasings("casing", "upper")
_LOWER = read_phrasings("casing", "lower")
_TITLE = read_phrasings("casing", "title")
_SENTENCE = read_phrasings("casing", "sentence")
_SWAP = read_phrasings("casing", "swap")
_SIMPLE = re.compile(r"[\w ,.!?;:]+")
"""Texts of which nobody doubts where words begin."""
_DOUBTFUL = re.compile(r"[._]\w|\d[^\W\d_]|[^\W\d_]\d|[A-Z][A-Z]|[a-z][A-Z]")
"""What ways to capitalize a word differ in: `47b5`, `AGAIN`."""
_SHOUTING = "capitals|upper|caps|yell|scream|shout|loud"
"""What nobody says of words of which only the first letters are capitals."""
_LISTED = re.compile(r"[\n;|/\[]| - ")
_KINDS = ("upper", "lower", "title", "sentence", "swap", "style", "part", "names")
_WEIGHTS = (0.19, 0.14, 0.095, 0.04, 0.035, 0.41, 0.06, 0.03)
_REMARK_SHARE = 0.12
_TITLE_FROM_CAPITALS = 0.15
_UNTITLED = r"^(?!.*(\btitle ?case|title\(\)|rest (small|in lower)|others to lower))"
"""Requests that do not tell what becomes of capitals within the words."""
_ASKS: dict[str, Callable[[Slots], tuple[str, str, str]]] = {
    "style": ask_style, "part": ask_part, "names": ask_names,
}  # fmt: skip
"""Kinds of which each has a module of its own."""


class Casing(Skill):
    """Asks such as `Write in upper case: grelt fig` -> `GRELT FIG`; `Convert to camelCase: max_grelt` -> `maxGrelt`."""

    name = "casing"
    phrasings: ClassVar = {
        "upper": _UPPER, "lower": _LOWER, "title": _TITLE, "style": STYLE, "styles": STYLES, "keys": KEYS,
        "split": SPLIT, "sentence": _SENTENCE, "swap": _SWAP, "one word": ONE_WORD, "that word": THAT_WORD,
        "first letter": FIRST_LETTER, "small letter": SMALL_LETTER, "names": NAMES, "remarks": REMARKS, **NAMED_STYLES,
    }  # fmt: skip

    def draw(self, slots: Slots) -> Example:
        """Draws a text for a change of case, in whole or of one word, or identifiers for a change of style."""
        kind = slots.rng.choices(_KINDS, _WEIGHTS)[0]
        if kind in _ASKS:
            prompt, answer, kind = _ASKS[kind](slots)
            return Example(self.name, prompt, answer, kind=slots.kind(kind))
        prompt, given, answer = _ask(slots, kind)
        if slots.rng.random() < _REMARK_SHARE:
            prompt = with_remark(slots, prompt, given)
        return Example(self.name, vary_quotes(slots, prompt, given), answer, kind=slots.kind(kind))


def _ask(slots: Slots, kind: str) -> tuple[str, str, str]:
    """Asks for the whole text in another case: the prompt, the text and the answer."""
    rng = slots.rng
    if kind == "swap":
        given = draw_swapped(slots)
        loose, without = " " in given and rng.random() < 0.5, "" if _is_locked(given) else "caps ?lock"
        return slots.request(_SWAP, given, loose=loose, without=without), given, given.swapcase()
    if kind == "sentence":
        given = " ".join(word for word in slots.sentence(slots.words(rng.randint(2, 6))) if word != "i")
        given = rng.choice((given.upper(), given.lower(), given.title()))
        return slots.request(_SENTENCE, given, loose=True), given, given.capitalize()
    given = draw_text(slots)
    if kind == "lower":
        capitals = rng.random() < 0.7
        given = given.upper() if capitals else _capitalized(given)
        without = _unfit(given) if capitals else f"{_SHOUTING}|{_unfit(given)}".rstrip("|")
        prompt = slots.request(_LOWER, given, loose=True, without=without)
        return prompt, given, given.lower()
    if kind == "title":
        if not _SIMPLE.fullmatch(given) or _DOUBTFUL.search(given):
            given = " ".join(slots.words(rng.randint(2, 5)))
        answer = _capitalized(given)
        if rng.random() < _TITLE_FROM_CAPITALS:
            given = given.upper()
            return slots.request(_TITLE, given, loose=True, without=_UNTITLED), given, answer
        return slots.request(_TITLE, given, loose=True, without=_unfit(given)), given, answer
    if rng.random() < 0.2:
        given = _capitalized(given)
    return slots.request(_UPPER, given, loose=True, without=_unfit(given)), given, given.upper()


def _is_locked(text: str) -> bool:
    """Says whether a text could come of a caps lock that was on: capitals but for the beginnings of words."""
    return text[0].islower() and all(word[1:] == word[1:].upper() for word in text.split())


def _capitalized(text: str) -> str:
    """The text with a capital at the beginning of each word."""
    return re.sub(r"(?<!\S)[^\w\s]*\w", lambda start: start[0].upper(), text)


def _unfit(text: str) -> str:
    """A regular expression of what no request may call the text: one word is no "words", a list no "sentence"."""
    if " " not in text and "\n" not in text:
        return r"\b(sentence|headline|line|words)\b"
    return r"\b(sentence|headline|line)\b" if _LISTED.search(text) else ""
