"""Draws words that are sorted by their length."""

from gesso.tasks.skills.layouts import Layout, draw_layout
from gesso.tasks.skills.lexicon import common_words
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.sorting.lists import Sorted
from gesso.tasks.skills.wide_layouts import draw_wide_layout

_SECTIONS = {down: read_phrasings("sorting", f"length_{'down' if down else 'up'}") for down in (False, True)}
_CODE = {down: read_phrasings("sorting", f"length_code_{'down' if down else 'up'}") for down in (False, True)}
LENGTH_SECTIONS = {
    "length": _SECTIONS[False], "length down": _SECTIONS[True],
    "length code": _CODE[False], "length code down": _CODE[True],
}  # fmt: skip
_FEWEST, _GAP = 3, 2
"""How many words there are at least, and how many letters, at least, one has more than another."""
_COMMON_SHARE = 0.4
_TRIES = 40
_SHORT = 9
_LONG_SHARE = 0.1
_IN_CODE = (Layout(", ", whole="[{}]", item='"{}"'), Layout(", ", whole="[{}]", item="'{}'"))


def by_length(slots: Slots, down: bool) -> tuple[str, str]:
    """Asks for three or four short words of clearly unlike lengths."""
    rng = slots.rng
    given = _words(slots, rng.choice((_FEWEST, _FEWEST + 1)))
    if rng.random() < 0.12:
        given = [word.capitalize() for word in given]
    result = sorted(given, key=len, reverse=down)
    if rng.random() < 0.06:
        layout, name = rng.choice(_IN_CODE), slots.identifier(1)
        prompt = slots.choice(_CODE[down], list=layout.write(given), name=name)
        return prompt, layout.answer(result)
    layout = draw_layout(rng) if rng.random() < 0.75 else draw_wide_layout(rng, numbered=True)
    return Sorted(_SECTIONS[down], given, result, layout).ask(slots)


def _words(slots: Slots, count: int) -> list[str]:
    """Draws distinct words of which no two are close in length, as many of them as are found soon."""
    found: list[str] = []
    while len(found) < _FEWEST:
        found = [_word(slots)]
        for _ in range(_TRIES):
            if len(found) == count:
                break
            word = _word(slots)
            if len(word) > _SHORT and slots.rng.random() >= _LONG_SHARE:
                continue
            if word not in found and all(abs(len(word) - len(other)) >= _GAP for other in found):
                found.append(word)
    return found


def _word(slots: Slots) -> str:
    """Draws a word, more often a common one, whose length is soon known."""
    if not slots.unseen and slots.rng.random() < _COMMON_SHARE:
        return slots.rng.choice(common_words())
    return slots.word()
