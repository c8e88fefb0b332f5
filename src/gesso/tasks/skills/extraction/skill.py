"""Asks for named facts of a sentence as JSON, whatever the names and the values."""

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.extraction.keys import OF_SEVERAL
from gesso.tasks.skills.extraction.keys import asked as asked_for
from gesso.tasks.skills.extraction.labelled import draw_labelled
from gesso.tasks.skills.extraction.people import draw_people
from gesso.tasks.skills.extraction.placing import beside, framed, placed
from gesso.tasks.skills.extraction.questions import draw_question
from gesso.tasks.skills.extraction.records import ASK, draw_record
from gesso.tasks.skills.extraction.telling import dumps, is_measured
from gesso.tasks.skills.extraction.tokens import draw_tokens
from gesso.tasks.skills.extraction.values import DRAWN, Value
from gesso.tasks.skills.patterns import Phrasings, expand, read_phrasings
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots
from gesso.tasks.to_json import same_json
from gesso.tasks.words import COLOURS, words_of

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
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_JOBS = ("doctor", "teacher", "nurse", "baker", "pilot", "farmer", "lawyer", "singer", "painter", "cook")
_PEOPLE = words_of("""
    accountant actor agent archivist artist astronomer author baker bride buyer candidate captain carpenter champion
    chef chemist client climber coach composer curator customer developer director diver doctor donor driver drummer
    editor engineer farmer gamer gardener groom guest host inspector judge landlord lawyer librarian loser mayor
    mechanic nurse officer operator owner painter passenger patient pilot player plumber poet principal pupil reader
    receiver referee reporter runner sculptor seller sender singer student surgeon suspect swimmer tailor teacher
    tenant translator tutor vet waiter winner witness worker
""")
_WORDS = words_of("""
    album animal branch cargo coupon course crime crop database device dish drink drug fabric file flower game hero
    hobby ingredient instrument language machine material module painting part pet product role sauce server shelf song
    stage statue street subject substance symptom tree unit user weather wood
""")
_PLACES = words_of("""
    airline band bank brand bridge carrier charity company country destination district factory farm festival garage
    harbor hospital hotel insurer island lab league library mountain museum newspaper origin party planet restaurant
    river school ship shop stadium station supplier team theater venue village warehouse
""")
_NUMBERS = {
    1: words_of("bedrooms grade lane priority"),
    2: words_of("""
        battery discount floor goals hall hours humidity lap level moons nights platform table temperature ward years
    """),
    3: words_of("""
        apartment bed box bus cows crates crew defects delay depth dose error fee locker minutes number pages pallets
        points pulse quantity rain rank room sheep speed tents truck weight width
    """),
    4: words_of("acres amount coins deposit fine height length letter premium rent sample train volume"),
    5: words_of("""
        batch bug build case claim copies damage fans invoice memory output port price salary tax ticket total votes
    """),
    6: words_of("""
        account balance code distance income loan mileage order policy population tracking visitors
    """),
}
"""Names of facts by the digits that they have at most."""
_POINT_SHARE, _CODE_SHARE, _TWO_WORDS_SHARE = 0.12, 0.15, 0.12
_WITH_POINT = frozenset(
    words_of("price fee fine rent deposit weight width height length temperature speed dose discount")
)
_WITH_LETTERS = frozenset(words_of("batch bug case claim invoice policy ticket tracking train order account locker"))
_MONEY = frozenset(
    words_of("price fee fine rent deposit premium income salary loan balance tax total damage coins amount")
)
"""What people would give with the currency where it stands alone."""
_KINDS_OF_PLACE = ("Street", "Road", "Park", "Hall", "Square", "Bay", "Lake", "Hill", "Bridge", "House")
_SIZES = ("small", "medium", "large", "S", "M", "L", "XL")
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


def _decimal(slots: Slots, digits: int, places: int) -> Decimal:
    return Decimal(slots.number(digits + places)).scaleb(-places)


def _number(slots: Slots, digits: int) -> Value:
    """A whole number, or now and then one with a point."""
    if digits > 1 and slots.rng.random() < _POINT_SHARE:
        return _decimal(slots, min(digits, 3), slots.rng.choice((1, 2)))
    return slots.number(digits)


