"""Draws lists with items that stand there more than once, which sorting keeps."""

from gesso.tasks.skills.layouts import COMMAS, SPACES, TIGHT
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.sorting.lists import Sorted
from gesso.tasks.skills.wide_layouts import draw_number_layout, draw_wide_layout

_SECTIONS = {
    (name, down): read_phrasings("sorting", f"{name}_{'down' if down else 'up'}")
    for name in ("words", "numbers", "repeats")
    for down in (False, True)
}
REPEAT_SECTIONS = {"repeats": _SECTIONS["repeats", False], "repeats down": _SECTIONS["repeats", True]}
_TOLD_SHARE = 0.5
"""How often a request tells that repeats stay."""
_UNFIT = r"\beach\b|\bonly ever\b|\bevery\b|strictly"
"""Words of requests that would not be true where two items are alike."""


def repeats(slots: Slots, down: bool) -> Sorted:
    """Draws words or small numbers, one or two of them several times."""
    rng = slots.rng
    count = rng.choices((2, 3, 4), (0.25, 0.5, 0.25))[0]
    told = rng.random() < _TOLD_SHARE
    unfit = "" if told else _UNFIT
    if rng.random() < 0.5:
        layout = draw_number_layout(rng, numbered=True)
        layout = COMMAS if layout == TIGHT else layout
        numbers = _repeated(slots, [str(number) for number in slots.numbers(count, rng.choice((1, 2, 2, 3)))])
        section = _SECTIONS["repeats" if told else "numbers", down]
        return Sorted(section, numbers, sorted(numbers, key=int, reverse=down), layout, unfit)
    layout = draw_wide_layout(rng, numbered=True)
    words = _repeated(slots, slots.words(count))
    if rng.random() < 0.15:
        words = [word.capitalize() for word in words]
    section = _SECTIONS["repeats" if told else "words", down]
    if layout.separator == SPACES.separator and rng.random() < 0.5:
        layout = COMMAS
    return Sorted(section, words, sorted(words, reverse=down), layout, unfit)


def _repeated(slots: Slots, items: list[str]) -> list[str]:
    """The items with one or two of them once or twice more, in an order of chance."""
    rng = slots.rng
    again = rng.choices(items, k=rng.choices((1, 2), (0.65, 0.35))[0])
    found = items + again
    rng.shuffle(found)
    return found
