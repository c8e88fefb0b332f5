"""Chat completions: what reaches the engine, and what comes back."""

import json
from typing import Any, cast

import pytest
from starlette.testclient import TestClient

from gesso.engine.async_engine import Limits
from gesso.engine.events import Finished
from gesso.server.answers import ChatCompletion
from gesso.text.output import ToolCall
from server.conftest import ask, chat_body, make_client, refusal
from server.fake import FakeService, block, logprob, logprobs, result

WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
CLOCK = {"type": "function", "function": {"name": "clock"}}


def options(client: TestClient, service: FakeService, **fields: Any) -> dict[str, Any]:
    """The engine's options for a request with these fields."""
    ask(client, **fields)
    return dict(service.requests[-1].options)


def call_token(service: FakeService) -> int:
    return service.engine.tokenizer.special["<|tool_call>"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["chat/completions", "completions"])
def test_the_stop_string_is_named(client: TestClient, service: FakeService, path: str, stream: bool) -> None:
    service.events = [Finished(result(stop_string="\n"))]
    prompt = {"prompt": "fig"} if path == "completions" else {"messages": [{"role": "user", "content": "fig"}]}
    response = client.post(f"/v1/{path}", json={"model": "mini", "stop": "\n", "stream": stream, **prompt})
    if stream:
        chunks = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: {")]
        choices = [choice for chunk in chunks for choice in json.loads(chunk)["choices"]]
    else:
        choices = response.json()["choices"]
    assert [choice["stop_reason"] for choice in choices if choice["finish_reason"]] == ["\n"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["chat/completions", "completions"])
@pytest.mark.parametrize(
    ("ended", "reason"), [({}, 7), ({"finish_reason": "length"}, None), ({"stop_string": "a"}, "a")]
)
def test_the_token_that_a_request_stops_at_is_named(
    client: TestClient, service: FakeService, path: str, stream: bool, ended: dict[str, Any], reason: int | str | None
) -> None:
    service.events = [Finished(result(**ended))]
    prompt = {"prompt": "fig"} if path == "completions" else {"messages": [{"role": "user", "content": "fig"}]}
    asked = {"model": "mini", "stop": "a", "stop_token_ids": [8, 7], "stream": stream, **prompt}
    response = client.post(f"/v1/{path}", json=asked)
    if stream:
        chunks = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: {")]
        choices = [choice for chunk in chunks for choice in json.loads(chunk)["choices"]]
    else:
        choices = response.json()["choices"]
    assert [choice.get("stop_reason") for choice in choices if choice["finish_reason"]] == [reason]


def test_stop_tokens_stand_beside_the_models_own_or_in_their_place(client: TestClient, service: FakeService) -> None:
    own = service.engine.defaults.eos_token_ids
    assert options(client, service, stop_token_ids=[8, 7]) == {"eos_token_ids": (*own, 8, 7)}
    assert options(client, service, stop_token_ids=[8], ignore_eos=True) == {"eos_token_ids": (8,)}
    assert options(client, service, stop_token_ids=[], ignore_eos=True) == {"ignore_eos": True}
    both = {"ignore_eos": True, "diffusion": {"ignore_eos": True}}
    assert options(client, service, **both) == {"ignore_eos": True}
    assert refusal(client, ignore_eos=True, diffusion={"ignore_eos": False})["param"] == "ignore_eos"
    assert refusal(client, stop_token_ids=[5, 1811])["param"] == "stop_token_ids"


def test_fields_of_vllm_reach_the_engine(client: TestClient, service: FakeService) -> None:
    sent = {"min_tokens": 3, "include_stop_str_in_output": True, "skip_special_tokens": True}
    assert options(client, service, **sent) == {"min_new_tokens": 3, "include_stop": True}
    assert refusal(client, skip_special_tokens=False)["param"] == "skip_special_tokens"


# Going on with an answer

HALF = [{"role": "user", "content": "Say hello."}, {"role": "assistant", "content": "Hello"}]


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_is_gone_on_with(client: TestClient, service: FakeService, stream: bool) -> None:
    asked = {"model": "mini", "messages": HALF, "continue_final_message": True, "add_generation_prompt": False}
    service.events = [block(" there"), Finished(result(text=" there"))]
    response = client.post("/v1/chat/completions", json={**asked, "stream": stream, "n": 2})
    for request in service.requests:
        assert request.options["begun"] == "Hello"
        assert [message["role"] for message in cast("list[Any]", request.prompt)] == ["user"]
    if stream:
        chunks = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
        choices = [choice for chunk in chunks for choice in chunk["choices"]]
        texts = [
            "".join(choice["delta"].get("content") or "" for choice in choices if choice["index"] == number)
            for number in (0, 1)
        ]
    else:
        texts = [choice["message"]["content"] for choice in response.json()["choices"]]
    assert texts == [" there"] * 2


def test_a_beginning_may_follow_what_was_there(client: TestClient, service: FakeService) -> None:
    given = options(client, service, messages=HALF, continue_final_message=True, diffusion={"begin": " you"})
    assert given == {"begun": "Hello", "begin": " you"}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": HALF[:1], "continue_final_message": True}, "continue_final_message"),
        ({"messages": HALF[1:], "continue_final_message": True}, "continue_final_message"),
        ({"messages": HALF, "continue_final_message": True, "add_generation_prompt": True}, "add_generation_prompt"),
        ({"messages": HALF, "add_generation_prompt": False}, "add_generation_prompt"),
        (
            {"messages": [HALF[0], {"role": "assistant", "content": ""}], "continue_final_message": True},
            "continue_final_message",
        ),
    ],
)
def test_what_cannot_be_gone_on_with_is_refused(client: TestClient, fields: dict[str, Any], param: str) -> None:
    assert refusal(client, **fields)["param"] == param


