"""`/v1/responses`: what OpenAI's own client sends and reads, and what is kept."""

import json
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from gesso.engine.events import Failed, Finished
from gesso.server.responses_store import ResponseStore
from gesso.text.output import ToolCall
from server.conftest import parse_events, refusal, running
from server.fake import FakeService, block, frame, logprob, logprobs, result

CALL = ToolCall("weather", '{"city": "Köln"}')
WEATHER: Any = {"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": False}
PATH = "/v1/responses"


def respond(client: TestClient, **fields: Any) -> dict[str, Any]:
    response = client.post(PATH, json={"model": "mini", "input": "Hi", **fields})
    assert response.status_code == 200, response.text
    return dict(response.json())


def events(client: TestClient, **fields: Any) -> list[dict[str, Any]]:
    response = client.post(PATH, json={"model": "mini", "input": "Hi", "stream": True, **fields})
    assert response.status_code == 200, response.text
    found = [(name, json.loads(data)) for name, data in parse_events(response.text)]
    assert [data["type"] for _, data in found] == [name for name, _ in found]
    assert [data["sequence_number"] for _, data in found] == list(range(len(found)))
    return [data for _, data in found]


@pytest.fixture(scope="module")
def scripted() -> Iterator[tuple[FakeService, Any]]:
    """A service that answers as told, and the official client of it."""
    openai = pytest.importorskip("openai")
    service = FakeService()
    with running(service) as url, openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        yield service, client


def test_an_answer(client: TestClient, service: FakeService) -> None:
    answer = respond(
        client, instructions="Be kind.", max_output_tokens=32, temperature=0.5, seed=3, metadata={"a": "b"}
    )
    (item,) = answer["output"]
    assert (item["type"], item["role"], item["status"]) == ("message", "assistant", "completed")
    assert item["content"] == [{"type": "output_text", "text": "Hello there", "annotations": [], "logprobs": []}]
    assert (answer["object"], answer["status"], answer["metadata"]) == ("response", "completed", {"a": "b"})
    assert answer["usage"]["input_tokens_details"] == {"cached_tokens": 4, "cache_write_tokens": 0}
    assert answer["usage"]["total_tokens"] == 14
    assert answer["diffusion"]["seed"] == 9
    (request,) = service.requests
    assert list(request.prompt) == [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]
    assert dict(request.options) == {"max_new_tokens": 32, "temperature": 0.5, "seed": 3}


def test_warnings_stand_beside_the_report(client: TestClient, service: FakeService) -> None:
    service.events = [Finished(result(warnings=("odd",)))]
    assert respond(client)["warnings"] == ["odd"]


def test_a_stream_tells_what_the_whole_answer_does(client: TestClient, service: FakeService) -> None:
    whole = result(text="Hello there", reasoning="Hm.", tool_calls=(CALL,))
    service.events = [
        block("", "Hm."),
        block("Hello"),
        frame(),
        block(" there"),
        block("", "", [CALL]),
        Finished(whole),
    ]
    told = events(client, diffusion={"draft_frames": True})
    kinds = [data["type"] for data in told]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds.count("response.output_item.added") == kinds.count("response.output_item.done") == 3
    assert "diffusion.draft" in kinds
    last = told[-1]["response"]
    assert (told[-1]["type"], last["status"]) == ("response.completed", "completed")
    done = [data["item"] for data in told if data["type"] == "response.output_item.done"]
    assert done == last["output"]
    plain = respond(client)
    without_ids = [[{**item, "id": "", "call_id": ""} for item in answer["output"]] for answer in (last, plain)]
    assert without_ids[0] == without_ids[1]
    deltas = [data["delta"] for data in told if data["type"] == "response.output_text.delta"]
    assert deltas == ["Hello", " there"]


