"""Graders by name."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gesso.control.grading import (
    find_augmentation,
    find_grader,
    grade,
    grader_file,
    message_text,
    passes,
    prompt_text,
)
from gesso.engine.engine import Engine
from gesso.errors import OptionError


def test_a_tasks_own_grader() -> None:
    sums = find_grader("arithmetic")
    assert passes(grade(sums, "What is 2 + 3?", "5"))
    assert not passes(grade(sums, "What is 2 + 3?", "6"))


def test_a_tasks_grader_with_a_reference() -> None:
    by_reference = find_grader("json", '{"a": 1, "b": 2}')
    assert passes(grade(by_reference, "anything", '{"b":2,"a":1}'))
    assert not passes(grade(by_reference, "anything", '{"b":2}'))


def test_a_function_of_a_file_and_of_a_module(tmp_path: Path) -> None:
    file = tmp_path / "checks.py"
    file.write_text("def longer(prompt, text):\n    return len(text) > len(prompt)\n", encoding="utf-8")
    longer = find_grader(f"{file}:longer")
    assert [grade(longer, "ab", text) for text in ("a", "abc")] == [0.0, 1.0]
    assert grade(find_grader("operator:eq"), "a", "a") == 1.0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sudko", "no task 'sudko' to check by; known: .*sudoku.*FILE.py:FUNCTION"),
        ("nowhere.py:check", "there is no file nowhere.py"),
        ("gesso.nothing:check", "gesso.nothing cannot be imported: ModuleNotFoundError"),
        ("operator:nothing", "operator has no function 'nothing'"),
        ("math:pi", "math has no function 'pi'"),
    ],
)
def test_names_that_mean_nothing(name: str, message: str) -> None:
    with pytest.raises(OptionError, match=message) as caught:
        find_grader(name)
    assert caught.value.option == "check"


def test_a_file_that_fails(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("1 / 0\n", encoding="utf-8")
    with pytest.raises(OptionError, match=r"bad\.py cannot be imported: ZeroDivisionError"):
        find_grader(f"{tmp_path / 'bad.py'}:check")
    (tmp_path / "end.py").write_text("raise SystemExit(0)\n", encoding="utf-8")
    with pytest.raises(OptionError, match=r"end\.py cannot be imported: SystemExit: 0"):
        find_grader(f"{tmp_path / 'end.py'}:check")


def test_a_check_that_exits_has_failed() -> None:
    def check(prompt: str, text: str) -> float:
        raise SystemExit(3)

    with pytest.raises(OptionError, match=r"^the check failed: SystemExit: 3$"):
        grade(check, "What?", "That.")


def test_what_knows_other_forms_of_a_prompt(tmp_path: Path) -> None:
    assert find_augmentation("sudoku") is not None
    assert find_augmentation("arithmetic") is None
    file = tmp_path / "checks.py"
    file.write_text("def check(p, t):\n    return 1\n\n\ncheck.augment = lambda p, rng: None\n", encoding="utf-8")
    assert find_augmentation(f"{file}:check") is not None
    assert find_augmentation("operator:eq") is None


def test_a_function_takes_no_reference() -> None:
    with pytest.raises(OptionError, match="a reference goes with a task") as caught:
        find_grader("operator:eq", "5")
    assert caught.value.option == "reference"


@pytest.mark.parametrize("found", [math.nan, math.inf, -math.inf, 10**400, None, "1"])
def test_a_check_returns_a_finite_number(found: Any) -> None:
    with pytest.raises(OptionError, match="a check returns a finite number or a boolean, got") as caught:
        grade(lambda _prompt, _text: found, "a", "b")
    assert caught.value.option == "check"


@pytest.mark.parametrize(("found", "score"), [(np.float32(0.5), 0.5), (np.bool_(True), 1.0), (torch.tensor(2.0), 2.0)])
def test_a_number_may_be_of_a_library(found: Any, score: float) -> None:
    assert grade(lambda _prompt, _text: found, "a", "b") == score
    with pytest.raises(OptionError, match="a check returns a finite number"):
        grade(lambda _prompt, _text: np.zeros(2), "a", "b")


def test_the_file_of_a_function(tmp_path: Path) -> None:
    file = tmp_path / "checks.py"
    file.touch()
    assert grader_file(f"{file}:check") == file
    assert [grader_file(name) for name in ("sudoku", "operator:eq", "nowhere.py:check")] == [None] * 3


def test_the_text_of_a_message() -> None:
    parts = [{"type": "image", "image": b""}, {"type": "text", "text": "a"}, "?", {"type": "text", "text": "b"}]
    assert [message_text({"content": content}) for content in ("a", parts, None, 3)] == ["a", "ab", "", ""]
    assert message_text("a") == ""


def test_the_text_of_a_prompt_of_any_kind(tiny: Engine) -> None:
    ids = tiny.tokenizer.encode("fig pear")
    for prompt in ("fig pear", ids, np.array(ids), [np.int64(token) for token in ids], tuple(ids)):
        assert prompt_text(tiny, prompt) == "fig pear"
    assert prompt_text(tiny, [{"role": "user", "content": "fig"}, {"role": "user", "content": "pear"}]) == "pear"
    assert prompt_text(tiny, np.array([], dtype=int)) == ""
