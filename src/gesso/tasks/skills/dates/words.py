"""Writes dates in words, as people say them."""

import datetime
import random

from gesso.tasks.skills.dates.forms import MONTHS
from gesso.tasks.skills.numerals import spell

_ORDINALS = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth",
    "twelve": "twelfth", "twenty": "twentieth", "thirty": "thirtieth",
}  # fmt: skip
_SPOKEN = (
    "the {day} of {month} {year}", "the {day} of {month} {year}", "{month} {day}, {year}", "{day} {month} {year}",
    "{day} of {month}, {year}", "{month} the {day}, {year}", "{month} {day} {year}",
)  # fmt: skip
_YEAR_IN_WORDS = 0.3


def spoken(date: datetime.date, rng: random.Random) -> str:
    """Returns the date with its day as an ordinal in words, its year in words now and then."""
    year = spoken_year(date.year) if rng.random() < _YEAR_IN_WORDS else str(date.year)
    return rng.choice(_SPOKEN).format(day=ordinal_word(date.day), month=MONTHS[date.month - 1], year=year)


def ordinal_word(number: int) -> str:
    """Returns the ordinal of a number below 100 in words."""
    before, hyphen, last = spell(number).rpartition("-")
    return before + hyphen + _ORDINALS.get(last, f"{last}th")


def spoken_year(year: int) -> str:
    """Returns a year of 1000 to 2999 as it is said."""
    century, rest = divmod(year, 100)
    if century % 10 == 0 and rest < 10:
        return spell(century // 10) + " thousand" + (f" and {spell(rest)}" if rest else "")
    if rest == 0:
        return f"{spell(century)} hundred"
    return f"{spell(century)} {spell(rest) if rest > 9 else f'oh {spell(rest)}'}"
