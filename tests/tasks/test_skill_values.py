"""What the skills' reference answers say, against what Python makes of the same prompts."""

import ast
import datetime
import itertools
import json
import random
import re
from collections.abc import Callable, Iterable
from decimal import Decimal

import pytest
from tasks.drawing import drawn, of_kind

from gesso.tasks import TASKS, Example
from gesso.tasks.skills.dates.forms import draw_form
from gesso.tasks.skills.dates.words import ordinal_word, spoken_year
from gesso.tasks.skills.replacing.texts import draw_replacement
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.sums.numbers import as_said
from gesso.tasks.skills.sums.skill import spell
from gesso.tasks.skills.units.skill import Units


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
    for example in of_kind(drawn(TASKS["dates"], 12000), "shift"):
        given = iso.findall(example.prompt)
        days = re.search(r"\b(\d+) (day|week)s?\b", example.prompt)
        if not iso.fullmatch(example.answer) or len(given) != 1 or days is None:
            continue
        moved = datetime.date.fromisoformat(example.answer) - datetime.date.fromisoformat(given[0])
        assert abs(moved.days) == int(days[1]) * (7 if days[2] == "week" else 1), example.prompt
        back = re.search(r"\b(before|minus|earlier|back)\b|ubtract|(^|\s)-", example.prompt) is not None
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
        number, _, unit = example.answer.partition(" ")
        given = re.findall(r"(?<![\w.])(\d+(?:\.\d+)?) ?(mm|cm|km|m)\b", example.prompt)
        if unit in metres and len(given) == 1 and given[0][1] != unit:
            value, old = given[0]
            assert Decimal(value) * metres[old] == Decimal(number) * metres[unit], example.prompt
            checked += 1
    assert checked > 100


def test_texts_have_what_is_replaced_and_nothing_else_changes() -> None:
    for seed in range(400):
        found = draw_replacement(Slots(random.Random(seed)))
        whole = re.compile(rf"(?<![\w-]){re.escape(found.old)}(?![\w-])", re.IGNORECASE)
        assert whole.search(found.given)
        assert not whole.search(found.answer)
        assert whole.sub("", found.given).split() == re.sub(
            rf"(?<![\w-]){re.escape(found.new)}(?![\w-])", "", found.answer, flags=re.IGNORECASE
        ).split()  # fmt: skip


def test_one_of_several_is_replaced_alone() -> None:
    for example in of_kind(drawn(TASKS["replacing"], 3000), "one"):
        given = [line for line in example.prompt.split("\n") if line not in example.answer]
        assert example.answer not in given
        which = re.search(r"\b(first|last|second|1st)\b", example.prompt, re.IGNORECASE)
        assert which is not None, example.prompt


def test_digits_are_dropped_or_kept_alone() -> None:
    examples = [e for e in drawn(TASKS["replacing"], 9000) if e.kind in ("drop", "keep")]
    dropped = [e.answer for e in examples if e.kind == "drop" and re.search(r"\b(digits?|numbers)\b", e.prompt)]
    assert len(dropped) > 30
    assert sum(any(map(str.isdigit, answer)) for answer in dropped) < len(dropped) / 3  # one digit of several
    kept = [e.answer for e in examples if e.kind == "keep"]
    assert len(kept) > 10
    assert all(answer.isdigit() or answer.isalpha() for answer in kept)


def test_styles_of_lists_and_keys_leave_the_rest() -> None:
    examples = drawn(TASKS["casing"], 4000)
    for example in of_kind(examples, "keys"):
        if not example.answer.startswith("{"):
            continue
        given = json.loads(example.prompt[example.prompt.index("{") : example.prompt.rindex("}") + 1])
        turned = json.loads(example.answer)
        assert list(turned.values()) == list(given.values())
        plain = [[re.sub(r"[-_.]", "", key).lower() for key in keys] for keys in (given, turned)]
        assert plain[0] == plain[1]
    for example in of_kind(examples, "styles"):
        plain_answer = re.sub(r"[-_. ]", "", example.answer.lower())
        assert plain_answer in re.sub(r"[-_. ]", "", example.prompt.lower())


