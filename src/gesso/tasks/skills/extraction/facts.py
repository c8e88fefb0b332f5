"""Draws the facts of sentences by their names: people by what they do, places, things, and numbers of fitting size."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial

from gesso.tasks.skills.extraction.values import DRAWN, Value
from gesso.tasks.skills.slots import Slots
from gesso.tasks.words import COLOURS, words_of

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
_KINDS_OF_PLACE = ("Street", "Road", "Park", "Hall", "Square", "Bay", "Lake", "Hill", "Bridge", "House")
_SIZES = ("small", "medium", "large", "S", "M", "L", "XL")


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


FACTS: Mapping[str, Callable[[Slots], Value]] = {
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
