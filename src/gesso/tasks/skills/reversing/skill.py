"""Asks to reverse the order of words, or the letters of a word."""

from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.entries import OF_WORDS, draw_entries, draw_numbers
from gesso.tasks.skills.layouts import COMMAS, LINES, SPACES, TIGHT
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.placing import placed_request
from gesso.tasks.skills.reversing.kinds import MORE_KINDS, MORE_SECTIONS
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.things import draw_things
from gesso.tasks.skills.wide_layouts import draw_number_layout, draw_wide_layout

_WORDS = read_phrasings("reversing", "words")
_LETTERS = read_phrasings("reversing", "letters")
_PLAIN = "plain"
_MORE_WEIGHTS = {
    "letters of each": 0.1, "letters of codes": 0.07, "letters of numbers": 0.03, "letters of phrases": 0.055,
    "lines": 0.035, "letters in code": 0.025, "code": 0.025, "runs": 0.04,
}  # fmt: skip
_LETTERS_SHARE, _TRAINED_LETTERS_SHARE = 0.2, 0.35
"""Letters are learned later than words."""
_WORDS_SHARE, _TRAINED_WORDS_SHARE = 0.85, 0.75
"""So are numbers."""
_THINGS_SHARE = 0.25
_LONG_SHARE = 0.05
_FENCED_SHARE = 0.15
"""How often lines stand in a fence, which answers leave out."""
_OF_SENTENCE = r"\bsentence\b|\bphrase\b"
_OF_LETTERS = r"word|\bletters?\b|\bnames?\b|\bcall(ed)?\b|\bI'm \{"
_OF_NUMBERS = r"\bnumbers\b|\bvalues\b|\bfigures\b"


class Reversing(Skill):
    """Asks such as `Write these words backwards: offset grelt` -> `grelt offset`; `Reverse the letters: fig` ->
    `gif`."""

    name = "reversing"
    shouted = True
    phrasings: ClassVar = {"words": _WORDS, "letters": _LETTERS, **MORE_SECTIONS}

    def draw(self, slots: Slots) -> Example:
        """Draws two to seven words, names or numbers in any layout, a sentence or, one time in four, a single word,
        code or number whose letters turn (more often in training, as numbers are); one time in three, another thing
        that is turned."""
        rng = slots.rng
        kinds, weights = (*_MORE_WEIGHTS, _PLAIN), (*_MORE_WEIGHTS.values(), 1 - sum(_MORE_WEIGHTS.values()))
        kind = rng.choices(kinds, weights)[0]
        if kind != _PLAIN:
            prompt, answer = MORE_KINDS[kind](slots)
            return Example(self.name, prompt, answer, kind=slots.kind(kind))
        if rng.random() < (_LETTERS_SHARE if slots.unseen else _TRAINED_LETTERS_SHARE):
            word = _single(slots)
            without = "" if word.isalpha() else _OF_LETTERS
            prompt = placed_request(slots, _LETTERS, word, without=without)
            return Example(self.name, prompt, word[::-1], kind=slots.kind("letters"))
        prompt, answer = _in_order(slots)
        return Example(self.name, prompt, answer, kind=slots.kind("words"))


def _in_order(slots: Slots) -> tuple[str, str]:
    """A list, or the words of a sentence, whose order turns."""
    rng = slots.rng
    layout = draw_wide_layout(rng, numbered=False)
    spaced = layout.separator != SPACES.separator
    without = _OF_NUMBERS
    if rng.random() < (_WORDS_SHARE if slots.unseen else _TRAINED_WORDS_SHARE):
        count = rng.randint(8, 10) if rng.random() < _LONG_SHARE else rng.randint(2, 7)
        if rng.random() < _THINGS_SHARE:
            given = draw_things(slots, count, spaced=spaced)
        else:
            given = draw_entries(slots, count, spaced=spaced, copied=True)
        if any(layout.separator in item for item in given):
            layout = COMMAS
        if layout == SPACES:
            given = slots.plain_sentence() if rng.random() < 0.35 else slots.sentence(given)
        elif any(" " in item for item in given):
            without = f"{OF_WORDS}|word|{_OF_NUMBERS}"
    else:
        layout, without = draw_number_layout(rng, numbered=False), OF_WORDS
        layout = COMMAS if layout == TIGHT else layout
        spaced = layout.separator != SPACES.separator
        given = [text for _, text in draw_numbers(slots, rng.randint(3, 5), spaced=spaced)]
    if layout != SPACES:
        without = f"{without}|{_OF_SENTENCE}"
    if layout == LINES and rng.random() < _FENCED_SHARE:
        prompt = slots.request(_WORDS, f"```\n{layout.answer(given)}\n```", without=without)
        return prompt, layout.answer(given[::-1])
    prompt = placed_request(
        slots, _WORDS, layout.answer(given), count=len(given), loose=layout == SPACES, without=without,
        joint=layout.separator,
    )  # fmt: skip
    return prompt, layout.answer(given[::-1])


def _single(slots: Slots) -> str:
    """A word; now and then a name, a number or a code."""
    rng = slots.rng
    kind = rng.choices(("word", "name", "number", "code"), (0.74, 0.11, 0.1, 0.05))[0]
    if kind == "number":
        return str(slots.number(6) + 10)
    if kind == "code":
        return f"{rng.choice('ABCDEFGHKLMNPRSTXZ')}{rng.choice('ABCDEFGHKLMNPRSTXZ')}{slots.number(3)}"
    return slots.first_name() if kind == "name" else slots.word()
