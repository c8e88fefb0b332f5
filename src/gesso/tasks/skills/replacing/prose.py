"""Draws prose in which two things go, or one of several places of a thing."""

from dataclasses import dataclass

from gesso.tasks.skills.patterns import expand, read_phrasings
from gesso.tasks.skills.replacing.texts import occurrences
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.things import is_mixed

_KINDS = ("names", "words", "words", "phrases", "places", "numbers")
_TEXTS = {kind: read_phrasings("replacing_texts", kind) for kind in sorted(set(_KINDS))}
_OTHERS = ("w1", "w2", "name", "city", "n", "m")
"""Places of further values, each of which may go too."""
_LONGEST = 75
"""Longer texts are left to requests that change one thing."""


@dataclass(frozen=True, slots=True)
class Filled:
    """Holds a pattern of a text and the values for its places, `x` for what stands there most often."""

    kind: str
    pattern: str
    values: dict[str, str]

    def write(self, **changed: str) -> str:
        """Returns the text with other values at some places."""
        return self.pattern.format(**{**self.values, **changed})


def draw_pairs(slots: Slots) -> tuple[str, str, list[tuple[str, str]]]:
    """Draws a text, the same with two things replaced, and what goes and what comes for each."""
    rng = slots.rng
    while True:
        text = _drawn(slots)
        others = [place for place in _OTHERS if f"{{{place}}}" in text.pattern]
        if not others:
            continue
        places = ["x", rng.choice(others)]
        if rng.random() < 0.3:
            places.reverse()
        fresh = _values(slots, text.kind)
        changed = {place: fresh[place] for place in places}
        pairs = [(text.values[place], changed[place]) for place in places]
        given = text.write()
        if all(occurrences(old, given) == text.pattern.count(f"{{{place}}}") and not occurrences(new, given)
               for (old, new), place in zip(pairs, places, strict=True)) and pairs[0][1] != pairs[1][1]:  # fmt: skip
            return given, text.write(**changed), pairs


def draw_places(slots: Slots) -> tuple[list[str], str]:
    """Draws what stands before, between and behind the places of one thing, and the thing."""
    while True:
        text = _drawn(slots)
        old = text.values["x"]
        if 2 <= text.pattern.count("{x}") == occurrences(old, text.write()):
            return text.write(x="\0").split("\0"), old


def _drawn(slots: Slots) -> Filled:
    rng = slots.rng
    while True:
        kind = rng.choice(_KINDS)
        pattern = expand(rng.choice(_TEXTS[kind].unseen if slots.reworded else _TEXTS[kind].seen), rng)
        text = Filled(kind, pattern, _values(slots, kind))
        given = text.write(X="")
        if "{X}" in pattern or len(given) > _LONGEST:
            continue
        if not is_mixed(given, slots):
            return text


def _values(slots: Slots, kind: str) -> dict[str, str]:
    first, second, third, fourth = slots.words(4)
    thing = {
        "names": slots.first_name(), "places": slots.city(), "phrases": f"{third} {fourth}",
        "numbers": str(slots.number(4)),
    }.get(kind, third)  # fmt: skip
    return {
        "x": thing, "w1": first, "w2": second, "name": slots.first_name(), "city": slots.city(),
        "n": str(slots.number(3)), "m": str(slots.number(2)),
    }  # fmt: skip
