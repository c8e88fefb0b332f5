"""What the skills' reference answers say, against what Python makes of the same prompts."""

import datetime
import itertools
import random
import re
from decimal import Decimal

import pytest
from tasks.drawing import drawn, of_kind

from gesso.tasks import TASKS, Example
from gesso.tasks.skills.date_forms import draw_form
from gesso.tasks.skills.sums import spell
from gesso.tasks.skills.units import Units


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "zero"),
        (14, "fourteen"),
        (40, "forty"),
        (87, "eighty-seven"),
        (300, "three hundred"),
        (999, "nine hundred ninety-nine"),
    ],
)
def test_numbers_in_words(number: int, words: str) -> None:
    assert spell(number) == words


def test_units_take_the_number_alone() -> None:
    task = Units()
    example = Example("units", "", "0.25 km")
    assert task.grade(example, "0.25")
    assert task.grade(example, "0.25 km.")
    for text in ("0.2", "25 km", "0.25 m"):
        assert not task.grade(example, text)


def test_units_are_taken_by_all_their_names() -> None:
    task = Units()
    for answer, others in {
        "35000 m": ("35000m", "35,000 m", "35000 metres", "35000 meter."),
        "1 feet": ("1 foot",),
        "0.5 h": ("0.5 hours", "0.5h"),
    }.items():
        assert all(task.grade(Example("units", "", answer), text) for text in others)
    for text in ("35000 min", "35000 mm", "3,5000 m", "35 000 m", "35000 m m"):
        assert not task.grade(Example("units", "", "35000 m"), text)


def test_days_of_the_week_are_counted() -> None:
    """By what each request says itself."""
    days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
    back = re.compile(r"before|back|earlier|ago|precedes|previous|Subtract|yesterday")
    counted = 0
    for example in drawn(TASKS["dates"], 6000):
        said = [day for day in days if day in example.prompt]
        if example.answer not in days or len(said) != 1:
            continue
        number = re.search(r"\b([2-9]) days\b", example.prompt)
        steps = int(number[1]) if number else 1
        if back.search(example.prompt):
            steps = -steps
        counted += number is not None
        assert example.answer == days[(days.index(said[0]) + steps) % 7], example.prompt
    assert counted > 100


def test_a_date_with_its_month_is_not_asked_for_it() -> None:
    written = re.compile(
        r"(January|February|March|April|May|June|July|August|September|October|November|December) \d+, "
    )
    asked = [e.prompt for e in drawn(TASKS["dates"], 6000) if "month's name" in e.prompt]
    assert len(asked) > 10
    assert not any(map(written.search, asked))


def test_differences_of_things_are_not_below_zero() -> None:
    below = [e for e in drawn(TASKS["sums"], 6000) if e.answer.startswith("-") and "words" in (e.kind or "")]
    assert len(below) > 20
    things = re.compile(r"eggs|cookies|born|difference between|distance|guests", re.IGNORECASE)
    assert not any(things.search(e.prompt) and "minus" not in e.prompt and "ubtract" not in e.prompt for e in below)


def test_dates_in_every_form_are_the_same_date() -> None:
    rng, seen = random.Random(3), set()
    for _ in range(3000):
        date = datetime.date(rng.randint(1900, 2059), rng.randint(1, 12), rng.randint(1, 28))
        form = draw_form(rng, given=True, date=date)
        text = re.sub(r"(\d)(st|nd|rd|th)\b", r"\1", form.write(date)).replace(",", "").replace(" of ", " ")
        text = text.removeprefix("the ")
        formats = (
            "%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d %B %Y", "%B %d %Y", "%Y/%m/%d", "%Y%m%d", "%d-%m-%Y",
            "%d %b %Y", "%b %d %Y", "%d-%b-%Y", "%Y.%m.%d",
        )  # fmt: skip
        read = set()
        for pattern in formats:
            try:
                read.add(datetime.datetime.strptime(text, pattern).date())
            except ValueError:
                continue
        assert date in read, text
        if form.day_first:
            assert read == {date}, text  # the day tells
        seen.add(form.pattern)
    assert len(seen) > 18


