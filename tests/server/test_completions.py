"""Completions of raw text and tokens."""

from dataclasses import replace
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from gesso.engine.events import Finished
from gesso.server.answers import TextCompletion
from gesso.text.output import ToolCall
from server.conftest import chunks, refusal, stream
from server.fake import FakeService, block, frame, logprob, logprobs, result, tokenizer

PATH = "/v1/completions"


def complete(client: TestClient, prompt: Any = "1 2 3", **fields: Any) -> dict[str, Any]:
    response = client.post(PATH, json={"model": "mini", "prompt": prompt, **fields})
    assert response.status_code == 200, response.text
    TextCompletion.model_validate(response.json())
    return dict(response.json())


def test_the_answer_has_openais_shape(client: TestClient, service: FakeService) -> None:
    answer = complete(client)
    assert answer["id"].startswith("cmpl-")
    assert answer["object"] == "text_completion"
    (choice,) = answer["choices"]
    assert choice.pop("diffusion")["denoising_steps"] == [2, 4]
    assert choice == {"index": 0, "text": "Hello there", "logprobs": None, "finish_reason": "stop"}
    assert answer["usage"]["total_tokens"] == 14
    request = service.requests[0]
    assert (request.prompt, dict(request.options)) == ("1 2 3", {"raw": True})


def test_prompts_of_every_kind(client: TestClient, service: FakeService) -> None:
    complete(client, [5, 6])
    complete(client, ["a", "b"])
    complete(client, [[5], [6, 7]])
    assert [(request.prompt, request.options["raw"]) for request in service.requests] == [
        ([5, 6], False),
        ("a", True),
        ("b", True),
        ([5], False),
        ([6, 7], False),
    ]


def test_choices_are_counted_within_their_prompt(client: TestClient, service: FakeService) -> None:
    answer = complete(client, ["a", "b"], n=2, seed=3)
    assert [(request.prompt, request.options["seed"]) for request in service.requests] == [
        ("a", 3),
        ("a", 4),
        ("b", 3),
        ("b", 4),
    ]
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert answer["usage"]["prompt_tokens"] == 22


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"echo": True, "stream": True}, "echo"),
        ({"best_of": 9}, "best_of"),
        ({"best_of": 0}, "best_of"),
        ({"best_of": 2, "n": 3}, "best_of"),
        ({"best_of": 2, "stream": True}, "best_of"),
        ({"best_of": 2, "suffix": "x"}, "best_of"),
        ({"prompt": ["a"] * 10, "best_of": 8}, "best_of"),
        ({"prompt": ["a"] * 10, "n": 8}, "n"),
        ({"prompt": []}, "prompt"),
        ({"prompt": ["a", 5]}, "prompt[1]"),
        ({"prompt": [[]]}, "prompt[0]"),
        ({"prompt": ["a"] * 33}, "prompt"),
        ({"prompt": [-1]}, "prompt[0]"),
        ({"prompt": None}, "prompt"),
        ({"logprobs": 21}, "logprobs"),
        ({"logprobs": True}, "logprobs"),
        ({"messages": []}, "messages"),
        ({"tools": []}, "tools"),
        ({"max_tokens": 5000}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 0, "echo": True, "best_of": 2}, "max_tokens"),
        ({"max_tokens": -1, "echo": True}, "max_tokens"),
    ],
)
def test_refusals(client: TestClient, fields: dict[str, Any], param: str) -> None:
    assert refusal(client, PATH, **{"model": "mini", "prompt": "a", **fields})["param"] == param


def test_a_missing_prompt_is_named(client: TestClient) -> None:
    assert refusal(client, PATH, model="mini")["param"] == "prompt"


def test_values_that_ask_for_nothing_are_taken(client: TestClient, service: FakeService) -> None:
    answer = complete(client, suffix=None, echo=False, best_of=1, n=None)
    assert [(request.prompt, dict(request.options)) for request in service.requests] == [("1 2 3", {"raw": True})]
    (choice,) = answer["choices"]
    assert (choice["text"], "search" in answer) == ("Hello there", False)


def test_logprobs_have_the_older_shape(client: TestClient, service: FakeService) -> None:
    pair = (logprob("fig"), logprob(" pear"))
    service.events = [block("fig pear", logprobs=pair), Finished(result(logprobs=pair))]
    assert complete(client, logprobs=2)["choices"][0]["logprobs"] == {
        "tokens": ["fig", " pear"],
        "token_logprobs": [-0.5, -0.5],
        "top_logprobs": [{"fig": -0.5, "b": -1.5}, {" pear": -0.5, "b": -1.5}],
        "text_offset": [0, 3],
    }
    assert service.requests[0].options["logprobs"] == 2


def test_thoughts_and_calls_that_nobody_asked_for_are_not_lost(client: TestClient, service: FakeService) -> None:
    service.events = [Finished(result(reasoning="hm", tool_calls=(ToolCall("clock", "{}"),), warnings=("odd",)))]
    choice = complete(client)["choices"][0]
    assert choice["reasoning_content"] == "hm"
    assert choice["tool_calls"][0]["function"]["name"] == "clock"
    assert choice["warnings"] == ["odd"]


