"""Asks to replace a word, a name, a number or a sign of a text with another, or to remove it."""

import re
from itertools import pairwise
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.entries import draw_entries, draw_numbers
from gesso.tasks.skills.layouts import COMMAS, SPACES, TIGHT, draw_layout
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots

_REPLACE = read_phrasings("replacing", "replace")
_REMOVE = read_phrasings("replacing", "remove")
_CHARACTERS = read_phrasings("replacing", "characters")
_DROP = read_phrasings("replacing", "drop")
_SWAP = read_phrasings("replacing", "swap")
_QUOTES = ('"{}"', '"{}"', "{}", "{}", "'{}'")
_SIGNS = {
    ",": "comma", ";": "semicolon", ":": "colon", ".": "full stop", "!": "exclamation mark", "?": "question mark",
    " ": "space", "_": "underscore", "-": "hyphen", "/": "slash", "&": "ampersand", "@": "at sign", "#": "hash sign",
    "|": "pipe", "*": "asterisk", "+": "plus sign", "=": "equals sign", "'": "apostrophe",
}  # fmt: skip
_OTHER_NAMES = {"-": "dashes", ".": "periods"}
_SIGNS_IN_PROSE = 0.35
_JOINED = (", ", "; ", ": ", "_", "-", "/", " & ", " | ", "+", " - ", ".", "@", "#", "=", " ")
"""Ways of putting words together with a sign."""


class Replacing(Skill):
    """Asks such as `Replace every "fig" with "grelt": fig pear fig` -> `grelt pear grelt`."""

    name = "replacing"
    shouted = True
    phrasings: ClassVar = {
        "replace": _REPLACE,
        "remove": _REMOVE,
        "characters": _CHARACTERS,
        "drop": _DROP,
        "swap": _SWAP,
    }

    def draw(self, slots: Slots) -> Example:
        """Draws three to eight words of which one stands there once to three times, a sentence or prose with its marks;
        words are replaced, removed or change places, or signs and letters are replaced or removed."""
        rng = slots.rng
        kind = rng.choices(("replace", "remove", "signs", "swap"), (0.68, 0.15, 0.12, 0.05))[0]
        if kind == "signs":
            return self._signs(slots)
        if kind == "swap":
            return self._swap(slots)
        text = rng.choices(("words", "sentence", "prose"), (0.4, 0.2, 0.4))[0]
        if text == "prose":
            given, old, new, answer = _prose(slots, remove=kind == "remove")
        else:
            given, old, new, answer = (_words if text == "words" else _sentence)(slots, remove=kind == "remove")
        running = text != "words"
        quote = rng.choice(_QUOTES)
        if running and quote == "{}" and (len(old) < 4 or rng.random() < 0.5):
            quote = '"{}"'
        names = {"old": quote.format(old), "new": quote.format(new)}
        prompt = slots.request(_REMOVE if kind == "remove" else _REPLACE, given, loose=running, **names)
        return Example(self.name, prompt, answer, kind=slots.kind(kind))

    def _signs(self, slots: Slots) -> Example:
        """Signs have names; letters are told as they are."""
        rng = slots.rng
        drop = rng.random() < 0.3
        if rng.random() < 0.25:
            text = " ".join(slots.words(rng.choice((1, 1, 2, 3))))
            old, new = rng.choice([c for c in text if c.isalpha()]), rng.choice("abcdefghiklmnoprstuvwz")
            before, after = rng.choice(((f"the letter {old}", new), (f'"{old}"', f'"{new}"')))
        else:
            joint = rng.choice(_JOINED)
            old = joint.strip() or " "
            new = rng.choice([sign for sign in _SIGNS if sign != old])
            text = joint.join(draw_entries(slots, rng.randint(2, 5), spaced=False))
            if rng.random() < _SIGNS_IN_PROSE:
                prose = slots.prose()
                signs = [sign for sign in _SIGNS if sign in prose and sign != "'"]
                if signs and len(prose) < 90:
                    text, old = prose, rng.choice(signs)
                    new = rng.choice([sign for sign in _SIGNS if sign != old])
            before, after = _called(slots, old), _called(slots, new)
        if drop and old != " ":
            prompt = slots.request(_DROP, text, old=before)
            answer = re.sub(" +", " ", text.replace(old, "")).strip()
            if answer:
                return Example(self.name, prompt, answer, kind=slots.kind("drop"))
        prompt = slots.request(_CHARACTERS, text, old=before, new=after)
        return Example(self.name, prompt, text.replace(old, new).strip(), kind=slots.kind("signs"))

    def _swap(self, slots: Slots) -> Example:
        rng = slots.rng
        layout = draw_layout(rng) if rng.random() < 0.5 else SPACES
        given = slots.plain_sentence() if layout == SPACES else draw_entries(slots, rng.randint(2, 6), spaced=False)
        alone = [word for word in given if given.count(word) == 1]
        if len(alone) < 2:
            given = alone = slots.words(4)
        one, other = rng.sample(alone, 2)
        turned = [{one: other, other: one}.get(word, word) for word in given]
        quote = rng.choice(_QUOTES)
        prompt = slots.request(
            _SWAP, layout.answer(given), loose=layout == SPACES, old=quote.format(one), new=quote.format(other)
        )
        return Example(self.name, prompt, layout.answer(turned), kind=slots.kind("swap"))


