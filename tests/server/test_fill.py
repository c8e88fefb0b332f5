"""`POST /v1/fill`, `POST /infill` and completions with a suffix, over a real server."""

from typing import Any

import httpx
import openai
import pytest
from starlette.testclient import TestClient

from gesso.api import load
from gesso.control.fill import INSTRUCTION, FilledHole, FillResult, fill
from gesso.control.job import Job, run_job
from gesso.server.fill import stopped
from gesso.server.infill import _indented

ASK = "Write a Python function add_seven that returns its argument plus 7."
BEFORE, AFTER = "def add_seven(x):\r\n\treturn ", "\r\n# \t é  "
TIMINGS = {
    "prompt_n", "prompt_ms", "prompt_per_token_ms", "prompt_per_second",
    "predicted_n", "predicted_ms", "predicted_per_token_ms", "predicted_per_second",
}  # fmt: skip


def post(url: str, path: str, **fields: Any) -> httpx.Response:
    return httpx.post(f"{url}{path}", json=fields, timeout=60)


def test_it_fills_as_the_engine_does(mini_url: str) -> None:
    text = "def {{the name: 1-4}}(x):\n    return x + 7"
    answer = post(mini_url, "/v1/fill", model="mini", text=text, instruction=ASK, seed=3, alternatives=2).json()
    result = run_job(engine := load("mini", "cpu", offline=True), fill(engine, text, ASK, seed=3, alternatives=2))
    assert answer["text"] == result.text
    (hole,) = answer["holes"]
    assert (hole["name"], hole["text"], hole["width"]) == ("the name", result.holes[0].text, result.holes[0].width)
    assert hole["score"] == pytest.approx(result.holes[0].score, abs=1e-4)
    assert [other["text"] for other in hole["alternatives"]] == [other.text for other in result.holes[0].alternatives]
    assert 1 <= len(hole["alternatives"]) <= 2
    assert (answer["object"], answer["seed"], answer["truncated"]) == ("fill", 3, False)
    assert answer["denoising_steps"] == result.denoising_steps
    assert answer["prompt_tokens"] == result.prompt_tokens


def test_all_around_the_holes_comes_back_byte_for_byte(mini_url: str) -> None:
    settings = {"diffusion": {"max_denoising_steps": 1}, "max_tokens": 3}
    answer = post(mini_url, "/v1/fill", model="mini", text=BEFORE + "{{ }}" + AFTER, **settings).json()
    assert answer["text"] == BEFORE + answer["holes"][0]["text"] + AFTER


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"text": "no hole"}, "text"),
        ({"text": "{{a: b}}"}, "text"),
        ({"text": "{{: 1000}}"}, "text"),
        ({"text": "▁ {{ }}"}, "text"),
        ({"instruction": "long " * 9000}, "instruction"),
        ({"instruction": 5}, "instruction"),
        ({"alternatives": 16}, "alternatives"),
        ({"seed": -1}, "seed"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 5000}, "max_tokens"),
        ({"model": "other"}, "model"),
        ({"stop": "a"}, "stop"),
        ({"diffusion": {"canvas": [5]}}, "diffusion.canvas"),
        ({"diffusion": {"strength": 0.5}}, "diffusion.strength"),
        ({"diffusion": {"draft_frames": True}}, "diffusion.draft_frames"),
    ],
)
def test_a_refusal_names_the_field(mini_url: str, fields: dict[str, Any], param: str) -> None:
    response = post(mini_url, "/v1/fill", **{"model": "mini", "text": "a {{ }} b", **fields})
    assert response.status_code in (400, 404), response.text
    assert response.json()["error"]["param"] == param


def test_a_completion_with_a_suffix_by_the_openai_client(mini_url: str) -> None:
    client = openai.OpenAI(base_url=f"{mini_url}/v1", api_key="none")
    answer = client.completions.create(
        model="mini", prompt="Sort: pear, ", suffix=", apple", max_tokens=4, temperature=0.5, seed=5
    )
    engine = load("mini", "cpu", offline=True)
    text = "Sort: pear, {{ }}, apple"
    expected = run_job(engine, fill(engine, text, raw=True, seed=5, max_new_tokens=4, temperature=0.5))
    assert answer.choices[0].text == expected.holes[0].text
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    around = [len(engine.tokenizer.encode(part)) for part in ("Sort: pear, ", ", apple")]
    assert answer.usage.prompt_tokens == sum(around), "prompt and suffix, wherever they stand"
    assert answer.usage.completion_tokens == expected.holes[0].width <= 5


