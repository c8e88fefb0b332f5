"""Writes whole numbers in words."""

import random
import re

from gesso.tasks.words import words_of

_SMALL = words_of(
    "zero one two three four five six seven eight nine "
    "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
)
_TENS = ["zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_HUNDRED = re.compile(r"\bone (hundred|thousand)\b")


def spell(number: int) -> str:
    """Writes a number below 1,000,000 in words."""
    if number < 20:
        return _SMALL[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return _TENS[tens] + (f"-{_SMALL[ones]}" if ones else "")
    if number >= 1000:
        thousands, rest = divmod(number, 1000)
        joint = " and " if 0 < rest < 100 else " "
        return f"{spell(thousands)} thousand" + (f"{joint}{spell(rest)}" if rest else "")
    hundreds, rest = divmod(number, 100)
    return f"{_SMALL[hundreds]} hundred" + (f" {spell(rest)}" if rest else "")


def as_said(words: str, rng: random.Random) -> str:
    """Writes a number in words as people do: without a hyphen, with "and", with "a" for "one"."""
    if rng.random() < 0.3:
        words = words.replace("-", " ")
    if rng.random() < 0.35:
        words = re.sub(r"\bhundred (?=[a-z])(?!thousand|and)", "hundred and ", words)
    elif rng.random() < 0.1:
        words = words.replace("thousand and ", "thousand ")
    if rng.random() < 0.2 and _HUNDRED.match(words):
        words = f"a{words[3:]}"
    return words
