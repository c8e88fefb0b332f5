"""Asks to convert a quantity into another unit of the same kind."""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.sums import spell


@dataclass(frozen=True, slots=True)
class _Unit:
    """Holds the names of a unit, short, British and American, and how many of the smallest of its kind it is."""

    names: tuple[str, str, str]
    size: int
    one: str = ""
    """The name of one, where it is not the others without their s."""

    @property
    def singulars(self) -> tuple[str, str, str]:
        """Returns the names of one, in the same order."""
        short, *long = self.names
        british, american = (self.one or name.removesuffix("s") for name in long)
        return short, british, american


def _kind(*units: tuple[str, int]) -> tuple[_Unit, ...]:
    """Reads units from `short/British/American[/one]`, with their sizes."""
    found = []
    for names, size in units:
        short, british, american, *one = names.split("/")
        found.append(_Unit((short, british, american), size, *one))
    return tuple(found)


_LENGTH = _kind(
    ("mm/millimetres/millimeters", 1), ("cm/centimetres/centimeters", 10), ("m/metres/meters", 1000),
    ("km/kilometres/kilometers", 10**6),
)  # fmt: skip
_WEIGHT = _kind(
    ("mg/milligrams/milligrams", 1), ("g/grams/grams", 1000), ("kg/kilograms/kilos", 10**6), ("t/tons/tonnes", 10**9)
)
_VOLUME = _kind(
    ("ml/millilitres/milliliters", 1), ("cl/centilitres/centiliters", 10), ("dl/decilitres/deciliters", 100),
    ("l/litres/liters", 1000),
)  # fmt: skip
_BYTES = _kind(
    ("bytes/bytes/bytes", 1), ("kB/kilobytes/kilobytes", 10**3), ("MB/megabytes/megabytes", 10**6),
    ("GB/gigabytes/gigabytes", 10**9), ("TB/terabytes/terabytes", 10**12),
)  # fmt: skip
_SHORT_TIME = _kind(("ms/milliseconds/milliseconds", 1), ("s/seconds/seconds", 1000))
_MONEY = (
    _kind(("cents/cents/cents", 1), ("euros/euros/euros", 100)),
    _kind(("cents/cents/cents", 1), ("dollars/dollars/dollars", 100)),
    _kind(("pence/pence/pence/penny", 1), ("pounds/pounds/pounds", 100)),
)
_DECIMAL = (_LENGTH, _LENGTH, _LENGTH, _WEIGHT, _WEIGHT, _VOLUME, _VOLUME, _BYTES, _SHORT_TIME, *_MONEY)
"""Kinds of units that are powers of ten apart."""
_FARTHEST = 10**6
_TIME = _kind(
    ("s/seconds/seconds", 1), ("min/minutes/minutes", 60), ("h/hours/hours", 3600), ("days/days/days", 86400),
    ("weeks/weeks/weeks", 604800),
)  # fmt: skip
_OTHER = (
    _TIME,
    _TIME,
    _TIME,
    _TIME,
    _kind(("months/months/months", 1), ("years/years/years", 12)),
    _kind(("inches/inches/inches/inch", 1), ("feet/feet/feet/foot", 12), ("yards/yards/yards", 36)),
    _kind(("bits/bits/bits", 1), ("bytes/bytes/bytes", 8)),
    _kind(("KiB/kibibytes/kibibytes", 1), ("MiB/mebibytes/mebibytes", 1024), ("GiB/gibibytes/gibibytes", 1024**2)),
)
_PARTS = (
    (Fraction(1, 2), "half {one}"), (Fraction(1, 4), "a quarter of {one}"), (Fraction(3, 2), "one and a half {all}"),
    (Fraction(5, 2), "two and a half {all}"),
)  # fmt: skip
_NUMBER = re.compile(r"[\d.]+")
_ASK = read_phrasings("units", "ask")


