"""Asks about values that stand behind their names: lines, forms, entries and notes such as `rent 820, deposit 1200`."""

import random
from collections.abc import Sequence

from gesso.tasks.skills.extraction.keys import asked
from gesso.tasks.skills.extraction.missing import draw_missing
from gesso.tasks.skills.extraction.placing import placed
from gesso.tasks.skills.extraction.rows import draw_values
from gesso.tasks.skills.extraction.telling import draw_value, dumps, pick
from gesso.tasks.skills.extraction.tokens import ONE
from gesso.tasks.skills.extraction.values import Value
from gesso.tasks.skills.extraction.whole import draw_whole
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.slots import Slots

_RECORDS = read_phrasings("labelled_extraction", "records")
_HEADS = read_phrasings("labelled_extraction", "heads")
_ONE = read_phrasings("labelled_extraction", "one")
_EVERYTHING = read_phrasings("labelled_extraction", "ask everything")
_ASK = read_phrasings("record_extraction", "ask")
PHRASINGS = {"labelled records": _RECORDS, "heads": _HEADS, "one labelled": _ONE, "ask everything": _EVERYTHING}
_FORMS = {"object": 0.45, "one": 0.27, "missing": 0.06, "values": 0.08, "everything": 0.14}
_NO_NOUNS = frozenset({
    "from", "to", "due", "paid", "leaves", "arrives", "departs", "back", "home", "away", "check in", "check out",
    "valid until", "payable by", "load",
})  # fmt: skip
"""Names that have no article before them, nor "is" behind."""
_PLURALS = frozenset({"guests", "nights", "pages", "points"})
"""Names that have no "is" behind them either."""
_LINES = ("{}: {}", "{}: {}", "{}: {}", "{} = {}", "{}={}", "{} - {}", "- {}: {}")
_INLINE = (
    ("{}: {}", ", "), ("{}: {}", ", "), ("{}: {}", "; "), ("{}: {}", " | "), ("{}: {}", " "), ("{}={}", ", "),
    ("{}={}", "; "), ("{} = {}", ", "),
    ("{} {}", ", "), ("{} {}", ", "), ("{} {}", ", "), ("{} {}", "; "), ("{} {}", " / "),
    ("{} {}", " "), ("{} {}", " "),
)  # fmt: skip
_SPOKEN = ("{} is {}", "{} is {}", "the {} is {}", "{} {}", "{} is {}")
_LINES_SHARE, _SPOKEN_SHARE, _OPEN_SHARE, _HEAD_SHARE, _WHOLE_SHARE = 0.35, 0.25, 0.25, 0.2, 0.5
_OPEN_KINDS = ("small", "count", "word", "word", "first", "code", "colour")


def draw_labelled(slots: Slots) -> tuple[str, str]:
    """Draws a message and its answer: an object of some or of all of the values, or values alone."""
    rng = slots.rng
    facts = _facts(slots)
    form = rng.choices(tuple(_FORMS), tuple(_FORMS.values()))[0]
    if form == "everything":
        text = _written(slots, facts, head=False)
        ask = pick(slots, _EVERYTHING)
        return placed(slots, ask, text), dumps(facts)
    nouns = [name for name in facts if name not in _NO_NOUNS]
    text = _written(slots, facts, head=True)
    if form == "one" and nouns:
        noun = rng.choice(nouns)
        ask = pick(slots, ONE if rng.random() < 0.5 else _ONE).format(noun=noun)
        return placed(slots, ask, _capital(rng, text)), str(facts[noun])
    text = _capital(rng, text)
    found = list(facts.items())
    if rng.random() < 0.5:
        found = rng.sample(found, rng.randint(2, len(found)))
    answer = _named(rng, dict(found))
    if form == "missing":
        return draw_missing(slots, text, answer, set(facts) | {"home"})
    if form == "values":
        return draw_values(slots, text, answer)
    if rng.random() < _WHOLE_SHARE:
        return draw_whole(slots, list(answer), text), dumps(answer)
    return placed(slots, asked(slots, _ASK, list(answer)), text), dumps(answer)


def _facts(slots: Slots) -> dict[str, Value]:
    """Draws two to four names with their values: what people note together, or any words."""
    rng = slots.rng
    if rng.random() < _OPEN_SHARE:
        fields = [(name, rng.choice(_OPEN_KINDS)) for name in slots.words(rng.choice((2, 3, 3, 4)))]
    else:
        parts = pick(slots, _RECORDS).split(", ")
        fields = [(name, kind) for name, kind in (part.split(":") for part in parts)]
        if rng.random() < 0.3:
            fields = rng.sample(fields, len(fields))
    found: dict[str, Value] = {}
    for name, kind in fields:
        found[name] = draw_value(slots, kind, list(found.values()))
    return found


def _named(rng: random.Random, facts: dict[str, Value]) -> dict[str, Value]:
    """Writes the names as code does, or with capitals, now and then."""
    style = rng.random()
    if style < 0.15:
        return {name.replace(" ", "_"): value for name, value in facts.items()}
    return {name.capitalize(): value for name, value in facts.items()} if style < 0.2 else facts


def _written(slots: Slots, facts: dict[str, Value], *, head: bool) -> str:
    rng = slots.rng
    names = list(facts)
    if rng.random() < _LINES_SHARE:
        line = rng.choice(_LINES)
        return "\n".join(line.format(name, value) for name, value in facts.items())
    if rng.random() < _SPOKEN_SHARE and not (_NO_NOUNS | _PLURALS).intersection(names):
        parts = [rng.choice(_SPOKEN).format(name, value) for name, value in facts.items()]
        return f"{', '.join(parts[:-1])}{rng.choice((' and ', ', ', ', '))}{parts[-1]}"
    pattern, between = rng.choice(_INLINE)
    if between == " " and _runs_together(list(facts.values()), pattern):
        between = ", "
    text = between.join(pattern.format(name, value) for name, value in facts.items())
    if head and rng.random() < _HEAD_SHARE:
        before = pick(slots, _HEADS).format(thing=slots.word())
        text = f"{before}{rng.choice((': ', ': ', ', ', ' '))}{text}"
    return text


def _runs_together(values: Sequence[Value], pattern: str) -> bool:
    """Says whether values of several words stand without a mark before the next name."""
    return pattern == "{} {}" and any(" " in str(value) for value in values)


def _capital(rng: random.Random, text: str) -> str:
    """The text with capitals at the beginning of its lines now and then, and a full stop behind one line."""
    if rng.random() < 0.5:
        return text
    if "\n" in text:
        return "\n".join(line[:1].upper() + line[1:] for line in text.split("\n"))
    return f"{text[:1].upper()}{text[1:]}{rng.choice(('', '.', '.')) if text[-1].isalnum() else ''}"
