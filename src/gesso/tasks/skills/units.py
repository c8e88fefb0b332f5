"""Asks to convert a quantity into another unit of the same kind."""

import re
from fractions import Fraction
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots, read_phrasings

_DECIMAL = (
    (("km", "kilometres", "kilometers"), ("m", "metres", "meters"), 1000),
    (("m", "metres", "meters"), ("cm", "centimetres", "centimeters"), 100),
    (("cm", "centimetres", "centimeters"), ("mm", "millimetres", "millimeters"), 10),
    (("m", "metres", "meters"), ("mm", "millimetres", "millimeters"), 1000),
    (("kg", "kilograms", "kilos"), ("g", "grams", "grams"), 1000),
    (("t", "tons", "tonnes"), ("kg", "kilograms", "kilos"), 1000),
    (("l", "litres", "liters"), ("ml", "millilitres", "milliliters"), 1000),
    (("s", "seconds", "seconds"), ("ms", "milliseconds", "milliseconds"), 1000),
    (("euros", "euros", "euros"), ("cents", "cents", "cents"), 100),
)
_OTHER = (
    (("h", "hours", "hours"), ("min", "minutes", "minutes"), 60),
    (("min", "minutes", "minutes"), ("s", "seconds", "seconds"), 60),
    (("days", "days", "days"), ("h", "hours", "hours"), 24),
    (("weeks", "weeks", "weeks"), ("days", "days", "days"), 7),
    (("years", "years", "years"), ("months", "months", "months"), 12),
    (("feet", "feet", "feet"), ("inches", "inches", "inches"), 12),
)
_ONE = {"feet": "foot", "inches": "inch"}
_ASK = read_phrasings("units", "ask")


class Units(Skill):
    """Asks such as `How many m are 35 km?` -> `35000 m`."""

    name = "units"
    phrasings: ClassVar = {"": _ASK}

    def draw(self, slots: Slots) -> Example:
        """Draws units a power of ten apart and numbers of up to four digits, or others and numbers below 100."""
        rng = slots.rng
        decimal = rng.random() < 0.65
        large, small, factor = rng.choice(_DECIMAL if decimal else _OTHER)
        spelling = 0 if rng.random() < 0.5 else rng.choice((1, 2))
        value = Fraction(max(1, slots.number(4)) if decimal else rng.randint(1, 99))
        old, new, result = large[spelling], small[spelling], value * factor
        if rng.random() < 0.4:
            old, new = new, old
            value, result = (value, value / factor) if decimal else (result, value)
        short = _write(value) + ("" if len(old) <= 3 else " ") + old
        prompt = slots.question(_ASK, value=_write(value), old=old, new=new, short=short)
        return Example(self.name, prompt, f"{_write(result)} {new}", kind=slots.kind("decimal" if decimal else "other"))

    def grade(self, example: Example, text: str) -> bool:
        """Accepts the number with its unit, however that is spelled, or alone."""
        number, unit = example.answer.split(" ")
        found = re.fullmatch(r"(\d+|\d{1,3}(?:,\d{3})+)(\.\d+)?\s*([a-z]*)\.?", text.strip())
        if found is None or found[1].replace(",", "") + (found[2] or "") != number:
            return False
        return not found[3] or found[3] in _spellings(unit)


def _spellings(unit: str) -> set[str]:
    """All names of a unit, of one and of many."""
    names = {name for pair in (*_DECIMAL, *_OTHER) for names in pair[:2] if unit in names for name in names}
    return names | {_ONE.get(name, name.removesuffix("s")) for name in names if len(name) > 3}


def _write(value: Fraction) -> str:
    """A decimal fraction without needless zeros."""
    whole, rest = divmod(value, 1)
    digits = ""
    while rest:
        digit, rest = divmod(rest * 10, 1)
        digits += str(digit)
    return f"{whole}.{digits}" if digits else str(whole)
