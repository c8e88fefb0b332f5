"""Asks about one to three people or things whose facts stand in like sentences or entries: one of them, or all."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from gesso.tasks.skills.articles import with_articles
from gesso.tasks.skills.extraction.keys import asked, braced
from gesso.tasks.skills.extraction.missing import draw_missing
from gesso.tasks.skills.extraction.placing import framed, placed
from gesso.tasks.skills.extraction.telling import by_subject, dumps, pick, tell
from gesso.tasks.skills.extraction.tokens import draw_layout
from gesso.tasks.skills.extraction.values import Value
from gesso.tasks.skills.extraction.whole import draw_whole
from gesso.tasks.skills.patterns import Phrasings, expand, read_phrasings
from gesso.tasks.skills.slots import Slots

_TOLD = read_phrasings("people_extraction", "told")
_ASK = read_phrasings("record_extraction", "ask")
_ASK_ONE = read_phrasings("people_extraction", "ask one")
_ASK_ALL = read_phrasings("people_extraction", "ask all")
_ASKED = read_phrasings("people_extraction", "asked")
_WHOSE = read_phrasings("people_extraction", "whose")
_ASK_COLUMN = read_phrasings("people_extraction", "ask column")
PHRASINGS: Mapping[str, Phrasings] = {
    "people told": _TOLD, "ask one of several": _ASK_ONE, "ask all": _ASK_ALL, "asked of people": _ASKED,
    "whose": _WHOSE, "ask column": _ASK_COLUMN,
}  # fmt: skip
_FORMS = {"one": 0.25, "all": 0.25, "object": 0.13, "missing": 0.12, "question": 0.17, "column": 0.08}
_FIELD = re.compile(r"\{(\w+)((?:/\w+)*)(:\w+)?\}")
_BETWEEN_SENTENCES = (". ", ". ", ". ", ". ", "; ", " and ", ", ", "\n", ".\n")
_BETWEEN_ENTRIES = ("; ", "; ", "\n", "\n", "\n- ", "\n* ", " / ")
_PLURALS = {"city": "cities", "country": "countries", "salary": "salaries"}
_NO_COLUMNS = frozenset({"born", "from", "qty", "stock", "salary"})
_WHOLE_SHARE, _WITH_NAME_SHARE, _WHOSE_SHARE, _OTHER_PATTERN_SHARE = 0.5, 0.2, 0.3, 0.25


@dataclass(frozen=True, slots=True)
class _Told:
    """Holds a text, the facts of each that it tells of, and the names that a request gives the facts."""

    text: str
    people: list[dict[str, Value]]
    names: dict[str, str]

    def of(self, number: int, facts: list[str]) -> dict[str, Value]:
        """Returns the facts of one, under the names of the request."""
        return {self.names[fact]: self.people[number][fact] for fact in facts}


def draw_people(slots: Slots) -> tuple[str, str]:
    """Draws a message and its answer: an object, an array of objects, or values alone."""
    rng = slots.rng
    form = rng.choices(tuple(_FORMS), tuple(_FORMS.values()))[0]
    if form in ("object", "missing"):
        return _one(slots, _tell_of(slots, 1), missing=form == "missing")
    count = 1 if form == "question" and rng.random() < 0.5 else rng.choices((2, 3), (0.65, 0.35))[0]
    told = _tell_of(slots, count)
    if form == "one":
        return _one_of_several(slots, told)
    if form == "all":
        return _all(slots, told)
    if form == "column":
        return _column(slots, told)
    return _question(slots, told) or _all(slots, told)


def _tell_of(slots: Slots, count: int) -> _Told:
    """Draws a text that tells the same facts of each, most often in the same words."""
    rng = slots.rng
    first = rng.choice(_TOLD.unseen if slots.reworded else _TOLD.seen)
    like = _by_facts(_TOLD.unseen if slots.reworded else _TOLD.seen)[_facts_of(first)]
    others = first[0] != "=" and rng.random() < _OTHER_PATTERN_SHARE
    patterns = [first, *(rng.choice(like) if others else first for _ in range(count - 1))]
    pattern = _joined(
        slots, [_numbered(expand(text.lstrip("="), rng), i) for i, text in enumerate(patterns)], first[0] == "="
    )
    text, found = tell(slots, pattern)
    people: list[dict[str, Value]] = [{} for _ in range(count)]
    names: dict[str, tuple[str, ...]] = {}
    for fact in found:
        base, number = fact.names[0][:-1], int(fact.names[0][-1])
        people[number][base] = fact.value
        names.setdefault(base, (base, *fact.names[1:]))
    return _Told(text, people, {fact: rng.choice((fact, *choices)) for fact, choices in names.items()})


def _joined(slots: Slots, parts: list[str], entries: bool) -> str:
    """Joins what is told of each with what stands between entries or sentences."""
    rng = slots.rng
    between = rng.choice(_BETWEEN_ENTRIES if entries else _BETWEEN_SENTENCES)
    if any(". " in part for part in parts) and not between.startswith("."):
        between = ". "
    if between in (" and ", ", ") and any(" and " in part for part in parts):
        between = rng.choice((". ", "; "))
    if between not in (". ", ".\n", "\n"):
        parts = [parts[0], *(f"{part[0].lower()}{part[1:]}" for part in parts[1:])]
    text = between.join(parts)
    if between.startswith("\n") and len(between) > 1 and len(parts) > 1:
        return f"{between[1:]}{text}"
    return text if entries or (between == "\n" and len(parts) > 1) or rng.random() < 0.1 else f"{text}."


def _numbered(pattern: str, number: int) -> str:
    return _FIELD.sub(lambda found: f"{{{found[1]}{number}{found[2]}{found[3] or f':{found[1]}'}}}", pattern)


def _facts_of(pattern: str) -> tuple[str, ...]:
    """The facts of a pattern, with what tells entries from sentences."""
    return (pattern[0] * (pattern[0] == "="), *sorted(found[1] for found in _FIELD.finditer(pattern)))


@cache
def _by_facts(patterns: tuple[str, ...]) -> dict[tuple[str, ...], list[str]]:
    """The patterns by the facts that they tell, those alone whose first is the same."""
    found: dict[tuple[str, ...], list[str]] = {}
    for pattern in patterns:
        found.setdefault(_facts_of(pattern), []).append(pattern)
    return found


def _some(slots: Slots, told: _Told, *, with_subject: bool) -> list[str]:
    """Draws the facts that a request asks for, in any order."""
    subject, *facts = told.people[0] if "name" not in told.people[0] else sorted(told.people[0], key="name".__ne__)
    found = facts if slots.rng.random() < 0.7 else slots.rng.sample(facts, slots.rng.randint(1, len(facts)))
    if slots.rng.random() < 0.3:
        found = slots.rng.sample(found, len(found))
    return [subject, *found] if with_subject else list(found)


def _subject(told: _Told) -> str:
    """The fact that names those that the text tells of."""
    return "name" if "name" in told.people[0] else next(iter(told.people[0]))


def _who(told: _Told, number: int) -> str:
    """One of those that the text tells of, as a request calls them."""
    subject = _subject(told)
    value = str(told.people[number][subject])
    return value if subject in ("name", "city") else f"the {value}"


def _one(slots: Slots, told: _Told, *, missing: bool) -> tuple[str, str]:
    facts = _some(slots, told, with_subject=slots.rng.random() < 0.75)
    answer = told.of(0, facts)
    if missing:
        return draw_missing(slots, told.text, answer, {*told.names, *told.names.values()})
    if slots.rng.random() < _WHOLE_SHARE:
        return draw_whole(slots, list(answer), told.text), dumps(answer)
    return placed(slots, asked(slots, _ASK, list(answer)), told.text), dumps(answer)


def _one_of_several(slots: Slots, told: _Told) -> tuple[str, str]:
    """A request for facts of one of two or three, who is named or told by a fact that is not asked for."""
    rng = slots.rng
    number = rng.randrange(len(told.people))
    facts = _some(slots, told, with_subject=rng.random() < _WITH_NAME_SHARE)
    who = _who(told, number)
    relative = ""
    if rng.random() < _WHOSE_SHARE and _subject(told) == "name":
        known = rng.choice([fact for fact in told.people[number] if fact != "name"])
        relative = _relative(slots, told, number, [known])
    if relative:
        facts = ["name", *(fact for fact in facts if fact not in ("name", known))]
        person = "the one" if "animal" in told.people[number] else rng.choice(("the one", "the person"))
        who = f"{person} who {relative}"
    answer = told.of(number, facts)
    ask = asked(slots, _ASK_ONE, list(answer), who=who)
    while relative and f"{who}'s" in ask:
        ask = asked(slots, _ASK_ONE, list(answer), who=who)
    return placed(slots, ask, told.text), dumps(answer)


def _relative(slots: Slots, told: _Told, number: int, facts: list[str]) -> str:
    """Draws what tells one from the others, without the name; nothing where there is no way to say it."""
    patterns = by_subject(_WHOSE.unseen if slots.reworded else _WHOSE.seen)
    found = [(fact, text) for fact in facts for text in patterns.get(fact, ()) if _agrees(text, told.text)]
    if not found:
        return ""
    fact, text = slots.rng.choice(found)
    return with_articles(text.format(value=told.people[number][fact]))


def _agrees(words: str, text: str) -> bool:
    """Says whether the words have people live where the text has them live, and come from where they come from."""
    if "live" in words:
        return "from " not in text
    return "from " not in words or "lives in" not in text


def _all(slots: Slots, told: _Told) -> tuple[str, str]:
    facts = _some(slots, told, with_subject=slots.rng.random() < 0.9)
    if len(facts) == 1:
        facts = list(dict.fromkeys((_subject(told), *facts)))
    rows = [told.of(number, facts) for number in range(len(told.people))]
    if len(rows) == 1:
        return _one(slots, told, missing=False)
    keys = list(rows[0])
    shape = slots.rng.choice(("[%s]", "[%s, ...]")) % braced(slots.rng, keys)
    return placed(slots, asked(slots, _ASK_ALL, keys, shape=shape), told.text), f"[{', '.join(map(dumps, rows))}]"


def _column(slots: Slots, told: _Told) -> tuple[str, str]:
    """A request for one fact of each."""
    fact = slots.rng.choice([fact for fact in told.names if told.names[fact] not in _NO_COLUMNS])
    how, answer = draw_layout(slots, [person[fact] for person in told.people])
    noun = told.names[fact]
    nouns = _PLURALS.get(noun) or (noun if noun.endswith("s") else f"{noun}s")
    ask = pick(slots, _ASK_COLUMN)
    while how and "{how}" not in ask:
        ask = pick(slots, _ASK_COLUMN)
    return placed(slots, ask.format(nouns=nouns, how=how), told.text), answer


def _question(slots: Slots, told: _Told) -> tuple[str, str] | None:
    """A question for a fact of one, or for whom a fact is true of."""
    rng = slots.rng
    number = rng.randrange(len(told.people))
    person = told.people[number]
    if _subject(told) == "name" and len(told.people) > 1 and rng.random() < _WHOSE_SHARE:
        relative = _relative(slots, told, number, [fact for fact in person if fact != "name"])
        if relative:
            ask = f"~{rng.choice(('Who', 'who', 'Who is the one who', 'Which of them'))} {relative}?"
            return framed(slots, ask, told.text), str(person["name"])
    patterns = by_subject(_ASKED.unseen if slots.reworded else _ASKED.seen)
    facts = [fact for fact in person if fact != _subject(told)]
    found = [(fact, text) for fact in facts for text in patterns.get(fact, ()) if _agrees(text, told.text)]
    if _subject(told) == "city":
        found = [(fact, text) for fact, text in found if "from" not in text]
    if not found:
        return None
    fact, text = rng.choice(found)
    ask = expand(text, rng).format_map({**person, "who": _who(told, number)})
    return framed(slots, f"~{ask}", told.text), str(person[fact])
