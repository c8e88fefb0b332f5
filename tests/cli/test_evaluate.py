"""`gesso eval --data`: files of training data in the place of tasks."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from engine.seeing import png

from cli.conftest import Gesso
from gesso.engine.engine import Engine, Request

LINES = [{"prompt": f"Sort: fig, {word}", "completion": "no such answer"} for word in ("pear", "kiwi", "plum")]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in LINES), "utf-8")
    return path


def test_lines_are_asked_and_counted(gesso: Gesso, data: Path) -> None:
    outcome = gesso("eval", "mini", "--data", data, "--max-new-tokens", 8, "--json")
    assert outcome.code == 0
    (score,) = json.loads(outcome.out)["tasks"]
    assert (score["task"], score["examples"], score["right"]) == ("data.jsonl", 3, 0)
    assert [prompt for prompt, *_ in score["wrong"]] == [line["prompt"] for line in LINES]
    few = gesso("eval", "mini", "--data", data, "-n", 2, "--max-new-tokens", 8, "--failures", 1)
    assert few.out.splitlines()[-2] == "expected: no such answer"
    assert (few.code, few.err) == (0, "")
    many = gesso("eval", "mini", "--data", data, "-n", 4, "--max-new-tokens", 8, "--json")
    assert json.loads(many.out)["tasks"][0]["examples"] == 3
    assert many.err == f"{data} has 3 lines to ask, and --examples asks for more: all are asked\n"


def test_files_of_one_name_are_told_apart(gesso: Gesso, data: Path, tmp_path: Path) -> None:
    twin = tmp_path / "twin" / data.name
    twin.parent.mkdir()
    twin.write_bytes(data.read_bytes())
    outcome = gesso("eval", "mini", "--data", data, "--data", twin, "-n", 1, "--max-new-tokens", 8, "--json")
    assert [score["task"] for score in json.loads(outcome.out)["tasks"]] == [str(data), str(twin)]


def test_a_line_with_an_image_is_asked_of_a_model_with_eyes(
    gesso: Gesso, seeing_folder: Path, data: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.png").write_bytes(png(0))
    content = [{"type": "text", "text": "what is it?"}, {"type": "image", "path": "a.png"}]
    line = {"messages": [{"role": "user", "content": content}, {"role": "assistant", "content": "a fig"}]}
    data.write_text(json.dumps(line) + "\n", "utf-8")
    asked = ("--data", data, "--max-new-tokens", 4, "--image-budget", 70)
    outcome = gesso("eval", seeing_folder, *asked, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    assert json.loads(outcome.out)["tasks"][0]["examples"] == 1
    blind = gesso("eval", "mini", *asked)
    assert (blind.code, blind.out) == (2, "")
    assert blind.err.startswith(f"gesso: {data}:1: the line shows an image, and this model reads text only")


def test_pairs_can_be_asked_raw(gesso: Gesso, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    generate = Engine.generate_batch

    def noted(engine: Engine, requests: Sequence[Request]) -> Any:
        asked.extend(request.options.get("raw", False) for request in requests)
        return generate(engine, requests)

    monkeypatch.setattr(Engine, "generate_batch", noted)
    for more in ((), ("--raw",)):
        assert gesso("eval", "mini", "--data", data, "-n", 2, "--max-new-tokens", 8, *more).code == 0
    assert asked == [False, False, True, True]
    refused = gesso("eval", "mini", "--raw", "--task", "sorting")
    assert refused.err == "gesso: --raw needs --data: the prompts of tasks go through the chat template\n"
    data.write_text(json.dumps({"messages": [{"role": "user", "content": "a"}] * 2}) + "\n", "utf-8")
    refused = gesso("eval", "mini", "--raw", "--data", data)
    assert refused.err == f"gesso: {data}:1: raw takes pairs as they are, and messages need the chat template\n"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--task", "arithmetic"), "--task does not go with --data"),
        (("--other-pictures",), "--other-pictures does not go with --data"),
        (
            ("--check", "task", "--best-of", 2),
            "--check task knows a task's own prompts: with --data name FILE.py:FUNCTION",
        ),
        (("-n", 0), "--examples must be an integer of at least 1, got 0"),
        (("--data", "none.jsonl"), "none.jsonl cannot be read: No such file or directory"),
        (("--likelihood", "x.jsonl"), "--data does not go with --likelihood"),
    ],
)
def test_a_mistake_is_one_line(gesso: Gesso, data: Path, more: tuple[object, ...], message: str) -> None:
    outcome = gesso("eval", "mini", "--data", data, *more)
    assert (outcome.code, outcome.out, outcome.err) == (2, "", f"gesso: {message}\n")