def test_an_answer_that_is_cut(client: TestClient, service: FakeService) -> None:
    service.events = [block("Hello"), Finished(result(text="Hello", finish_reason="length"))]
    for answer in (respond(client), events(client)[-1]["response"]):
        assert (answer["status"], answer["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})


def test_a_conversation_goes_on_from_what_is_stored(client: TestClient, service: FakeService) -> None:
    service.events = [block("", "", [CALL]), Finished(result(text="", tool_calls=(CALL,)))]
    first = respond(client, tools=[WEATHER], instructions="Only once.")
    call = first["output"][0]
    service.events = FakeService().events
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "rain"}
    second = events(client, input=[output], previous_response_id=first["id"])[-1]["response"]
    third = respond(client, input="And?", previous_response_id=second["id"], store=False)
    said: Any = list(service.requests[-1].prompt)
    assert [message["role"] for message in said] == ["user", "assistant", "tool", "assistant", "user"]
    assert said[1]["tool_calls"][0]["id"] == said[2]["tool_call_id"] == call["call_id"]
    assert said[3]["content"] == "Hello there"
    assert client.get(f"{PATH}/{second['id']}").json() == second
    assert client.get(f"{PATH}/{third['id']}").status_code == 404
    assert client.delete(f"{PATH}/{first['id']}").json() == {"id": first["id"], "object": "response", "deleted": True}
    gone = refusal(client, PATH, status=404, model="mini", input="x", previous_response_id=first["id"])
    assert (gone["code"], gone["param"]) == ("response_not_found", "previous_response_id")


def test_items_that_come_back_are_taken(client: TestClient, service: FakeService) -> None:
    """A client may keep the conversation by itself: what was answered is what is sent again."""
    service.events = [Finished(result(text="Hi", reasoning="Hm.", tool_calls=(CALL,)))]
    items = respond(client)["output"]
    output = {"type": "function_call_output", "call_id": items[-1]["call_id"], "output": "rain"}
    respond(client, input=[{"role": "user", "content": "Hi"}, *items, output], store=False)
    said: Any = list(service.requests[-1].prompt)
    assert [message["role"] for message in said] == ["user", "assistant", "tool"]
    assert said[1]["tool_calls"][0]["function"]["arguments"] == {"city": "Köln"}


def test_formats_tools_and_effort(client: TestClient, service: FakeService) -> None:
    schema = {"type": "object", "properties": {}}
    form = {"type": "json_schema", "name": "a", "schema": schema, "strict": True}
    respond(client, text={"format": form})
    respond(client, tools=[WEATHER], tool_choice={"type": "function", "name": "weather"}, reasoning={"effort": "low"})
    first, second = service.requests
    assert (first.options["json_schema"], first.options["strict_schema"]) == (schema, True)
    assert second.options["tool_choice"] == {"type": "function", "function": {"name": "weather"}}
    assert second.options["tools"][0]["function"]["name"] == "weather"
    assert second.options["thinking"]


def test_fields_of_an_earlier_answer_that_hold_nothing_are_none(client: TestClient) -> None:
    message = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "a", "more": None}],
    }
    respond(client, input=[{**message, "phase": None}])
    assert refusal(client, PATH, model="mini", input=[{**message, "phase": "x"}])["param"] == "input[0].phase"
    wrong = {**message, "content": [{"type": "output_text", "text": None}]}
    assert refusal(client, PATH, model="mini", input=[wrong])["param"] == "input[0].content[0].text"
    assert refusal(client, PATH, model="mini", input="Hi", phase=None)["param"] == "phase"


def test_reasoning_is_never_encrypted(client: TestClient, service: FakeService) -> None:
    """Clients that keep a conversation by themselves ask for it, whatever the model."""
    service.events = [Finished(result(text="Hi", reasoning="Hm."))]
    thought = respond(client, include=["reasoning.encrypted_content"], store=False)["output"][0]
    assert (thought["type"], thought["content"][0]["text"]) == ("reasoning", "Hm.")
    assert "logprobs" not in service.requests[0].options
    error = refusal(client, PATH, model="mini", input="Hi", include=["reasoning.encrypted_content"], top_logprobs=2)
    assert error["param"] == "top_logprobs"


def test_logprobs(client: TestClient, service: FakeService) -> None:
    service.events = [block("fig", logprobs=(logprob(),)), Finished(result(text="fig", logprobs=(logprob(),)))]
    asked = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
    for answer in (respond(client, **asked), events(client, **asked)[-1]["response"]):
        (token,) = answer["output"][0]["content"][0]["logprobs"]
        assert (token["token"], token["logprob"], len(token["top_logprobs"])) == ("fig", -0.5, 2)
    assert service.requests[0].options["logprobs"] == 2


LOGPROBS: Any = {"include": ["message.output_text.logprobs"]}


