"""Prompts and rewards: of tasks, of a file's lines, by functions and by unit tests."""

import json
from pathlib import Path
from typing import Any

import pytest

from gesso.api import load
from gesso.errors import DataError, OptionError
from gesso.tasks.base import held_out
from gesso.train.reinforce.cases import FileCases, TaskCases
from gesso.train.reinforce.recipe import find_cases
from gesso.train.reinforce.rewards import unit_tests

CLAMP = "def clamp(a, b):\n    return a if a < b else b"


def write(folder: Path, *lines: Any) -> Path:
    path = folder / "prompts.jsonl"
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


def test_a_task_gives_prompts_that_are_not_held_out_and_its_grader() -> None:
    cases = TaskCases(("arithmetic", "ordering"), seed=3)
    drawn = cases.cases(5, 8)
    assert [case.prompt for case in drawn] == [case.prompt for case in cases.cases(5, 8)]
    assert [case.prompt for case in drawn] != [case.prompt for case in cases.cases(6, 8)]
    assert not any(held_out(str(case.prompt)) for case in drawn)
    assert all(held_out(str(case.prompt)) for case in cases.evaluation(6))
    sums = drawn[0]
    answer = next(str(number) for number in range(-1000, 2000) if sums.reward(str(number)))
    assert (sums.reward(answer), sums.reward(answer + "1")) == (1.0, 0.0)
    assert cases.fingerprint != TaskCases(("arithmetic", "ordering"), seed=4).fingerprint


def test_a_score_may_be_a_share() -> None:
    case = TaskCases(("sudoku",), seed=0, reward="score").cases(0, 1)[0]
    assert 0 <= case.reward("123456789\n" * 9) < 1
    assert TaskCases(("sudoku",), seed=0).cases(0, 1)[0].reward("123456789\n" * 9) == 0
    with pytest.raises(OptionError, match="cannot tell a right answer"):
        TaskCases(("json",), seed=0, reward="score")


def test_lines_name_their_answer_or_their_tests(tmp_path: Path) -> None:
    tests = [
        {"arguments": [1, 2], "returns": 1},
        {"arguments": [5, 2], "returns": 2},
        {"arguments": [1, 1], "returns": 9},
    ]
    path = write(
        tmp_path,
        {"prompt": "What is 1 + 1?", "completion": "2"},
        "\n",
        {"messages": [{"role": "user", "content": "Write clamp."}], "function": "clamp", "tests": tests},
    )
    cases = FileCases(path, seed=0, held_out_share=0.0)
    found = {str(case.prompt): case.reward for case in cases.cases(0, 2)}
    assert len(found) == 2
    sums, clamp = sorted(found.values(), key=str)
    assert [sums(" 2\n"), sums("3")] == [1.0, 0.0]
    assert clamp(CLAMP) == pytest.approx(2 / 3)
    assert clamp("import os") == 0.0
    assert clamp("def clamp(a, b):\n    return a / 0") == 0.0


def test_nulls_count_as_left_out(tmp_path: Path) -> None:
    """Programs that write tables give every line every key."""
    tests = [{"arguments": [1], "returns": None}]
    bare = {"messages": None, "completion": None, "tests": None, "function": None}
    path = write(
        tmp_path, bare | {"prompt": "a", "completion": "b"}, bare | {"prompt": "c", "function": "f", "tests": tests}
    )
    given = {str(case.prompt): case.reward for case in FileCases(path, seed=0, held_out_share=0.0).cases(0, 2)}
    assert (given["a"]("b"), given["c"]("def f(x):\n    return None")) == (1.0, 1.0)