class Units(Skill):
    """Asks such as `How many m are 35 km?` -> `35000 m`."""

    name = "units"
    phrasings: ClassVar = {"": _ASK}

    def draw(self, slots: Slots) -> Example:
        """Draws units a power of ten apart and numbers of up to four digits, with a point or without, or others and
        numbers below 100; some are given in words, or in two units."""
        rng = slots.rng
        decimal = rng.random() < 0.65
        kind = rng.choice(_DECIMAL if decimal else _OTHER)
        small, large = _pair(slots, kind)
        factor = Fraction(large.size, small.size)
        spelling = 0 if rng.random() < 0.5 else rng.choice((1, 2))
        downward = rng.random() < 0.6
        old, new = (large, small) if downward else (small, large)
        value = _value(slots, factor, decimal=decimal, downward=downward)
        result = value * factor if downward else value / factor
        told = f"{_write(value)} {(old.singulars if value == 1 else old.names)[spelling]}"
        if value != 1 and value.denominator == 1:
            if value < 1000 and rng.random() < 0.12:
                told = f"{spell(int(value))} {old.names[spelling]}"
            elif downward and kind in _OTHER and rng.random() < 0.15:
                extra = rng.randint(1, max(1, int(factor) - 1))
                joint = rng.choice((" ", " and ")) if spelling else " "
                told += f"{joint}{extra} {(small.singulars if extra == 1 else small.names)[spelling]}"
                result += extra
        if downward and rng.random() < 0.06 and (found := _part(slots, large, factor)):
            told, result = found
        prompt = _asked(slots, told, new.names[spelling])
        answer = f"{_write(result)} {(new.singulars if result == 1 else new.names)[spelling]}"
        return Example(self.name, prompt, answer, kind=slots.kind("decimal" if decimal else "other"))

    def grade(self, example: Example, text: str) -> bool:
        """Accepts the number with its unit, however that is spelled, or alone."""
        number, unit = example.answer.split(" ")
        found = re.fullmatch(r"(\d+|\d{1,3}(?:,\d{3})+)(\.\d+)?\s*([A-Za-z]*)\.?", text.strip())
        if found is None or found[1].replace(",", "") + (found[2] or "") != number:
            return False
        return not found[3] or found[3] in _spellings(unit)


def _asked(slots: Slots, told: str, new: str) -> str:
    """A request to convert a quantity. Words of it stand together, and apart from their unit."""
    number, _, unit = told.rpartition(" ")
    short = number + ("" if len(unit) <= 3 and number[-1].isdigit() else " ") + unit
    while True:
        prompt = slots.question(_ASK, value=number, old=unit, new=new, short=short)
        if told in prompt or _NUMBER.fullmatch(number):
            return prompt.replace(" are half ", " is half ")


def _pair(slots: Slots, kind: tuple[_Unit, ...]) -> tuple[_Unit, _Unit]:
    """Two units of a kind, the smaller first, most often neighbours, and not too far apart."""
    while True:
        first, second = sorted(slots.rng.sample(range(len(kind)), 2))
        small, large = kind[first], kind[second]
        if large.size <= small.size * _FARTHEST and (second == first + 1 or slots.rng.random() < 0.5):
            return small, large


def _value(slots: Slots, factor: Fraction, *, decimal: bool, downward: bool) -> Fraction:
    """A number of the old unit that comes out even, or with few decimals."""
    rng = slots.rng
    if decimal:
        if rng.random() < 0.45:
            places = rng.choices((1, 2, 3), (0.55, 0.35, 0.1))[0]
            return Fraction(max(1, slots.number(rng.choice((2, 3)))), 10**places)
        return Fraction(max(1, slots.number(4)))
    if rng.random() < 0.25:
        # Quarters, of which the result is whole or has a quarter itself.
        quarters = rng.randint(1, 99)
        value = Fraction(quarters, 4) if factor % 4 == 0 else Fraction(quarters)
        return value if downward else value * factor
    number = Fraction(rng.randint(1, 99 if factor < 1000 else 20))
    return number if downward else number * factor


def _part(slots: Slots, large: _Unit, factor: Fraction) -> tuple[str, Fraction] | None:
    """A half or a quarter in words, with the number of the smaller unit."""
    part, words = slots.rng.choice(_PARTS)
    if (part * factor).denominator != 1:
        return None
    article = "an" if large.singulars[1].startswith(("inch", "hour", "ounce")) else "a"
    return words.format(one=f"{article} {large.singulars[1]}", all=large.names[1]), part * factor


def _spellings(unit: str) -> set[str]:
    """All names of a unit, of one and of many."""
    kinds = (*_DECIMAL, *_OTHER)
    same = [one for kind in kinds for one in kind if unit in (*one.names, *one.singulars)]
    return {name for one in same for name in (*one.names, *one.singulars)}


def _write(value: Fraction) -> str:
    """A decimal fraction without needless zeros."""
    whole, rest = divmod(value, 1)
    digits = ""
    while rest:
        digit, rest = divmod(rest * 10, 1)
        digits += str(digit)
    return f"{whole}.{digits}" if digits else str(whole)
