"""Writes messages whose keys and text stand in an order of their own: under names, in one sentence, with arrows."""

from gesso.tasks.skills.extraction.keys import with_keys
from gesso.tasks.skills.extraction.telling import pick
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.slots import Slots

WHOLE = read_phrasings("people_extraction", "whole")
_TEXT = "{text}"
_QUOTES = "\"'"


def draw_whole(slots: Slots, keys: list[str], text: str) -> str:
    """Draws a message that asks for JSON with the keys of a text."""
    while True:
        pattern = pick(slots, WHOLE)
        before, behind = pattern.split(_TEXT)
        if _fits(before, behind, text):
            break
    if behind[:1] == " " and behind[1:2].isalpha() and text[-1] not in ".!?":
        text += "."
    return with_keys(slots.rng, pattern, keys, text=text)


def _fits(before: str, behind: str, text: str) -> bool:
    """Says whether the text can stand there: no quotes in the same ones, and lines on lines of their own."""
    if before[-1:] in tuple(_QUOTES):
        return before[-1] not in text and "\n" not in text
    if "\n" in text:
        return before[-1:] in ("", "\n") and behind[:1] in ("", "\n")
    return True
