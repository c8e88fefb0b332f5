"""`POST /v1/choose` over a real server."""

import re
from typing import Any

import httpx
import pytest

from gesso.api import load
from gesso.control.choose import choose
from gesso.control.job import run_job
from gesso.engine.async_engine import AsyncEngine, Limits
from server.conftest import running

QUESTION = "Sort: pear, fig"
ANSWERS = ["fig, pear", "pear, fig"]


def ask(url: str, **fields: Any) -> httpx.Response:
    return httpx.post(f"{url}/v1/choose", json={"model": "mini", **fields}, timeout=60)


def test_it_tells_what_the_engine_tells(mini_url: str) -> None:
    messages = [{"role": "user", "content": QUESTION}]
    answer = ask(mini_url, messages=messages, options=ANSWERS, seed=5).json()
    engine = load("mini", "cpu", offline=True)
    result = run_job(engine, choose(engine, QUESTION, ANSWERS, seed=5))
    assert [option["text"] for option in answer["options"]] == ANSWERS
    assert [option["causal"] for option in answer["options"]] == pytest.approx([c.causal for c in result.choices])
    assert [option["denoising"] for option in answer["options"]] == pytest.approx(
        [c.denoising for c in result.choices], abs=1e-5
    )
    assert answer["best"] == "fig, pear"
    assert answer["calibrated"] is False
    assert answer["seed"] == 5


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": "x", "options": ["a"]}, "options"),
        ({"prompt": "x", "options": ["a", "a"]}, "options"),
        ({"prompt": "x", "options": ["a", ""]}, "options[1]"),
        ({"prompt": "x", "options": ["a", "b " * 99]}, "options"),
        ({"options": ["a", "b"]}, "messages"),
        ({"prompt": "x", "messages": [{"role": "user", "content": "x"}], "options": ["a", "b"]}, "messages"),
        ({"prompt": "x", "options": ["a", "b"], "temperature": 1}, "temperature"),
        ({"prompt": "x", "options": ["a", "b"], "model": "other"}, "model"),
    ],
)
def test_a_refusal_names_the_field(mini_url: str, fields: dict[str, Any], param: str) -> None:
    response = ask(mini_url, **fields)
    assert response.status_code in (400, 404), response.text
    assert response.json()["error"]["param"] == param


def test_a_job_needs_no_more_places_than_there_are() -> None:
    service = AsyncEngine(load("mini", "cpu", offline=True), Limits(max_num_seqs=1, max_waiting=1))
    with running(service) as url:
        answer = ask(url, prompt=QUESTION, options=["a", "b", "c", "d"], seed=1)
        assert answer.status_code == 200, answer.text
        assert len(answer.json()["options"]) == 4


def test_the_mode_that_was_chosen_is_told(mini_url: str) -> None:
    body = {"model": "mini", "prompt": QUESTION, "max_tokens": 4, "diffusion": {"mode": "auto"}}
    report = httpx.post(f"{mini_url}/v1/completions", json=body, timeout=60).json()["choices"][0]["diffusion"]
    assert report["mode"] in ("canvas", "ar")
    assert re.search(
        r"\b[1-4] tokens", report["decision"]
    )  # as many as answers had so far, and no more than are asked for
