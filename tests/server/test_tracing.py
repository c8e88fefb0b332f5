"""The spans of a request: what they tell of the model's work, that they tell nothing of prompts, and who has none."""

import json
import logging
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import torch
from starlette.testclient import TestClient
from telemetry.spans import Kept, Memory

from gesso.api import load
from gesso.engine.async_engine import AsyncEngine, Limits
from gesso.engine.events import Failed
from gesso.errors import OptionError
from gesso.server.app import create_app
from gesso.server.settings import Settings
from gesso.studio import page_files
from server.conftest import chat_body
from server.fake import FakeService

PATH = "/v1/chat/completions"
SUM = [{"role": "user", "content": "What is 481 + 296?"}]
TRACE, PARENT = "a" * 32, "b" * 16


@pytest.fixture(scope="module")
def mini() -> Iterator[AsyncEngine]:
    torch.set_num_threads(1)
    service = AsyncEngine(load("mini", "cpu", offline=True), Limits())
    service.start()
    yield service
    service.close()


def traced(service: Any, **settings: Any) -> tuple[TestClient, Memory]:
    memory = Memory()
    app = create_app(service, Settings(served_model_name="mini", **settings), memory.traces)
    return TestClient(app, raise_server_exceptions=False), memory


def inside(memory: Memory, parent: Kept) -> list[Kept]:
    return sorted((span for span in memory.spans if span.parent == parent.span_id), key=lambda span: span.start)


def test_a_trace_tells_what_a_request_took(mini: AsyncEngine, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "gesso.access")
    client, memory = traced(mini)
    body = {"model": "mini", "seed": 7, "temperature": 0.7, "max_tokens": 64, "messages": SUM}
    schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "integer", "minimum": 0}}}
    response = client.post(
        PATH,
        json={**body, "response_format": schema},
        headers={"traceparent": f"00-{TRACE}-{PARENT}-01", "x-request-id": "mine"},
    )
    answer = response.json()
    http = memory.one(f"POST {PATH}")
    assert (http.kind, http.parent, http.trace_id, http.status) == ("SERVER", PARENT, TRACE, "UNSET")
    assert http.attributes == {
        "http.request.method": "POST",
        "http.route": PATH,
        "http.response.status_code": 200,
        "url.path": PATH,
        "url.scheme": "http",
        "gesso.request.id": "mine",
        "gesso.outcome": "answered",
    }
    (chat,) = inside(memory, http)
    usage, steps = answer["usage"], answer["choices"][0]["diffusion"]["denoising_steps"]
    assert chat.name == "chat mini"
    assert chat.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "gesso",
        "gen_ai.request.model": "mini",
        "gen_ai.request.choice.count": 1,
        "gen_ai.request.seed": 7,
        "gen_ai.request.temperature": 0.7,
        "gen_ai.request.max_tokens": 64,
        "gen_ai.response.model": "mini",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": usage["prompt_tokens"],
        "gen_ai.usage.cache_read.input_tokens": usage["prompt_tokens_details"]["cached_tokens"],
        "gen_ai.usage.output_tokens": usage["completion_tokens"],
        "gesso.denoising_steps": sum(steps),
        "gesso.canvases": len(steps),
        "gesso.mode": "canvas",
    }
    parts = inside(memory, chat)
    assert [part.name for part in parts[:4]] == ["tokenize", "compile constraint", "queue", "prefill"]
    assert {part.name for part in parts[4:]} == {"canvas"}
    assert [part.attributes["gesso.canvas.denoising_steps"] for part in parts[4:]] == steps
    assert sum(part.attributes["gesso.canvas.accepted_tokens"] for part in parts[4:]) == usage["completion_tokens"]
    margin = 1000  # nanoseconds that a float of seconds is rounded by
    assert all(http.start - margin <= part.start <= part.end + margin <= http.end + 2 * margin for part in parts)
    assert all(before.end <= after.start + margin for before, after in pairwise(parts))
    (line,) = [json.loads(record.getMessage()) for record in caplog.records if record.name == "gesso.access"]
    assert (line["trace_id"], line["span_id"]) == (TRACE, http.span_id)
    told = [(span.name, *map(str, span.attributes.values())) for span in memory.spans]
    assert "481" not in str(told)
    assert "777" not in str(told)


