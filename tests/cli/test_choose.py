"""`gesso choose` as it is typed."""

import json

import pytest

from cli.conftest import Gesso


def test_a_table_of_the_answers(gesso: Gesso) -> None:
    shown = gesso("choose", "Is it?", "--options", "yes,no", "--seed", 1)
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert lines[0].split() == ["answer", "denoising", "causal"]
    assert {line.split()[0] for line in lines[1:3]} == {"yes", "no"}
    assert lines[3] == "shares among these answers, uncalibrated; seed 1"


def test_the_whole_result_as_json_and_answers_with_commas(gesso: Gesso) -> None:
    shown = gesso("choose", "-", "--option", "a, b", "--option", "b, a", "--json", stdin="Which?\n")
    result = json.loads(shown.out)
    assert [choice["text"] for choice in result["choices"]] == ["a, b", "b, a"]
    assert result["best"] in {"a, b", "b, a"}
    assert result["calibrated"] is False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Is it?",), "--options yes,no,unsure"),
        (("Is it?", "--options", "yes"), "two answers at least"),
        (("Is it?", "--options", "yes,yes"), "'yes' is given twice"),
        (("Is it?", "--options", "yes,"), "an answer is empty"),
        (("", "--options", "yes,no"), "the prompt is blank"),
        (("Is it?", "--options", "yes,no", "--raw", "--system", "x"), "--raw takes the prompt"),
        (("Is it?", "--options", "yes,no", "--seed", "-1"), "seed must be"),
    ],
)
def test_a_mistake_is_one_line(gesso: Gesso, arguments: tuple[str, ...], message: str) -> None:
    shown = gesso("choose", *arguments)
    assert shown.code == 2
    assert message in shown.err
    assert shown.err.count("\n") == 1
