"""Draws the values that texts to extract from hold: people, things, codes, addresses, amounts, dates and lists."""

import random
import re
from collections.abc import Callable, Mapping
from decimal import Decimal

from gesso.tasks.skills.slots import Slots
from gesso.tasks.words import COLOURS, words_of

Value = str | int | Decimal | list[str] | None
_TITLES = ("Mr.", "Mrs.", "Ms.", "Dr.", "Mr", "Mrs", "Ms", "Dr")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = words_of("January February March April May June July August September October November December")
_COLOURS = (*COLOURS, *words_of("orange gold silver turquoise cream navy"))
_JOBS = words_of("""
    engineer plumber baker teacher nurse pilot farmer lawyer painter cook driver carpenter librarian dentist translator
    student tailor gardener journalist chemist designer electrician waiter midwife mechanic accountant architect
""")
_FIELDS_OF_WORK = words_of("software school railway sales night ship head chief junior senior film music bus")
_ADJECTIVES = words_of("""
    wooden small large round old new cheap heavy light soft folding electric leather wool steel glass plastic paper
    handmade used cotton silver solar mini
""")
_GOODS = words_of("""
    kettle lamp chair table rope boat desk mug bike clock tent drill mirror jacket rug basket bottle printer
    phone kite backpack pillow blanket ladder helmet guitar camera vase
""")
_ANIMALS = words_of("dog cat parrot horse hamster rabbit goat pony goldfish canary turtle donkey hen mouse pig duck")
_CLOTHES = words_of("shirt coat hat dress skirt scarf jacket sweater tie bag cap belt vest")
_EVENTS = words_of("meeting party concert lesson call workshop wedding exam race festival lunch interview course talk")
_FOODS = words_of("mango apple pear melon plum lemon cherry peach kiwi fig banana orange grape")
_DRINKS = words_of("tea coffee water juice milk cocoa lemonade cider beer wine cola")
_SPORTS = words_of("tennis chess football sailing painting hiking yoga swimming climbing reading dancing")
_CARS = words_of("Volvo Fiat Toyota Ford Skoda Honda Seat Mazda Audi Opel Nissan Kia")
_LANGUAGES = words_of("Python Java Ruby Rust Node Perl Go Kotlin PHP Lua Scala Julia Swift")
_SPOKEN = words_of("French German Spanish Italian Polish Greek Turkish Swedish Arabic Finnish Dutch Danish")
_LEVELS = words_of("ERROR WARN INFO DEBUG WARNING FATAL error warn info")
_ROLES = words_of("admin editor viewer owner guest manager moderator member reader writer")
_ENDINGS = ("com", "org", "net", "io", "de", "co.uk", "edu", "eu", "example", "info")
_PEAKS = ("Mount {}", "Mount {}", "{}", "{} Peak", "Mt. {}")
_COUNTRIES = words_of("""
    Japan Spain Italy Kenya Peru Norway Canada Brazil Egypt India France Chile Ghana Poland Turkey Mexico Iran Cuba
""")
_OF_FIRMS = ("Foods", "Ltd", "& Sons", "Bakery", "Tools", "Media", "Inc", "GmbH", "Motors", "Books", "Hotels", "Group")
_BEFORE_CITIES = ("New", "New", "San", "Port", "Saint", "Fort", "Santa", "North", "Bad", "Old")
_STATES = words_of("open closed done pending shipped paid late cancelled blocked ready new lost")
_CARRIERS = words_of("DHL UPS GLS DPD FedEx Hermes")
_LICENSES = ("MIT", "BSD", "GPL", "Apache 2.0", "ISC", "LGPL", "MPL", "GPL-3.0")
_GRADES = ("A", "B", "C", "D", "A1", "B2", "C1", "3b", "5a", "7c", "A-", "B+")
_PHONES = (
    "555-0###", "###-####", "(###) ###-####", "###-###-####", "0### ######", "+## ### #####", "+## ## #### ####",
    "0##/#######", "0### ### ###", "###.###.####", "+1-###-###-####",
)  # fmt: skip
_UPPER = "ABCDEFGHJKLMNPQRSTUVWXYZ"