def test_one_word_alone_gets_capitals() -> None:
    for example in of_kind(drawn(TASKS["casing"], 4000), "one word"):
        loud = [word for word in example.answer.split(" ") if word.rstrip(".!") == word.rstrip(".!").upper()]
        assert loud, example.answer


def test_quantities_in_two_units_are_read_with_and_or_without() -> None:
    task = Units()
    example = Example("units", "", "2 hours and 15 minutes")
    for text in ("2 hours and 15 minutes", "2 hours 15 minutes.", "2 hours, 15 minutes"):
        assert task.grade(example, text)
    for text in ("2 hours", "2 hours and 16 minutes", "15 minutes and 2 hours", "2.25 hours"):
        assert not task.grade(example, text)
    assert task.grade(Example("units", "", "135"), "135")
    assert not task.grade(Example("units", "", "135"), "135 m")


def test_minutes_and_hours_are_worth_the_same() -> None:
    whole = 0
    for example in drawn(TASKS["units"], 8000):
        given = re.findall(r"(?<![\w.])(\d+) ?(h|hours?|min|minutes?)\b", example.prompt)
        told = re.findall(r"(\d+(?:\.\d+)?) (h|hours?|min|minutes?)\b", example.answer)
        unit_of = {"h": 60, "m": 1}
        if len(given) == len(re.findall(r"\d+", example.prompt)) > 0 and told and " 2 " not in example.prompt:
            minutes = [sum(Decimal(n) * unit_of[unit[0]] for n, unit in found) for found in (given, told)]
            if len(told) == len(re.findall(r"\d+(?:\.\d+)?", example.answer)):
                assert minutes[0] == minutes[1], example
                whole += 1
    assert whole > 100


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
    assert checked > 10


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
    assert checked > 60


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


def test_numbers_are_said_in_several_ways() -> None:
    rng = random.Random(5)
    said = {as_said(spell(number), rng) for number in (105, 1345, 100_200) for _ in range(200)}
    assert {"one hundred five", "a hundred and five", "a hundred five", "one hundred and five"} <= said
    assert {"one thousand three hundred and forty five", "one hundred thousand two hundred"} <= said
    assert not any("and thousand" in text or "and and" in text for text in said)


def test_whole_expressions_are_worth_what_python_says() -> None:
    checked = 0
    for example in of_kind(drawn(TASKS["sums"], 6000), "expression"):
        longest = max(re.findall("[\\d(][\\d ()+*x\u00d7-]*[\\d)]", example.prompt), key=len)
        if longest.count("(") == longest.count(")"):
            assert str(eval(re.sub("[x\u00d7]", "*", longest))) == example.answer, example.prompt
            checked += 1
    assert checked > 150


def test_ranges_of_python_are_pythons() -> None:
    checked = 0
    for example in of_kind(drawn(TASKS["ranges"], 6000), "python"):
        found = re.search(r"range\([-\d, ]+\)", example.prompt)
        if found:
            assert [int(n) for n in re.findall(r"-?\d+", example.answer)] == list(eval(found[0])), example.prompt
            assert example.answer.startswith("[") == ("list(" in example.prompt)
            checked += 1
    assert checked > 100


@pytest.mark.parametrize("kind", ["blanks", "dots"])
def test_rows_with_gaps_are_filled_evenly(kind: str) -> None:
    whole = 0
    for example in of_kind(drawn(TASKS["ranges"], 5000), kind):
        items = re.findall(r"[A-Za-z]|\d+", example.answer)
        numbers = [int(item) if item.isdigit() else ord(item) for item in items]
        steps = {b - a for a, b in itertools.pairwise(numbers)}
        if len(numbers) > 4:  # more than are ever missing
            assert len(steps) == 1, example.prompt
            whole += 1
    assert whole > 20


@pytest.mark.parametrize("kind", ["values", "nested"])
def test_converted_values_stand_in_the_prompt(kind: str) -> None:
    def leaves(value: object) -> list[object]:
        if isinstance(value, dict):
            return [leaf for inner in value.values() for leaf in leaves(inner)]
        return [leaf for inner in value for leaf in leaves(inner)] if isinstance(value, list) else [value]

    checked: set[type] = set()
    for example in of_kind(drawn(TASKS["conversion"], 5000), kind):
        if example.answer[0] not in "[{":
            continue
        for leaf in leaves(json.loads(example.answer)):
            shown = "null" if leaf is None else str(leaf).lower() if isinstance(leaf, bool) else str(leaf)
            assert shown in example.prompt
            checked.add(type(leaf))
    assert {bool, int, float, str} <= checked


