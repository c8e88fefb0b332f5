"""Asks for named facts of a sentence as JSON, whatever the names and the values."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.articles import with_articles
from gesso.tasks.skills.extraction.facts import FACTS
from gesso.tasks.skills.extraction.keys import OF_SEVERAL
from gesso.tasks.skills.extraction.keys import asked as asked_for
from gesso.tasks.skills.extraction.labelled import draw_labelled
from gesso.tasks.skills.extraction.people import draw_people
from gesso.tasks.skills.extraction.placing import beside, framed, placed
from gesso.tasks.skills.extraction.questions import draw_question
from gesso.tasks.skills.extraction.records import ASK, draw_record
from gesso.tasks.skills.extraction.telling import dumps, is_measured
from gesso.tasks.skills.extraction.tokens import draw_tokens
from gesso.tasks.skills.extraction.values import Value
from gesso.tasks.skills.patterns import Phrasings, expand, read_phrasings
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots
from gesso.tasks.to_json import same_json
from gesso.tasks.words import words_of

_ASK = read_phrasings("extraction", "ask")
_PLAIN = read_phrasings("extraction", "plain")

_PERSON = read_phrasings("extraction", "person")
_GOODS = read_phrasings("extraction", "goods")
_ORDER = read_phrasings("extraction", "order")
_TRIP = read_phrasings("extraction", "trip")
_LISTED = read_phrasings("extraction", "listed")
_THINGS = read_phrasings("extraction", "things")
_DOMAINS = {"person": _PERSON, "goods": _GOODS, "order": _ORDER, "trip": _TRIP, "things": _THINGS, "listed": _LISTED}
_TRAINED_WEIGHTS = (1.2, 1, 1, 1, 2.4, 1.6)
"""Weights of the kinds of sentences in training: things of all kinds and pairs are learned last."""
_MONEY = frozenset(
    words_of("price fee fine rent deposit premium income salary loan balance tax total damage coins amount")
)
"""What people would give with the currency where it stands alone."""
_PLAIN_SHARE, _FRAMED_SHARE, _WIDE_SHARE = 0.08, 0.3, 0.3
_OTHERS: Mapping[str, Callable[[Slots], tuple[str, str]]] = {
    "records": draw_record, "tokens": draw_tokens, "questions": draw_question, "people": draw_people,
    "labelled": draw_labelled,
}  # fmt: skip
_OTHERS_SHARE, _OTHERS_WEIGHTS = 0.56, (0.22, 0.165, 0.165, 0.29, 0.16)
"""What does not ask for facts by the names of a sentence's patterns."""
_KEY_SHARE = 0.12
"""Share of the requests that name facts otherwise than the sentence's patterns do."""
_KEYS = {
    key: words_of(others)
    for key, others in {
        "name": "person first_name full_name Name", "city": "where town place location City",
        "price": "cost Price total_price", "item": "thing article what", "age": "years Age age_in_years",
        "job": "profession occupation work", "day": "weekday", "time": "at start_time",
        "quantity": "count number qty amount", "origin": "from", "destination": "to target",
        "year": "in_year Year", "email": "mail e_mail contact", "customer": "client buyer",
        "order": "order_id order_number id", "color": "colour", "temperature": "degrees temp", "height": "meters size",
        "title": "book called", "code": "id sku",
    }.items()
}  # fmt: skip
"""What else people call a fact."""
_FIELD = re.compile(r"\{(\w+)\}")
_A_FIELD = re.compile(r"\b([Aa]) \{(\w+)\}")