def _of(slots: Slots, pool: tuple[str, ...], open_share: float = 0.4) -> str:
    """Draws one of the pool that training may see, or any word."""
    if slots.rng.random() < (0.7 if slots.unseen and open_share else open_share):
        return slots.word()
    return slots.trained(pool)


def _product(slots: Slots) -> str:
    """A thing, a third with the adjectives that belong to it."""
    thing = _of(slots, _GOODS)
    if slots.rng.random() < 0.35:
        before = _COLOURS if slots.rng.random() < 0.5 else _ADJECTIVES
        return f"{slots.trained(before)} {thing}"
    return thing


def _job(slots: Slots) -> str:
    job = _of(slots, _JOBS)
    return f"{slots.trained(_FIELDS_OF_WORK)} {job}" if slots.rng.random() < 0.2 else job


def _last(slots: Slots) -> str:
    while True:
        name = slots.name()
        if " " in name:
            return name.split()[1]


def _full(slots: Slots) -> str:
    return f"{slots.first_name()} {_last(slots)}"


def _person(slots: Slots) -> str:
    chance = slots.rng.random()
    if chance < 0.15:
        return f"{slots.rng.choice(_TITLES)} {_last(slots) if chance < 0.1 else _full(slots)}"
    return _full(slots) if chance < 0.5 else slots.first_name()


def _city(slots: Slots) -> str:
    """A city, now and then of two words."""
    city = slots.city()
    if slots.rng.random() < 0.12 and " " not in city:
        return f"{slots.rng.choice(_BEFORE_CITIES)} {city}"
    return city


def _company(slots: Slots) -> str:
    return f"{slots.city()} {slots.rng.choice(_OF_FIRMS)}" if slots.rng.random() < 0.6 else slots.city()


def _clock(slots: Slots) -> str:
    hour, minute = slots.rng.randint(1, 12), slots.rng.randint(0, 59)
    return slots.rng.choice((f"{hour}:{minute:02d}", f"{hour}:{minute:02d}", f"{hour}:30", f"{hour:02d}:{minute:02d}",
                             f"{hour}am", f"{hour} pm", f"{hour}:{minute:02d} pm"))  # fmt: skip


def _email(slots: Slots) -> str:
    first, second, host = (slots.stem() for _ in range(3))
    user = slots.rng.choice((first, first, f"{first}.{second}", f"{first}_{second}", f"{first[0]}.{second}",
                             f"{first}{slots.number(2)}", f"{first}-{second}"))  # fmt: skip
    return f"{user}@{host}.{slots.rng.choice(_ENDINGS)}"


def _url(slots: Slots) -> str:
    host, first, second = (slots.stem() for _ in range(3))
    start = slots.rng.choice(("https://", "https://", "https://", "http://", "https://www.", "www."))
    end = slots.rng.choice(("", f"/{first}", f"/{first}", f"/{first}/{second}", f"/{first}-{second}",
                            f"/{first}/{slots.number(4)}", f"/{first}.html",
                            f"/{first}?id={slots.number(3)}"))  # fmt: skip
    return f"{start}{host}.{slots.rng.choice(_ENDINGS)}{end}"


def _phone(slots: Slots) -> str:
    return _digits(slots.rng, slots.rng.choice(_PHONES))


def _digits(rng: random.Random, pattern: str) -> str:
    """Puts a digit for each `#`, a capital letter for each `@`."""
    text = re.sub("@", lambda _: rng.choice(_UPPER), pattern)
    return re.sub("#", lambda _: str(rng.randint(1, 9)), text)


def _from(*patterns: str) -> Callable[[Slots], str]:
    return lambda slots: _digits(slots.rng, slots.rng.choice(patterns))


def _decimal(slots: Slots) -> Decimal:
    places = slots.rng.choice((1, 2))
    return Decimal(slots.number(2 + places)).scaleb(-places)


def _amount(slots: Slots) -> Value:
    return _decimal(slots) if slots.rng.random() < 0.35 else slots.number(4)