def test_stream(client: TestClient) -> None:
    got = chunks(client, PATH, model="mini", prompt="x", stream_options={"include_usage": True})
    for chunk in got:
        TextCompletion.model_validate(chunk)
    assert [choice["text"] for chunk in got for choice in chunk["choices"]] == ["Hello", " there", ""]
    assert [choice["finish_reason"] for chunk in got for choice in chunk["choices"]] == [None, None, "stop"]
    assert got[-1]["usage"]["completion_tokens"] == 3
    assert got[0]["usage"] is None


def test_offsets_go_on_over_the_blocks_of_a_stream(client: TestClient, service: FakeService) -> None:
    service.events = [block("fig", logprobs=(logprob(),)), block("fig", logprobs=(logprob(),)), Finished(result())]
    got = chunks(client, PATH, model="mini", prompt="x", logprobs=0)
    offsets = [chunk["choices"][0]["logprobs"]["text_offset"] for chunk in got[:2]]
    assert offsets == [[0], [3]]


def test_offsets_count_characters(client: TestClient, service: FakeService) -> None:
    """Of the text: a character may be several tokens, and a thought or the end token is none of it."""
    thought = "<|channel>thought\nfig<channel|>"
    told = logprobs(f"{thought}é!<eos>")
    blocks = [block("", "fig", logprobs=told[:-4]), block("é!", logprobs=told[-4:])]
    service.events = [*blocks, Finished(result(text="é!", reasoning="fig", logprobs=told))]
    expected = [0] * len(tokenizer().encode(thought)) + [0, 0, 1, 2]
    assert complete(client, logprobs=0)["choices"][0]["logprobs"]["text_offset"] == expected
    got = chunks(client, PATH, model="mini", prompt="x", logprobs=0)[:2]
    assert [place for chunk in got for place in chunk["choices"][0]["logprobs"]["text_offset"]] == expected


def test_offsets_count_what_the_answer_begins_with(client: TestClient, service: FakeService) -> None:
    told = (logprob("fig"), logprob(" pear"))
    service.events = [block("Hello fig pear", logprobs=told), Finished(result(text="Hello fig pear", logprobs=told))]
    asked: dict[str, Any] = {"logprobs": 0, "diffusion": {"begin": "Hello "}}
    assert complete(client, **asked)["choices"][0]["logprobs"]["text_offset"] == [6, 9]
    (got, *_) = chunks(client, PATH, model="mini", prompt="x", **asked)
    assert got["choices"][0]["logprobs"]["text_offset"] == [6, 9]


def test_frames(client: TestClient, service: FakeService) -> None:
    service.events = [frame(), block("x"), Finished(result())]
    events = stream(client, PATH, model="mini", prompt="x", diffusion={"draft_frames": True})
    assert [name for name, _ in events] == ["diffusion.draft", "diffusion.block", None, None]
    assert events[1][1]["block"]["text"] == "x"
    assert events[0][1]["choices"] == [{"index": 0, "text": "", "logprobs": None, "finish_reason": None}]
    assert events[0][1]["draft"]["tokens"] == [5, 6]


# The prompt as part of the answer.


def test_the_prompt_comes_back(client: TestClient, service: FakeService) -> None:
    ids = service.engine.tokenizer.encode("Ab c")
    for prompt in ("Ab c", ids):
        (choice,) = complete(client, prompt=prompt, echo=True)["choices"]
        assert (choice["text"], choice["logprobs"]) == ("Ab cHello there", None)
    assert "prompt_logprobs" not in service.requests[0].options


def test_log_probabilities_of_the_prompt(client: TestClient, service: FakeService) -> None:
    service.events = [Finished(result(text="fig", prompt_logprobs=logprobs("bc"), logprobs=(logprob(),)))]
    answer = complete(client, prompt=["abc", "bcd"], echo=True, logprobs=1, max_tokens=1)
    assert service.requests[0].options["prompt_logprobs"] == service.requests[0].options["logprobs"] == 1
    assert service.requests[0].options["mode"] == "ar"
    for choice in answer["choices"]:
        told = choice["logprobs"]
        assert told["token_logprobs"] == [None, -0.5, -0.5, -0.5]
        assert told["tokens"][1:] == ["b", "c", "fig"]
        assert told["top_logprobs"][0] is None
        first = len(told["tokens"][0])
        assert told["text_offset"] == [0, first, first + 1, first + 2]