def test_dates_are_moved_as_the_calendar_says() -> None:
    iso, found = re.compile(r"(?<!\d)\d{4}-\d{2}-\d{2}(?!\d)"), 0
    for example in of_kind(drawn(TASKS["dates"], 6000), "shift"):
        given = iso.findall(example.prompt)
        days = re.search(r"\b(\d+) (day|week)s?\b", example.prompt)
        if not iso.fullmatch(example.answer) or len(given) != 1 or days is None:
            continue
        moved = datetime.date.fromisoformat(example.answer) - datetime.date.fromisoformat(given[0])
        assert abs(moved.days) == int(days[1]) * (7 if days[2] == "week" else 1), example.prompt
        back = re.search(r"\bbefore\b|Subtract|subtract", example.prompt) is not None
        assert (moved.days < 0) == back, example.prompt
        found += 1
    assert found > 25


def test_days_between_and_lengths_of_months() -> None:
    examples = drawn(TASKS["dates"], 9000)
    for example in of_kind(examples, "length"):
        assert example.answer in ("28", "29", "30", "31")
    for example in of_kind(examples, "leap"):
        years = set(re.findall(r"\b\d{4}\b", example.prompt))
        year = int(years.pop())
        if years:  # the request has one of its own
            continue
        assert example.answer == ("yes" if year % 4 == 0 and (year % 100 or year % 400 == 0) else "no")
    checked = 0
    for example in of_kind(examples, "between"):
        given = re.findall(r"(?<!\d)\d{4}-\d{2}-\d{2}(?!\d)", example.prompt)
        if len(given) == 2:
            first, second = map(datetime.date.fromisoformat, given)
            assert abs((second - first).days) == int(example.answer), example.prompt
            checked += 1
    assert checked > 10


def test_expressions_are_worth_what_python_says() -> None:
    checked = 0
    for example in of_kind(drawn(TASKS["sums"], 6000), "longer"):
        expressions = re.findall(r"[\d(][\d ()+*-]*[\d)]", example.prompt)
        longest = max(expressions, key=len)
        if longest.count("(") == longest.count(")"):
            assert str(eval(longest)) == example.answer, example.prompt
            checked += 1
    assert checked > 100


def test_sums_of_several_numbers() -> None:
    for example in of_kind(drawn(TASKS["sums"], 4000), "several"):
        numbers = [int(number) for number in re.findall(r"\d+", example.prompt)]
        # Items of lists may be numbered by the request itself; all that is added is there.
        assert sum(numbers) >= int(example.answer)
    assert spell(2006) == "two thousand and six"
    assert spell(94_317) == "ninety-four thousand three hundred seventeen"


@pytest.mark.parametrize("kind", ["kind", "multiples", "letters", "first"])
def test_ranges_of_other_kinds(kind: str) -> None:
    for example in of_kind(drawn(TASKS["ranges"], 3000), kind):
        items = re.findall(r"[A-Za-z]|-?\d+", example.answer.replace("- ", ""))
        if kind == "letters":
            assert "".join(items) in "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ"
        else:
            numbers = [abs(int(item)) for item in items]
            steps = {b - a for a, b in itertools.pairwise(numbers)}
            assert len(steps) <= 1 or kind == "first"
            if kind == "kind":
                assert steps <= {2}
                assert ("odd" in example.prompt.lower()) == bool(numbers[0] % 2)


def test_quantities_are_worth_the_same_in_both_units() -> None:
    metres = {"mm": 1, "cm": 10, "m": 1000, "km": 10**6}
    checked = 0
    for example in drawn(TASKS["units"], 4000):
        number, unit = example.answer.split(" ")
        given = re.findall(r"(?<![\w.])(\d+(?:\.\d+)?) ?(mm|cm|km|m)\b", example.prompt)
        if unit in metres and len(given) == 1 and given[0][1] != unit:
            value, old = given[0]
            assert Decimal(value) * metres[old] == Decimal(number) * metres[unit], example.prompt
            checked += 1
    assert checked > 100
