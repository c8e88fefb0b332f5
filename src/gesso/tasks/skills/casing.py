"""Asks to change the case of words, and the style of identifiers."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Phrasings, Slots

_UPPER = Phrasings(
    (
        "Write in upper case",
        "Write [this|these words|the words|the text] in [upper case|uppercase|capital letters]",
        "[Convert|Change] [this|the words|the text] to [upper case|uppercase]",
        "Make [this|the words] upper case",
        "Put [this|these words|everything] in capital letters",
        "Uppercase[| this| the words]",
        "Turn [this|the words] into [upper case|capital letters]",
    ),
    ("Capitalize every letter", "Give me this in block capitals", "Shout the words in capital letters"),
)
_LOWER = Phrasings(
    (
        "Write in lower case",
        "Write [this|these words|the words|the text] in [lower case|lowercase|small letters]",
        "[Convert|Change] [this|the words|the text] to [lower case|lowercase]",
        "Make [this|the words] lower case",
        "Put everything in small letters",
        "Lowercase[| this| the words]",
    ),
    ("Remove all capitals", "Give me this without capital letters", "Turn every capital into a small letter"),
)
_TITLE = Phrasings(
    (
        "Write in title case",
        "Capitalize [each|every] word",
        "Capitalize the first letter of [each|every] word",
        "[Convert|Change] [this|the words] to title case",
        "Write [each|every] word with a capital letter",
        "Start [each|every] word with a capital letter",
    ),
    ("Make this a title with capitals", "Give every word a capital initial"),
)


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
}
_STYLE = Phrasings(
    (
        "Convert to {style}",
        "[Convert|Change|Turn] [this|the name|the identifier|this identifier] [to|into] {style}",
        "Write [this|the name|this name|this identifier] in {style}", "Rewrite [this|the identifier] in {style}",
        "Put [this|the name] in {style}", "Change the style to {style}", "Give [this|the name] in {style}",
        "Write in {style}",
    ),
    ("Translate this identifier to {style}", "~How do you write this in {style}", "Restyle the name as {style}"),
)  # fmt: skip


class Casing(Skill):
    """Asks such as `Write in upper case: grelt fig` -> `GRELT FIG`; `Convert to camelCase: max_grelt` -> `maxGrelt`."""

    name = "casing"
    phrasings: ClassVar = {"upper": _UPPER, "lower": _LOWER, "title": _TITLE, "style": _STYLE}

    def draw(self, slots: Slots) -> Example:
        """Draws one to five words for a change of case, or two to four for a change of style."""
        rng = slots.rng
        if rng.random() < 0.5:
            return self._style(slots)
        given = " ".join(slots.words(rng.randint(1, 5)))
        kind = rng.choices(("upper", "lower", "title"), (0.5, 0.3, 0.2))[0]
        if kind == "lower":
            given = given.upper() if rng.random() < 0.6 else given.title()
            return Example(self.name, slots.request(_LOWER, given), given.lower(), kind=slots.kind(kind))
        if kind == "upper" and rng.random() < 0.2:
            given = given.title()
        phrasings, answer = (_UPPER, given.upper()) if kind == "upper" else (_TITLE, given.title())
        return Example(self.name, slots.request(phrasings, given), answer, kind=slots.kind(kind))

    def _style(self, slots: Slots) -> Example:
        rng = slots.rng
        words = [slots.stem() for _ in range(rng.randint(2, 4))]
        old, new = rng.sample(sorted(_STYLES), 2)
        given = " ".join(words) if rng.random() < 0.15 else _STYLES[old][1](words)
        style = slots.choice(Phrasings((_STYLES[new][0],), (_STYLES[new][0],)))
        prompt = slots.request(_STYLE, given, style=style)
        return Example(self.name, prompt, _STYLES[new][1](words), kind=slots.kind("style"))