def test_a_turn_of_its_own_is_what_an_answer_is(client: TestClient, service: FakeService) -> None:
    asked = {"messages": HALF, "add_generation_prompt": True, "continue_final_message": False}
    assert options(client, service, **asked) == {}


def test_the_answer_has_openais_shape(client: TestClient) -> None:
    answer = ask(client)
    ChatCompletion.model_validate(answer)
    assert answer["id"].startswith("chatcmpl-")
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "mini"
    assert answer["system_fingerprint"].startswith("fp_")
    assert answer["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello there", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
            "diffusion": {
                "seed": 9,
                "denoising_steps": [2, 4],
                "converged": [True, False],
                "tokens_per_forward": 0.5,
                "mode": "canvas",
            },
        }
    ]
    assert answer["usage"] == {
        "prompt_tokens": 11,
        "completion_tokens": 3,
        "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def test_a_plain_request_leaves_everything_to_the_model(client: TestClient, service: FakeService) -> None:
    assert options(client, service) == {}
    request = service.requests[0]
    assert (request.adapter, request.frames) == (None, False)
    assert request.prompt == [{"role": "user", "content": "Hi"}]


def test_sampling_fields_reach_the_engine(client: TestClient, service: FakeService) -> None:
    sent = {
        "max_tokens": 50,
        "temperature": 0,
        "top_p": 0.9,
        "top_k": 3,
        "min_p": 0.05,
        "frequency_penalty": 0.5,
        "presence_penalty": -1,
        "repetition_penalty": 1.1,
        "penalty_window": 32,
        "seed": 5,
        "stop": "\n",
        "logit_bias": {"7": -2, "8": 1.5},
        "diffusion": {
            "max_denoising_steps": 9,
            "entropy_bound": 0.2,
            "t_min": 0.1,
            "t_max": 0.9,
            "stability_threshold": 2,
            "confidence_threshold": 0.01,
            "canvas_length": 16,
            "start_canvas": [1, 2],
            "ignore_eos": True,
        },
    }
    assert options(client, service, **sent) == {
        "max_new_tokens": 50,
        "temperature": 0,
        "top_p": 0.9,
        "top_k": 3,
        "min_p": 0.05,
        "frequency_penalty": 0.5,
        "presence_penalty": -1,
        "repetition_penalty": 1.1,
        "penalty_window": 32,
        "seed": 5,
        "stop": ("\n",),
        "logit_bias": {7: -2.0, 8: 1.5},
        **sent["diffusion"],
    }


def test_max_completion_tokens_is_the_same_as_max_tokens(client: TestClient, service: FakeService) -> None:
    assert options(client, service, max_completion_tokens=7)["max_new_tokens"] == 7
    assert options(client, service, max_completion_tokens=7, max_tokens=7)["max_new_tokens"] == 7
    assert refusal(client, max_completion_tokens=7, max_tokens=8)["param"] == "max_tokens"


def test_fields_without_effect_by_definition_are_taken(client: TestClient, service: FakeService) -> None:
    fields = {"user": "u", "metadata": {"a": "b"}, "store": False, "service_tier": "auto", "prompt_cache_key": "k"}
    neutral = {"response_format": {"type": "text"}, "n": 1}
    assert options(client, service, **fields, **neutral, modalities=["text"]) == {}


def test_null_is_the_same_as_left_out(client: TestClient, service: FakeService) -> None:
    names = ("temperature", "stop", "n", "tools", "seed", "functions", "stream", "diffusion", "logit_bias")
    assert options(client, service, **dict.fromkeys(names)) == {}


def test_several_choices_count_the_seed_up(client: TestClient, service: FakeService) -> None:
    answer = ask(client, n=3, seed=40)
    assert [request.options["seed"] for request in service.requests] == [40, 41, 42]
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert answer["usage"]["prompt_tokens"] == 11
    assert answer["usage"]["completion_tokens"] == 9


def test_more_choices_than_the_server_holds_are_refused() -> None:
    service = FakeService(Limits(max_num_seqs=1, max_waiting=1))
    assert refusal(make_client(service), n=3)["param"] == "n"
    assert service.requests == []


def test_an_adapter_is_asked_for_by_name(client: TestClient, service: FakeService) -> None:
    assert ask(client, model="mini:sudoku")["model"] == "mini:sudoku"
    assert service.requests[0].adapter == "sudoku"


@pytest.mark.parametrize("model", ["gpt-4", "mini:", "mini:chess", "", "MINI"])
def test_an_unknown_model_is_not_found(client: TestClient, model: str) -> None:
    error = refusal(client, status=404, model=model)
    assert (error["code"], error["param"]) == ("model_not_found", "model")


# Messages.


def test_messages_reach_the_template_as_it_takes_them(client: TestClient, service: FakeService) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "clock", "arguments": '{"zone": "UTC"}'}}
    messages = [
        {"role": "developer", "content": "Be short."},
        {"role": "user", "content": [{"type": "text", "text": "What"}, {"type": "text", "text": " time?"}]},
        {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "hm", "refusal": None},
        {"role": "tool", "tool_call_id": "call_1", "content": "noon"},
        {"role": "assistant", "content": "Noon."},
        {"role": "user", "content": "Thanks"},
    ]
    ask(client, messages=messages)
    assert service.requests[0].prompt == [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": [{"type": "text", "text": "What"}, {"type": "text", "text": " time?"}]},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "clock", "arguments": {"zone": "UTC"}}}
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "noon"},
        {"role": "assistant", "content": "Noon."},
        {"role": "user", "content": "Thanks"},
    ]
    assert service.engine.template is not None
    assert 'call:clock{zone:<|"|>UTC<|"|>}' in service.engine.template.render(service.requests[0].prompt)


