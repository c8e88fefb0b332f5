"""Clients that people use, against a real server: the bundled model where it can do it, prepared answers else."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

from gesso.api import load
from gesso.config import LoraConfig
from gesso.engine.async_engine import AsyncEngine
from gesso.engine.events import Failed, Finished
from gesso.models.adapter_files import save_adapter
from gesso.models.adapters import adapter_parameters, attach
from gesso.text.output import ToolCall
from server.conftest import eventually, parse_events, running
from server.fake import FakeService, block, frame, result

QUESTION: list[Any] = [{"role": "user", "content": "What is 481 + 296?"}]
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
CALL = ToolCall("weather", '{"city": "Köln"}')


@pytest.fixture(scope="module")
def scripted() -> Iterator[tuple[FakeService, str]]:
    """A service that answers as told, and its address."""
    service = FakeService()
    with running(service, api_keys=("secret",)) as url:
        yield service, url


@pytest.fixture
def openai() -> Any:
    return pytest.importorskip("openai")


def sdk(openai: Any, url: str, key: str = "none") -> Any:
    return openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)


# The official SDK with the bundled model.


def test_sdk_chat(openai: Any, mini_url: str) -> None:
    with sdk(openai, mini_url) as client:
        first, second = (client.chat.completions.create(model="mini", messages=QUESTION, seed=7) for _ in range(2))
    assert first.choices[0].message.content == second.choices[0].message.content == "777"
    assert first.choices[0].finish_reason == "stop"
    assert first.usage.prompt_tokens > 10
    assert first.choices[0].diffusion["seed"] == 7


def test_sdk_stream_with_usage(openai: Any, mini_url: str) -> None:
    with sdk(openai, mini_url) as client:
        chunks = list(
            client.chat.completions.create(
                model="mini", messages=QUESTION, seed=7, stream=True, stream_options={"include_usage": True}
            )
        )
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text == "777"
    assert chunks[-1].usage.completion_tokens == 4
    assert [choice.finish_reason for chunk in chunks for choice in chunk.choices][-1] == "stop"


def test_sdk_stop_max_tokens_and_choices(openai: Any, mini_url: str) -> None:
    counting: Any = [{"role": "user", "content": "Count from 1 to 60 separated by commas."}]
    with sdk(openai, mini_url) as client:
        several = client.chat.completions.create(model="mini", messages=QUESTION, n=2, seed=3)
        alone = client.chat.completions.create(model="mini", messages=QUESTION, seed=4)
        cut = client.chat.completions.create(model="mini", messages=counting, max_completion_tokens=5, seed=1)
        stopped = client.chat.completions.create(model="mini", messages=QUESTION, seed=7, stop=["77"])
    assert [choice.index for choice in several.choices] == [0, 1]
    assert several.choices[1].message.content == alone.choices[0].message.content
    assert (cut.choices[0].finish_reason, cut.usage.completion_tokens) == ("length", 5)
    assert (stopped.choices[0].message.content, stopped.choices[0].finish_reason) == ("", "stop")


def test_sdk_logprobs(openai: Any, mini_url: str) -> None:
    with sdk(openai, mini_url) as client:
        answer = client.chat.completions.create(model="mini", messages=QUESTION, seed=7, logprobs=True, top_logprobs=3)
        older = client.completions.create(model="mini", prompt="1, 2, 3,", logprobs=2, max_tokens=6, seed=1)
    content = answer.choices[0].logprobs.content
    assert "".join(token.token for token in content).startswith("777")
    for token in content:
        assert token.logprob <= 0
        assert len(token.top_logprobs) == 3
        assert token.top_logprobs[0].logprob >= token.top_logprobs[1].logprob
    assert len(older.choices[0].logprobs.tokens) == older.usage.completion_tokens
    assert older.choices[0].logprobs.text_offset[0] == 0


def test_sdk_frames_are_chunks_that_add_nothing(openai: Any, mini_url: str) -> None:
    extra = {"diffusion": {"draft_frames": True}}
    with sdk(openai, mini_url) as client:
        chunks = list(
            client.chat.completions.create(model="mini", messages=QUESTION, seed=7, stream=True, extra_body=extra)
        )
        # The SDK's own accumulation of a stream sees an ordinary answer.
        with client.chat.completions.stream(model="mini", messages=QUESTION, seed=7, extra_body=extra) as events:
            final = events.get_final_completion()
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "777"
    frames = [chunk.draft for chunk in chunks if getattr(chunk, "draft", None)]
    assert [frame["step"] for frame in frames] == list(range(1, len(frames) + 1))
    assert len(frames[0]["tokens"]) == len(frames[0]["pieces"]) == len(frames[0]["accepted"]) == 32
    assert final.choices[0].message.content == "777"
    assert final.choices[0].finish_reason == "stop"


def test_async_sdk(openai: Any, mini_url: str) -> None:
    async def both() -> tuple[str, str]:
        async with openai.AsyncOpenAI(base_url=f"{mini_url}/v1", api_key="none") as client:
            whole, stream = await asyncio.gather(
                client.chat.completions.create(model="mini", messages=QUESTION, seed=7),
                client.chat.completions.create(
                    model="mini",
                    messages=QUESTION,
                    seed=7,
                    stream=True,
                    extra_body={"diffusion": {"draft_frames": True}},
                ),
            )
            parts = [chunk.choices[0].delta.content or "" async for chunk in stream]
            return whole.choices[0].message.content, "".join(parts)

    assert asyncio.run(both()) == ("777", "777")


def test_sdk_models_and_errors(openai: Any, mini_url: str) -> None:
    with sdk(openai, mini_url) as client:
        assert [model.id for model in client.models.list()] == ["mini"]
        assert client.models.retrieve("mini").id == "mini"
        with pytest.raises(openai.NotFoundError, match="no model 'gpt-4'") as missing:
            client.chat.completions.create(model="gpt-4", messages=QUESTION)
        assert (missing.value.code, missing.value.param) == ("model_not_found", "model")
        with pytest.raises(openai.BadRequestError) as long:
            client.chat.completions.create(model="mini", messages=QUESTION, max_tokens=4090)
        assert long.value.param == "max_tokens"


def test_sdk_response_formats(openai: Any, mini_url: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = {
        "type": "object",
        "properties": {"item": {"type": "string"}, "price": {"type": "integer", "minimum": 0}},
        "required": ["item", "price"],
    }
    kettle = "The blue kettle costs 36 euros and is made in Oslo. Give item and price as JSON."
    question: list[Any] = [{"role": "user", "content": kettle}]
    wrapped: Any = {"type": "json_schema", "json_schema": {"name": "offer", "schema": schema, "strict": True}}
    with sdk(openai, mini_url) as client:

        def ask(**fields: Any) -> str:
            answer = client.chat.completions.create(model="mini", messages=question, seed=1, **fields)
            assert answer.choices[0].finish_reason == "stop"
            return str(answer.choices[0].message.content)

        jsonschema.validate(json.loads(ask(response_format=wrapped)), schema)
        assert isinstance(json.loads(ask(response_format={"type": "json_object"}, max_tokens=40)), dict)
        jsonschema.validate(json.loads(ask(response_format=wrapped, reasoning_effort="low", max_tokens=100)), schema)
        assert ask(extra_body={"structured_outputs": {"choice": ["kettle", "cup"]}}) in ("kettle", "cup")
        assert ask(extra_body={"structured_outputs": {"regex": "[0-9]{3}"}}).isdecimal()
        with pytest.raises(openai.BadRequestError, match="no value is valid"):
            ask(response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": {"not": {}}}})


def test_sdk_predicted_output(openai: Any, mini_url: str) -> None:
    """A change to a function, with the function as it was as the prediction."""
    source = "def add_seven(x):\n    return x + 7"
    question: list[Any] = [{"role": "user", "content": f"Change 7 to 12.\n\n{source}"}]
    with sdk(openai, mini_url) as client:
        answer = client.chat.completions.create(
            model="mini", messages=question, seed=1, prediction={"type": "content", "content": source}
        )
    details = answer.usage.completion_tokens_details
    assert answer.choices[0].message.content
    assert details.accepted_prediction_tokens + details.rejected_prediction_tokens > 5


# The same with prepared answers: keys, tools, failures.


def test_sdk_tools(openai: Any, scripted: tuple[FakeService, str]) -> None:
    service, url = scripted
    service.events = [block("", "", [CALL, CALL]), Finished(result(text="", tool_calls=(CALL, CALL)))]
    with sdk(openai, url, "secret") as client:
        answer = client.chat.completions.create(model="mini", messages=QUESTION, tools=[WEATHER], tool_choice="auto")
        message = answer.choices[0].message
        assert answer.choices[0].finish_reason == "tool_calls"
        assert message.content is None
        assert json.loads(message.tool_calls[0].function.arguments) == {"city": "Köln"}
        results = [{"role": "tool", "tool_call_id": call.id, "content": "rain"} for call in message.tool_calls]
        client.chat.completions.create(model="mini", messages=[*QUESTION, message, *results], tools=[WEATHER])
        with client.chat.completions.stream(model="mini", messages=QUESTION, tools=[WEATHER]) as events:
            final = events.get_final_completion()
    assert [part["role"] for part in service.requests[-2].prompt] == ["user", "assistant", "tool", "tool"]
    calls = final.choices[0].message.tool_calls
    assert [call.function.name for call in calls] == ["weather", "weather"]
    assert calls[0].id != calls[1].id


def test_sdk_reasoning(openai: Any, scripted: tuple[FakeService, str]) -> None:
    service, url = scripted
    service.events = [block("", "Hm."), block("Yes"), Finished(result(text="Yes", reasoning="Hm."))]
    with sdk(openai, url, "secret") as client:
        asked: Any = {"model": "mini", "messages": QUESTION, "reasoning_effort": "low"}
        assert client.chat.completions.create(**asked).choices[0].message.reasoning_content == "Hm."
        deltas = [chunk.choices[0].delta for chunk in client.chat.completions.create(**asked, stream=True)]
    assert "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas) == "Hm."
    assert "".join(delta.content or "" for delta in deltas) == "Yes"


def test_sdk_keys_and_failures(openai: Any, scripted: tuple[FakeService, str]) -> None:
    service, url = scripted
    with sdk(openai, url, "wrong") as client, pytest.raises(openai.AuthenticationError):
        client.models.list()
    with sdk(openai, url, "secret") as client:
        service.events = [block("x"), Failed("timeout", "too slow")]
        with pytest.raises(openai.InternalServerError, match="too slow"):
            client.chat.completions.create(model="mini", messages=QUESTION)
        stream = client.chat.completions.create(model="mini", messages=QUESTION, stream=True)
        with pytest.raises(openai.APIError, match="too slow"):
            list(stream)


def test_sdk_closing_a_stream_cancels(openai: Any, scripted: tuple[FakeService, str]) -> None:
    service, url = scripted
    service.events = [block("x")]
    with sdk(openai, url, "secret") as client:
        stream = client.chat.completions.create(model="mini", messages=QUESTION, stream=True)
        next(stream)
        stream.close()
    assert eventually(service.tickets[-1].cancelled.is_set)


def test_instructor(openai: Any, scripted: tuple[FakeService, str]) -> None:
    instructor = pytest.importorskip("instructor")
    pydantic = pytest.importorskip("pydantic")
    service, url = scripted
    person = pydantic.create_model("Person", name=(str, ...), age=(int, ...))
    call = ToolCall("Person", '{"name": "Ann", "age": 31}')
    service.events = [Finished(result(text="", tool_calls=(call,)))]
    with sdk(openai, url, "secret") as client:
        ask = instructor.from_openai(client, mode=instructor.Mode.TOOLS).chat.completions.create
        found = ask(model="mini", response_model=person, messages=[{"role": "user", "content": "Ann is 31."}])
    assert (found.name, found.age) == ("Ann", 31)
    choice = service.requests[-1].options["tool_choice"]
    assert choice == {"type": "function", "function": {"name": "Person"}}


# Clients without an SDK.


def test_an_event_source_skips_frames_by_their_name(scripted: tuple[FakeService, str]) -> None:
    service, url = scripted
    service.events = [frame(1), block("a"), frame(2), block("b"), Finished(result())]
    body = {"model": "mini", "messages": QUESTION, "stream": True, "diffusion": {"draft_frames": True}}
    headers = {"Authorization": "Bearer secret"}
    with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, headers=headers) as response:
        # httpx breaks lines at every line end of Unicode's, as some clients do.
        lines = list(response.iter_lines())
    assert all(line == "" or line.startswith(("data: ", "event: ", ": ")) for line in lines)
    unnamed = [json.loads(data) for name, data in parse_events("\n".join(lines)) if name is None and data != "[DONE]"]
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in unnamed) == "ab"
    assert not any("draft" in chunk for chunk in unnamed)


def test_curl(mini_url: str) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not here")
    body = json.dumps({"model": "mini", "messages": QUESTION, "seed": 7})
    command = [curl, "--silent", "--fail", f"{mini_url}/v1/chat/completions", "-H", "Content-Type: application/json"]
    whole = subprocess.run([*command, "-d", body], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(whole.stdout)["choices"][0]["message"]["content"] == "777"
    streamed = subprocess.run(
        [*command, "-N", "-d", body[:-1] + ', "stream": true}'], capture_output=True, text=True, check=True, timeout=60
    )
    assert streamed.stdout.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize("arguments", [[], ["--no-stream"]])
def test_llm(mini_url: str, tmp_path: Path, arguments: list[str]) -> None:
    pytest.importorskip("llm")
    settings = f"- model_id: local-mini\n  model_name: mini\n  api_base: {mini_url}/v1\n"
    (tmp_path / "extra-openai-models.yaml").write_text(settings)
    command = [sys.executable, "-m", "llm", "-m", "local-mini", "--no-log", "-o", "seed", "7", *arguments]
    environment = {**os.environ, "LLM_USER_PATH": str(tmp_path), "OPENAI_API_KEY": "none"}
    done = subprocess.run(
        [*command, "What is 481 + 296?"], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "777"


# What only the real model can show.


def test_a_second_turn_reads_less(mini_url: str) -> None:
    messages = [{"role": "user", "content": "Sort: " + "pear, fig, apple, kiwi, " * 30 + "plum"}]
    body = {"model": "mini", "messages": messages, "max_tokens": 8, "seed": 1}
    first = httpx.post(f"{mini_url}/v1/chat/completions", json=body, timeout=60).json()
    messages += [{"role": "assistant", "content": "apple"}, {"role": "user", "content": "And now?"}]
    second = httpx.post(f"{mini_url}/v1/chat/completions", json=body, timeout=60).json()
    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] >= 128
    metrics = httpx.get(f"{mini_url}/metrics").text
    assert "gesso_cache_hit_share 0.0\n" not in metrics


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"diffusion": {"canvas_length": 64}}, "diffusion.canvas_length"),
        ({"diffusion": {"start_canvas": [5]}}, "diffusion.start_canvas"),
        ({"diffusion": {"start_canvas": [99999] * 32}}, "diffusion.start_canvas"),
        ({"diffusion": {"t_min": 0.9, "t_max": 0.1}}, "diffusion.t_max"),
        ({"logit_bias": {"99999": 1}}, "logit_bias"),
        ({"max_tokens": 4096}, "max_tokens"),
        ({"messages": [{"role": "user", "content": "x"}, {"role": "system", "content": "x"}]}, "messages"),
        ({"messages": [{"role": "tool", "tool_call_id": "nobody", "content": "x"}]}, "messages"),
    ],
)
def test_what_the_engine_refuses_has_its_field(mini_url: str, fields: dict[str, Any], param: str) -> None:
    body = {"model": "mini", "messages": QUESTION, **fields}
    response = httpx.post(f"{mini_url}/v1/chat/completions", json=body, timeout=60)
    assert response.status_code == 400, response.text
    assert response.json()["error"]["param"] == param


def test_a_schema_that_is_nested_too_deeply_for_the_template(mini_url: str) -> None:
    schema: dict[str, Any] = {}
    for _ in range(90):
        schema = {"properties": {"a": schema}}
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    body = {"model": "mini", "messages": QUESTION, "tools": [tool]}
    assert httpx.post(f"{mini_url}/v1/chat/completions", json=body, timeout=60).status_code == 400


def test_a_demanded_call_is_never_an_empty_turn(mini_url: str) -> None:
    body = {"model": "mini", "messages": QUESTION, "tools": [WEATHER], "tool_choice": "required", "seed": 1}
    choice = httpx.post(f"{mini_url}/v1/chat/completions", json=body, timeout=60).json()["choices"][0]
    message = choice["message"]
    assert message.get("tool_calls") or (message["content"] and choice["warnings"])


def test_adapters_are_models_of_their_own(tmp_path: Path) -> None:
    engine = load("mini", "cpu", offline=True)
    config = LoraConfig(rank=2)
    attach(engine.model, config)
    with torch.no_grad():
        for parameter in adapter_parameters(engine.model).values():
            parameter.normal_(std=0.3, generator=torch.Generator().manual_seed(1))
    save_adapter(engine.model, config, tmp_path / "odd", "mini")
    service = AsyncEngine(load("mini", "cpu", offline=True), adapters={"odd": tmp_path / "odd"})
    body = {"messages": QUESTION, "seed": 7, "max_tokens": 8, "diffusion": {"max_denoising_steps": 4}}
    with running(service) as url:
        assert [card["id"] for card in httpx.get(f"{url}/v1/models").json()["data"]] == ["mini", "mini:odd"]
        plain, odd = (
            httpx.post(f"{url}/v1/chat/completions", json={"model": model, **body}, timeout=60).json()
            for model in ("mini", "mini:odd")
        )
    assert plain["choices"][0]["message"]["content"] == "777"
    assert odd["model"] == "mini:odd"
    assert odd["choices"][0]["message"]["content"] != "777"
