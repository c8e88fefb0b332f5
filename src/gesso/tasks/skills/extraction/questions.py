"""Asks for one fact of a text in a question, which the fact alone answers."""

import re
from collections.abc import Mapping

from gesso.tasks.skills.articles import with_articles
from gesso.tasks.skills.extraction.placing import among_others, framed, placed
from gesso.tasks.skills.extraction.telling import by_subject, dumps, pick, tell
from gesso.tasks.skills.extraction.values import Value
from gesso.tasks.skills.patterns import Phrasings, expand, read_phrasings
from gesso.tasks.skills.slots import Slots

_TOLD = read_phrasings("question_extraction", "told")
_ASKED = read_phrasings("question_extraction", "asked")
_NOTES = read_phrasings("question_extraction", "notes")
_LEADS = read_phrasings("question_extraction", "leads")
_INDIRECT = read_phrasings("question_extraction", "indirect")
_INDIRECT_ASKED = read_phrasings("question_extraction", "indirect questions")
_ASK_ONE = read_phrasings("question_extraction", "ask one")
PHRASINGS = {
    "questions told": _TOLD, "asked": _ASKED, "short": _NOTES, "leads": _LEADS, "indirect": _INDIRECT,
    "indirect questions": _INDIRECT_ASKED, "ask one": _ASK_ONE,
}  # fmt: skip
_FIELD = re.compile(r"\{(\w+)\}")
_OF_TWO = {
    "age": ("age",), "home": ("city", "home", "town"), "job": ("job", "profession"), "born": ("city", "origin", "town"),
    "drink": ("drink",), "hobby": ("hobby",), "phone": ("phone", "number"), "email": ("email", "mail"),
    "seat": ("room",), "came": ("time", "arrival"),
}  # fmt: skip
"""Facts of people of whom a text tells two, and the keys that JSON may give them."""
_JSON_SHARE, _NOTE_SHARE, _LEAD_SHARE, _INDIRECT_SHARE, _AROUND_SHARE = 0.3, 0.15, 0.12, 0.15, 0.12


def draw_question(slots: Slots) -> tuple[str, str]:
    """Draws a message and its answer: a value as the text has it, or in JSON where one of two people is asked for."""
    rng = slots.rng
    while True:
        text, facts = tell(slots, pick(slots, _TOLD))
        values = {fact.names[0]: fact.value for fact in facts}
        if "name2" in values and rng.random() < _JSON_SHARE:
            return _one_of_two(slots, text, values)
        key = rng.choice(tuple(values))
        indirect = rng.random() < _INDIRECT_SHARE
        question = _question(slots, _INDIRECT_ASKED if indirect else _ASKED, key, values)
        if question is not None:
            break
    if indirect:
        ask = pick(slots, _INDIRECT).format(what=question)
    else:
        ask = question
        if rng.random() < _LEAD_SHARE:
            ask = f"{pick(slots, _LEADS)} {ask[0].lower()}{ask[1:]}" if not _begins_with(ask, values) else ask
        if rng.random() < _LEAD_SHARE:
            ask = ask.rstrip("?.")
    if rng.random() < _NOTE_SHARE and ask[-1] in "?.":
        note = pick(slots, _NOTES)
        ask = ask if note.startswith("One word") and " " in str(values[key]) else f"{ask} {note}"
    if rng.random() < _AROUND_SHARE:
        text = among_others(slots, text)
    return framed(slots, f"~{ask}", text), str(values[key])


def _begins_with(ask: str, values: Mapping[str, Value]) -> bool:
    return any(ask.startswith(str(value)) for value in values.values())


def _question(slots: Slots, phrasings: Phrasings, key: str, values: Mapping[str, Value]) -> str | None:
    """Draws a question after a fact that the other facts of the text suffice for; none where there is none."""
    base = key.rstrip("0123456789")
    number = key[len(base) :]
    several = any(name != key and name.rstrip("0123456789") == base for name in values)
    fitting = []
    for pattern in by_subject(phrasings.unseen if slots.reworded else phrasings.seen).get(base, ()):
        question = expand(pattern, slots.rng)
        fields = _FIELD.findall(question)
        if several and not fields:
            continue
        named = {field: f"{field}{number}" if f"{field}{number}" in values else field for field in fields}
        if all(name in values and name != key for name in named.values()):
            fitting.append((question, named))
    if not fitting:
        return None
    question, named = slots.rng.choice(fitting)
    return with_articles(question.format_map({field: values[name] for field, name in named.items()}))


def _one_of_two(slots: Slots, text: str, values: Mapping[str, Value]) -> tuple[str, str]:
    """A fact of one of the people of the text, as JSON."""
    rng = slots.rng
    number = rng.choice([name.removeprefix("name") for name in values if name.startswith("name")])
    fact = rng.choice([name for name in _OF_TWO if f"{name}{number}" in values])
    key = rng.choice(_OF_TWO[fact])
    ask = pick(slots, _ASK_ONE).format(name=values[f"name{number}"], key=key)
    return placed(slots, ask, text), dumps({key: values[f"{fact}{number}"]})