@pytest.mark.parametrize("arguments", ["{", "[1]", "3", '{"a": NaN}', '"text"'])
def test_arguments_of_a_call_must_be_an_object(client: TestClient, arguments: str) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [call]}]
    assert refusal(client, messages=messages)["param"] == "messages[1].tool_calls[0].function.arguments"


# Predicted answers.


@pytest.mark.parametrize(
    "content", ["Hello there", [{"type": "text", "text": "Hello "}, {"type": "text", "text": "there"}]]
)
def test_a_prediction_is_what_canvases_start_from(client: TestClient, service: FakeService, content: Any) -> None:
    prediction = {"type": "content", "content": content}
    predicted = service.engine.tokenizer.encode("Hello there")
    service.events = [Finished(result(token_ids=(7, *predicted[:-1], 8)))]
    answer = ask(client, prediction=prediction, diffusion={"strength": 0.5}, n=2)
    assert service.requests[-1].options["prediction"] == "Hello there"
    assert service.requests[-1].options["strength"] == 0.5
    details = answer["usage"]["completion_tokens_details"]
    assert details["accepted_prediction_tokens"] == 2 * (len(predicted) - 1)
    assert details["rejected_prediction_tokens"] == 2


def test_an_empty_prediction_is_none(client: TestClient, service: FakeService) -> None:
    assert options(client, service, prediction={"type": "content", "content": ""}) == {}