def test_an_empty_suffix_is_none(mini_url: str) -> None:
    fields = {"model": "mini", "prompt": "Sort: pear,", "max_tokens": 4, "seed": 5}
    one = post(mini_url, "/v1/completions", **fields).json()
    two = post(mini_url, "/v1/completions", **fields, suffix="").json()
    assert one["choices"][0]["text"] == two["choices"][0]["text"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"stream": True}, "stream"),
        ({"n": 2}, "n"),
        ({"echo": True}, "echo"),
        ({"logprobs": 1}, "logprobs"),
        ({"logprobs": 0}, "logprobs"),
        ({"logit_bias": {"5": 1}}, "logit_bias"),
        ({"structured_outputs": {"regex": "a"}}, "structured_outputs"),
        ({"presence_penalty": 1}, "presence_penalty"),
        ({"penalty_window": 8}, "penalty_window"),
        ({"min_tokens": 3}, "min_tokens"),
        ({"stop_token_ids": [5]}, "stop_token_ids"),
        ({"ignore_eos": True}, "ignore_eos"),
        ({"include_stop_str_in_output": True}, "include_stop_str_in_output"),
        ({"prompt": ["a"]}, "prompt"),
        ({"prompt": [5]}, "prompt"),
        ({"prompt": "▁"}, "prompt"),
        ({"diffusion": {"ignore_eos": True}}, "diffusion.ignore_eos"),
        ({"suffix": 5}, "suffix"),
        ({"suffix": "b" * 2**18}, "suffix"),
    ],
)
def test_what_does_not_go_with_a_suffix_is_refused(mini_url: str, fields: dict[str, Any], param: str) -> None:
    response = post(mini_url, "/v1/completions", **{"model": "mini", "prompt": "a", "suffix": "b", **fields})
    assert response.status_code == 400, response.text
    assert response.json()["error"]["param"] == param


def test_what_changes_nothing_goes_with_a_suffix(mini_url: str) -> None:
    fields = {"model": "mini", "prompt": "def f(x):\n    return ", "suffix": "\n", "max_tokens": 4, "seed": 5}
    neutral = {
        "frequency_penalty": 0, "presence_penalty": 0, "repetition_penalty": 1, "min_tokens": 0, "stop_token_ids": [],
        "ignore_eos": False, "include_stop_str_in_output": False, "skip_special_tokens": True,
    }  # fmt: skip
    plain = post(mini_url, "/v1/completions", **fields)
    answer = post(mini_url, "/v1/completions", **fields, **neutral)
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"] == plain.json()["choices"]


def editor_request(**fields: Any) -> dict[str, Any]:
    """All that the plug-ins send."""
    return {
        "id_slot": 0,
        "input_prefix": "# a file\r\ndef add_seven(x):\r\n",
        "input_suffix": "\r\n",
        "input_extra": [{"text": "def f(x):\n    return x", "time": 12.5, "filename": "f.py"}],
        "prompt": "    return ",
        "n_predict": 3,
        "stop": [],
        "n_indent": 4,
        "top_k": 40,
        "top_p": 0.9,
        "min_p": 0.05,
        "stream": False,
        "samplers": ["top_k", "top_p", "infill"],
        "cache_prompt": True,
        "t_max_prompt_ms": 500,
        "t_max_predict_ms": 1000,
        "seed": 3,
        **fields,
    }


def test_an_editor_that_reads_single_fields(mini_url: str) -> None:
    asked = ["content", *(f"timings/{name}" for name in sorted(TIMINGS)), "truncated", "tokens_cached", "nothing"]
    answer = post(mini_url, "/infill", **editor_request(response_fields=asked, input_suffix="\r\nfig\r\n")).json()
    assert set(answer) == set(asked) - {"nothing"}
    assert answer["timings/predicted_n"] > 0
    assert answer["timings/predicted_ms"] > 0
    assert answer["truncated"] is False


def test_an_editor_that_reads_the_whole_answer(mini_url: str) -> None:
    answer = post(mini_url, "/infill", **editor_request()).json()
    assert answer["stop"] is True
    assert answer["model"] == "mini"
    assert set(answer["timings"]) == TIMINGS
    assert answer["tokens_predicted"] <= 4
    assert answer["generation_settings"]["n_predict"] == 3
    assert answer["generation_settings"]["seed"] == 3
    again = post(mini_url, "/infill", **editor_request()).json()
    assert again["content"] == answer["content"]
    other = post(mini_url, "/infill", **editor_request(input_extra=[])).json()
    assert other["tokens_evaluated"] < answer["tokens_evaluated"]


