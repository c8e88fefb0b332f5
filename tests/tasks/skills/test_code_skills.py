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
from gesso.tasks.skills.functions.heads import HEADED
from gesso.tasks.skills.functions.skill import grade_function
from gesso.tasks.skills.functions.statements import STATED
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
    assert among > 3


def test_every_change_occurs_and_leaves_python() -> None:
    seen = set()
    for example in drawn(TASKS["changes"], 6000):
        if "in a file" in example.kind:
            continue
        seen.add(example.kind)
        before, after = ast.parse(example.source), ast.parse(example.answer)
        same = "comment" in example.kind or example.kind in ("quotes", "spaces", "one line", "two lines")
        assert same == (ast.dump(before) == ast.dump(after)), example.prompt
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


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("text[:26]", "text[:27]"),
        ("text[:26]", "text[:25]"),
        ("text[-12:]", "text[-13:]"),
        ("text[604:]", "text[603:]"),
        ("text == text[::-1]", "text == text[::-2]"),
    ],
)
def test_slices_are_tried_with_texts_that_reach_their_ends(right: str, wrong: str) -> None:
    reference = f"def f(text):\n    return {right}"
    assert grade_function(reference, f"def f(t):\n    return {right.replace('text', 't')}")
    assert not grade_function(reference, f"def f(text):\n    return {wrong}")


def test_texts_are_joined_in_their_order() -> None:
    """Numbers may be added the other way round; nobody who asks for a sum of texts wants that."""
    answer, turned = "def glue(a, b):\n    return a + b", "def glue(a, b):\n    return b + a"
    task = TASKS["functions"]
    for asked in ("glue(a, b) returns a followed by b", "Write glue(a, b): a and b joined together", "concat(a, b)"):
        assert not task.grade(Example("functions", asked, answer), turned), asked
        assert task.grade(Example("functions", asked, answer), "def glue(x, y):\n    return x + y")
    assert task.grade(Example("functions", "glue(a, b) returns the sum of a and b", answer), turned)


def test_code_that_python_warns_of_is_graded_without_a_word(recwarn: pytest.WarningsRecorder) -> None:
    assert grade_function("def f(x):\n    return 1 if x else 2", "def f(x):\n    return 1if x else 2")
    assert not grade_function("def f(x):\n    return x == 5", "def f(x):\n    return 5if x else 0")
    assert not recwarn.list


def test_lambdas_are_compared_by_what_they_say() -> None:
    assert grade_function("twice = lambda a: a * 2", "twice = lambda a: (a * 2)")
    assert not grade_function("twice = lambda a: a * 2", "def twice(a):\n    return a * 2")
    assert not grade_function("lambda a: a * 2", "lambda b: b * 2")


def test_every_function_is_a_definition_or_a_lambda() -> None:
    seen = set()
    for example in drawn(TASKS["functions"], 4000):
        seen.add(example.kind)
        (statement,) = ast.parse(example.answer).body
        if "lambda" in example.kind:
            assert isinstance(statement, ast.Assign | ast.Expr)
            assert isinstance(statement.value, ast.Lambda)
        else:
            assert isinstance(statement, ast.FunctionDef)
            assert statement.name in example.prompt
            assert all(argument.arg in example.prompt for argument in statement.args.args) or example.kind == "plain"
        assert grade_function(example.answer, example.answer)
    assert {*HEADED, *STATED} <= seen


def test_what_means_the_same_is_written_otherwise() -> None:
    examples = drawn(TASKS["changes"], 6000)
    for kind in ("quotes", "spaces", "one line", "two lines", "from lambda", "f-string", "return"):
        for example in of_kind(examples, kind):
            assert example.source != example.answer
            if kind == "from lambda":
                before, after = ast.parse(example.source).body[0], ast.parse(example.answer).body[0]
                assert isinstance(before, ast.Assign)
                assert isinstance(before.value, ast.Lambda)
                assert isinstance(after, ast.FunctionDef)
                assert isinstance(after.body[0], ast.Return)
                assert after.body[0].value is not None
                assert ast.dump(before.value.body) == ast.dump(after.body[0].value)


def test_an_argument_told_by_its_place_is_renamed_everywhere() -> None:
    ordinals = ("first", "second", "third", "fourth")
    for example in of_kind(drawn(TASKS["changes"], 6000), "nth argument"):
        before, after = (ast.parse(text).body[0] for text in (example.source, example.answer))
        assert isinstance(before, ast.FunctionDef)
        assert isinstance(after, ast.FunctionDef)
        names = [[argument.arg for argument in definition.args.args] for definition in (before, after)]
        (place,) = [i for i, pair in enumerate(zip(*names, strict=True)) if pair[0] != pair[1]]
        asked = example.prompt.replace(example.source, "")
        assert ordinals[place] in asked or ("last" in asked and place == len(names[0]) - 1)
        assert not re.search(rf"(?<![\w.\"]){names[0][place]}(?![\w\"])", example.answer.split("(", 1)[1])


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