# Thoughts.


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {}),
        ({"reasoning_effort": "none"}, {}),
        ({"reasoning_effort": "minimal"}, {}),
        ({"reasoning_effort": "low"}, {"thinking": True, "thinking_share": 0.25}),
        ({"reasoning_effort": "medium"}, {"thinking": True, "thinking_share": 0.5}),
        ({"reasoning_effort": "high"}, {"thinking": True, "thinking_share": 0.75}),
        ({"reasoning_effort": "xhigh"}, {"thinking": True, "thinking_share": 0.75}),
        ({"reasoning_effort": "max"}, {"thinking": True, "thinking_share": 0.75}),
        ({"chat_template_kwargs": {"enable_thinking": True}}, {"thinking": True, "thinking_share": 0.75}),
        ({"chat_template_kwargs": {"enable_thinking": False}}, {}),
        ({"thinking_budget": 10}, {"thinking": True, "thinking_budget": 10}),
        ({"chat_template_kwargs": {"thinking_budget": 10}}, {"thinking": True, "thinking_budget": 10}),
    ],
)
def test_thinking(client: TestClient, service: FakeService, fields: dict[str, Any], expected: dict[str, Any]) -> None:
    assert options(client, service, **fields) == expected


def test_a_thought_may_come_before_what_is_constrained(client: TestClient, service: FakeService) -> None:
    thinking = {"thinking": True, "thinking_share": 0.25}
    called = options(client, service, reasoning_effort="low", tools=[WEATHER], tool_choice="required")
    assert called == {"tools": [WEATHER], "tool_choice": "required", **thinking}
    shaped = options(client, service, reasoning_effort="low", response_format={"type": "json_object"})
    assert shaped == {"json_object": True, **thinking}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": True}}, "reasoning_effort"),
        ({"reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": False}}, "reasoning_effort"),
        ({"reasoning_effort": "low", "thinking_budget": 5}, "thinking_budget"),
        ({"thinking_budget": 5, "chat_template_kwargs": {"enable_thinking": False}}, "thinking_budget"),
        ({"thinking_budget": 5, "chat_template_kwargs": {"thinking_budget": 6}}, "thinking_budget"),
        ({"thinking_budget": 16, "max_tokens": 16}, "thinking_budget"),
        ({"chat_template_kwargs": {"thinking_budget": 1000}, "max_completion_tokens": 16}, "thinking_budget"),
        ({"thinking_budget": 256}, "thinking_budget"),  # the default of max_tokens
    ],
)
def test_contradictions_about_thinking(client: TestClient, fields: dict[str, Any], param: str) -> None:
    assert refusal(client, **fields)["param"] == param


def test_thoughts_have_their_own_field(client: TestClient, service: FakeService) -> None:
    service.events = [Finished(result(reasoning="Let me see.", reasoning_tokens=2))]
    answer = ask(client, reasoning_effort="low")
    message = answer["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"], message["reasoning"]) == (
        "Hello there",
        "Let me see.",
        "Let me see.",
    )
    assert answer["usage"]["completion_tokens_details"] == {"reasoning_tokens": 2}


def test_system_messages_that_begin_a_conversation_are_one(client: TestClient, service: FakeService) -> None:
    """Agents send several; chat formats have one. Later ones stay where they are."""
    said = [("system", "Be kind."), ("developer", "Be short."), ("user", "Hi"), ("system", "Now be loud.")]
    ask(client, messages=[{"role": role, "content": text} for role, text in said])
    sent: Any = list(service.requests[-1].prompt)
    assert [message["role"] for message in sent] == ["system", "user", "system"]
    assert sent[0]["content"] == "Be kind.\n\nBe short."
    parts = [{"type": "text", "text": "Be short."}]
    ask(client, messages=[{"role": "system", "content": "Be kind."}, {"role": "system", "content": parts}])
    (joined,) = list(service.requests[-1].prompt)
    assert [part["text"] for part in joined["content"]] == ["Be kind.", "\n\n", "Be short."]  # type: ignore[index,call-overload]