def test_it_fills_at_the_cursor(mini_url: str) -> None:
    asked = post(mini_url, "/infill", input_prefix="a", prompt="b", input_suffix="c", seed=1, n_predict=3).json()
    engine = load("mini", "cpu", offline=True)
    message = "Fill in what is missing at the cursor."
    assert message != INSTRUCTION
    expected = run_job(engine, fill(engine, "ab{{ }}c", message, seed=1, max_new_tokens=3))
    assert asked["content"] == expected.holes[0].text


def test_the_end_of_a_file_is_cut_at_n_predict(mini_url: str) -> None:
    answer = post(mini_url, "/infill", input_prefix="def f(x):\n", seed=1, n_predict=2, input_suffix="").json()
    assert answer["tokens_predicted"] <= 2
    assert answer["stop_type"] == ("limit" if answer["tokens_predicted"] == 2 else "eos")


@pytest.mark.parametrize(
    ("complete", "stop", "reason"), [(True, [], "stop"), (False, [], "length"), (False, ["+"], "stop")]
)
def test_a_fill_of_an_open_end_says_whether_it_was_cut(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, complete: bool, stop: list[str], reason: str
) -> None:
    def job(*_: Any, **__: Any) -> Job[FillResult]:
        yield from ()
        hole = FilledHole("", "x + 7", -0.5, 3, True, complete, ())
        return FillResult("return x + 7", (hole,), 3, 2, 1, False, 0.1)

    monkeypatch.setattr("gesso.server.fill.fill", job)
    asked = {"model": "mini", "prompt": "return ", "stop": stop}
    answer = client.post("/v1/fim/completions", json={**asked, "max_tokens": 3}).json()["choices"][0]
    assert answer["finish_reason"] == reason
    streamed = client.post("/v1/fim/completions", json={**asked, "stream": True}).text
    assert f'"finish_reason":"{reason}"' in streamed
    options = {"num_predict": 3, "stop": stop}
    filled = {"model": "mini", "prompt": "return ", "suffix": "\n", "options": options, "stream": False}
    assert client.post("/api/generate", json=filled).json()["done_reason"] == reason


def test_preparing_a_prompt_answers_nothing(mini_url: str) -> None:
    answer = post(mini_url, "/infill", **editor_request(n_predict=0, samplers=[], input_prefix="", prompt="")).json()
    assert (answer["content"], answer["tokens_predicted"], answer["stop_type"]) == ("", 0, "limit")


def test_other_files_that_do_not_fit_are_left_out(mini_url: str) -> None:
    extra = [{"text": "old " * 3000}, {"text": "new"}]
    answer = post(mini_url, "/infill", **editor_request(input_extra=extra)).json()
    newest = post(mini_url, "/infill", **editor_request(input_extra=extra[1:])).json()
    assert answer["truncated"] is True
    assert answer["tokens_evaluated"] == newest["tokens_evaluated"]
    assert newest["truncated"] is False


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"stream": True}, "stream"),
        ({"typical_p": 0.1}, "typical_p"),
        ({"lora": []}, "lora"),
        ({"model": "other"}, "model"),
        ({"input_prefix": "▁"}, "input_prefix"),
        ({"top_p": 0}, "top_p"),
        ({"n_predict": -2}, "n_predict"),
        ({"input_extra": [{"text": "a", "path": "b"}]}, "input_extra[0].path"),
    ],
)
def test_an_infill_refuses_by_name(mini_url: str, fields: dict[str, Any], param: str) -> None:
    response = post(mini_url, "/infill", **editor_request(**fields))
    assert response.status_code in (400, 404), response.text
    assert response.json()["error"]["param"] == param


def test_values_that_leave_it_to_the_server_are_taken(mini_url: str) -> None:
    fields = {"model": "", "n_predict": -1, "top_k": -1, "seed": -1, "input_extra": None}
    assert post(mini_url, "/infill", **editor_request(**fields)).status_code == 200


def test_a_text_ends_before_its_first_stop_string() -> None:
    assert stopped("one two three", ["three", "two"]) == ("one ", "two")
    assert stopped("one", ["two"]) == ("one", "")
    # Of two that overlap the one that is complete first, as in a completion, which sees one token after the other.
    assert stopped("abcdef", ["bcde", "cd"]) == ("ab", "cd")
    assert stopped("one tw", ["two"]) == ("one tw", "")


@pytest.mark.parametrize(
    ("text", "least", "rest"),
    [
        ("a\n    b\n  c\n    d", 4, "a\n    b"),
        ("a\n\n    b\n", 4, "a\n\n    b\n"),
        ("a\nb", 0, "a\nb"),
        ("a\nb", 1, "a"),
        ("a\n\t\tb\n\tc", 2, "a\n\t\tb"),
    ],
)
def test_a_text_ends_before_a_line_that_is_indented_by_less(text: str, least: int, rest: str) -> None:
    assert _indented(text, least) == rest
