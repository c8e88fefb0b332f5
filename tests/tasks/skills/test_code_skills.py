"""Functions and changes of functions: what is asked for is what the answers are."""

import ast
import random
import re

import pytest

from gesso.tasks import TASKS, Example
from gesso.tasks.skills.changes.forms import FORM_KINDS
from gesso.tasks.skills.changes.kinds import KINDS
from gesso.tasks.skills.changes.skill import Changes
from gesso.tasks.skills.functions.forms import Function
from gesso.tasks.skills.functions.skill import grade_function
from gesso.tasks.skills.slots import Slots
from tasks.drawing import drawn, of_kind


def test_another_operator_changes_the_sign_alone() -> None:
    """The instruction names the new one in some way, and every pattern of it is filled in."""
    names = {
        "+": ("add", "plus", "sum"),
        "-": ("subtract", "minus", "difference"),
        "*": ("multiply", "times", "product"),
    }
    names["/"] = ("divide", "divided by", "quotient")
    seen = set()
    for example in drawn(Changes(), 3000):
        if example.kind == "operator":
            asked = example.prompt.replace(example.source, "")
            ((old, new),) = {pair for pair in zip(example.source, example.answer, strict=True) if pair[0] != pair[1]}
            assert any(name in asked.lower() for name in (new, *names[new])), asked
            seen.add((old, new))
    assert len(seen) == 12  # every operator becomes every other


def test_a_number_is_named_where_there_are_others() -> None:
    alone = among = 0
    for example in drawn(Changes(), 800):
        if example.kind == "number":
            asked = example.prompt.replace(example.source, "")
            before, after = (
                re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])", text) for text in (example.source, example.answer)
            )
            ((old, new),) = {pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]}
            assert new in asked
            assert len(before) == 1 or old in asked, asked
            alone, among = alone + (len(before) == 1), among + (len(before) > 1)
    assert alone > 5
    assert among > 5


def test_every_change_occurs_and_leaves_python() -> None:
    seen = set()
    for example in drawn(TASKS["changes"], 6000):
        if "in a file" in example.kind:
            continue
        seen.add(example.kind)
        before, after = ast.parse(example.source), ast.parse(example.answer)
        assert "comment" in example.kind or ast.dump(before) != ast.dump(after), example.prompt
        assert example.source != example.answer
        assert len(after.body) == 1
    assert seen == set(KINDS) | set(FORM_KINDS)


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


def test_both_lines_of_a_function_are_told() -> None:
    lines = of_kind(drawn(TASKS["functions"], 3000), "lines")
    assert lines
    for example in lines:
        head, first, second = example.answer.split("\n")
        assert head.removeprefix("def ").removesuffix(":") in example.prompt
        assert first.strip() in example.prompt
        assert second.strip() in example.prompt


def test_a_sign_changes_everywhere_and_nothing_else_does() -> None:
    chains = of_kind(drawn(TASKS["changes"], 6000), "chain")
    assert chains
    for example in chains:
        pairs = {pair for pair in zip(example.source, example.answer, strict=True) if pair[0] != pair[1]}
        ((old, new),) = pairs
        assert old not in example.answer
        assert example.answer.count(new) > 1


def test_hints_and_docstrings_go_and_the_code_stays() -> None:
    for kind in ("undocument", "unhint", "uncomment"):
        for example in of_kind(drawn(TASKS["changes"], 4000), kind):
            before, after = (ast.parse(text).body[0] for text in (example.source, example.answer))
            assert isinstance(before, ast.FunctionDef)
            assert isinstance(after, ast.FunctionDef)
            assert ast.get_docstring(after) is None
            assert ast.dump(before.body[-1]) == ast.dump(after.body[-1])
            assert after.returns is None
