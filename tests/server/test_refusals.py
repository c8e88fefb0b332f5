"""Nothing is accepted and ignored: what is not honoured is refused with the field's path."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from server.conftest import chat_body, make_client, refusal
from server.fake import FakeService

TOOL = {"type": "function", "function": {"name": "clock"}}
USER = {"role": "user", "content": "x"}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
SOUND = {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}
IMAGE = {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"colour": 1}, "colour"),
        ({"typical_p": 0.1}, "typical_p"),
        ({"diffusion": {"steps": 3}}, "diffusion.steps"),
        ({"stream_options": {"include": True}, "stream": True}, "stream_options.include"),
        ({"chat_template_kwargs": {"date": 1}}, "chat_template_kwargs.date"),
        ({"messages": [USER, {**USER, "mood": 1}]}, "messages[1].mood"),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "x", "a": 1}]}]},
            "messages[0].content[0].a",
        ),
        ({"messages": [USER, {"role": "assistant", "tool_calls": [{**CALL, "x": 1}]}]}, "messages[1].tool_calls[0].x"),
        ({"tools": [{**TOOL, "x": 1}]}, "tools[0].x"),
        ({"tools": [{"type": "function", "function": {"name": "f", "x": 1}}]}, "tools[0].function.x"),
        ({"tools": [TOOL], "tool_choice": {**TOOL, "x": 1}}, "tool_choice.x"),
        ({"a b[0]": 1}, "a b[0]"),
    ],
)
def test_unknown_fields_are_named_wherever_they_stand(client: TestClient, fields: dict[str, Any], param: str) -> None:
    error = refusal(client, **fields)
    assert (error["param"], error["code"], error["type"]) == (param, "unknown_field", "invalid_request_error")
    assert param in error["message"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"structured_outputs": {}}, "structured_outputs"),
        ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "structured_outputs"),
        ({"store": True}, "store"),
        ({"functions": []}, "functions"),
        ({"function_call": "auto"}, "function_call"),
        ({"modalities": ["audio"]}, "modalities"),
        ({"audio": {"voice": "x"}}, "audio"),
        (
            {"prediction": {"type": "content", "content": "x"}, "diffusion": {"start_canvas": [5] * 8}},
            "prediction",
        ),
        ({"verbosity": "low"}, "verbosity"),
        ({"web_search_options": {}}, "web_search_options"),
        ({"messages": [{"role": "user", "content": [IMAGE]}]}, "messages[0].content[0].image_url"),
        ({"messages": [{"role": "user", "content": [SOUND]}]}, "messages[0].content[0]"),
        ({"messages": [USER, {"role": "assistant", "content": [IMAGE]}]}, "messages[1].content[0]"),
        ({"tools": [{"type": "web_search"}]}, "tools[0]"),
        ({"tools": [TOOL, {"type": "custom", "custom": {"name": "x"}}]}, "tools[1]"),
        ({"reasoning_effort": "low", "diffusion": {"canvas": [200]}}, "reasoning_effort"),
        ({"thinking_budget": 9, "diffusion": {"canvas": [200]}}, "thinking_budget"),
        (
            {"chat_template_kwargs": {"enable_thinking": True}, "diffusion": {"canvas": [200]}},
            "chat_template_kwargs.enable_thinking",
        ),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": TOOL, "tools": []}, "tool_choice"),
        (
            {"tool_choice": {"type": "function", "function": {"name": "g"}}, "tools": [TOOL]},
            "tool_choice.function.name",
        ),
        ({"tools": [TOOL, TOOL]}, "tools"),
    ],
)
def test_what_is_known_and_not_supported_says_why(client: TestClient, fields: dict[str, Any], param: str) -> None:
    error = refusal(client, **fields)
    assert (error["param"], error["code"]) == (param, "unsupported_value")
    assert len(error["message"]) > len(param) + 10


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": "1"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 1.5}, "top_p"),
        ({"top_k": -1}, "top_k"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 1.0}, "max_tokens"),
        ({"max_tokens": 4097}, "max_tokens"),
        ({"max_completion_tokens": 4097}, "max_completion_tokens"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**63}, "seed"),
        ({"n": 0}, "n"),
        ({"n": 9}, "n"),
        ({"stop": ""}, "stop"),
        ({"stop": ["a", ""]}, "stop[1]"),
        ({"stop": ["a"] * 17}, "stop"),
        ({"logit_bias": {"x": 1}}, "logit_bias.x"),
        ({"frequency_penalty": 2.5}, "frequency_penalty"),
        ({"presence_penalty": -2.5}, "presence_penalty"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"penalty_window": -1}, "penalty_window"),
        ({"logit_bias": {"7": 101}}, "logit_bias.7"),
        ({"logit_bias": {"-1": 1}}, "logit_bias.-1"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logprobs": 3}, "logprobs"),
        ({"stream": "yes"}, "stream"),
        ({"stream": 1}, "stream"),
        ({"reasoning_effort": "huge"}, "reasoning_effort"),
        ({"thinking_budget": 0}, "thinking_budget"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": [USER] * 2049}, "messages"),
        ({"messages": [{"role": "king", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": []}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": 3}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
        ({"model": None}, "model"),
        ({"model": 3}, "model"),
        ({"tools": [{"type": "function", "function": {"name": "two words"}}]}, "tools[0].function.name"),
        ({"tool_choice": "maybe", "tools": [TOOL]}, "tool_choice"),
        ({"metadata": {"a": 1}}, "metadata.a"),
        ({"diffusion": 5}, "diffusion"),
        ({"diffusion": {"max_denoising_steps": 0}}, "diffusion.max_denoising_steps"),
        ({"diffusion": {"start_canvas": [1, -2]}}, "diffusion.start_canvas[1]"),
    ],
)
def test_impossible_values_are_named(client: TestClient, fields: dict[str, Any], param: str) -> None:
    assert refusal(client, **fields)["param"] == param


def test_refused_requests_never_reach_the_engine(client: TestClient, service: FakeService) -> None:
    refusal(client, colour=1)
    refusal(client, n=9)
    assert service.requests == []


def test_numbers_that_are_none_are_refused_inside_tools(client: TestClient) -> None:
    body = (
        '{"model": "mini", "messages": [{"role": "user", "content": "x"}],'
        ' "tools": [{"type": "function", "function": {"name": "f", "parameters": {"a": [1e999]}}}]}'
    )
    response = client.post("/v1/chat/completions", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "tools[0].function.parameters"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"3",
        b"null",
        b'"text"',
        b'{"model": "mini", "temperature": NaN}',
        b'{"model": "mini", "temperature": Infinity}',
        b'{"model": "mini", "temperature": 1e999, "messages": [{"role": "user", "content": "x"}]}',
        b'{"model": "mini", "messages": [{"role": "user", "content": "\\ud800"}]}',
        b'{"model": "mini", "messages": [{"role": "user", "content": "\xff"}]}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"model": "mini", "seed": ' + b"9" * 5000 + b"}",
        b'{"model": "mini"} x',
    ],
)
def test_bodies_that_are_no_json_object(client: TestClient, body: bytes) -> None:
    response = client.post("/v1/chat/completions", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 400
    assert set(response.json()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("told", "key"),
    [
        ('"temperature": 0, "temperature": 1', "temperature"),
        ('"diffusion": {"t_min": 0.1, "t_min": 0.2}', "t_min"),
        ('"user": "a", "us\\u0065r": "b"', "user"),
    ],
)
def test_a_key_stands_once_in_an_object(client: TestClient, told: str, key: str) -> None:
    body = f'{{"model": "mini", "messages": [{{"role": "user", "content": "x"}}], {told}}}'
    response = client.post("/v1/chat/completions", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["code"] == "invalid_json"
    assert error["message"] == f"the body says two things: the key '{key}' stands twice in one object"


def test_nesting_is_bounded_where_any_json_may_stand(client: TestClient) -> None:
    schema: dict[str, Any] = {}
    for _ in range(150):
        schema = {"properties": {"a": schema}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    refusal(client, tools=tools)


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_only_json_is_taken(client: TestClient, kind: str | None) -> None:
    headers = {"Content-Type": kind} if kind else {}
    response = client.post("/v1/chat/completions", content=b"{}", headers=headers)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "wrong_content_type"


@pytest.mark.parametrize("coding", ["gzip", "zstd", "gzip, br"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/api/chat"])
def test_a_compressed_body_is_refused_as_that(client: TestClient, path: str, coding: str) -> None:
    response = client.post(path, json=chat_body(), headers={"Content-Encoding": coding})
    assert response.status_code == 415
    assert f"Content-Encoding {coding}" in response.text
    assert response.headers["accept-encoding"] == "identity"


def test_a_body_that_says_it_is_not_compressed_is_taken(client: TestClient) -> None:
    response = client.post("/v1/chat/completions", json=chat_body(), headers={"Content-Encoding": "Identity"})
    assert response.status_code == 200


@pytest.mark.parametrize(
    "fields",
    [
        {"diffusion": 3},
        {"logit_bias": []},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "data:,"}]}]},
    ],
)
def test_what_is_no_object_is_told_in_words_of_json(client: TestClient, fields: dict[str, Any]) -> None:
    assert refusal(client, **fields)["message"].endswith(": input should be an object")


def test_the_body_is_bounded(service: FakeService) -> None:
    client = make_client(service, max_body_bytes=1000)
    assert client.post("/v1/chat/completions", json=chat_body()).status_code == 200
    response = client.post("/v1/chat/completions", json=chat_body(user="x" * 1000))
    assert response.status_code == 413
    assert response.json()["error"]["code"] == "body_too_large"

    def parts() -> Any:
        yield from [b" " * 600] * 3

    assert (
        client.post("/v1/chat/completions", content=parts(), headers={"Content-Type": "application/json"}).status_code
        == 413
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": {"type": "yaml"}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}},
        {"response_format": {"type": "json_object"}, "structured_outputs": {"regex": "a"}},
        {"structured_outputs": {"json_object": True}},
        {"structured_outputs": {"regex": "a"}, "tools": [TOOL], "tool_choice": "required"},
    ],
)
def test_misshapen_constraints_are_refused(client: TestClient, fields: dict[str, Any]) -> None:
    assert refusal(client, **fields)["param"].split(".")[0] in ("response_format", "structured_outputs", "tools")