def parts(answer: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """The texts of an answer's messages, with the tokens whose log-probabilities they tell."""
    return [
        (part["text"], [token["token"] for token in part["logprobs"]])
        for item in answer["output"]
        if item["type"] == "message"
        for part in item["content"]
    ]


def test_a_stream_tells_the_logprobs_of_tokens_without_text_too(client: TestClient, service: FakeService) -> None:
    """Half characters, the end token, and thoughts: all that the whole answer tells of."""
    told = logprobs("Hello é<eos>")
    thought = logprobs("fig")
    blocks = [
        block("", "fig", logprobs=thought),
        block("Hello ", logprobs=told[:2]),
        block("", logprobs=told[2:3]),
        block("é", logprobs=told[3:4]),
        block("", logprobs=told[4:]),
    ]
    service.events = [*blocks, Finished(result(text="Hello é", reasoning="fig", logprobs=(*thought, *told)))]
    streamed = events(client, **LOGPROBS)
    last = streamed[-1]["response"]
    assert parts(last) == parts(respond(client, **LOGPROBS))
    (found,) = parts(last)
    assert len(found[1]) == 6
    deltas = [event for event in streamed if event["type"] == "response.output_text.delta"]
    assert [token["token"] for event in deltas for token in event["logprobs"]] == found[1]
    assert client.get(f"{PATH}/{last['id']}").json() == last
    whole = last["output"][-1]["content"][0]["logprobs"]
    assert bytes(byte for token in whole[1:-1] for byte in token["bytes"]).decode() == "Hello é"


def test_logprobs_beside_calls(client: TestClient, service: FakeService) -> None:
    told = logprobs("Hello fig pear<eos>")
    blocks = [
        block("Hello", logprobs=told[:1]),
        block("", logprobs=told[1:2]),
        block("", "", [CALL], logprobs=told[2:3]),
    ]
    service.events = [
        *blocks, block("", logprobs=told[3:]), Finished(result(text="Hello", tool_calls=(CALL,), logprobs=told))
    ]  # fmt: skip
    assert parts(events(client, **LOGPROBS)[-1]["response"]) == parts(respond(client, **LOGPROBS))


@pytest.mark.parametrize("reasoning", ["", "Hm."])
@pytest.mark.parametrize("calls", [(), (CALL,)])
@pytest.mark.parametrize("text", ["", " \n", "a"])
def test_a_stream_has_the_items_of_the_whole_answer(
    client: TestClient, service: FakeService, reasoning: str, calls: tuple[ToolCall, ...], text: str
) -> None:
    service.events = [
        block("", reasoning), block(text), block("", "", calls),
        Finished(result(text=text, reasoning=reasoning, tool_calls=calls)),
    ]  # fmt: skip
    found = [
        [(item["type"], item.get("content")) for item in answer["output"]]
        for answer in (respond(client), events(client)[-1]["response"])
    ]
    assert found[0] == found[1]


def test_refusals(client: TestClient, service: FakeService) -> None:
    def refused(**fields: Any) -> dict[str, Any]:
        return refusal(client, PATH, **{"model": "mini", "input": "Hi", **fields})

    assert refused(steps=3)["param"] == "steps"
    assert refused(background=True)["param"] == "background"
    assert refused(text={"format": {}})["message"] == "text.format.type is missing"
    reference = refused(input=[{"type": "item_reference", "id": "x"}])
    assert reference["param"] == "input[0].type"
    assert reference["message"].startswith("input[0].type: 'item_reference' is none of 'message', 'function_call'")
    assert "at least 1" in refused(input=[])["message"]
    assert refused(tools=[{"type": "web_search"}])["param"].startswith("tools[0]")
    assert refused(top_logprobs=2)["param"] == "top_logprobs"
    assert refused(diffusion={"draft_frames": True})["param"] == "diffusion.draft_frames"
    assert service.requests == []


def test_the_store_is_bounded() -> None:
    store = ResponseStore(most=3, characters=1000)
    for number in range(5):
        store.put({"id": f"r{number}"}, [{"role": "user", "content": "x" * 10}])
    assert [store.get(f"r{number}") is not None for number in range(5)] == [False, False, True, True, True]
    store.get("r2")
    store.put({"id": "r5"}, [{"role": "user", "content": "x" * 800}])
    assert store.get("r5") is not None
    store.put({"id": "large"}, [{"role": "user", "content": "x" * 2000}])
    assert store.get("large") is None
    assert store.get("r5") is not None
    store.put({"id": "again"}, [])
    assert len(store) == 3
    assert store.delete("again")
    assert not store.delete("again")


@pytest.mark.parametrize(
    ("query", "param", "code"),
    [
        ("stream=true", "stream", "unsupported_value"),
        ("starting_after=3", "starting_after", "unsupported_value"),
        ("include=message.output_text.logprobs", "include", "unsupported_value"),
        ("include[]=message.output_text.logprobs", "include[]", "unknown_field"),
        ("include_obfuscation=true", "include_obfuscation", "unsupported_value"),
    ],
)
def test_what_is_stored_is_told_whole(client: TestClient, query: str, param: str, code: str) -> None:
    whole = client.post("/v1/responses", json={"model": "mini", "input": "Hi"}).json()
    path = f"/v1/responses/{whole['id']}"
    response = client.get(f"{path}?{query}")
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["param"], error["code"]) == (param, code)
    assert client.get(f"{path}?stream=false&include_obfuscation=false").json() == whole


