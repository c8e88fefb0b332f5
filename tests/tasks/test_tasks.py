"""The tasks: their graders, the split, and the safety of running generated code."""

import random
import time
from itertools import islice, pairwise

import pytest

from gesso.errors import DataError
from gesso.tasks import (
    MINI_SKILLS,
    MINI_WEIGHTS,
    TASKS,
    Example,
    build_tokenizer,
    default_tasks,
    evaluation_set,
    held_out,
    mini_mixture,
    training_stream,
)
from gesso.tasks.run_code import UnsafeCodeError, load_function, outcome
from gesso.tasks.sight.catalogue import SIGHT
from gesso.tasks.skills.catalogue import SKILLS
from gesso.tasks.words import CITIES, COLOURS, ITEMS, POOL

ALL = pytest.mark.parametrize("name", MINI_SKILLS)


def test_the_skills_of_mini_are_six_of_the_tasks() -> None:
    assert MINI_SKILLS == ("json", "code", "arithmetic", "ordering", "editing", "counting") == tuple(MINI_WEIGHTS)
    skills = {skill.name for skill in SKILLS} - {"filling"}
    sight = {task.name for task in SIGHT}
    assert set(TASKS) == {*MINI_SKILLS, *skills, *sight, "revision", "revision-in-file", "sudoku", "sql"}
    assert all(task.name == name for name, task in TASKS.items())


@pytest.mark.parametrize(
    ("model", "tasks"),
    [
        ("mini", MINI_SKILLS),
        ("sudoku", ("sudoku",)),
        ("runs/sudoku", ("sudoku",)),
        ("runs/sight", tuple(task.name for task in SIGHT)),
        ("sudoku/mini", MINI_SKILLS),
        ("org/model@main", MINI_SKILLS),
    ],
)
def test_tasks_of_a_model(model: str, tasks: tuple[str, ...]) -> None:
    assert default_tasks(model) == tasks


def samples(name: str, n: int = 300) -> list[Example]:
    rng = random.Random(7)
    return [TASKS[name].sample(rng) for _ in range(n)]


def test_word_pools_have_no_repeats() -> None:
    assert all(len(set(pool)) == len(pool) for pool in (POOL, ITEMS, CITIES, COLOURS))
    assert set(ITEMS) | set(COLOURS) <= set(POOL)


@ALL
def test_the_reference_answer_is_right(name: str) -> None:
    for example in samples(name):
        assert example.task == name
        assert TASKS[name].grade(example, example.answer), example
        assert TASKS[name].grade(example, f"{example.answer}\n"), example


