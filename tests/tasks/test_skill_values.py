"""What the skills' reference answers say, against what Python makes of the same prompts."""

import ast
import datetime
import itertools
import random
import re
from collections import Counter
from decimal import Decimal

import pytest

from gesso.tasks import TASKS, Example
from gesso.tasks.skills.change_kinds import KINDS
from gesso.tasks.skills.changes import Changes
from gesso.tasks.skills.date_forms import draw_form
from gesso.tasks.skills.entries import draw_entries, draw_numbers
from gesso.tasks.skills.function_forms import Function
from gesso.tasks.skills.functions import grade_function
from gesso.tasks.skills.layouts import LINES, Layout, draw_layout
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.sums import spell


def drawn(name: str, count: int) -> list[Example]:
    rng = random.Random(17)
    return [TASKS[name].sample(rng) for _ in range(count)]


def of_kind(examples: list[Example], kind: str) -> list[Example]:
    found = [example for example in examples if example.kind == kind]
    assert found
    return found


def test_layouts_write_what_they_say() -> None:
    assert Layout(", ", last=" and ").write(["a", "b", "c"]) == "a, b and c"
    assert Layout(", ", last=" and ").answer(["a", "b", "c"]) == "a, b, c"
    assert Layout(", ", item='"{}"', whole="[{}]").write(["a", "b"]) == '["a", "b"]'
    assert Layout("\n", item="- {}").write(["a"]) == "- a"
    assert LINES.write(["a", "b"]) == "a\nb"
    rng = random.Random(0)
    shapes = Counter(draw_layout(rng).answer(["a", "b", "c"]) for _ in range(2000))
    assert len(shapes) > 12
    assert all(re.findall("[a-c]", shape) == ["a", "b", "c"] for shape in shapes)


def test_items_of_lists_are_distinct_and_of_every_kind() -> None:
    slots = Slots(random.Random(2))
    lists = [draw_entries(slots, 4) for _ in range(400)]
    assert all(len({item.lower() for item in items}) == 4 for items in lists)
    assert any(" " in item for items in lists for item in items)
    assert any(re.search(r"\d", item) for items in lists for item in items)
    assert not any(" " in item for _ in range(200) for item in draw_entries(slots, 3, spaced=False))
    for _ in range(300):
        numbers = draw_numbers(slots, 4)
        assert len({number for number, _ in numbers}) == 4
        assert all(Decimal(re.sub(r"[^\d.-]", "", text)) == number for number, text in numbers)


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
    for example in of_kind(drawn("dates", 6000), "shift"):
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
    examples = drawn("dates", 9000)
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
    for example in of_kind(drawn("sums", 6000), "longer"):
        expressions = re.findall(r"[\d(][\d ()+*-]*[\d)]", example.prompt)
        longest = max(expressions, key=len)
        if longest.count("(") == longest.count(")"):
            assert str(eval(longest)) == example.answer, example.prompt
            checked += 1
    assert checked > 100


def test_sums_of_several_numbers() -> None:
    for example in of_kind(drawn("sums", 4000), "several"):
        numbers = [int(number) for number in re.findall(r"\d+", example.prompt)]
        # Items of lists may be numbered by the request itself; all that is added is there.
        assert sum(numbers) >= int(example.answer)
    assert spell(2006) == "two thousand and six"
    assert spell(94_317) == "ninety-four thousand three hundred seventeen"


def test_every_change_occurs_and_leaves_python() -> None:
    seen = set()
    for example in drawn("changes", 3000):
        if "in a file" in example.kind:
            continue
        seen.add(example.kind)
        before, after = ast.parse(example.source), ast.parse(example.answer)
        assert ast.dump(before) != ast.dump(after), example.prompt
        assert len(after.body) == 1
    assert seen == set(KINDS)


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("negate", "def f(a):\n    return a * 2", "def f(a):\n    return -(a * 2)"),
        ("print", "def f(a):\n    return a * 2", "def f(a):\n    print(a * 2)"),
        ("swap", "def f(a, b):\n    return a / b", "def f(b, a):\n    return a / b"),
    ],
)
def test_changes_by_hand(kind: str, before: str, after: str) -> None:
    head, body = before.split(":\n    ")
    name, parameters = head.removeprefix("def ").rstrip(")").split("(")
    function = Function(name, tuple(parameters.split(", ")), "", body)
    assert KINDS[kind].make(Slots(random.Random(0)), function)[1] == after
    assert Changes().grade(Example("changes", "", after), after)


def test_functions_that_are_not_run_are_compared_by_what_they_say() -> None:
    upper = "def shout(text):\n    return text.upper()"
    assert grade_function(upper, "def shout(text):\n    return  text.upper( )")
    assert not grade_function(upper, "def shout(text):\n    return text.lower()")
    assert not grade_function("def f(a, b):\n    return a in b", "def f(a, b):\n    return b in a")
    assert grade_function("def f(a, b):\n    return a + b", "def f(a, b):\n    return b + a")


@pytest.mark.parametrize("kind", ["kind", "multiples", "letters", "first"])
def test_ranges_of_other_kinds(kind: str) -> None:
    for example in of_kind(drawn("ranges", 3000), kind):
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
    for example in drawn("units", 4000):
        number, unit = example.answer.split(" ")
        given = re.findall(r"(?<![\w.])(\d+(?:\.\d+)?) ?(mm|cm|km|m)\b", example.prompt)
        if unit in metres and len(given) == 1 and given[0][1] != unit:
            value, old = given[0]
            assert Decimal(value) * metres[old] == Decimal(number) * metres[unit], example.prompt
            checked += 1
    assert checked > 100
