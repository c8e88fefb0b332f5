"""`POST /v1/edit` over a real server."""

from typing import Any

import httpx
import pytest

from gesso.api import load
from gesso.control.edit import edit
from gesso.control.job import run_job
from gesso.control.selection import Lines, Selection

TEXT = "def get_old(x):\r\n    return x + 7\r\n"
INSTRUCTION = "Rename the function to find_nine."


def ask(url: str, **fields: Any) -> httpx.Response:
    body = {"model": "mini", "text": TEXT, "instruction": INSTRUCTION, **fields}
    return httpx.post(f"{url}/v1/edit", json=body, timeout=60)


@pytest.mark.parametrize(
    ("fields", "selection", "options"),
    [
        ({}, None, {}),
        ({"strength": 0.4}, None, {"strength": 0.4}),
        ({"lines": "1-2"}, Lines(1, 2), {}),
        ({"lines": [2, 2], "context": 9}, Lines(2, 2), {"context": 9}),
        ({"max_tokens": 64, "diffusion": {"canvas_length": 16}}, None, {"max_new_tokens": 64, "canvas_length": 16}),
    ],
)
def test_it_tells_what_the_engine_tells(
    mini_url: str, fields: dict[str, Any], selection: Selection | None, options: dict[str, Any]
) -> None:
    told = ask(mini_url, seed=5, **fields).json()
    engine = load("mini", "cpu", offline=True)
    result = run_job(engine, edit(engine, TEXT, INSTRUCTION, selection=selection, seed=5, **options))
    assert (told["text"], told["replacement"], told["diff"]) == (result.text, result.replacement, result.diff)
    assert told["changed"] == result.changed
    assert told["left_out"] == result.left_out
    assert told["finish_reason"] == result.answer.finish_reason
    assert told["diffusion"]["denoising_steps"] == list(result.answer.denoising_steps)
    assert told["diffusion"]["seed"] == 5
    assert told["usage"]["prompt_tokens"] == result.prompt_tokens
    assert (told["object"], told["model"]) == ("edit", "mini")


def test_nothing_outside_the_selection_changes(mini_url: str) -> None:
    text = "\ufeffa\r\n\tb \u00e9\u4e2d\nreturn 7\r\n\r\nd"
    told = ask(mini_url, text=text, match="return 7", seed=1).json()
    assert told["text"] == text.replace("return 7", told["replacement"])


def test_half_an_answer_is_told_and_left_out(mini_url: str) -> None:
    told = ask(mini_url, max_tokens=2, seed=1).json()
    assert (told["finish_reason"], told["text"], told["changed"], told["diff"]) == ("length", TEXT, False, "")
    assert told["left_out"] == "the answer was not finished within 2 tokens"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"instruction": ""}, "instruction"),
        ({"instruction": " "}, "instruction"),
        ({"text": ""}, "text"),
        ({"text": " \n"}, "text"),
        ({"text": "a <turn|> b"}, "text"),
        ({"lines": "3"}, "lines"),
        ({"lines": "two"}, "lines"),
        ({"lines": [2, 1]}, "lines"),
        ({"lines": [0, 1]}, "lines"),
        ({"lines": [1]}, "lines"),
        ({"lines": "1", "match": "x"}, "match"),
        ({"match": "x"}, "match"),
        ({"match": ""}, "match"),
        ({"strength": 0}, "strength"),
        ({"strength": 1.5}, "strength"),
        ({"context": -1}, "context"),
        ({"max_tokens": 10**6}, "max_tokens"),
        ({"text": "fig " * 3000}, "max_tokens"),
        ({"diffusion": {"canvas_length": 99}}, "diffusion.canvas_length"),
        ({"diffusion": {"t_max": 0.1}}, "diffusion.t_max"),
        ({"diffusion": {"strength": 0.5}}, "diffusion.strength"),
        ({"diffusion": {"start_canvas": [5]}}, "diffusion.start_canvas"),
        ({"diffusion": {"draft_frames": True}}, "diffusion.draft_frames"),
        ({"temperature": 1}, "temperature"),
        ({"model": "other"}, "model"),
    ],
)
def test_a_refusal_names_the_field(mini_url: str, fields: dict[str, Any], param: str) -> None:
    response = ask(mini_url, **fields)
    assert response.status_code in (400, 404), response.text
    assert response.json()["error"]["param"] == param, response.text


def test_what_is_left_out_by_null_is_left_out(mini_url: str) -> None:
    nothing = {"strength": None, "lines": None, "match": None, "context": None, "max_tokens": None}
    switched = {"start_canvas": None, "draft_frames": False}
    told = ask(mini_url, seed=2, **nothing, diffusion=switched).json()
    assert told["text"] == ask(mini_url, seed=2).json()["text"]
