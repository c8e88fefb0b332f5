"""Asks to replace a word of a text with another, or to remove it."""

from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots, read_phrasings

_REPLACE = read_phrasings("replacing", "replace")
_REMOVE = read_phrasings("replacing", "remove")
_QUOTES = ('"{}"', '"{}"', "{}", "'{}'")


class Replacing(Skill):
    """Asks such as `Replace every "fig" with "grelt": fig pear fig` -> `grelt pear grelt`."""

    name = "replacing"
    phrasings: ClassVar = {"replace": _REPLACE, "remove": _REMOVE}

    def draw(self, slots: Slots) -> Example:
        """Draws three to eight words of which one stands there once to three times, or a sentence."""
        rng = slots.rng
        separator = rng.choice((" ", " ", ", "))
        if separator == " " and rng.random() < 0.4:
            old, new, given = _sentence(slots)
        else:
            old, new, given = _words(slots, separator)
        quote = rng.choice(_QUOTES)
        text = separator.join(given)
        if rng.random() < 0.2:
            prompt = slots.request(_REMOVE, text, old=quote.format(old))
            answer = separator.join(word for word in given if word != old)
            return Example(self.name, prompt, answer, kind=slots.kind("remove"))
        answer = separator.join(new if word == old else word for word in given)
        prompt = slots.request(_REPLACE, text, old=quote.format(old), new=quote.format(new))
        return Example(self.name, prompt, answer, kind=slots.kind("replace"))


def _sentence(slots: Slots) -> tuple[str, str, list[str]]:
    """The same of a sentence; where a name is to go it stands there once or twice, and some end in a full stop."""
    rng = slots.rng
    given = slots.plain_sentence()
    if rng.random() < 0.3:
        old, new = slots.first_name(), slots.first_name()
        for place in rng.sample(range(len(given)), rng.randint(1, min(2, len(given)))):
            given[place] = old
    else:
        old, new = rng.choice(given), slots.word()
    if given[-1] != old and rng.random() < 0.3:
        given[-1] += "."
    return old, new, given


def _words(slots: Slots, separator: str) -> tuple[str, str, list[str]]:
    """The word that goes, the one that comes, and those it stands among."""
    rng = slots.rng
    length = rng.randint(3, 8)
    old, new, *others = slots.items(length + 2)
    repeats = rng.randint(1, min(3, length - 1))
    given = [old] * repeats + others[: length - repeats]
    rng.shuffle(given)
    return old, new, slots.sentence(given) if separator == " " else given
