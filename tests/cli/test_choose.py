"""`gesso choose` as it is typed."""

import json
from pathlib import Path
from typing import Any

import pytest
from engine.seeing import picture, png

from cli.conftest import Gesso
from gesso import api, choose
from gesso.api import load


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


@pytest.mark.parametrize("answers", ["yes", "yes,", "yes,yes"])
def test_answers_are_checked_before_anything_is_loaded(
    gesso: Gesso, monkeypatch: pytest.MonkeyPatch, answers: str
) -> None:
    monkeypatch.setattr(api, "load", None)
    shown = gesso("choose", "Is it?", "--options", answers)
    assert (shown.code, shown.out, shown.err.startswith("gesso: options: ")) == (2, "", True)


def test_answers_about_images_and_clips(gesso: Gesso, seeing_folder: Path, tmp_path: Path) -> None:
    for seed in (1, 2):
        (tmp_path / f"{seed}.png").write_bytes(png(seed))
    frames = [picture(seed) for seed in (3, 4)]
    frames[0].save(tmp_path / "clip.gif", save_all=True, append_images=frames[1:], duration=1000)
    asked = ("choose", "what is it", "--options", "a fig,a pear", "--seed", 1, "-m", seeing_folder, "--json")

    def told(*more: object) -> dict[str, Any]:
        outcome = gesso(*asked, *more, "--image-budget", 70)
        assert (outcome.code, outcome.err) == (0, "")
        result: dict[str, Any] = json.loads(outcome.out)
        return result

    one, two = told("--image", tmp_path / "1.png"), told("--image", tmp_path / "2.png")
    assert one["choices"] != two["choices"]
    assert one["prompt_tokens"] > told()["prompt_tokens"] + 20
    engine = load(seeing_folder, "cpu")
    shown = [{"type": "image", "path": str(tmp_path / "1.png")}, {"type": "text", "text": "what is it"}]
    settings: dict[str, Any] = {"seed": 1, "image_budget": 70}
    own = choose(engine, [{"role": "user", "content": shown}], ["a fig", "a pear"], **settings)
    assert [choice["causal_logprob"] for choice in one["choices"]] == [choice.causal_logprob for choice in own.choices]
    both = told("--image", tmp_path / "1.png", "--video", tmp_path / "clip.gif", "--system", "s")
    assert both["prompt_tokens"] > one["prompt_tokens"] + 20


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
        (("Is it?", "--options", "yes,no", "--image", "a.png"), "this model has no eyes: name one that sees"),
        (("Is it?", "--options", "yes,no", "-m", "mini", "--image", "a.png"), "this model reads text only"),
    ],
)
def test_a_mistake_is_one_line(gesso: Gesso, arguments: tuple[str, ...], message: str) -> None:
    shown = gesso("choose", *arguments)
    assert shown.code == 2
    assert message in shown.err
    assert shown.err.count("\n") == 1
