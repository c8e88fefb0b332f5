"""Asks to calculate with money, with numbers that have a point, and with percent."""

import math
import random
import re
from collections.abc import Callable
from decimal import Decimal

from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.sums.stories import told_values

PERCENT = read_phrasings("sums_kinds", "percent")
MONEY = read_phrasings("sums_kinds", "money")
DECIMALS = read_phrasings("sums_kinds", "decimals")
_PERCENTS = (10, 10, 10, 10, 50, 50, 50, 25, 25, 25, 20, 20, 20, 5, 5, 1, 30, 40, 60, 75, 75, 80, 90, 15)
_WORTHS = ("{}", "{}", "{}", "${}", "${}", "${}", "\u20ac{}", "\u00a3{}", "{} euros", "{} dollars", "{} \u20ac")
_NOTES = tuple(map(Decimal, ("5.00", "10.00", "20.00", "50.00", "100.00")))
_PAID = re.compile("pay|change")
_OF_NUMBERS = re.compile(
    r"(?:\{[abn]\}|what|is|how much|add|subtract|take|from|and|plus|minus|times|total|sum|of|s|x|please|[^a-z{])+",
    re.IGNORECASE,
)
"""Requests that do not say that money is meant, whose answers would have no zeros at their end."""
_BEFORE_EIGHT = re.compile(r"\b([Aa]) (?=(?:8\d?|11|18|eight|eleven|eighteen)(?:%| per))")
_CENTS = ("50", "50", "50", "20", "40", "80", "10", "25", "75", "99", "95", "90", "00")


def draw_percent(slots: Slots, write: Callable[[int], str]) -> tuple[str, str]:
    """Asks for some percent of a number, or for it with them less or more; the answer is whole."""
    rng = slots.rng
    percent = rng.choice(_PERCENTS)
    step = 100 // math.gcd(percent, 100)
    number = rng.choice((rng.randint(1, 12) * 100, rng.randint(2, 20) * 10, rng.randint(1, 20) * step))
    if number % step or number > 2000:
        number = step * rng.randint(1, 10)
    asked, text = slots.choice(PERCENT, a=number, p="{p}", **told_values(slots)).split(" ", 1)
    part = number * percent // 100
    shown = str(percent) if "{p}%" in text or percent > 20 else write(percent)
    text = _BEFORE_EIGHT.sub(r"\1n ", text.format(p=shown))
    return text, str({"of": part, "off": number - part, "more": number + part}[asked])


def draw_money(slots: Slots, write: Callable[[int], str]) -> tuple[str, str]:
    """Asks to add, subtract or multiply prices with two decimals, as the answer has them."""
    rng = slots.rng
    form = rng.choice(_WORTHS)
    count = rng.randint(2, rng.choice((4, 6, 10)))
    first, second = _price(rng), _price(rng)
    operation, text = slots.choice(MONEY, a="{a}", b="{b}", n="{n}", **told_values(slots)).split(" ", 1)
    if form == "{}" and _OF_NUMBERS.fullmatch(text):
        form = rng.choice(_WORTHS[3:])
    if operation == "-":
        first, second = max(first, second), min(first, second)
        if _PAID.search(text):
            first = rng.choice([note for note in _NOTES if note > second][:3])
    found = {"+": first + second, "-": first - second, "*": first * count}[operation]
    whole = operation == "-" and first == first.to_integral() and rng.random() < 0.5
    shown = form.format(int(first) if whole else first)
    return text.format(a=shown, b=form.format(second), n=write(count)), f"{found:.2f}"


def draw_decimals(slots: Slots, write: Callable[[int], str]) -> tuple[str, str]:
    """Asks to add, subtract or multiply small numbers with one or two decimals; the answer has no zeros at its end."""
    rng = slots.rng
    places = rng.choice((1, 1, 1, 2))
    first, second = _decimal(rng, places), _decimal(rng, rng.choice((1, 1, places)))
    operation, text = slots.choice(DECIMALS, a="{a}", b="{b}", n="{n}", **told_values(slots)).split(" ", 1)
    count = rng.randint(2, rng.choice((4, 10)))
    if operation == "-":
        first, second = max(first, second), min(first, second)
    found = {"+": first + second, "-": first - second, "*": first * count}[operation]
    return text.format(a=first, b=second, n=write(count) if " times " in text else count), _plain(found)


def _price(rng: random.Random) -> Decimal:
    whole = rng.randint(0, rng.choice((5, 9, 20))) if rng.random() < 0.85 else rng.randint(10, 99)
    return Decimal(f"{whole or 1}.{rng.choice(_CENTS)}")


def _decimal(rng: random.Random, places: int) -> Decimal:
    whole = rng.randint(0, rng.choice((2, 5, 12)))
    digits = (
        str(rng.randint(1, 9)) if places == 1 else f"{rng.choice((0, 2, 7, rng.randint(0, 9)))}{rng.choice('55123')}"
    )
    return Decimal(f"{whole}.{digits}")


def _plain(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
