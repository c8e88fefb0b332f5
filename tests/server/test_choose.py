"""`POST /v1/choose` over a real server."""

from typing import Any

import httpx
import pytest

from gesso.api import load
from gesso.control.choose import choose
from gesso.control.job import run_job

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
