"""`/v1/messages`: what Anthropic's own client sends and reads."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from gesso.engine.events import Failed, Finished
from gesso.text.output import ToolCall
from server.conftest import make_client, parse_events, running
from server.fake import FakeService, block, frame, result

CALL = ToolCall("weather", '{"city": "Köln"}')
WEATHER: Any = {
    "name": "weather",
    "description": "Weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
ASKED: Any = [{"role": "user", "content": "Hi"}]


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "mini", "max_tokens": 32, "messages": ASKED, **fields}


def refused(client: TestClient, status: int = 400, **fields: Any) -> dict[str, Any]:
    response = client.post("/v1/messages", json=body(**fields))
    assert response.status_code == status, response.text
    assert response.json()["type"] == "error"
    return dict(response.json()["error"])


@pytest.fixture(scope="module")
def scripted() -> Iterator[tuple[FakeService, Any]]:
    """A service that answers as told, and the official client of it."""
    anthropic = pytest.importorskip("anthropic")
    service = FakeService()
    key = "secret"
    with (
        running(service, api_keys=(key,)) as url,
        anthropic.Anthropic(base_url=url, api_key=key, max_retries=0) as client,
    ):
        yield service, client


def test_a_thread_is_refused_in_the_form_by_which_clients_go_on_without_one(client: TestClient) -> None:
    error = refused(client, thread={"type": "create"})
    assert error["message"] == "thread: no conversation is kept here; send all its messages"
    assert error["details"] == {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
    assert "details" not in refused(client, container="here")


def test_the_id_of_a_request_is_where_its_clients_look(client: TestClient) -> None:
    response = client.post("/v1/messages", json=body())
    assert response.headers["request-id"] == response.headers["x-request-id"]
    assert "request-id" not in client.get("/health").headers


def test_a_system_message_may_stand_among_the_messages(client: TestClient, service: FakeService) -> None:
    told = {"role": "system", "content": [{"type": "text", "text": "Be brief."}]}
    assert client.post("/v1/messages", json=body(messages=[told, *ASKED])).status_code == 200
    (request,) = service.requests
    assert list(request.prompt) == [{"role": "system", "content": "Be brief."}, *ASKED]


def test_what_changes_no_answer_is_taken(client: TestClient) -> None:
    fields = {"speed": "standard", "user_profile_id": "u", "diagnostics": {"previous_message_id": None}}
    answer = client.post("/v1/messages", json=body(**fields, context_management={"edits": []}))
    assert answer.status_code == 200, answer.text
    assert refused(client, speed="fast")["message"].startswith("speed: ")
    assert refused(client, inference_geo="us")["message"] == "inference_geo: this server is where it is"
    edits = {"edits": [{"type": "clear_tool_uses_20250919"}]}
    assert refused(client, context_management=edits)["message"].startswith("context_management.edits: ")


def test_warnings_stand_beside_the_report(client: TestClient, service: FakeService) -> None:
    service.events = [Finished(result(warnings=("odd",)))]
    assert client.post("/v1/messages", json=body()).json()["warnings"] == ["odd"]
    streamed = client.post("/v1/messages", json=body(stream=True)).text
    assert '"warnings": ["odd"]' in streamed
    service.events = [Finished(result())]
    assert "warnings" not in client.post("/v1/messages", json=body()).json()


def test_an_answer(client: TestClient, service: FakeService) -> None:
    answer = client.post("/v1/messages", json=body(system="Be kind.", stop_sequences=["x"], temperature=0.5)).json()
    assert answer["content"] == [{"type": "text", "text": "Hello there"}]
    assert (answer["type"], answer["role"], answer["stop_reason"]) == ("message", "assistant", "end_turn")
    assert answer["usage"] == {
        "input_tokens": 7,
        "cache_read_input_tokens": 4,
        "cache_creation_input_tokens": 0,
        "output_tokens": 3,
    }
    assert answer["diffusion"]["seed"] == 9
    (request,) = service.requests
    assert list(request.prompt) == [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]
    assert dict(request.options) == {"max_new_tokens": 32, "stop": ("x",), "temperature": 0.5}


def test_a_conversation_with_tools(client: TestClient, service: FakeService) -> None:
    turns = [
        *ASKED,
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                {"type": "redacted_thinking", "data": "x"},
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Köln"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "rain"}]},
                {"type": "text", "text": "And?"},
            ],
        },
    ]
    choice = {"type": "any", "disable_parallel_tool_use": True}
    response = client.post("/v1/messages", json=body(messages=turns, tools=[WEATHER], tool_choice=choice))
    assert response.status_code == 200, response.text
    (request,) = service.requests
    said: Any = list(request.prompt)
    assert [message["role"] for message in said] == ["user", "assistant", "tool", "user"]
    assert said[1]["tool_calls"][0]["function"] == {"name": "weather", "arguments": {"city": "Köln"}}
    assert (said[2]["content"], said[2]["tool_call_id"]) == ("rain", "t1")
    assert request.options["tool_choice"] == "required"
    assert request.options["parallel_tool_calls"] is False
    assert request.options["tools"][0]["function"]["parameters"] == WEATHER["input_schema"]


def test_a_last_message_of_the_assistant_begins_the_answer(client: TestClient, service: FakeService) -> None:
    turns = [*ASKED, {"role": "assistant", "content": "Hello"}]
    service.events = [block(" there"), Finished(result(text=" there"))]
    whole = client.post("/v1/messages", json=body(messages=turns)).json()
    assert whole["content"] == [{"type": "text", "text": " there"}]
    assert service.requests[0].options["begun"] == "Hello"
    streamed = client.post("/v1/messages", json=body(messages=turns, stream=True)).text
    deltas = [json.loads(data) for name, data in parse_events(streamed) if name == "content_block_delta"]
    assert "".join(delta["delta"]["text"] for delta in deltas) == " there"


def test_thinking_and_schemas(client: TestClient, service: FakeService) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    config = {"effort": "low", "format": {"type": "json_schema", "schema": schema}}
    client.post("/v1/messages", json=body(thinking={"type": "adaptive"}, output_config=config))
    client.post("/v1/messages", json=body(thinking={"type": "enabled", "budget_tokens": 9}))
    first, second = service.requests
    assert first.options["json_schema"] == schema
    assert (first.options["thinking"], first.options["thinking_share"]) == (True, 0.25)
    assert second.options["thinking_budget"] == 9


def test_effort(client: TestClient, service: FakeService) -> None:
    """Beside a budget it lowers it; without thoughts there is nothing that it could lower."""
    enabled = {"type": "enabled", "budget_tokens": 20}
    for thinking, effort, bounds in [
        (enabled, "low", (6, None)), (enabled, "medium", (14, None)), (enabled, "high", (20, None)),
        (enabled, "max", (20, None)), (None, "max", (None, None)),
        (None, "high", (None, None)), ({"type": "disabled"}, "high", (None, None)),
        ({"type": "adaptive"}, "medium", (None, 0.5)),
    ]:  # fmt: skip
        response = client.post("/v1/messages", json=body(thinking=thinking, output_config={"effort": effort}))
        assert response.status_code == 200, response.text
        given = service.requests[-1].options
        assert (given.get("thinking_budget"), given.get("thinking_share")) == bounds
    few = body(thinking={"type": "enabled", "budget_tokens": 4}, output_config={"effort": "low"}, max_tokens=8)
    assert client.post("/v1/messages", json=few).status_code == 200
    assert service.requests[-1].options["thinking_budget"] == 1
    for without in (None, {"type": "disabled"}):
        error = refused(client, thinking=without, output_config={"effort": "low"})
        assert error["message"].startswith("output_config.effort: low needs thinking")


def test_a_result_that_is_an_error_says_so(client: TestClient, service: FakeService) -> None:
    use = {"type": "tool_use", "id": "t1", "name": "weather", "input": {}}
    for is_error, told in ((True, "Error: no such city"), (False, "no such city"), (None, "no such city")):
        output = {"type": "tool_result", "tool_use_id": "t1", "content": "no such city", "is_error": is_error}
        talk = [*ASKED, {"role": "assistant", "content": [use]}, {"role": "user", "content": [output]}]
        assert client.post("/v1/messages", json=body(messages=talk)).status_code == 200
        said: Any = list(service.requests[-1].prompt)
        assert said[-1]["content"] == told


def test_a_last_message_that_calls_a_tool_is_refused(client: TestClient, service: FakeService) -> None:
    use = {"type": "tool_use", "id": "t1", "name": "weather", "input": {}}
    for content in ([use], [{"type": "text", "text": "Let me see."}, use]):
        error = refused(client, messages=[*ASKED, {"role": "assistant", "content": content}])
        assert "its result" in error["message"]
    assert service.requests == []


def streamed_blocks(client: TestClient, **fields: Any) -> list[tuple[str, str]]:
    """The blocks of a stream: kind, and text or arguments."""
    found: list[tuple[str, str]] = []
    for name, data in parse_events(client.post("/v1/messages", json=body(stream=True, **fields)).text):
        told = json.loads(data)
        if name == "content_block_start":
            found.append((told["content_block"]["type"], ""))
        elif name == "content_block_delta":
            (kind, before), delta = found.pop(), told["delta"]
            found.append((kind, before + delta.get("text", delta.get("thinking", delta.get("partial_json", "")))))
    return found


@pytest.mark.parametrize("reasoning", ["", "Hm."])
@pytest.mark.parametrize("calls", [(), (CALL,)])
def test_a_stream_has_the_blocks_of_the_whole_answer(
    client: TestClient, service: FakeService, reasoning: str, calls: tuple[ToolCall, ...]
) -> None:
    for text in ("", " \n", "a"):
        service.events = [
            block("", reasoning), block(text), block("", "", calls),
            Finished(result(text=text, reasoning=reasoning, tool_calls=calls)),
        ]  # fmt: skip
        whole = client.post("/v1/messages", json=body(messages=ASKED)).json()["content"]
        expected = [(part["type"], part.get("text", part.get("thinking", CALL.arguments))) for part in whole]
        assert streamed_blocks(client, messages=ASKED) == expected


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
def test_an_image_that_is_refused_is_named_where_it_was_sent(client: TestClient, path: str) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    said = [{"role": "user", "content": [{"type": "text", "text": "x"}, image]}]
    more = {"max_tokens": 4} if path == "/v1/messages" else {}
    response = client.post(path, json={"model": "mini", "messages": said, "system": "Be kind.", **more})
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith("messages[0].content[1]: ")


def test_refusals_are_anthropics(client: TestClient, service: FakeService) -> None:
    assert refused(client, steps=3) == {"type": "invalid_request_error", "message": "unknown field steps"}
    assert refused(client, status=404, model="other")["type"] == "not_found_error"
    assert "tool_choice" in refused(client, tool_choice={"type": "any"})["message"]
    image = {"type": "image", "source": {"type": "url", "url": "http://a.example"}}
    assert refused(client, messages=[{"role": "user", "content": [image]}])["type"] == "invalid_request_error"
    assert refused(client, messages=[{"role": "assistant", "content": "x"}])["message"].startswith("messages")
    assert service.requests == []
    locked = make_client(service, api_keys=("one",))
    denied = locked.post("/v1/messages", json=body(), headers={"x-api-key": "two"})
    assert (denied.status_code, denied.json()["error"]["type"]) == (401, "authentication_error")
    assert locked.post("/v1/messages", json=body(), headers={"x-api-key": "one"}).status_code == 200


def test_what_stopped_an_answer(client: TestClient, service: FakeService) -> None:
    thought = tuple(service.engine.tokenizer.encode("one, two"))  # what it holds has stopped nothing
    for stop, expected in ((",", ("stop_sequence", ",")), (None, ("end_turn", None))):
        service.events = [Finished(result(text="one", reasoning="one, two", token_ids=thought, stop_string=stop))]
        answer = client.post("/v1/messages", json=body(stop_sequences=["two", ","])).json()
        assert (answer["stop_reason"], answer["stop_sequence"]) == expected
    service.events = [Finished(result(finish_reason="length"))]
    assert client.post("/v1/messages", json=body()).json()["stop_reason"] == "max_tokens"


# The official client.


def test_sdk_whole_and_streamed(scripted: tuple[FakeService, Any]) -> None:
    service, client = scripted
    service.events = FakeService().events
    message = client.messages.create(model="mini", max_tokens=32, messages=ASKED)
    assert message.content[0].text == "Hello there"
    with client.messages.stream(
        model="mini", max_tokens=32, messages=ASKED, extra_body={"diffusion": {"draft_frames": True}}
    ) as stream:
        assert "".join(stream.text_stream) == "Hello there"
        final = stream.get_final_message()
    assert (final.stop_reason, final.usage.output_tokens) == ("end_turn", 3)


def test_sdk_thoughts_calls_and_frames(scripted: tuple[FakeService, Any]) -> None:
    service, client = scripted
    whole = result(text="", reasoning="Hm.", tool_calls=(CALL,))
    service.events = [frame(), block("", "Hm."), block("", "", [CALL]), Finished(whole)]
    for streamed in (False, True):
        if streamed:
            with client.messages.stream(model="mini", max_tokens=32, messages=ASKED, tools=[WEATHER]) as stream:
                message = stream.get_final_message()
        else:
            message = client.messages.create(model="mini", max_tokens=32, messages=ASKED, tools=[WEATHER])
        assert [part.type for part in message.content] == ["thinking", "tool_use"]
        assert (message.content[1].name, message.content[1].input) == ("weather", {"city": "Köln"})
        assert message.stop_reason == "tool_use"
    # The types of the client have fields that are none here, such as `caller`.
    said: Any = [part.model_dump() for part in message.content]
    told: Any = [{"type": "tool_result", "tool_use_id": message.content[1].id, "content": "rain"}]
    service.events = FakeService().events
    again = [*ASKED, {"role": "assistant", "content": said}, {"role": "user", "content": told}]
    answered = client.messages.create(model="mini", max_tokens=32, messages=again)
    again += [{"role": "assistant", "content": [part.model_dump() for part in answered.content]}, *ASKED]
    assert client.messages.create(model="mini", max_tokens=32, messages=again).content[0].text == "Hello there"


def test_sdk_models(scripted: tuple[FakeService, Any]) -> None:
    _, client = scripted
    listed = client.models.list()
    assert ([model.id for model in listed], listed.has_more) == (["mini", "mini:sudoku"], False)
    assert (listed.first_id, listed.last_id) == ("mini", "mini:sudoku")
    told = client.models.retrieve("mini")
    assert (told.display_name, told.type) == ("mini", "model")
    assert told.created_at.tzinfo is not None
    assert (told.lifecycle, told.max_input_tokens) == ("active", 4096)
    type(told).model_validate(told.to_dict())  # the client itself takes whatever comes


def test_tools_that_only_others_run_are_refused_by_their_type(client: TestClient) -> None:
    tool = {"type": "web_search_20250305", "name": "web_search"}
    answer = client.post("/v1/messages", json={"model": "mini", "max_tokens": 32, "messages": ASKED, "tools": [tool]})
    assert answer.status_code == 400
    assert "tools[0]: a tool of type web_search_20250305 is not supported" in answer.json()["error"]["message"]


def test_sdk_an_answer_without_a_word(scripted: tuple[FakeService, Any]) -> None:
    service, client = scripted
    service.events = [Finished(result(text=""))]
    with client.messages.stream(model="mini", max_tokens=32, messages=ASKED) as stream:
        assert stream.get_final_text() == ""


def test_sdk_errors(scripted: tuple[FakeService, Any]) -> None:
    import anthropic

    service, client = scripted
    with pytest.raises(anthropic.BadRequestError, match="unknown field steps"):
        client.messages.create(model="mini", max_tokens=32, messages=ASKED, extra_body={"steps": 3})
    service.events = [block("Hello"), Failed("timeout", "not finished within 1 seconds")]
    with (
        pytest.raises(anthropic.APIStatusError, match="not finished"),
        client.messages.stream(model="mini", max_tokens=32, messages=ASKED) as stream,
    ):
        stream.get_final_message()


TURNS: list[dict[str, Any]] = [
    {"messages": [{"role": "user", "content": "What is 481 + 296?"}]},
    {"messages": [{"role": "user", "content": "What is 1 + 2?"}], "system": "Be kind."},
    {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            {"role": "assistant", "content": "I"},
        ]
    },
    {"messages": [{"role": "user", "content": "Hi"}], "tools": [WEATHER]},
    {"messages": [{"role": "user", "content": "Hi"}], "tools": [WEATHER], "tool_choice": {"type": "none"}},
    {"messages": [{"role": "user", "content": "Hi"}], "thinking": {"type": "enabled", "budget_tokens": 1}},
]


def test_counted_tokens_are_those_of_the_answers_usage(mini_url: str) -> None:
    anthropic = pytest.importorskip("anthropic")
    with anthropic.Anthropic(base_url=mini_url, api_key="none", max_retries=0) as client:
        counted = [client.messages.count_tokens(model="mini", **turns).input_tokens for turns in TURNS]
        used = [client.messages.create(model="mini", max_tokens=2, **turns).usage for turns in TURNS]
        with client.messages.stream(model="mini", max_tokens=2, **TURNS[2]) as stream:
            opened = next(event.message.usage for event in stream if event.type == "message_start")
        with pytest.raises(anthropic.NotFoundError, match="no model"):
            client.messages.count_tokens(model="gpt-4", messages=ASKED)
        with pytest.raises(anthropic.BadRequestError, match="unknown field max_tokens"):
            client.messages.count_tokens(model="mini", messages=ASKED, extra_body={"max_tokens": 1})
        with pytest.raises(anthropic.BadRequestError, match="more than"):
            client.messages.count_tokens(model="mini", messages=[{"role": "user", "content": "x " * 100_000}])
    assert counted == [usage.input_tokens + usage.cache_read_input_tokens for usage in used]
    assert opened.input_tokens == counted[2]
    # What is begun counts; with no call allowed, tools are not told of.
    assert len(set(counted)) == len(counted)
    assert counted[2] == counted[4] + 1


def test_errors_name_the_fields_of_this_interface(client: TestClient) -> None:
    choice = {"type": "tool", "name": "clock"}
    response = client.post("/v1/messages", json=body(tools=[WEATHER], tool_choice=choice))
    assert response.json()["error"]["message"] == "tool_choice.name: no tool has this name"


@pytest.mark.parametrize("stream", [False, True])
def test_errors_of_the_engine_name_the_fields_of_this_interface(
    client: TestClient, service: FakeService, stream: bool
) -> None:
    service.events = [
        Failed("refused", "begin has 4 tokens, and max_new_tokens, of which they are a part, is 2", "begin")
    ]
    response = client.post("/v1/messages", json=body(stream=stream))
    told = parse_events(response.text)[-1][1] if stream else response.text
    message = json.loads(told)["error"]["message"]
    assert message == "begin has 4 tokens, and max_tokens, of which they are a part, is 2"


@pytest.mark.parametrize("kind", ["auto", "none"])
def test_a_choice_of_no_tool_goes_without_tools(client: TestClient, kind: str) -> None:
    assert client.post("/v1/messages", json=body(tools=[], tool_choice={"type": kind})).status_code == 200


def test_errors_keep_the_client_s_own_words(client: TestClient, service: FakeService) -> None:
    told = "tools: the parameters of stop: #/properties/begin/(messages|stop): 'max_tokens' is no part of 'stop begin'"
    service.events = [Failed("refused", told, "tools")]
    assert client.post("/v1/messages", json=body()).json()["error"]["message"] == told


def test_a_count_of_tokens_names_the_fields_of_this_interface(client: TestClient) -> None:
    asked = body(tools=[WEATHER], tool_choice={"type": "tool", "name": "clock"})
    del asked["max_tokens"]
    response = client.post("/v1/messages/count_tokens", json=asked)
    assert response.json()["error"]["message"] == "tool_choice.name: no tool has this name"