class Extraction(Skill):
    """Asks such as `Kelmo is 41 and lives in Drasto. Give city and age as JSON.` -> `{"city": "Drasto", "age": 41}`."""

    name = "extraction"
    phrasings: ClassVar = {"ask": _ASK, "plain": _PLAIN, **_DOMAINS}

    def draw(self, slots: Slots) -> Example:
        """Draws a sentence and one to all of its facts, in any order; a few are asked for without JSON. More than
        half are of the other kinds: records, single values by their sort, questions, people and values with names."""
        rng = slots.rng
        if rng.random() < _OTHERS_SHARE:
            kind = rng.choices(tuple(_OTHERS), _OTHERS_WEIGHTS)[0]
            prompt, text = _OTHERS[kind](slots)
            return Example(self.name, prompt, text, kind=slots.kind(kind))
        kind = rng.choices(tuple(_DOMAINS), None if slots.unseen else _TRAINED_WEIGHTS)[0]
        sentence, facts = _sentence(slots, _DOMAINS[kind])
        keys = [key for key in facts if kind != "listed" or key.startswith("v")]
        alone = [key for key in keys if key not in _MONEY]
        key = rng.choice(alone) if kind != "listed" and alone and rng.random() < _PLAIN_SHARE else ""
        if key and not is_measured(sentence, key, facts[key]):
            prompt = placed(slots, slots.choice(_PLAIN, key=key), sentence)
            return Example(self.name, prompt, str(facts[key]), kind=slots.kind("plain"))
        asked = rng.sample(keys, rng.randint(min(2, len(keys)), len(keys)) if rng.random() < 0.8 else 1)
        if kind == "listed":
            answer = {str(facts[f"k{key[1:]}"]): facts[key] for key in asked}
        else:
            answer = {key: facts[key] for key in asked}
        if kind != "listed":
            answer = _renamed(slots, answer)
        wide = rng.random() < _WIDE_SHARE
        ask = asked_for(slots, ASK, list(answer)) if wide else _sentence_ask(slots, list(answer))
        prompt = (framed if rng.random() < _FRAMED_SHARE or "\n" in ask else beside)(slots, ask, sentence)
        return Example(self.name, prompt, dumps(answer), kind=slots.kind(kind))

    def grade(self, example: Example, text: str) -> bool:
        """Accepts the same JSON in any spacing, objects in any order; of values alone their letters."""
        if not example.answer.startswith(("{", "[")):
            return text.strip() == example.answer
        return same_json(example.answer, text)


def _renamed(slots: Slots, facts: dict[str, Value]) -> dict[str, Value]:
    """The facts under other names now and then: of one's own choice, as code has them, or with a capital."""
    rng = slots.rng
    if rng.random() >= _KEY_SHARE:
        return facts
    found: dict[str, Value] = {}
    for key, value in facts.items():
        others = [other for other in _KEYS.get(key, ()) if other not in found and other not in facts]
        other = rng.choice(others) if others and rng.random() < 0.7 else key
        found[other] = value
    return found


def _listed(slots: Slots) -> dict[str, Value]:
    facts: dict[str, Value] = {"name": slots.first_name()}
    for number, key in enumerate(slots.words(3), start=1):
        facts[f"k{number}"] = key
        facts[f"v{number}"] = slots.number(5) if slots.rng.random() < 0.5 else slots.word()
    return facts


def _sentence(slots: Slots, phrasings: Phrasings) -> tuple[str, dict[str, Value]]:
    """A sentence, and the facts that it tells."""
    pattern = slots.rng.choice(phrasings.unseen if slots.reworded else phrasings.seen)
    text = expand(pattern, slots.rng)
    names = dict.fromkeys(_FIELD.findall(text))
    if phrasings is _LISTED:
        listed = _listed(slots)
        for name in names:
            if name[0] == "v" and (f'"{{{name}}}"' in text or f"'{{{name}}}'" in text):
                # A number in quotes may be meant as a text.
                listed[name] = slots.word()
        facts = {name: listed[name] for name in names}
        return _A_FIELD.sub(partial(_with_article, facts), text).format_map(facts), facts
    facts = {name: FACTS[name](slots) for name in names}
    return _A_FIELD.sub(partial(_with_article, facts), text).format_map(facts), facts


def _with_article(facts: Mapping[str, Value], found: re.Match[str]) -> str:
    """The place of a fact behind the article that it needs."""
    article, _ = with_articles(f"{found[1]} {facts[found[2]]}").split(" ", 1)
    return f"{article} {{{found[2]}}}"


def _sentence_ask(slots: Slots, keys: list[str]) -> str:
    """Draws a request of one sentence; of one fact most often none that speaks of several."""
    ask = slots.choice(_ASK, keys=_join(slots, keys))
    for _ in range(4):
        if len(keys) > 1 or not OF_SEVERAL.search(ask):
            break
        ask = slots.choice(_ASK, keys=_join(slots, keys))
    return ask


def _join(slots: Slots, keys: list[str]) -> str:
    if slots.rng.random() < 0.15:
        keys = [f'"{key}"' for key in keys]
    if len(keys) == 1 or slots.rng.random() < 0.2:
        return ", ".join(keys)
    return f"{', '.join(keys[:-1])} and {keys[-1]}"