def _degrees(slots: Slots) -> Value:
    number = Decimal(slots.rng.randint(10, 399)).scaleb(-1) if slots.rng.random() < 0.4 else slots.rng.randint(1, 39)
    return -number if slots.rng.random() < 0.4 else number


def _price(slots: Slots) -> str:
    amount = _amount(slots)
    return slots.rng.choice(("${}", "${}", "€{}", "£{}", "{} euros", "{} dollars", "{} EUR", "{} pounds")).format(
        amount
    )


def _date(slots: Slots) -> str:
    rng = slots.rng
    year, month, day = rng.randint(1950, 2039), rng.randint(1, 12), rng.randint(1, 28)
    name = _MONTHS[month - 1]
    return rng.choice((f"{year}-{month:02d}-{day:02d}", f"{year}-{month:02d}-{day:02d}", f"{day} {name} {year}",
                       f"{day:02d}/{month:02d}/{year}", f"{day:02d}.{month:02d}.{year}", f"{name} {day}, {year}",
                       f"{day} {name}", f"{name} {day}"))  # fmt: skip


def _iso(slots: Slots) -> str:
    rng = slots.rng
    return f"{rng.randint(1990, 2039)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"


def _time(slots: Slots) -> str:
    hour, minute = slots.rng.randint(0, 23), slots.rng.randint(0, 59)
    return f"{hour:02d}:{minute:02d}" if slots.rng.random() < 0.8 else f"{hour}:{minute:02d}"


def _title(slots: Slots) -> str:
    title = " ".join(word.capitalize() for word in slots.words(slots.rng.choice((1, 2, 2, 3))))
    return f"{slots.rng.choice(('The', 'The', 'A', 'My'))} {title}" if slots.rng.random() < 0.35 else title


def _user(slots: Slots) -> str:
    first, second = slots.stem(), slots.stem()
    return slots.rng.choice((f"{first}_{slots.number(3)}", f"{first}{slots.number(2)}", f"{first}.{second}", first,
                             f"{first}_{second}", f"{first}-{slots.number(2)}"))  # fmt: skip


def _list_of(draw: Callable[[Slots], str], most: int = 4) -> Callable[[Slots], list[str]]:
    def drawn(slots: Slots) -> list[str]:
        found: dict[str, None] = {}
        count = slots.rng.randint(2, most)
        while len(found) < count:
            found[draw(slots)] = None
        return list(found)

    return drawn


