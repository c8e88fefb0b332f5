"""Asks to replace a word, a name, a number or a sign of a text with another, or to remove it."""

import re
from itertools import pairwise
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.entries import draw_entries, draw_numbers
from gesso.tasks.skills.layouts import COMMAS, SPACES, TIGHT, draw_layout
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.quotes import vary_quotes
from gesso.tasks.skills.replacing.parts import ONE, ONE_SIGN, REMOVE_ONE, TWO, ask_one, ask_two
from gesso.tasks.skills.replacing.placing import asked
from gesso.tasks.skills.replacing.records import CELLS, SETTINGS, WITHIN, ask_cells, ask_settings, ask_within
from gesso.tasks.skills.replacing.signs import CHARACTERS, DROP, KEEP, ask_signs
from gesso.tasks.skills.replacing.texts import draw_filler, draw_replacement, unfit
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots

_REPLACE = read_phrasings("replacing", "replace")
_REMOVE = read_phrasings("replacing", "remove")
_NAMED = read_phrasings("replacing", "named")
_SWAP = read_phrasings("replacing", "swap")
_QUOTES = ('"{}"', '"{}"', "{}", "{}", "'{}'")
_KINDS = ("replace", "remove", "texts", "fillers", "signs", "swap")
_WEIGHTS = (0.28, 0.075, 0.155, 0.02, 0.18, 0.03)
_MORE_KINDS = {"two": ask_two, "one": ask_one, "settings": ask_settings, "cells": ask_cells, "within": ask_within}
_MORE_WEIGHTS = {"two": 0.09, "one": 0.09, "settings": 0.02, "cells": 0.025, "within": 0.04}


class Replacing(Skill):
    """Asks such as `Replace every "fig" with "grelt": fig pear fig` -> `grelt pear grelt`."""

    name = "replacing"
    shouted = True
    phrasings: ClassVar = {
        "replace": _REPLACE,
        "remove": _REMOVE,
        "named": _NAMED,
        "characters": CHARACTERS,
        "drop": DROP,
        "keep": KEEP,
        "swap": _SWAP,
        "two": TWO,
        "one": ONE,
        "remove one": REMOVE_ONE,
        "one sign": ONE_SIGN,
        "settings": SETTINGS,
        "cells": CELLS,
        "within": WITHIN,
    }

    def draw(self, slots: Slots) -> Example:
        """Draws three to eight words of which one stands there once to three times, a sentence or prose with its marks;
        words are replaced, removed or change places, one of several, or two at once, or signs, letters and digits are
        replaced or removed; a few are of settings, columns or parts of names."""
        rng = slots.rng
        kind = rng.choices((*_KINDS, *_MORE_WEIGHTS), (*_WEIGHTS, *_MORE_WEIGHTS.values()))[0]
        if kind == "signs":
            prompt, answer, kind = ask_signs(slots)
            return Example(self.name, prompt, answer, kind=slots.kind(kind))
        if kind == "swap":
            return self._swap(slots)
        if kind == "texts":
            return self._texts(slots)
        if kind in _MORE_KINDS:
            prompt, answer = _MORE_KINDS[kind](slots)
            return Example(self.name, prompt, answer, kind=slots.kind(kind))
        text = "filler" if kind == "fillers" else rng.choices(("words", "sentence", "prose"), (0.4, 0.2, 0.4))[0]
        remove = kind in ("remove", "fillers")
        new = ""
        if text == "filler":
            given, old, answer = draw_filler(slots)
        elif text == "prose":
            given, old, new, answer = _prose(slots, remove=remove)
        else:
            given, old, new, answer = (_words if text == "words" else _sentence)(slots, remove=remove)
        running = text != "words"
        quote = _drawn_quote(slots, old, running=running)
        if (text == "filler" or " " in old) and running and quote == "{}":
            quote = '"{}"'
        names = {"old": quote.format(old), "new": quote.format(new)}
        ask = _REMOVE if remove else _REPLACE
        wide, without = not running or quote != "{}", unfit(old, running=running)
        prompt = asked(slots, ask, given, names, loose=running, wide=wide, without=without)
        return Example(self.name, vary_quotes(slots, prompt, given), answer, kind=slots.kind(kind))

    def _texts(self, slots: Slots) -> Example:
        """Half of the requests say what it is that goes: a name, a number, a code."""
        found = draw_replacement(slots)
        plain = found.old.isalnum() and (found.old[0].isupper() or found.old[0].isdigit())
        bare = slots.rng.random() < (0.6 if plain else 0.4)
        quote = "{}" if bare else slots.rng.choice(_QUOTES[:2] + _QUOTES[-1:])
        names = {"old": quote.format(found.old), "new": quote.format(found.new), "noun": found.noun}
        phrasings = _NAMED if slots.rng.random() < 0.4 else _REPLACE
        without = unfit(found.old, running=True)
        prompt = asked(slots, phrasings, found.given, names, loose=True, wide=not bare, without=without)
        return Example(self.name, vary_quotes(slots, prompt, found.given), found.answer, kind=slots.kind("texts"))

    def _swap(self, slots: Slots) -> Example:
        rng = slots.rng
        layout = draw_layout(rng) if rng.random() < 0.5 else SPACES
        given = slots.plain_sentence() if layout == SPACES else draw_entries(slots, rng.randint(2, 6), spaced=False)
        running = layout == SPACES
        lowered = [word.lower() for word in given]
        inside = given[1:] if running and given[0][0].isupper() else given
        alone = [word for word in inside if lowered.count(word.lower()) == 1]
        if len(alone) < 2:
            given = alone = slots.words(4)
        one, other = rng.sample(alone, 2)
        turned = [{one: other, other: one}.get(word, word) for word in given]
        quote = _drawn_quote(slots, min(one, other, key=len), running=running)
        names = {"old": quote.format(one), "new": quote.format(other)}
        without = unfit(one + other, running=running)
        prompt = slots.request(_SWAP, layout.answer(given), loose=running, without=without, **names)
        return Example(self.name, prompt, layout.answer(turned), kind=slots.kind("swap"))


def _drawn_quote(slots: Slots, old: str, *, running: bool) -> str:
    """Draws the quotes around what goes and what comes; in running text more often some."""
    quote = slots.rng.choice(_QUOTES)
    if running and quote == "{}" and (len(old) < 4 or slots.rng.random() < 0.5):
        quote = '"{}"'
    return quote


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
        if len(whole.findall(text)) != len(re.findall(re.escape(old), text, re.IGNORECASE)):
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