def test_several_choices_and_tokens_one_by_one(mini: AsyncEngine) -> None:
    client, memory = traced(mini)
    body = {"model": "mini", "seed": 7, "n": 2, "messages": SUM, "diffusion": {"mode": "ar"}, "max_tokens": 64}
    answer = client.post(PATH, json=body).json()
    chat = memory.one("chat mini")
    assert chat.attributes["gen_ai.usage.input_tokens"] == answer["usage"]["prompt_tokens"]
    assert chat.attributes["gen_ai.usage.output_tokens"] == answer["usage"]["completion_tokens"]
    assert chat.attributes["gesso.mode"] == "ar"
    decodes = sorted(memory.named("decode"), key=lambda span: int(span.attributes["gesso.choice"]))
    assert [span.attributes["gesso.choice"] for span in decodes] == [0, 1]
    assert sum(span.attributes["gesso.decode.tokens"] for span in decodes) == answer["usage"]["completion_tokens"]
    assert memory.named("canvas") == []
    assert len(memory.named("queue")) == len(memory.named("prefill")) == 2


def test_the_path_says_what_kind_of_work_it_is(mini: AsyncEngine) -> None:
    client, memory = traced(mini)
    assert client.post("/v1/completions", json={"model": "mini", "prompt": ["1 2", "1 2"], "max_tokens": 4}).is_success
    span = memory.one("text_completion mini")
    assert span.attributes["gen_ai.request.choice.count"] == 2
    assert client.post("/v1/choose", json={"model": "mini", "prompt": "a", "options": ["b", "c"]}).status_code < 500


def test_errors_are_told_by_their_kind() -> None:
    service = FakeService()
    client, memory = traced(service)
    service.error = OptionError("no", option="seed")
    assert client.post(PATH, json=chat_body()).status_code == 400
    refused, chat = memory.one(f"POST {PATH}"), memory.one("chat mini")
    assert (refused.status, refused.attributes["http.response.status_code"]) == ("UNSET", 400)
    assert (chat.status, chat.attributes["error.type"]) == ("ERROR", "OptionError")
    service.error, service.events = None, [Failed("crash", "a pass crashed")]
    assert client.post(PATH, json=chat_body()).status_code == 500
    broken, chat = memory.named(f"POST {PATH}")[1], memory.named("chat mini")[1]
    assert (broken.status, broken.attributes["error.type"]) == ("ERROR", "500")
    assert (chat.status, chat.attributes["error.type"]) == ("ERROR", "crash")
    assert client.post(PATH, json={**chat_body(), "stream": True}).status_code == 200
    stream = memory.named(f"POST {PATH}")[2]
    assert (stream.status, stream.attributes["error.type"]) == ("ERROR", "stream_error")


def test_who_looks_often_and_what_the_page_is_made_of_leave_no_spans() -> None:
    client, memory = traced(FakeService())
    for path in ("/health", "/ready", "/metrics"):
        assert client.get(path).status_code == 200
    name = next(name for name in page_files() if name.endswith(".js"))
    assert client.get(f"/studio/{name}").status_code == 200
    assert memory.spans == []
    assert client.get("/v1/nothing").status_code == 404
    assert [span.attributes["url.path"] for span in memory.spans] == ["/v1/nothing"]


def test_without_traces_a_request_keeps_no_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr("gesso.server.context.InferenceTrace", lambda *given: made.append(given))
    client = TestClient(create_app(FakeService(), Settings(served_model_name="mini")))
    assert client.post(PATH, json=chat_body(), headers={"traceparent": f"00-{TRACE}-{PARENT}-01"}).status_code == 200
    assert made == []
