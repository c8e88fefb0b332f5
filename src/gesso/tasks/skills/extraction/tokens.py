"""Asks for what stands in a text, of one sort: addresses, numbers, codes, names, places, colours, dates, prices."""

import json
import re
from collections.abc import Sequence

from gesso.tasks.skills.articles import with_articles
from gesso.tasks.skills.extraction.placing import among_others, placed
from gesso.tasks.skills.extraction.telling import Fact, by_subject, pick, tell
from gesso.tasks.skills.extraction.values import Value
from gesso.tasks.skills.patterns import expand, read_phrasings
from gesso.tasks.skills.slots import Slots

_TEXT = read_phrasings("token_extraction", "text")
ONE = read_phrasings("token_extraction", "one")
_SEVERAL = read_phrasings("token_extraction", "several")
_ASKED = read_phrasings("token_extraction", "asked")
_NOTES = read_phrasings("token_extraction", "notes")
_LAYOUTS = {
    name: read_phrasings("token_extraction", name)
    for name in ("commas", "lines", "spaces", "semicolons", "bullets", "array")
}
_LAYOUT_WEIGHTS = (0.3, 0.3, 0.05, 0.05, 0.06, 0.24)
_BETWEEN = {"commas": ", ", "lines": "\n", "spaces": " ", "semicolons": "; "}
PHRASINGS = {"text": _TEXT, "one": ONE, "several": _SEVERAL, "tokens asked": _ASKED, "only": _NOTES, **_LAYOUTS}
_NOUNS = {
    "email": ("email", "email address", "e-mail address", "mail address", "email", "e-mail"),
    "url": ("url", "URL", "link", "web address", "website", "url"),
    "phone": ("phone number", "phone number", "telephone number", "phone", "number to call"),
    "hashtag": ("hashtag", "hashtag", "hash tag"),
    "mention": ("mention", "handle", "user name with @", "@mention"),
    "postcode": ("postcode", "postal code", "zip code", "ZIP", "post code"),
    "code": ("code", "code", "reference"),
    "price": ("price", "price", "amount of money", "amount"),
    "date": ("date", "date", "calendar date"),
    "time": ("time", "time", "clock time", "time of day"),
    "count": ("number", "number", "figure", "numeric value"),
    "percent": ("percentage", "percentage", "percent value"),
    "name": ("name", "person's name", "name of the person", "person"),
    "place": ("city", "place", "town", "place name", "name of the place"),
    "colour": ("colour", "color", "colour word"),
    "day": ("weekday", "day", "day of the week"),
    "month": ("month", "month", "month name"),
    "year": ("year", "year"),
    "tongue": ("language", "language"),
    "hex": ("hex colour", "hex code", "hex color", "colour code"),
    "ip": ("IP address", "ip", "IP", "ip address"),
    "file": ("file name", "filename", "file"),
    "version": ("version number", "version", "version"),
    "room": ("room", "room number", "room"),
    "quoted": ("text in quotes", "quoted text", "text between the quotes"),
    "bracketed": ("text in brackets", "text between the brackets", "text in parentheses"),
}
"""What can be asked for, and what people call it."""
_PLURALS = {
    "name of the person": "names of the people", "person's name": "names of people", "person": "people",
    "name of the place": "names of the places", "user name with @": "user names with @",
    "number to call": "numbers to call",
    "clock time": "clock times", "time of day": "times of day", "day of the week": "days of the week",
    "text in quotes": "texts in quotes", "quoted text": "quoted texts", "text in brackets": "texts in brackets",
    "text between the quotes": "texts between the quotes", "text between the brackets": "texts between the brackets",
    "text in parentheses": "texts in parentheses", "amount of money": "amounts of money", "ZIP": "ZIPs",
    "percent value": "percent values", "city": "cities",
}  # fmt: skip
_COUNTS = ("no", "one", "two", "three", "four", "five")
_DIGIT = re.compile(r"\d")
_LAYOUT_SHARE, _ASKED_SHARE, _NOTE_SHARE, _AROUND_SHARE = 0.5, 0.35, 0.1, 0.12