# Tools.


def test_tools_are_shown_to_the_model(client: TestClient, service: FakeService) -> None:
    for choice in ({}, {"tool_choice": "auto"}, {"tool_choice": None}, {"parallel_tool_calls": True}):
        ask(client, tools=[WEATHER], **choice)
        assert dict(service.requests[-1].options) == {"tools": [WEATHER]}


FORM: Any = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}


def test_beside_tools_a_form_is_that_of_the_text(client: TestClient, service: FakeService) -> None:
    """Where calls are asked for there is no text, and nothing of the form is left."""
    held = {"tools": [WEATHER], "json_schema": {"type": "object"}}
    assert options(client, service, tools=[WEATHER], response_format=FORM) == held
    named = {"type": "function", "function": {"name": "weather"}}
    for choice in ("required", named):
        asked = options(client, service, tools=[WEATHER], response_format=FORM, tool_choice=choice)
        assert asked == {"tools": [WEATHER], "tool_choice": choice}
    assert options(client, service, tools=[WEATHER], response_format=FORM, tool_choice="none") == {
        "json_schema": {"type": "object"},
        "logit_bias": {call_token(service): -100.0},
    }


def test_names_of_functions_may_be_as_long_as_any_client_s(client: TestClient) -> None:
    ask(client, tools=[{"type": "function", "function": {"name": "a" * 128}}])
    refusal(client, tools=[{"type": "function", "function": {"name": "a" * 129}}])


def test_what_says_nothing_of_the_answer_is_taken(client: TestClient, service: FakeService) -> None:
    assert options(client, service, prompt_cache_key="a", prompt_cache_retention="24h") == {}
    padding = {"include_usage": True, "include_obfuscation": False}
    response = client.post("/v1/chat/completions", json=chat_body(stream=True, stream_options=padding))
    assert response.status_code == 200
    padded = refusal(client, stream=True, stream_options={"include_obfuscation": True})
    assert padded["param"] == "stream_options.include_obfuscation"


def test_none_shows_no_tools_and_bars_calls(client: TestClient, service: FakeService) -> None:
    ask(client, tools=[WEATHER], tool_choice="none", logit_bias={"7": 1})
    assert dict(service.requests[-1].options) == {"logit_bias": {7: 1.0, call_token(service): -100.0}}


def test_without_tools_nothing_is_barred(client: TestClient, service: FakeService) -> None:
    """A bias costs a slower pass."""
    for fields in ({}, {"tools": []}, {"tool_choice": "none"}, {"tool_choice": "auto"}, {"parallel_tool_calls": True}):
        ask(client, **fields)
        assert dict(service.requests[-1].options) == {}


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "clock"}}])
def test_a_call_can_be_demanded(client: TestClient, service: FakeService, choice: Any) -> None:
    tools = [WEATHER, CLOCK]
    assert options(client, service, tools=tools, tool_choice=choice) == {"tools": tools, "tool_choice": choice}


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_some_of_the_tools_are_allowed(client: TestClient, service: FakeService, mode: str) -> None:
    """The prompt tells of the others as little as if they were not there."""
    named = {"type": "function", "function": {"name": "clock"}}
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [named]}}
    asked = options(client, service, tools=[WEATHER, CLOCK], tool_choice=choice)
    assert asked == {"tools": [CLOCK], **({"tool_choice": mode} if mode == "required" else {})}
    wrong = refusal(client, tools=[WEATHER], tool_choice=choice)
    assert wrong["param"] == "tool_choice.allowed_tools"
    assert "clock" in wrong["message"]