# The official client.


def test_sdk_whole_streamed_and_parsed(scripted: tuple[FakeService, Any]) -> None:
    service, client = scripted
    service.events = FakeService().events
    first = client.responses.create(model="mini", input="Hi")
    assert first.output_text == "Hello there"
    with client.responses.stream(model="mini", input="More", previous_response_id=first.id) as stream:
        deltas = [told.delta for told in stream if told.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert "".join(deltas) == final.output_text == "Hello there"
    assert final.usage.output_tokens == 3
    assert client.responses.retrieve(final.id).output_text == "Hello there"
    client.responses.delete(final.id)


def test_sdk_calls_thoughts_and_frames(scripted: tuple[FakeService, Any]) -> None:
    service, client = scripted
    whole = result(text="", reasoning="Hm.", tool_calls=(CALL,))
    service.events = [frame(), block("", "Hm."), block("", "", [CALL]), Finished(whole)]
    extra = {"diffusion": {"draft_frames": True}}
    with client.responses.stream(model="mini", input="Hi", tools=[WEATHER], extra_body=extra) as stream:
        final = stream.get_final_response()
    assert [item.type for item in final.output] == ["reasoning", "function_call"]
    assert json.loads(final.output[1].arguments) == {"city": "Köln"}
    output = {"type": "function_call_output", "call_id": final.output[1].call_id, "output": "rain"}
    service.events = FakeService().events
    assert client.responses.create(model="mini", input=[*final.output, output]).output_text == "Hello there"
    # The types of the client have fields that are none here, such as `caller` and `phase`.
    plain: Any = [{"role": "user", "content": "Hi"}, *(item.model_dump() for item in final.output), output]
    answered = client.responses.create(model="mini", input=plain)
    plain += [item.model_dump() for item in answered.output]
    assert client.responses.create(model="mini", input=plain).output_text == "Hello there"


def test_sdk_what_was_parsed_comes_back(scripted: tuple[FakeService, Any]) -> None:
    """The client sends what it made of a text beside the text."""
    from pydantic import BaseModel

    class City(BaseModel):
        city: str

    service, client = scripted
    service.events = [Finished(result(text='{"city": "Oslo"}'))]
    first = client.responses.parse(model="mini", input="Hi", text_format=City)
    assert first.output_parsed == City(city="Oslo")
    message = client.chat.completions.parse(
        model="mini", messages=[{"role": "user", "content": "Hi"}], response_format=City
    ).choices[0]
    asked: Any = {"role": "user", "content": "Hi"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the client, when it writes its own type
        client.responses.create(model="mini", input=[asked, *first.output, asked])
        client.chat.completions.create(model="mini", messages=[asked, message.message, asked])
    for request in service.requests[-2:]:
        assert [turn["content"] for turn in request.prompt] == ["Hi", '{"city": "Oslo"}', "Hi"]


def test_sdk_errors(scripted: tuple[FakeService, Any]) -> None:
    import openai

    service, client = scripted
    with pytest.raises(openai.BadRequestError, match="unknown field steps"):
        client.responses.create(model="mini", input="Hi", extra_body={"steps": 3})
    service.events = [block("Hello"), Failed("timeout", "not finished within 1 seconds")]
    told = list(client.responses.create(model="mini", input="Hi", stream=True))
    assert told[-1].type == "error"
    assert "not finished" in told[-1].message


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_output_tokens": 10**6}, "max_output_tokens"),
        ({"tool_choice": {"type": "function", "name": "clock"}, "tools": [WEATHER]}, "tool_choice.name"),
        (
            {"structured_outputs": {"regex": "a"}, "text": {"format": {"type": "json_object"}}},
            "structured_outputs",
        ),
    ],
)
def test_errors_name_the_fields_of_this_interface(client: TestClient, fields: dict[str, Any], param: str) -> None:
    response = client.post(PATH, json={"model": "mini", "input": "Hi", **fields})
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, param)
    assert not any(name in error["message"] for name in ("max_tokens", "response_format", "function"))