def draw_tokens(slots: Slots) -> tuple[str, str]:
    """Draws a message and what it asks for, one value or several in the order of the text."""
    rng = slots.rng
    while True:
        text, facts = tell(slots, pick(slots, _TEXT))
        sorts = _askable(facts, text)
        if sorts:
            break
    sort = rng.choice(sorts)
    values = [fact.value for fact in facts if _sort(fact) == sort]
    if len(values) == 1:
        ask, answer = _ask_one(slots, sort), str(values[0])
    else:
        ask, answer = _ask_several(slots, sort, values)
    if rng.random() < _NOTE_SHARE and ask[-1] not in ":)>":
        ask = f"~{ask.removeprefix('~')}{'' if ask[-1] in '.?' else '.'} {pick(slots, _NOTES)}"
    if rng.random() < _AROUND_SHARE:
        text = among_others(slots, text)
    return placed(slots, ask, text), answer


def _sort(fact: Fact) -> str:
    return fact.names[0].rstrip("0123456789")


def _askable(facts: Sequence[Fact], text: str) -> list[str]:
    """The sorts of values that can be asked for: numbers alone only where no other value has digits."""
    sorts = list(dict.fromkeys(_sort(fact) for fact in facts))
    others = [str(fact.value) for fact in facts if _sort(fact) != "count"]
    if any(_DIGIT.search(other) for other in others):
        sorts = [sort for sort in sorts if sort != "count"]
    return [sort for sort in sorts if sort in _NOUNS and (sort != "quoted" or '"' in text)]


def _noun(slots: Slots, sort: str) -> tuple[str, str]:
    """What people call one value of the sort, and several."""
    noun = slots.rng.choice(_NOUNS[sort])
    return noun, _PLURALS.get(noun) or f"{noun}{'es' if noun.endswith('s') else 's'}"


def _ask_one(slots: Slots, sort: str) -> str:
    questions = _questions(slots, sort)
    if questions and slots.rng.random() < _ASKED_SHARE:
        return f"~{expand(slots.rng.choice(questions), slots.rng)}"
    return with_articles(pick(slots, ONE).format(noun=_noun(slots, sort)[0]))


def _ask_several(slots: Slots, sort: str, values: Sequence[Value]) -> tuple[str, str]:
    rng = slots.rng
    how, answer = draw_layout(slots, values)
    count = _COUNTS[len(values)]
    questions = _questions(slots, f"{sort}s")
    if not how and questions and rng.random() < _ASKED_SHARE:
        ask = f"~{expand(rng.choice(questions), rng).format(n=count)}"
    else:
        noun, nouns = _noun(slots, sort)
        pattern = pick(slots, _SEVERAL)
        while how and "{how}" not in pattern:
            pattern = pick(slots, _SEVERAL)
        if "{noun}" in pattern:
            noun = noun.removeprefix("name of the ")
        ask = pattern.format(noun=noun, nouns=nouns, how=how, n=count)
    return ask, answer


def draw_layout(slots: Slots, values: Sequence[Value]) -> tuple[str, str]:
    """Draws what a request says about the layout of several values, most often nothing, and the values so."""
    rng = slots.rng
    with_commas = any("," in str(value) for value in values)
    if not with_commas and rng.random() >= _LAYOUT_SHARE:
        return "", _answer("commas", values)
    layout = rng.choices(tuple(_LAYOUTS), _LAYOUT_WEIGHTS)[0]
    if (layout == "spaces" and any(" " in str(value) for value in values)) or (layout == "commas" and with_commas):
        layout = "lines"
    return _how(slots, layout), _answer(layout, values)


def _how(slots: Slots, layout: str) -> str:
    """Draws what a request says about the layout of the answer; the blank or comma before it is its own."""
    phrasings = _LAYOUTS[layout]
    return slots.rng.choice(phrasings.unseen if slots.reworded else phrasings.seen)


def _answer(layout: str, values: Sequence[Value]) -> str:
    if layout == "array":
        return json.dumps(values, ensure_ascii=False)
    if layout == "bullets":
        return "\n".join(f"- {value}" for value in values)
    return _BETWEEN[layout].join(map(str, values))


def _questions(slots: Slots, sort: str) -> list[str]:
    """The questions for one value of a sort or, with an `s` behind it, for several."""
    return by_subject(_ASKED.unseen if slots.reworded else _ASKED.seen).get(sort, [])
