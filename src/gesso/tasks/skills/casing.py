"""Asks to change the case of words, and the style of identifiers."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Phrasings, Slots, read_phrasings

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
}
_STYLE = read_phrasings("casing", "style")


class Casing(Skill):
    """Asks such as `Write in upper case: grelt fig` -> `GRELT FIG`; `Convert to camelCase: max_grelt` -> `maxGrelt`."""

    name = "casing"
    phrasings: ClassVar = {"upper": _UPPER, "lower": _LOWER, "title": _TITLE, "style": _STYLE}

    def draw(self, slots: Slots) -> Example:
        """Draws one to five words for a change of case, or two to four for a change of style."""
        rng = slots.rng
        if rng.random() < 0.5:
            return self._style(slots)
        plain = rng.random() < 0.35
        given = " ".join(slots.plain_sentence() if plain else slots.sentence(slots.words(rng.randint(1, 5))))
        kind = rng.choices(("upper", "lower", "title"), (0.45, 0.3, 0.25))[0]
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
        apart = " ".join(words) if rng.random() < 0.7 else " ".join(words).title()
        given = apart if rng.random() < 0.2 else _STYLES[old][1](words)
        style = slots.choice(Phrasings((_STYLES[new][0],), (_STYLES[new][0],)))
        prompt = slots.request(_STYLE, given, style=style)
        return Example(self.name, prompt, _STYLES[new][1](words), kind=slots.kind("style"))