DRAWN: Mapping[str, Callable[[Slots], Value]] = {
    "person": _person,
    "name": lambda slots: slots.name(),
    "first": lambda slots: slots.first_name(),
    "last": _last,
    "full": _full,
    "city": _city,
    "place": lambda slots: _of(slots, words_of("library garden kitchen station office market museum harbour park")),
    "firm": lambda slots: slots.city() if slots.rng.random() < 0.7 else _company(slots),
    "company": _company,
    "country": lambda slots: slots.trained(_COUNTRIES) if slots.rng.random() < 0.4 else slots.city(),
    "clock": _clock,
    "hundreds": lambda slots: slots.rng.randint(1, 99) * slots.rng.choice((5, 10, 10, 50)),
    "state": lambda slots: slots.trained(_STATES),
    "carrier": lambda slots: slots.rng.choice(_CARRIERS),
    "license": lambda slots: slots.rng.choice(_LICENSES),
    "grade": lambda slots: slots.rng.choice(_GRADES),
    "size": lambda slots: slots.rng.choice(("S", "M", "L", "XL", "small", "medium", "large")),
    "seat": _from("#@", "##@"),
    "score": _from("#:#", "#-#", "#:0"),
    "peak": lambda slots: slots.rng.choice(_PEAKS).format(slots.city()),
    "word": lambda slots: slots.word(),
    "phrase": lambda slots: " ".join(slots.words(slots.rng.choice((1, 1, 2, 3)))),
    "street": lambda slots: slots.city(),
    "town": lambda slots: slots.city(),
    "number": lambda slots: slots.rng.randint(1, 199),
    "clothing": lambda slots: slots.trained(_CLOTHES),
    "plural": lambda slots: f"{_of(slots, _GOODS).rstrip('s')}s",
    "product": _product,
    "thing": lambda slots: _of(slots, _GOODS),
    "animal": lambda slots: _of(slots, _ANIMALS, 0.2),
    "event": lambda slots: _of(slots, _EVENTS, 0.15),
    "vehicle": lambda slots: slots.rng.choice(("Train", "Bus", "Ferry", "Coach", "Tram")),
    "food": lambda slots: _of(slots, _FOODS),
    "drink": lambda slots: _of(slots, _DRINKS),
    "hobby": lambda slots: _of(slots, _SPORTS),
    "car": lambda slots: slots.trained(_CARS) if slots.rng.random() < 0.4 else slots.city(),
    "language": lambda slots: slots.trained(_LANGUAGES) if slots.rng.random() < 0.5 else slots.city(),
    "spoken": lambda slots: slots.trained(_SPOKEN),
    "colour": lambda slots: slots.trained(_COLOURS),
    "job": _job,
    "role": lambda slots: _of(slots, _ROLES),
    "level": lambda slots: slots.trained(_LEVELS),
    "user": _user,
    "email": _email,
    "url": _url,
    "phone": _phone,
    "hashtag": lambda slots: f"#{slots.word()}{slots.word() if slots.rng.random() < 0.4 else ''}",
    "mention": lambda slots: f"@{_user(slots).rstrip('.')}",
    "postcode": _from("#####", "#####", "#####", "####", "@@# #@@", "@## #@@", "#### @@", "##-###"),
    "code": _from("@@-####", "@@@-##", "@#@#", "@@####", "####-##", "@-###", "@@ ###", "@@#-@#", "###@", "@@-##-##"),
    "flight": _from("@@ ###", "@@ ####", "@@###", "@@-###", "@@####"),
    "invoice": _from("20##-###", "20##-####", "INV-####", "@@-####", "20##/###", "R####"),
    "room": _from("@##", "@##", "@#", "@###", "#@"),
    "gate": _from("@#", "@##"),
    "host": lambda slots: f"{slots.stem()}{slots.rng.choice(('', '-'))}{slots.rng.randint(1, 20):02d}",
    "ip": _from("1##.1##.#.##", "10.#.#.#", "192.168.#.##", "##.##.##.##"),
    "file": lambda slots: f"{_user(slots)}.{slots.rng.choice(words_of('pdf txt csv png py docx json jpg md log'))}",
    "hex": lambda slots: f"#{slots.rng.getrandbits(24):06x}",
    "percent": lambda slots: f"{_amount(slots) if slots.rng.random() < 0.2 else slots.number(2)}%",
    "version": _from("#.##", "#.#", "#.#.#", "##.#", "#.##.#"),
    "date": _date,
    "iso": _iso,
    "time": _time,
    "day": lambda slots: slots.rng.choice(_DAYS),
    "month": lambda slots: slots.rng.choice(_MONTHS),
    "year": lambda slots: slots.rng.randint(1900, 2059),
    "age": lambda slots: slots.rng.randint(1, 99),
    "small": lambda slots: slots.rng.randint(2, 99),
    "count": lambda slots: slots.number(4) + 2,
    "big": lambda slots: slots.number(6),
    "amount": _amount,
    "degrees": _degrees,
    "error": lambda slots: slots.rng.randint(100, 599),
    "price": _price,
    "title": _title,
    "people": _list_of(lambda slots: slots.first_name(), 5),
    "colours": _list_of(lambda slots: slots.trained(_COLOURS)),
    "things": _list_of(lambda slots: _of(slots, _GOODS)),
    "foods": _list_of(lambda slots: _of(slots, _FOODS)),
    "cities": _list_of(lambda slots: slots.city()),
    "tongues": _list_of(lambda slots: slots.trained(_SPOKEN)),
    "days": _list_of(lambda slots: slots.rng.choice(_DAYS), 3),
}  # fmt: skip
"""How a value of each kind is drawn."""