@pytest.mark.parametrize("stream", [False, True])
def test_errors_of_the_engine_name_the_fields_of_this_interface(
    client: TestClient, service: FakeService, stream: bool
) -> None:
    service.events = [Failed("refused", "max_new_tokens is 1, which is too few", "max_new_tokens")]
    response = client.post(PATH, json={"model": "mini", "input": "Hi", "stream": stream})
    told = parse_events(response.text)[-1][1] if stream else json.dumps(response.json()["error"])
    error = json.loads(told)
    assert (error["param"], error["message"]) == ("max_output_tokens", "max_output_tokens is 1, which is too few")


def test_instructions_stand_beside_a_system_message(client: TestClient, service: FakeService) -> None:
    items = [{"role": "developer", "content": "Be short."}, {"role": "user", "content": "Hi"}]
    respond(client, instructions="Be kind.", input=items)
    assert list(service.requests[-1].prompt) == [
        {"role": "system", "content": "Be kind.\n\nBe short."},
        {"role": "user", "content": "Hi"},
    ]


def test_errors_keep_the_client_s_own_words_and_claim_no_item(client: TestClient, service: FakeService) -> None:
    told = "regular expression '(messages|max_tokens': an unmatched ( at character 0"
    service.events = [Failed("refused", told, "regex")]
    assert client.post(PATH, json={"model": "mini", "input": "Hi"}).json()["error"]["message"] == told
    call = {"type": "function_call", "call_id": "c", "name": "weather", "arguments": "[1]"}
    items = [{"role": "user", "content": "Hi"}, call]
    response = client.post(PATH, json={"model": "mini", "instructions": "Be kind.", "input": items})
    assert response.json()["error"]["param"] == "input"


def test_a_budget_of_reasoning_is_called_what_it_is_here(client: TestClient, service: FakeService) -> None:
    service.events = [Failed("refused", "thinking_budget needs a model that reasons", "thinking_budget")]
    error = client.post(PATH, json={"model": "mini", "input": "Hi"}).json()["error"]
    assert (error["param"], error["message"]) == ("reasoning.effort", "reasoning.effort needs a model that reasons")


def test_counted_tokens_are_those_of_the_answers_usage(mini_url: str) -> None:
    openai = pytest.importorskip("openai")
    call = {"type": "function_call", "call_id": "c", "name": "weather", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "rain"}
    image = {"type": "input_image", "image_url": "data:image/png;base64,"}
    with openai.OpenAI(base_url=f"{mini_url}/v1", api_key="none", max_retries=0) as client:
        count, create = client.responses.input_tokens.count, client.responses.create
        before = create(model="mini", input="What is 481 + 296?").id
        prompts: list[dict[str, Any]] = [
            {"input": "What is 1 + 2?"},
            {"input": "What is 1 + 2?", "instructions": "Be kind."},
            {"input": "What is 1 + 2?", "previous_response_id": before},
            {"input": "Hi", "tools": [WEATHER]},
            {"input": "Hi", "tools": [WEATHER], "tool_choice": "none"},
            {"input": "Hi", "reasoning": {"effort": "low"}, "truncation": "disabled"},
            {
                "input": [{"role": "user", "content": "Hi"}, call, output],
                "tools": [WEATHER],
                "text": {"format": {"type": "text"}},
            },
        ]
        counted = [count(model="mini", **prompt).input_tokens for prompt in prompts]
        used = [create(model="mini", max_output_tokens=4, **prompt).usage.input_tokens for prompt in prompts]
        with pytest.raises(openai.NotFoundError, match="no model"):
            count(model="gpt-4", input="Hi")
        with pytest.raises(openai.NotFoundError, match="no response 'resp_x'"):
            count(model="mini", input="Hi", previous_response_id="resp_x")
        with pytest.raises(openai.BadRequestError, match="unknown field max_output_tokens"):
            count(model="mini", input="Hi", extra_body={"max_output_tokens": 1})
        with pytest.raises(openai.BadRequestError, match="more than") as long:
            count(model="mini", input="x " * 100_000)
        with pytest.raises(openai.BadRequestError, match="no vision tower"):
            count(model="mini", input=[{"role": "user", "content": [image]}])
    assert counted == used
    assert long.value.param == "input"