def test_sorted_lists_are_numbered_anew() -> None:
    numbered = 0
    for example in drawn(TASKS["sorting"], 3000):
        lines = example.answer.split("\n")
        marks = [re.match(r"(\d+)[.)] (.+)", line) for line in lines]
        if len(lines) > 1 and all(marks):
            assert [int(mark[1]) for mark in marks if mark] == list(range(1, len(lines) + 1))
            assert all(mark[2] in example.prompt for mark in marks if mark)
            numbered += 1
    assert numbered > 10


def test_numbers_of_unlike_forms_are_sorted_by_value() -> None:
    checked = 0
    for example in drawn(TASKS["sorting"], 3000):
        items = example.answer.split("\n" if "\n" in example.answer else ", ")
        if example.kind == "mixed numbers" and all(re.fullmatch(r"-?\d+(\.\d+)?", item) for item in items):
            values = [Decimal(item) for item in items]
            assert values in (sorted(values), sorted(values, reverse=True)), example
            checked += 1
    assert checked > 40


def test_lists_in_code_are_what_python_says() -> None:
    operations: dict[str, Callable[[list[object]], Iterable[object]]] = {
        "sorting": sorted, "duplicates": dict.fromkeys, "reversing": reversed,
    }  # fmt: skip
    for name, operation in operations.items():
        for example in of_kind(drawn(TASKS[name], 3000), "code"):
            given = ast.literal_eval(re.findall(r"\[[^\[\]:]+\]", example.prompt)[0])
            wanted = list(operation(given))
            if name == "sorting" and re.search("reverse=true|descending", example.prompt.lower()):
                wanted.reverse()
            assert ast.literal_eval(example.answer) == wanted, example


def test_only_doubled_words_go() -> None:
    for example in of_kind(drawn(TASKS["duplicates"], 3000), "doubled"):
        prompt, words = example.prompt.lower(), example.answer.lower().split()
        assert all(one != two for one, two in itertools.pairwise(words))
        assert all(word in prompt for word in words)
        assert len(prompt.split()) > len(words)


def test_what_is_repeated_stands_there_again() -> None:
    for example in of_kind(drawn(TASKS["duplicates"], 3000), "several"):
        for item in re.findall(r"[a-z]{3,}", example.answer):
            assert example.prompt.count(item) > 1, example


def test_letters_are_reversed_where_their_word_stands() -> None:
    for example in of_kind(drawn(TASKS["reversing"], 3000), "letters of each"):
        assert all(word[::-1] in example.prompt for word in re.findall(r"\w+", example.answer)), example
    for kind in ("letters of codes", "letters of phrases", "letters in code"):
        assert all(example.answer[::-1] in example.prompt for example in of_kind(drawn(TASKS["reversing"], 2000), kind))


@pytest.mark.parametrize("name", ["sentiment", "topics"])
def test_each_of_several_texts_has_a_label_of_the_request(name: str) -> None:
    lines = 0
    for example in of_kind(drawn(TASKS[name], 3000), "several"):
        answers = example.answer.split("\n")
        for answer in answers if len(answers) > 1 else ():
            mark = re.match(r"(?:[-*] |[(#]?\w[.):]? (?:- )?)?", answer)
            assert mark is not None
            assert answer[mark.end() :].lower() in example.prompt.lower(), example
            lines += 1
    assert lines > 300


@pytest.mark.parametrize("name", ["sentiment", "topics"])
def test_the_text_that_is_asked_for_is_one_of_those_given(name: str) -> None:
    for example in of_kind(drawn(TASKS[name], 3000), "which"):
        assert example.answer in example.prompt
        if len(example.answer) < 4:
            assert re.search(rf"^{re.escape(example.answer)}[.):]? (?:- )?", example.prompt, re.MULTILINE), example
