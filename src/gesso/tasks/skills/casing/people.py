"""Asks to write the names of people and places with their capitals, and to begin requests with a remark."""

from gesso.tasks.skills.casing.texts import accented
from gesso.tasks.skills.patterns import read_phrasings, with_small_letter
from gesso.tasks.skills.slots import Slots

NAMES = read_phrasings("casing", "names")
REMARKS = read_phrasings("casing", "remarks")
_FARTHEST = 12
"""A request that begins with its text has it nearer to its beginning."""


def ask_names(slots: Slots) -> tuple[str, str, str]:
    """Asks for a name, written in small letters or in capitals, with a capital for each of its words: the prompt, the
    answer and the kind."""
    rng = slots.rng
    kind = rng.choices(("person", "person", "people", "place"), (0.4, 0.2, 0.15, 0.25))[0]
    if kind == "place":
        text = slots.city() if rng.random() < 0.5 else f"{slots.city()} {slots.city()}"
    elif kind == "people":
        text = ", ".join(_person(slots) for _ in range(rng.choice((2, 2, 3))))
    else:
        text = _person(slots)
    answer = ", ".join(" ".join(map(str.capitalize, name.split())) for name in text.split(", "))
    given = text.lower() if rng.random() < 0.65 else text.upper()
    what = {"place": "place name", "people": "names"}.get(kind, rng.choice(("name", "name", "full name")))
    this = "these" if kind == "people" else "this"
    as_what = "names" if kind == "people" else f"a {what}"
    return slots.request(NAMES, given, loose=True, what=what, this=this, as_what=as_what), answer, "names"


def _person(slots: Slots) -> str:
    rng = slots.rng
    while True:
        name = slots.name() if rng.random() < 0.35 else f"{slots.first_name()} {slots.name()}"
        if " " in name:
            break
    return " ".join(accented(slots, word.lower()) for word in name.split()) if rng.random() < 0.08 else name


def with_remark(slots: Slots, prompt: str, given: str) -> str:
    """Returns a request with a remark before it, such as where its text comes from, if it does not begin with the text
    itself."""
    if given not in prompt or prompt.index(given) < _FARTHEST:
        return prompt
    name = slots.first_name()
    remark = slots.choice(REMARKS, name=name, city=slots.city(), n=slots.number(2) + 2)
    joint = slots.rng.choice((". ", ". ", ", ", ", ", "; ", "\n", " - ", "... "))
    if joint not in (". ", "\n"):
        prompt = with_small_letter(prompt)
    if slots.rng.random() < 0.2 and not remark.startswith(name):
        remark = with_small_letter(remark)
    return f"{remark}{joint}{prompt}"