def test_a_stored_response_tells_what_it_answered(scripted: tuple[FakeService, Any]) -> None:
    service, client = scripted
    service.events = [block("", "", [CALL]), Finished(result(text="", tool_calls=(CALL,)))]
    said: Any = {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
    first = client.responses.create(model="mini", input=[said], tools=[WEATHER])
    service.events = FakeService().events
    output: Any = {"type": "function_call_output", "call_id": first.output[0].call_id, "output": "rain"}
    second = client.responses.create(model="mini", input=[output], previous_response_id=first.id)
    third = client.responses.create(model="mini", input="And?", previous_response_id=second.id)
    whole = client.responses.input_items.list(third.id, order="asc").data
    kinds = [item.type for item in whole]
    assert kinds == ["message", "function_call", "function_call_output", "message", "message"]
    assert [item.status for item in whole] == ["completed"] * 5
    assert whole[1].id == first.output[0].id
    assert whole[3].content[0].text == "Hello there"
    assert (whole[4].role, whole[4].content[0].type, whole[4].content[0].text) == ("user", "input_text", "And?")
    # The client asks for page after page; the newest come first.
    assert [item.id for item in client.responses.input_items.list(third.id, limit=2)] == [i.id for i in whole[::-1]]
    assert client.responses.input_items.list(first.id).data[0].content[0].text == "Hi"


def test_items_of_a_page_that_is_none_are_refused(client: TestClient) -> None:
    path = f"{PATH}/{respond(client)['id']}/input_items"
    assert client.get(f"{PATH}/resp_0/input_items").json()["error"]["code"] == "response_not_found"
    wrong = client.get(path, params={"after": "msg_0"})
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "after")
    assert client.get(path, params={"limit": "0"}).json()["error"]["param"] == "limit"
    assert client.get(path, params={"order": "up"}).json()["error"]["param"] == "order"
    last = client.get(path).json()["last_id"]
    assert client.get(path, params={"after": last}).json() == {
        "object": "list", "data": [], "first_id": "", "last_id": "", "has_more": False,
    }  # fmt: skip


def test_some_of_the_tools_are_allowed(client: TestClient, service: FakeService) -> None:
    other = {**WEATHER, "name": "clock"}
    choice = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "clock"}]}
    answer = respond(client, tools=[WEATHER, other], tool_choice=choice)
    assert answer["tool_choice"] == choice
    assert [tool["name"] for tool in answer["tools"]] == ["weather", "clock"]
    options = service.requests[-1].options
    assert [tool["function"]["name"] for tool in options["tools"]] == ["clock"]
    assert options["tool_choice"] == "required"
    wrong = refusal(client, PATH, model="mini", input="Hi", tools=[WEATHER], tool_choice=choice)
    assert (wrong["param"], wrong["message"]) == ("tool_choice.tools", "tool_choice.tools: no tool has the name clock")


def test_an_answer_that_no_prompt_can_hold_is_refused_where_it_is_gone_on_from(
    client: TestClient, service: FakeService
) -> None:
    """A model may call a function by a name that no request may have."""
    service.events = [Finished(result(text="", tool_calls=(ToolCall("f" * 200, "{}"),)))]
    first = respond(client)
    wrong = refusal(client, PATH, model="mini", input="x", previous_response_id=first["id"])
    assert wrong["param"] == "previous_response_id"
    assert wrong["message"].startswith("what is stored cannot be asked again: ")
