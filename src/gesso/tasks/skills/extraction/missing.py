"""Asks for facts of which the text does not tell one, which is null in the answer."""

from gesso.tasks.skills.extraction.keys import asked, with_keys
from gesso.tasks.skills.extraction.placing import placed
from gesso.tasks.skills.extraction.telling import dumps, pick
from gesso.tasks.skills.extraction.values import Value
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.slots import Slots

_ASK = read_phrasings("record_extraction", "ask")
_NOTES = read_phrasings("record_extraction", "missing")
_ASK_MISSING = read_phrasings("people_extraction", "ask missing")
PHRASINGS = {"missing": _NOTES, "ask missing": _ASK_MISSING}
_ABSENT = (
    "email",
    "email",
    "email",
    "phone",
    "phone",
    "age",
    "hobby",
    "website",
    "birthday",
    "postcode",
    "fax",
    "salary",
)
_AGES = frozenset({"age", "birthday", "born", "year", "date of birth"})
_OWN_ASK_SHARE, _SILENT_SHARE = 0.55, 0.15


def draw_missing(slots: Slots, text: str, facts: dict[str, Value], told: set[str]) -> tuple[str, str]:
    """Draws a message and its answer: the facts with one between or behind them that the text does not tell."""
    rng = slots.rng
    known = told | _AGES if told & _AGES else told
    key = rng.choice([absent for absent in _ABSENT if absent not in known])
    found: list[tuple[str, Value]] = list(facts.items())
    found.insert(len(found) if rng.random() < 0.5 else rng.randint(0, len(found)), (key, None))
    answer = dict(found)
    if rng.random() < _OWN_ASK_SHARE:
        ask = with_keys(rng, pick(slots, _ASK_MISSING), list(answer), missing=key)
    else:
        ask = asked(slots, _ASK, list(answer))
        if rng.random() >= _SILENT_SHARE:
            gap = "\n" if "\n" in ask else f"{'' if ask[-1] in '.?!:' else '.'} "
            ask = f"~{ask.removeprefix('~')}{gap}{pick(slots, _NOTES)}"
    return placed(slots, ask, text), dumps(answer)