def _called(slots: Slots, sign: str) -> str:
    """Signs by their name, now and then one by itself."""
    name = _SIGNS[sign]
    plural = name + ("es" if name.endswith("sh") else "s")
    if sign in _OTHER_NAMES and slots.rng.random() < 0.5:
        plural = _OTHER_NAMES[sign]
    return f'"{sign}"' if sign != " " and slots.rng.random() < 0.15 else plural


def _sentence(slots: Slots, *, remove: bool) -> tuple[str, str, str, str]:
    """A plain sentence, the word that goes, the one that comes, and the sentence then; where a name is to go it stands
    there once or twice, and some end in a full stop."""
    rng = slots.rng
    given = slots.plain_sentence()
    if rng.random() < 0.3:
        old, new = slots.first_name(), slots.first_name()
        for place in rng.sample(range(len(given)), rng.randint(1, min(2, len(given)))):
            given[place] = old
    else:
        old, new = rng.choice(given), slots.word()
    new = new if new != old else slots.words(2)[1]
    if given[-1] != old and rng.random() < 0.3:
        given[-1] += "."
    kept = [word for word in given if word != old] if remove else [new if word == old else word for word in given]
    return " ".join(given), old, new, " ".join(kept)


def _words(slots: Slots, *, remove: bool) -> tuple[str, str, str, str]:
    """The same of words, names or numbers in any layout."""
    rng = slots.rng
    layout = draw_layout(rng)
    length = rng.randint(3, 8)
    if rng.random() < 0.85:
        old, new, *others = draw_entries(slots, length + 2, spaced=layout != SPACES, copied=True)
    else:
        layout = COMMAS if layout == TIGHT else layout
        old, new, *others = (text for _, text in draw_numbers(slots, length + 2, spaced=layout != SPACES))
    repeats = rng.randint(1, min(3, length - 1))
    given = [old] * repeats + others[: length - repeats]
    rng.shuffle(given)
    if layout == SPACES:
        given = slots.sentence(given)
    kept = [word for word in given if word != old] if remove else [new if word == old else word for word in given]
    text = layout.answer(given)
    return text, old, new, layout.answer(kept)


def _prose(slots: Slots, *, remove: bool) -> tuple[str, str, str, str]:
    """The same of one or two sentences with capitals and marks: any word, or two that follow each other."""
    rng = slots.rng
    while True:
        text = slots.prose()
        words = re.findall(r"(?<![\w'-])\w+(?![\w'-])", text)
        often = [word for word in words if words.count(word) > 1]
        old = rng.choice(often if often and rng.random() < 0.6 else words)
        if rng.random() < 0.1:
            pairs = [f"{a} {b}" for a, b in pairwise(words) if f" {a} {b} " in text]
            old = rng.choice(pairs) if pairs else old
        whole = re.compile(rf"(?<![\w'-]){re.escape(old)}(?![\w'-])")
        # A word that stands there in another case too, or within another, would be a matter of taste.
        if len(whole.findall(text)) != len(re.findall(re.escape(old), text, re.IGNORECASE)) and not old[0].isupper():
            continue
        if remove:
            answer = re.sub(rf"(?<=\w) {re.escape(old)}(?= \w)", "", text)
            if answer == text or whole.search(answer):
                continue
            return text, old, "", answer
        if old[0].isupper() and rng.random() < 0.8:
            new = slots.first_name() if rng.random() < 0.6 else slots.word().capitalize()
        else:
            new = str(slots.number(3)) if old.isdigit() else slots.word()
        if rng.random() < 0.08:
            new = " ".join(slots.words(2))
        if new == old:
            continue
        return text, old, new, whole.sub(new, text)