def test_every_line_comes_once_in_an_epoch(tmp_path: Path) -> None:
    path = write(tmp_path, *({"prompt": f"{i}?", "completion": str(i)} for i in range(10)))
    cases = FileCases(path, seed=1, held_out_share=0.0)
    epochs = [[case.prompt for step in range(5 * e, 5 * e + 5) for case in cases.cases(step, 2)] for e in (0, 1)]
    assert sorted(map(str, epochs[0])) == sorted(map(str, epochs[1])) == [f"{i}?" for i in range(10)]
    assert epochs[0] != epochs[1]
    some = FileCases(path, seed=1, held_out_share=0.5)
    kept, rest = {case.prompt for case in some.evaluation(10)}, {case.prompt for case in some.cases(0, 20)}
    assert kept
    assert not kept & rest
    assert len(kept | rest) == 10


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "prompts.jsonl:2: .*JSON"),
        ({"prompt": "a", "answer": "b"}, "prompts.jsonl:2: unknown key 'answer'"),
        ({"completion": "b"}, "a line has prompt"),
        ({"messages": "hi", "completion": "b"}, "a line has prompt"),
        ({"messages": [5], "completion": "b"}, "a line has prompt"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "path": "a.png"}]}], "completion": "b"},
            "the prompt shows images, and prompts of reinforcement are text alone",
        ),
        ({"prompt": "a"}, "needs completion, or function and tests"),
        ({"prompt": "a", "tests": [{"arguments": [1], "returns": 2}]}, "tests need function"),
        ({"prompt": "a", "function": "f", "tests": []}, "not empty"),
        ({"prompt": "a", "function": "f", "tests": [{"arguments": 1, "returns": 2}]}, "a test is an object"),
        ({"prompt": "a", "completion": 3}, "completion must be a text"),
        ('{"prompt": "a \\ud800", "completion": "b"}', "prompts.jsonl:2: the prompt is no valid Unicode"),
        ({"prompt": "a", "completion": "b", "function": "f"}, "function goes with tests"),
    ],
)
def test_a_wrong_line_is_refused_by_its_number(tmp_path: Path, line: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        FileCases(write(tmp_path, {"prompt": "a", "completion": "b"}, line), seed=0, held_out_share=0.0)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"messages": [{"role": "foo", "content": "x"}]}, "prompts.jsonl:2: the chat template refuses these messages"),
        ({"prompt": ["a"]}, "prompts.jsonl:2: "),
        ({"prompt": " "}, "prompts.jsonl:2: .*blank"),
        ({"prompt": "one " * 200}, "prompts.jsonl:2: the prompt has [0-9]+ tokens, and with an answer 80 fit"),
        ({"prompt": "one " * 200_000}, "prompts.jsonl:2: the prompt is too long"),
    ],
)
def test_a_prompt_that_cannot_be_read_is_refused_before_it_is_drawn(
    tmp_path: Path, line: dict[str, Any], message: str
) -> None:
    path = write(tmp_path, {"prompt": "a", "completion": "b"}, {**line, "completion": "b"})
    cases = FileCases(path, seed=0, held_out_share=0.0)
    with pytest.raises(DataError, match=message):
        cases.check_prompts(load("mini").prompts, 80)


def test_line_ends_have_no_say_in_what_is_held_out(tmp_path: Path) -> None:
    lines = [json.dumps({"prompt": f"{i}?", "completion": str(i)}) for i in range(40)]
    held = []
    for end in ("\n", "\r\n"):
        path = write(tmp_path, *(line + end for line in lines))
        held.append([case.prompt for case in FileCases(path, seed=0, held_out_share=0.3).evaluation(40)])
    assert held[0] == held[1]


def test_a_byte_order_mark_is_none_of_the_first_line(tmp_path: Path) -> None:
    cases = FileCases(write(tmp_path, "\ufeff", {"prompt": "four", "completion": "4"}), seed=0, held_out_share=0.0)
    assert cases.cases(0, 1)[0].prompt == "four"


def test_a_function_rewards_prompt_and_answer(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def near(prompt, answer):\n    return len(answer) / len(prompt)\n", "utf-8")
    path = write(tmp_path, {"prompt": "four"})
    cases = find_cases((), path, f"{tmp_path / 'own.py'}:near", 0.0, 0)
    assert cases.cases(0, 1)[0].reward("ab") == 0.5
    assert find_cases(("counting",), None, f"{tmp_path / 'own.py'}:near", 0.0, 0).cases(0, 1)[0].reward("") == 0.0


def test_a_function_is_known_by_what_its_file_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text("def f(prompt, answer):\n    return 1\n\n\ng = f\n", "utf-8")
    path = write(tmp_path, {"prompt": "abc"})

    def fingerprints(reward: str) -> set[str]:
        return {
            find_cases((), path, reward, 0.0, 0).fingerprint,
            find_cases(("arithmetic",), None, reward, 0.0, 0).fingerprint,
        }

    found = fingerprints("own.py:f")
    assert fingerprints("./own.py:f") == fingerprints(f"{tmp_path}/own.py:f") == found
    assert not fingerprints("own.py:g") & found
    (tmp_path / "own.py").write_text("def f(prompt, answer):\n    return 2\n", "utf-8")
    assert not fingerprints("own.py:f") & found


def test_a_function_gets_the_parts_of_the_last_message(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def same(prompt, answer):\n    return prompt == answer\n", "utf-8")
    parts = [{"type": "text", "text": "fo"}, {"type": "text", "text": "ur"}]
    path = write(tmp_path, {"messages": [{"role": "user", "content": parts}]})
    cases = find_cases((), path, f"{tmp_path / 'own.py'}:same", 0.0, 0)
    assert cases.cases(0, 1)[0].reward("four") == 1.0


def test_tests_compare_types() -> None:
    same = unit_tests("f", [{"arguments": [True], "returns": True}])
    assert same("def f(a):\n    return a") == 1.0
    assert same("def f(a):\n    return 1") == 0.0
