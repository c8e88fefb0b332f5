"""Puts the article before a word that the word's first sound needs."""

import re

_BEFORE_VOWEL = re.compile(
    r"\b([Aa]) (?!(?:and|are|as|at|if|in|is|of|on|one|once|or)\b|one-|eu|uni(?!n|m)|us[aeiu]|ut[ei]|ur[al]|usb|uku)"
    r"(?=[aeiou]|honest|honou?r|hour|heir)"
)
"""An "a" before what is heard with a vowel: no letter, as of an option or of a code, and no "u" as in "use"."""


def with_articles(text: str) -> str:
    """Returns the text with "an" for "a" where it stands before a vowel that is heard as one."""
    return _BEFORE_VOWEL.sub(r"\1n ", text)