@ALL
def test_damaged_answers_are_wrong(name: str) -> None:
    task = TASKS[name]
    for example in samples(name):
        answer = example.answer
        damaged = ["", answer[1:], answer[: len(answer) // 2], answer.swapcase() + "?", answer + " " + answer]
        for text in damaged:
            assert not task.grade(example, text), (example, text)


@ALL
def test_the_answer_to_another_prompt_is_wrong(name: str) -> None:
    drawn = samples(name)
    for example, other in pairwise(drawn):
        if example.answer != other.answer:
            assert not TASKS[name].grade(example, other.answer), (example, other)


@ALL
def test_evaluation_sets_are_distinct_held_out_and_repeatable(name: str) -> None:
    found = evaluation_set(TASKS[name], 200, seed=3)
    assert len({example.prompt for example in found}) == 200
    assert all(held_out(example.prompt) for example in found)
    assert found == evaluation_set(TASKS[name], 200, seed=3)
    assert found != evaluation_set(TASKS[name], 200, seed=4)


def test_counting_is_evaluated_beyond_one_canvas() -> None:
    tokenizer = build_tokenizer()
    found = evaluation_set(TASKS["counting"], 200, seed=0)
    assert min(len(tokenizer.encode(example.answer).ids) for example in found) >= 45


def test_too_large_an_evaluation_set_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    counting = TASKS["counting"]
    few = [counting.sample_evaluation(random.Random(seed), 0) for seed in range(100)]
    monkeypatch.setattr(counting, "sample_evaluation", lambda _, index: few[index % 100])
    with pytest.raises(DataError, match=r"'counting' gave only \d+ of 101 "):
        evaluation_set(counting, 101, seed=0)


def test_the_training_stream_is_repeatable_mixed_and_never_held_out() -> None:
    drawn = list(islice(training_stream(mini_mixture(), seed=5), 6000))
    assert drawn == list(islice(training_stream(mini_mixture(), seed=5), 6000))
    assert not any(held_out(example.prompt) for example in drawn)
    for name, weight in MINI_WEIGHTS.items():
        assert sum(example.task == name for example in drawn) / len(drawn) == pytest.approx(weight, abs=0.03)


@pytest.mark.parametrize("weights", [[], [0.0], [2.0, -1.0]])
def test_bad_weights_are_refused(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="weight"):
        training_stream([(TASKS["json"], weight) for weight in weights], seed=0)


def test_json_is_compared_by_value_and_type() -> None:
    task = TASKS["json"]
    example = Example("json", "", '{"item": "cup", "price": 1}')
    assert task.grade(example, '{"price":1,"item":"cup"}')
    for text in (
        '{"item": "cup", "price": 1.0}',
        '{"item": "cup", "price": true}',
        '{"item": "cup"}',
        "[" * 9999,
    ):
        assert not task.grade(example, text)
    assert not task.grade(example, '{"item": "cup", "item": "cup", "price": 1}')


def test_code_is_graded_by_what_it_does() -> None:
    task = TASKS["code"]
    example = Example("code", "", "def add_seven(x):\n    return x + 7")
    for body in ("return 7 + x", "y = 7\n    return x + y", "return x - -7"):
        assert task.grade(example, f"def add_seven(x):\n    {body}")
    for text in (
        "def add_six(x):\n    return x + 7",
        "def add_seven(x):\n    return x + 8",
        "def add_seven(x, y):\n    return x + 7",
        "def add_seven(x):\n    pass",
    ):
        assert not task.grade(example, text)


def test_an_answer_cannot_change_what_it_is_graded_by() -> None:
    example = Example("code", "", "def first_item(x):\n    return x[0]")
    for text in ("x[0] = 9\n    return x[0]", "x[:] = [9]\n    return 9"):
        assert not TASKS["code"].grade(example, f"def first_item(x):\n    {text}")
    assert TASKS["code"].grade(example, example.answer)


@pytest.mark.parametrize(("right", "wrong"), [(">", ">="), ("<", "<="), (">=", ">"), ("<=", "<")])
def test_code_is_tried_at_its_boundaries(right: str, wrong: str) -> None:
    example = Example("code", "", f"def is_big(x):\n    return x {right} 57")
    assert not TASKS["code"].grade(example, f"def is_big(x):\n    return x {wrong} 57")


@pytest.mark.parametrize(
    "source",
    [
        "import os\ndef f(x):\n    return 1",
        "def f(x):\n    import os",
        "def f(x):\n    return x.real",
        "def f(x):\n    return x.__class__",
        "def f(x):\n    while True:\n        pass",
        "def f(x):\n    for y in x:\n        pass",
        "def f(x):\n    return f(x)",
        "def f(x):\n    return open('a')",
        "def f(x):\n    return 9 ** 9 ** 9",
        "def f(x):\n    return x * 99999999",
        "def f(x):\n    return x * 999 * 999 * 999",
        "def f(x):\n    return '%999999999d' % x",
        "def f(x):\n    return [y for y in x]",
        "def f(x=len('a')):\n    return x",
        "@abs\ndef f(x):\n    return x",
        "def f(x):\n    def g(y):\n        return y\n    return x",
        "def f(x):\n    return __builtins__",
        "def f(x: int):\n    return (lambda: x)()",
        "f = 1",
        "def f(x):\n    return (",
        "def f(x):\n    x[0] = 9\n    return x",
        "def f(x):\n    x[:] = []\n    return x",
        "def f(x):\n    y, x[0] = 1, 2\n    return x",
        "def f(x):\n    return \x00",
        "def f(x, x):\n    return x",
        "def f(x):\n    return " + "-" * 590 + "x",
        "",
    ],
)
def test_unsafe_code_is_refused(source: str) -> None:
    with pytest.raises(UnsafeCodeError):
        load_function(source, "f")


@pytest.mark.parametrize(
    "body",
    [
        "a = [0] * 9999 * 9999\n    return len(a)",
        "return len(9999 * (9999 * 'ab'))",
        "return len(x * 9999 * 9999)",
        "a = x * 9999\n    a = " + "a+" * 200 + "a\n    return a",
        "a = x * 9999\n    return len(sum([a, a, a], x[:0]))",
    ],
)
@pytest.mark.parametrize("argument", [[3], "a"])
def test_sequences_do_not_fill_the_memory(body: str, argument: list[int] | str) -> None:
    assert outcome(load_function(f"def f(x):\n    {body}", "f"), (argument,)) == ("raised", None)


@pytest.mark.parametrize(
    ("expression", "argument", "expected"),
    [
        ("x * x * x", 10**30, 10**90),
        ("x * 3 + x", "ab", "abababab"),
        ("2 * [x] + [1 + x]", 5, [5, 5, 6]),
        ("sum(x) + 1 * sum([[1], [2]], [])[0]", (1, 2, 3), 7),
        ("x + 1.5", 2, 3.5),
    ],
)
def test_sums_and_products_are_pythons(expression: str, argument: object, expected: object) -> None:
    found = outcome(load_function(f"def f(x):\n    return {expression}", "f"), (argument,))
    assert found == (type(expected).__name__, expected)


@pytest.mark.parametrize("name", ["arithmetic", "ordering", "counting", "sudoku"])
def test_what_tells_a_right_answer_by_the_prompt_agrees_with_the_grader(name: str) -> None:
    task, examples = TASKS[name], samples(name, 12)
    for example, other in pairwise(examples):
        assert task.score(example.prompt, example.answer) == 1
        assert task.score(example.prompt, f" {example.answer}\n") == 1
        assert (task.score(example.prompt, other.answer) == 1) == task.grade(example, other.answer)
        assert task.score(example.prompt, "nothing") < 1
    with pytest.raises(DataError):
        task.score("What is this?", examples[0].answer)


@pytest.mark.parametrize(
    ("name", "prompt"),
    [
        ("ordering", "Sort: pear,fig,apple"),
        ("ordering", "Sort: 10.5, 9.5, 2"),
        ("ordering", "Sort: 3, -1, -10"),
        ("ordering", "Sort: Pear, apple"),
        ("ordering", "Sort: 1, a"),
        ("counting", "Count from 5 to 1 separated by commas."),
    ],
)
def test_prompts_that_are_not_of_the_task_are_refused(name: str, prompt: str) -> None:
    with pytest.raises(DataError):
        TASKS[name].score(prompt, prompt.partition(": ")[2])


def test_there_are_no_more_where_many_draws_bring_nothing_new() -> None:
    began = time.thread_time()
    with pytest.raises(DataError, match=r"'counting' gave only \d+ of 1000000 "):
        evaluation_set(TASKS["counting"], 1_000_000, seed=0)
    assert time.thread_time() - began < 8


@pytest.mark.parametrize("name", ["code", "json", "editing"])
def test_the_others_say_that_they_cannot_tell(name: str) -> None:
    with pytest.raises(DataError, match=f"task {name} cannot tell"):
        TASKS[name].score("anything", "anything")


def test_a_grid_is_scored_by_its_units_and_clues() -> None:
    example = samples("sudoku", 1)[0]
    clue = next(place for place, digit in enumerate(example.prompt) if digit in "123456789")
    changed = "1" if example.answer[clue] != "1" else "2"
    spoilt = example.answer[:clue] + changed + example.answer[clue + 1 :]
    clues = sum(digit in "123456789" for digit in example.prompt)
    assert TASKS["sudoku"].score(example.prompt, spoilt) == pytest.approx(24 / 27 * (clues - 1) / clues)