def _code(slots: Slots, digits: int) -> Value:
    """A number as people give things: most often digits alone, or with letters before them."""
    if slots.rng.random() >= _CODE_SHARE:
        return slots.number(digits)
    letters = "".join(slots.rng.choices("ABCDEFGHKLMNPQRSTVWXYZ", k=slots.rng.randint(1, 3)))
    return f"{letters}{slots.rng.choice(('-', '-', ''))}{slots.number(4)}"


def _word(slots: Slots) -> str:
    """A word, or two."""
    return " ".join(slots.words(2)) if slots.rng.random() < _TWO_WORDS_SHARE else slots.word()


def _place_name(slots: Slots) -> str:
    """A place, of one word or two."""
    if slots.rng.random() < _TWO_WORDS_SHARE:
        kind = slots.rng.choice(_KINDS_OF_PLACE)
        return f"{slots.city()} {kind}"
    return slots.city()


def _person(slots: Slots) -> str:
    return slots.first_name() if slots.rng.random() < 0.5 else slots.name()


def _address(slots: Slots) -> str:
    first, second = slots.words(2)
    return f"{first}@{second}.{slots.rng.choice(('com', 'org', 'net'))}"


_DRAWN: Mapping[str, Callable[[Slots], Value]] = {
    "name": Slots.name,
    "city": DRAWN["city"],
    "item": _word,
    "age": lambda slots: slots.rng.randint(1, 99),
    "job": lambda slots: slots.rng.choice(_JOBS) if slots.rng.random() < 0.4 else slots.word(),
    "time": lambda slots: f"{slots.rng.randint(0, 23):02d}:{slots.rng.randint(0, 59):02d}",
    "start": lambda slots: f"{slots.rng.randint(6, 12)}:{slots.rng.randint(0, 59):02d}",
    "end": lambda slots: f"{slots.rng.randint(13, 23)}:{slots.rng.randint(0, 59):02d}",
    "day": lambda slots: slots.rng.choice(_DAYS),
    "year": lambda slots: slots.rng.randint(1900, 2059),
    "email": _address,
    "phone": lambda slots: f"{slots.rng.randint(100, 999)}-{slots.rng.randint(0, 9999):04d}",
    "flight": lambda slots: f"{slots.rng.choice('ABDEKLSTU')}{slots.rng.choice('AFHKLRSY')}{slots.number(4)}",
    "gate": lambda slots: f"{slots.rng.choice('ABCDE')}{slots.rng.randint(1, 60)}",
    "seat": lambda slots: f"{slots.rng.randint(1, 60)}{slots.rng.choice('ABCDEF')}",
    "score": lambda slots: f"{slots.rng.randint(0, 9)}:{slots.rng.randint(0, 9)}",
    "size": lambda slots: slots.rng.choice(_SIZES) if slots.rng.random() < 0.7 else slots.rng.randint(30, 50),
    "title": DRAWN["title"],
    "version": lambda slots: f"{slots.rng.randint(0, 19)}.{slots.rng.randint(0, 19)}",
    **dict.fromkeys(("color", "colour"), lambda slots: slots.rng.choice(COLOURS)),
    **dict.fromkeys(_PEOPLE, _person),
    **dict.fromkeys(_WORDS, _word),
    **dict.fromkeys(_PLACES, _place_name),
    **{
        key: partial(_number if key in _WITH_POINT else _code if key in _WITH_LETTERS else Slots.number, digits=digits)
        for digits, keys in _NUMBERS.items()
        for key in keys
    },
}
"""How each fact is drawn, by its name."""


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
    facts = {name: _DRAWN[name](slots) for name in names}
    return _A_FIELD.sub(partial(_with_article, facts), text).format_map(facts), facts


def _with_article(facts: Mapping[str, Value], found: re.Match[str]) -> str:
    """The fact that the article stands before, with the one that its first letter needs."""
    return f"{found[1]}{'n' if str(facts[found[2]])[:1] in tuple('aeio') else ''} {{{found[2]}}}"


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
