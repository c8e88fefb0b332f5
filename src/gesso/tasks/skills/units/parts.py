"""Writes quantities that are no whole number in words, and single units."""

from fractions import Fraction

from gesso.tasks.skills.articles import with_articles
from gesso.tasks.skills.numerals import spell
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.units.kinds import Unit

_PARTS = (
    (Fraction(1, 2), "half {one}"), (Fraction(1, 4), "a quarter of {one}"), (Fraction(3, 4), "three quarters of {one}"),
    (Fraction(3, 2), "one and a half {all}"), (Fraction(3, 2), "{one} and a half"),
    (Fraction(5, 2), "two and a half {all}"), (Fraction(7, 2), "three and a half {all}"),
    (Fraction(5, 4), "one and a quarter {all}"),
)  # fmt: skip
_RESTS = (
    (Fraction(1, 2), "a half", "1/2"), (Fraction(1, 2), "a half", "1/2"), (Fraction(1, 2), "a half", "1/2"),
    (Fraction(1, 4), "a quarter", "1/4"), (Fraction(3, 4), "three quarters", "3/4"),
)  # fmt: skip
_COUNTED_SHARE, _DIGITS_SHARE = 0.6, 0.25


def part_in_words(slots: Slots, large: Unit, factor: Fraction, spelling: int) -> tuple[str, Fraction] | None:
    """Returns a quantity with a half or a quarter in words, and how much of the unit it is; None where that is no whole
    number of the smaller unit.

    Args:
        factor: how many of the smaller unit the larger one is.
        spelling: which of the unit's names stands behind a number.
    """
    rng = slots.rng
    if rng.random() < _COUNTED_SHARE:
        rest, words, digits = rng.choice(_RESTS)
        whole = rng.choice((1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20))
        part = whole + rest
        if rng.random() < _DIGITS_SHARE:
            told = f"{whole} {digits} {large.names[spelling]}"
        else:
            told = f"{spell(whole) if rng.random() < 0.4 else whole} and {words} {large.names[spelling]}"
    else:
        part, pattern = rng.choice(_PARTS)
        if large.names[1] == "dozen":
            return None
        told = pattern.format(one=single(large), all=large.names[1])
    return (told, part) if (part * factor).denominator == 1 else None


def single(unit: Unit) -> str:
    """Returns one of a unit, with its article."""
    return with_articles(f"a {unit.singulars[1]}")