def test_a_prompt_alone_with_its_log_probabilities(client: TestClient, service: FakeService) -> None:
    service.events = [Finished(result(text="fig", prompt_logprobs=logprobs("bc"), logprobs=(logprob(),)))]
    answer = complete(client, prompt="abc", echo=True, logprobs=1, max_tokens=0)
    assert service.requests[0].options["max_new_tokens"] == 1
    assert service.requests[0].options["mode"] == "ar"
    (choice,) = answer["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("abc", "length")
    assert choice["logprobs"]["token_logprobs"] == [None, -0.5, -0.5]
    assert answer["usage"]["completion_tokens"] == 0


def test_offsets_of_an_echo_count_characters(client: TestClient, service: FakeService) -> None:
    told = logprobs("é!x")
    service.events = [Finished(result(text="fig", prompt_logprobs=told[1:], logprobs=(logprob(),)))]
    choice = complete(client, prompt="é!x", echo=True, logprobs=0)["choices"][0]
    assert choice["text"] == "é!xfig"
    assert choice["logprobs"]["text_offset"] == [0, 0, 1, 2, 3]


def test_one_echoed_token_of_a_model_without_a_causal_pass(client: TestClient, service: FakeService) -> None:
    service.engine.config.mask_token_id = 4
    complete(client, echo=True, max_tokens=1)
    assert "mode" not in service.requests[0].options
    assert refusal(client, PATH, model="mini", prompt="x", best_of=2)["param"] == "best_of"


def test_the_likelihood_of_a_text(mini_url: str) -> None:
    """As lm-eval asks: texts and their continuations as token ids, one token that is not looked at, and sums."""
    body = {"model": "mini", "max_tokens": 1, "temperature": 0, "logprobs": 1, "seed": 1234, "echo": True}
    prompts = [[2, 300, 301, 302, 303], [2, 300, 301]]
    answer = httpx.post(f"{mini_url}/v1/completions", json={**body, "prompt": prompts}, timeout=120).json()
    for prompt, choice in zip(prompts, answer["choices"], strict=True):
        told = choice["logprobs"]
        assert len(told["token_logprobs"]) == len(prompt) + 1
        assert all(value <= 0 for value in told["token_logprobs"][1:])
    longer, shorter = (choice["logprobs"]["token_logprobs"] for choice in answer["choices"])
    assert longer[1:3] == pytest.approx(shorter[1:3], abs=1e-5)


def test_best_of_sends_the_likeliest(client: TestClient, service: FakeService) -> None:
    def of(logprobs: tuple[float, ...], seed: int) -> list[Any]:
        tokens = tuple(replace(logprob(), logprob=value) for value in logprobs)
        return [Finished(result(logprobs=tokens, seed=seed, text=f"answer {seed}"))]

    service.scripts = [of((-1.0, -3.0), 0), of((-1.0,), 1), of((-9.0,), 2)] * 2
    answer = complete(client, ["a", "b"], best_of=3, n=2, seed=0)
    assert [request.options["logprobs"] for request in service.requests] == [0] * 6
    assert [(choice["index"], choice["text"], choice["logprobs"]) for choice in answer["choices"]] == [
        (0, "answer 1", None), (1, "answer 0", None), (2, "answer 1", None), (3, "answer 0", None)
    ]  # fmt: skip
    first, _ = answer["search"]
    assert [candidate["mean_logprob"] for candidate in first["candidates"]] == [-2.0, -1.0, -9.0]
    assert (first["denoising_passes"], first["scoring_passes"]) == (18, 3)
    assert answer["usage"]["prompt_tokens"] == 22, "each prompt once"
    assert answer["usage"]["completion_tokens"] == 18, "those that are not sent too"


def test_as_many_as_are_sent_is_no_search(client: TestClient, service: FakeService) -> None:
    answer = complete(client, best_of=2, n=2, stream=False)
    assert len(answer["choices"]) == len(service.requests) == 2
    assert "search" not in answer
    assert "logprobs" not in service.requests[0].options


@pytest.mark.parametrize("prompt", ["a <|image|> b", ["a", "b<image|>"]])
def test_a_place_of_an_image_is_refused_with_what_to_do(client: TestClient, service: FakeService, prompt: Any) -> None:
    error = refusal(client, PATH, model="mini", prompt=prompt)
    assert (error["param"], error["code"]) == ("prompt", "unsupported_value")
    assert "in a message of a chat it is text" in error["message"]
    raw = client.post("/api/generate", json={"model": "mini", "prompt": "<|image|>", "raw": True, "stream": False})
    assert raw.status_code == 400
    assert "in a message of a chat it is text" in raw.json()["error"]
    assert not service.requests
    service.engine.runner.vision = object()  # the engine has a say then: there may be an image for it
    complete(client, "a <|image|> b")


def test_a_place_of_an_image_in_a_message_is_text(mini_url: str) -> None:
    said = {"messages": [{"role": "user", "content": "a <|image|> b"}], "model": "mini", "max_tokens": 4}
    assert httpx.post(f"{mini_url}/v1/chat/completions", json=said).status_code == 200
    raw = {"prompt": "a <|image|> b", "model": "mini", "max_tokens": 4}
    assert httpx.post(f"{mini_url}{PATH}", json=raw).status_code == 400
