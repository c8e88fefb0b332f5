"""Draws rows that go up or down as their ends say, and rows of times, dates, ordinals and doubled numbers."""

from collections.abc import Callable
from datetime import date, timedelta

from gesso.tasks.skills.dates.forms import MONTHS, ordinal
from gesso.tasks.skills.patterns import Phrasings, read_phrasings
from gesso.tasks.skills.ranges.kinds import Row, draw_border
from gesso.tasks.skills.slots import Slots

EITHER = read_phrasings("ranges_kinds", "either")
TIMES = read_phrasings("ranges_kinds", "times")
DATES = read_phrasings("ranges_kinds", "dates")
ORDINALS = read_phrasings("ranges_kinds", "ordinals")
DOUBLING = read_phrasings("ranges_kinds", "doubling")
_DOWN, _SAME = 0.65, 0.08
_STEPS = (5, 10, 10, 15, 15, 15, 20, 30, 30, 30, 45, 60)
_FORMS: tuple[Callable[[date], str], ...] = (
    lambda day: day.isoformat(),
    lambda day: day.isoformat(),
    lambda day: day.strftime("%d.%m.%Y"),
    lambda day: day.strftime("%d/%m/%Y"),
    lambda day: f"{MONTHS[day.month - 1]} {day.day}",
    lambda day: f"{day.day} {MONTHS[day.month - 1]}",
    lambda day: f"{MONTHS[day.month - 1][:3]} {day.day}",
)
_FIRST = date(1980, 1, 1).toordinal()
_LAST = date(2040, 1, 1).toordinal()
_IN_WORDS = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth",
)  # fmt: skip


def _either(slots: Slots) -> Row:
    """Whole numbers from one to another that is most often smaller, or now and then the same."""
    rng = slots.rng
    count = rng.randint(2, rng.choice((5, 8, 12)))
    first = rng.choice((rng.randint(0, 30), rng.randint(1, 100), slots.number(4), draw_border(rng, count)))
    if rng.random() < _SAME:
        count = 1
    found = [str(first + i) for i in range(count)]
    if rng.random() < _DOWN:
        found.reverse()
    return Row(EITHER, found, {"a": found[0], "b": found[-1]})


def _times(slots: Slots) -> Row:
    rng = slots.rng
    step, count = rng.choice(_STEPS), rng.randint(3, 8)
    first = rng.randint(0, 23) * 60 + rng.choice((0, 0, 0, 30, 15, 45))
    first = min(first, 24 * 60 - step * count) // 5 * 5
    width = rng.choice((1, 2))
    found = [f"{minute // 60:0{width}}:{minute % 60:02}" for minute in range(first, first + step * count, step)]
    return Row(TIMES, found, {"a": found[0], "b": found[-1], "s": step})


def _dates(slots: Slots) -> Row:
    rng = slots.rng
    first = date.fromordinal(rng.randint(_FIRST, _LAST))
    if rng.random() < 0.5:
        first = first.replace(day=rng.randint(26, 28))
    form = rng.choice(_FORMS)
    days = [first + timedelta(i) for i in range(rng.randint(2, 6))]
    found = list(map(form, days))
    return _dates(slots) if _unclear(days, found[0]) else Row(DATES, found, {"a": found[0], "b": found[-1]})


def _unclear(days: list[date], shown: str) -> bool:
    """Says whether the days go over the end of February without a year, or might be the first days of months."""
    if "/" in shown:
        return days[0].day < days[-1].day <= 12
    return str(days[0].year) not in shown and days[0].month == 2 and days[-1].month == 3


def _ordinals(slots: Slots) -> Row:
    rng = slots.rng
    count = rng.randint(3, 8)
    if rng.random() < 0.3:
        start = rng.randint(0, len(_IN_WORDS) - count)
        found = list(_IN_WORDS[start : start + count])
    else:
        start = rng.choice((1, 1, rng.randint(1, 20), rng.randint(8, 99)))
        found = [ordinal(n) for n in range(start, start + count)]
    return Row(ORDINALS, found, {"a": found[0], "b": found[-1]})


def _doubling(slots: Slots) -> Row:
    first, count = slots.rng.choice((1, 1, 2, 3, 4, 5, slots.rng.randint(2, 12))), slots.rng.randint(3, 7)
    found = [str(first * 2**i) for i in range(count)]
    return Row(DOUBLING, found, {"a": found[0], "b": found[-1], "n": count})


WRITTEN: dict[str, tuple[float, Callable[[Slots], Row]]] = {
    "either": (0.06, _either), "times": (0.025, _times), "dates": (0.025, _dates), "ordinals": (0.02, _ordinals),
    "doubling": (0.02, _doubling),
}  # fmt: skip
"""Share of each kind, and what draws it."""
WRITTEN_PHRASINGS: dict[str, Phrasings] = {
    "either": EITHER, "times": TIMES, "dates": DATES, "ordinals": ORDINALS, "doubling": DOUBLING,
}  # fmt: skip
