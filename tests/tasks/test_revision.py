"""Changed functions: what is told is what changed, and nothing else did."""

import ast
import random
import re
from itertools import pairwise

import pytest

from gesso.tasks import Example, evaluation_set, held_out
from gesso.tasks.code import Code
from gesso.tasks.registry import TASKS
from gesso.tasks.revision import Revision, RevisionInFile
from gesso.tasks.run_code import load_function, outcome

TASK = Revision()
KINDS = ("rename", "constant", "condition")
NAMED, CHANGED = r"Rename the function to (\w+)\.", r"Change (\d+) to (\d+)\."


def examples(kind: str | None = None, n: int = 600) -> list[Example]:
    rng = random.Random(11)
    drawn = [TASK.sample(rng) for _ in range(n)]
    return [example for example in drawn if kind in (None, TASK.group(example))]


def parts(example: Example) -> tuple[str, str]:
    instruction, source = example.prompt.split("\n\n", 1)
    return instruction, source


def test_it_is_a_task_of_the_registry() -> None:
    assert TASKS["revision"].name == TASK.name == "revision"


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_drawn_often(kind: str) -> None:
    assert len(examples(kind)) > 600 * 0.1


def test_the_reference_answer_is_right_and_the_old_text_is_not() -> None:
    for example in examples():
        _, source = parts(example)
        assert example.task == "revision"
        assert TASK.grade(example, example.answer)
        assert TASK.grade(example, example.answer + "\n")
        for wrong in ("", example.answer + " x", " " + example.answer, example.answer.replace("\n    ", "\n  ")):
            assert not TASK.grade(example, wrong)
        if source != example.answer:
            assert not TASK.grade(example, source)


def test_few_examples_change_nothing() -> None:
    """A name may be drawn that the function has already."""
    same = [example for example in examples() if parts(example)[1] == example.answer]
    assert len(same) < 600 * 0.01
    assert all(TASK.group(example) == "rename" for example in same)


def test_a_rename_changes_the_name_alone() -> None:
    for example in examples("rename"):
        instruction, source = parts(example)
        found = re.fullmatch(NAMED, instruction)
        assert found
        head, body = source.split("(", 1)
        assert head.startswith("def ")
        assert example.answer == f"def {found[1]}({body}"


def test_a_constant_is_named_once_and_changed_alone() -> None:
    for example in examples("constant"):
        instruction, source = parts(example)
        found = re.fullmatch(CHANGED, instruction)
        assert found
        old, new = found.groups()
        assert old != new
        numbers = [str(node.value) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
        assert numbers.count(old) == 1
        assert re.split(r"\b\d+\b", source) == re.split(r"\b\d+\b", example.answer)
        before, after = re.findall(r"\b\d+\b", source), re.findall(r"\b\d+\b", example.answer)
        assert [(a, b) for a, b in zip(before, after, strict=True) if a != b] == [(old, new)]


def test_an_inverted_condition_is_true_where_the_old_one_was_not() -> None:
    seen = set()
    for example in examples("condition"):
        instruction, source = parts(example)
        assert instruction == "Invert the condition."
        old, new = conditions(source), conditions(example.answer)
        assert len(old) == len(new) == 1
        seen.add(type(old[0].ops[0]))
        template = "def f(x, y):\n    return {}"
        was, now = (load_function(template.format(ast.unparse(test[0])), "f") for test in (old, new))
        for values in ((x, y) for x in range(-3, 104) for y in (-1, 0, 5)):
            kinds = [outcome(function, values) for function in (was, now)]
            assert kinds[0][1] is not kinds[1][1], (source, example.answer, values)
    assert seen == {ast.Gt, ast.Lt, ast.GtE, ast.LtE, ast.Eq}


def conditions(source: str) -> list[ast.Compare]:
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Compare)]


def test_the_text_to_change_is_an_answer_of_the_code_task() -> None:
    rng = random.Random(3)
    known = {Code().sample(rng).answer.split("(", 1)[1] for _ in range(3000)}
    shapes = {re.sub(r"\d+", "N", body) for body in known}
    for example in examples(n=200):
        assert re.sub(r"\d+", "N", parts(example)[1].split("(", 1)[1]) in shapes


def test_the_answer_to_another_prompt_is_wrong() -> None:
    for example, other in pairwise(examples()):
        if example.answer != other.answer:
            assert not TASK.grade(example, other.answer)


def test_evaluation_sets_are_held_out_and_have_every_kind() -> None:
    found = evaluation_set(TASK, 100, 0)
    assert found == evaluation_set(TASK, 100, 0)
    assert all(held_out(example.prompt) for example in found)
    assert {TASK.group(example) for example in found} == set(KINDS)


def test_in_a_file_the_part_is_a_function_or_a_line_of_it_and_others_stand_around() -> None:
    task, rng = RevisionInFile(), random.Random(5)
    groups = set()
    for _ in range(300):
        example = task.sample(rng)
        *shown, _, part = example.prompt.split("\n\n")
        assert example.source == part
        assert task.grade(example, example.answer)
        whole = part.startswith("def ") and "\n" in part
        assert task.group(example).endswith(", line") != whole
        groups.add(task.group(example))
        assert shown[0].startswith("A part of a text")
        assert shown[-1].startswith("Change the part")
        if whole:
            assert {type(ast.parse(text).body[0]) for text in (part, example.answer)} == {ast.FunctionDef}
    kinds = {"rename", "constant", "condition"}
    assert groups == kinds | {f"{kind}, line" for kind in kinds}