def test_one_call_at_most_and_strict_arguments_can_be_asked_for(client: TestClient, service: FakeService) -> None:
    tools = [{"type": "function", "function": {**CLOCK["function"], "strict": True}}]
    asked = options(client, service, tools=tools, parallel_tool_calls=False)
    assert asked == {"tools": tools, "parallel_tool_calls": False}


def test_calls_come_back_in_openais_form(client: TestClient, service: FakeService) -> None:
    calls = (ToolCall("weather", '{"city": "Köln"}'), ToolCall("clock", "{}"))
    service.events = [Finished(result(text="", tool_calls=calls))]
    choice = ask(client, tools=[WEATHER, CLOCK])["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    first, second = choice["message"]["tool_calls"]
    assert first["id"].startswith("call_")
    assert first["id"] != second["id"]
    assert first["type"] == "function"
    assert first["function"]["name"] == "weather"
    assert json.loads(first["function"]["arguments"]) == {"city": "Köln"}
    assert set(first) == {"id", "type", "function"}


def test_an_answer_goes_back_in_as_it_came(client: TestClient, service: FakeService) -> None:
    service.events = [Finished(result(text="", reasoning="hm", tool_calls=(ToolCall("clock", "{}"),)))]
    message = ask(client, tools=[CLOCK])["choices"][0]["message"]
    tool = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "noon"}
    ask(client, tools=[CLOCK], messages=[{"role": "user", "content": "?"}, message, tool])


def test_text_beside_calls_stays(client: TestClient, service: FakeService) -> None:
    service.events = [Finished(result(text="I look.", tool_calls=(ToolCall("clock", "{}"),)))]
    assert ask(client, tools=[CLOCK])["choices"][0]["message"]["content"] == "I look."


def test_a_cut_answer_says_so_even_beside_calls(client: TestClient, service: FakeService) -> None:
    service.events = [Finished(result(finish_reason="length", tool_calls=(ToolCall("clock", "{}"),)))]
    assert ask(client, tools=[CLOCK])["choices"][0]["finish_reason"] == "length"


def test_warnings_stand_in_the_choice(client: TestClient, service: FakeService) -> None:
    service.events = [Finished(result(text="call:x{", warnings=("a tool call cannot be read",)))]
    choice = ask(client, tools=[CLOCK])["choices"][0]
    assert choice["warnings"] == ["a tool call cannot be read"]
    assert choice["message"]["content"] == "call:x{"
    assert choice["finish_reason"] == "stop"


# Log-probabilities.


def test_logprobs(client: TestClient, service: FakeService) -> None:
    service.events = [Finished(result(text="fig", logprobs=(logprob("fig"),)))]
    answer = ask(client, logprobs=True, top_logprobs=2)
    assert service.requests[0].options["logprobs"] == 2
    assert answer["choices"][0]["logprobs"] == {
        "content": [
            {
                "token": "fig",
                "logprob": -0.5,
                "bytes": [102, 105, 103],
                "top_logprobs": [
                    {"token": "fig", "logprob": -0.5, "bytes": [102, 105, 103]},
                    {"token": "b", "logprob": -1.5, "bytes": [98]},
                ],
            }
        ],
        "refusal": None,
    }


def test_the_bytes_of_half_characters_are_their_own(client: TestClient, service: FakeService) -> None:
    service.events = [Finished(result(text="é€!", logprobs=logprobs("é€!")))]
    found = ask(client, logprobs=True, top_logprobs=2)["choices"][0]["logprobs"]["content"]
    assert len(found) == 6
    assert bytes(byte for token in found for byte in token["bytes"]).decode() == "é€!"
    assert [token["top_logprobs"][0]["bytes"] for token in found] == [token["bytes"] for token in found]


def test_logprobs_without_a_number_are_of_the_tokens_alone(client: TestClient, service: FakeService) -> None:
    assert options(client, service, logprobs=True)["logprobs"] == 0
    assert options(client, service, logprobs=False) == {}
    assert refusal(client, top_logprobs=3)["param"] == "top_logprobs"


def test_the_body_may_have_a_charset(client: TestClient) -> None:
    body = json.dumps(chat_body())
    response = client.post(
        "/v1/chat/completions", content=body, headers={"Content-Type": "Application/JSON; charset=utf-8"}
    )
    assert response.status_code == 200
