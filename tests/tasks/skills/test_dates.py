"""Dates are what Python's calendar says."""

import calendar
import datetime
import random
import re

import pytest

from gesso.tasks import TASKS
from gesso.tasks.skills.dates.forms import draw_form
from gesso.tasks.skills.dates.words import ordinal_word, spoken_year
from tasks.drawing import drawn, of_kind


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
    assert counted > 70


def test_a_date_with_its_month_is_not_asked_for_it() -> None:
    written = re.compile(
        r"(January|February|March|April|May|June|July|August|September|October|November|December) \d+, "
    )
    asked = [e.prompt for e in drawn(TASKS["dates"], 6000) if "month's name" in e.prompt]
    assert len(asked) > 5
    assert not any(map(written.search, asked))


def test_what_is_kept_of_a_date_stands_in_it() -> None:
    """Who drops all but the month of 2013-06-19 has 06, not June."""
    kept = re.compile(r"\b(?:keep|erase|delete|remove|omit|drop|strip|trim|shorten|reduce|ignore)\b", re.IGNORECASE)
    parts = [e for e in drawn(TASKS["dates"], 12_000) if e.kind == "part" and kept.search(e.prompt)]
    assert len(parts) > 15
    for example in parts:
        assert re.search(rf"(?<!\d){example.answer}(?!\d)", example.prompt, re.IGNORECASE), example.prompt


def test_a_form_is_what_a_date_stands_in() -> None:
    prompts = [e.prompt for e in drawn(TASKS["dates"], 6000)]
    assert sum("the form" in prompt for prompt in prompts) > 300
    assert not any(re.search(r"\bas the form\b|\bthe same the\b", prompt) for prompt in prompts)


def test_dates_in_every_form_are_the_same_date() -> None:
    rng, seen = random.Random(3), set()
    for _ in range(3000):
        date = datetime.date(rng.randint(1900, 2059), rng.randint(1, 12), rng.randint(1, 28))
        form = draw_form(rng, given=True, date=date)
        text = re.sub(r"(\d)(st|nd|rd|th)\b", r"\1", form.write(date)).replace(",", "").replace(" of ", " ")
        text = text.removeprefix("the ")
        formats = (
            "%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d %B %Y", "%B %d %Y", "%Y/%m/%d", "%Y%m%d", "%d-%m-%Y",
            "%d %b %Y", "%b %d %Y", "%d-%b-%Y", "%Y.%m.%d", "%Y %B %d", "%Y-%b-%d", "%B the %d %Y",
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
    examples = drawn(TASKS["dates"], 12000)
    for example in [e for kind in ("shift", "ahead", "ago", "shift as") for e in of_kind(examples, kind)]:
        given = iso.findall(example.prompt)
        days = re.search(r"\b(\d+) (day|week)s?\b", example.prompt)
        if not iso.fullmatch(example.answer) or len(given) != 1 or days is None:
            continue
        moved = datetime.date.fromisoformat(example.answer) - datetime.date.fromisoformat(given[0])
        assert abs(moved.days) == int(days[1]) * (7 if days[2] == "week" else 1), example.prompt
        back = re.search(r"\b(before|minus|earlier|ago)\b|ubtract|(^|[\s(\"=])-\s?\d", example.prompt) is not None
        if example.kind in ("ahead", "ago"):
            back = example.kind == "ago"
        elif re.search(r"\bback\b", example.prompt):
            continue
        assert (moved.days < 0) == back, example.prompt
        found += 1
    assert found > 25


def test_relations_of_dates_and_months() -> None:
    months = tuple(calendar.month_name)[1:]
    examples = drawn(TASKS["dates"], 12000)
    iso = re.compile(r"(?<!\d)\d{4}-\d{2}-\d{2}(?!\d)")
    checked = 0
    for example in of_kind(examples, "is before"):
        given = iso.findall(example.prompt)
        if len(given) == 2 and re.search(r"^[Ii]s \d", example.prompt):
            less = re.search(r"before|earlier", example.prompt) is not None
            assert example.answer == ("yes" if (given[0] < given[1]) == less else "no"), example
            checked += 1
    assert checked
    for example in of_kind(examples, "quarter"):
        if given := iso.findall(example.prompt):
            assert example.answer == f"Q{(int(given[0][5:7]) + 2) // 3}", example
    for example in of_kind(examples, "months on"):
        said = [month for month in months if month in example.prompt]
        number = re.search(r"\b\d+\b", re.sub(r"^(\w+ )?\d+[.:)]", "", example.prompt))
        if len(said) == 1 and number:
            distance = (months.index(example.answer) - months.index(said[0])) % 12
            assert distance in (int(number[0]), 12 - int(number[0])), example
    for example in of_kind(examples, "two days"):
        if len(given := iso.findall(example.prompt)) == 1 and iso.fullmatch(example.answer):
            moved = datetime.date.fromisoformat(example.answer) - datetime.date.fromisoformat(given[0])
            assert moved.days == (2 if "after tomorrow" in example.prompt else -2)


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


def test_dates_of_lists_and_texts_are_the_same_dates() -> None:
    iso, slashes = re.compile(r"(?<!\d)(\d{4})-(\d\d)-(\d\d)(?!\d)"), re.compile(r"(?<!\d)(\d{4})/(\d\d)/(\d\d)(?!\d)")
    checked = 0
    examples = drawn(TASKS["dates"], 12000)
    for example in [*of_kind(examples, "several"), *of_kind(examples, "inside")]:
        for one, other in ((iso, slashes), (slashes, iso)):
            given, written = one.findall(example.prompt), other.findall(example.answer)
            if given and len(given) == len(written):
                assert given == written, example
                checked += 1
    assert checked


def test_days_of_dates_and_ends_of_months() -> None:
    days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
    examples, checked = drawn(TASKS["dates"], 12000), 0
    for example in of_kind(examples, "day of"):
        if given := re.findall(r"(?<!\d)\d{4}-\d\d-\d\d(?!\d)", example.prompt):
            assert example.answer == days[datetime.date.fromisoformat(given[0]).weekday()]
            checked += 1
    for example in of_kind(examples, "ends"):
        if re.fullmatch(r"\d{4}-\d\d-\d\d", example.answer):
            date = datetime.date.fromisoformat(example.answer)
            after = date + datetime.timedelta(1)
            assert date.day == 1 if "first day" in example.prompt else after.day == 1 or "first" in example.prompt
            checked += 1
    assert checked > 25


@pytest.mark.parametrize(
    ("date", "words"),
    [
        (datetime.date(1987, 6, 21), ("twenty-first", "nineteen eighty-seven")),
        (datetime.date(2005, 3, 2), ("second", "two thousand and five")),
        (datetime.date(1900, 3, 30), ("thirtieth", "nineteen hundred")),
        (datetime.date(2012, 3, 12), ("twelfth", "twenty twelve")),
        (datetime.date(1707, 3, 15), ("fifteenth", "seventeen oh seven")),
    ],
)
def test_dates_in_words(date: datetime.date, words: tuple[str, str]) -> None:
    assert (ordinal_word(date.day), spoken_year(date.year)) == words
