"""What the service refuses or fails at, in OpenAI's shape."""

import json
import logging
from typing import Any

import pytest
from starlette.testclient import TestClient

from gesso.engine.events import Failed, Finished
from gesso.errors import ClosingError, ContextLengthError, OptionError, PromptLengthError, QueueFullError, TextError
from gesso.server.errors import from_gesso
from server.conftest import chat_body, make_client, refusal
from server.fake import FakeService, result


def test_a_full_queue_says_when_to_come_back(client: TestClient, service: FakeService) -> None:
    service.error = QueueFullError("64 requests wait already", 2.2)
    response = client.post("/v1/chat/completions", json=chat_body())
    assert response.status_code == 429
    assert response.headers["retry-after"] == "3"
    assert response.json()["error"] == {
        "message": "64 requests wait already",
        "type": "rate_limit_error",
        "param": None,
        "code": "queue_full",
    }


def test_choices_are_queued_together_or_not_at_all(client: TestClient, service: FakeService) -> None:
    submit = service.submit
    service.events = []

    def second_fails(request, listener):
        if service.tickets:
            raise QueueFullError("full", 1.0)
        return submit(request, listener)

    service.submit = second_fails
    refusal(client, status=429, n=2)
    assert service.tickets[0].cancelled.is_set()


def test_a_closing_service(client: TestClient, service: FakeService) -> None:
    service.error = ClosingError("the server is shutting down")
    assert refusal(client, status=503)["code"] == "shutting_down"


@pytest.mark.parametrize(
    ("error", "param"),
    [
        (ContextLengthError("5000 prompt tokens are past the model's 4096", option="max_new_tokens"), "max_tokens"),
        (PromptLengthError("the prompt is too long"), "messages"),
        (OptionError("it has 3 tokens, the canvas 32", option="start_canvas"), "diffusion.start_canvas"),
        (OptionError("99 is more than the model's 32", option="canvas_length"), "diffusion.canvas_length"),
        (OptionError("t_max must be at least t_min (0.9), got 0.1", option="t_max"), "diffusion.t_max"),
        (OptionError("token 5000, where the vocabulary has 1811", option="logit_bias"), "logit_bias"),
        (OptionError("no", option="thinking"), "chat_template_kwargs.enable_thinking"),
        (OptionError("no", option="regex"), "structured_outputs.regex"),
        (OptionError("no", option="adapter"), "model"),
        (OptionError("no", option="probe"), None),
        (OptionError("seed and temperature are words of this sentence"), None),
        (TextError("the chat template refuses these messages: unexpected message role"), "messages"),
    ],
)
def test_what_the_engine_refuses(client: TestClient, service: FakeService, error: Exception, param: str | None) -> None:
    service.error = error
    found = refusal(client)
    assert (found["message"], found["param"]) == (str(error), param)
    too_long = isinstance(error, ContextLengthError | PromptLengthError)
    assert found["code"] == ("context_length_exceeded" if too_long else None)


def test_an_answer_past_the_servers_length_has_the_code_of_a_prompt_past_it(client: TestClient) -> None:
    error = refusal(client, max_tokens=100_000)
    assert (error["param"], error["code"]) == ("max_tokens", "context_length_exceeded")


def test_a_message_names_fields_of_the_request(client: TestClient, service: FakeService) -> None:
    message = "9 prompt tokens and max_new_tokens 8; images take image_budget"
    service.error = OptionError(message, option="max_new_tokens")
    assert refusal(client)["message"] == "9 prompt tokens and max_tokens 8; images take max_soft_tokens"


def test_a_hint_stands_behind_the_message(client: TestClient, service: FakeService) -> None:
    service.error = OptionError("top_k is too much", option="top_k", hint="leave it out")
    found = refusal(client)
    assert (found["message"], found["param"]) == ("top_k is too much; leave it out", "top_k")


def test_a_bad_text_of_a_completion_is_its_prompt(client: TestClient, service: FakeService) -> None:
    service.error = TextError("the prompt is empty")
    assert refusal(client, "/v1/completions", model="mini", prompt="")["param"] == "prompt"


def test_a_request_that_took_too_long(client: TestClient, service: FakeService) -> None:
    service.events = [Failed("timeout", "not finished within 3 seconds")]
    error = refusal(client, status=504)
    assert (error["code"], error["message"]) == ("timeout", "not finished within 3 seconds")


def test_a_crashed_request_has_an_id_that_the_log_has_too(
    client: TestClient, service: FakeService, caplog: pytest.LogCaptureFixture
) -> None:
    service.events = [Failed("crash", "the step failed")]
    response = client.post("/v1/chat/completions", json=chat_body(), headers={"X-Request-Id": "mine-1"})
    assert response.status_code == 500
    assert response.json()["error"]["message"] == "the step failed (error id mine-1)"
    assert "mine-1: the step failed" in caplog.text


def test_an_unforeseen_error_shows_no_trace(
    client: TestClient, service: FakeService, caplog: pytest.LogCaptureFixture
) -> None:
    service.error = RuntimeError("secret path /srv/x")
    response = client.post("/v1/chat/completions", json=chat_body(), headers={"X-Request-Id": "mine-2"})
    assert response.status_code == 500
    assert response.headers["x-request-id"] == "mine-2"
    assert response.json()["error"]["code"] == "internal_error"
    assert "mine-2" in response.json()["error"]["message"]
    assert "secret" not in response.text
    assert "secret path" in caplog.text
    assert "Traceback" in caplog.text


def test_an_unforeseen_error_has_the_shape_of_its_interface(client: TestClient, service: FakeService) -> None:
    service.error = RuntimeError("secret path /srv/x")
    named = {"headers": {"X-Request-Id": "mine-3"}}
    message = "internal error; the server's log has it under mine-3"
    response = client.post("/v1/messages", json=chat_body(max_tokens=8), **named)
    assert response.status_code == 500
    assert response.json() == {"type": "error", "error": {"type": "api_error", "message": message}}
    response = client.post("/api/chat", json=chat_body(), **named)
    assert (response.status_code, response.json()) == (500, {"error": message})


def test_one_failed_choice_ends_the_others(client: TestClient, service: FakeService) -> None:
    service.events = []
    submit = service.submit

    def second_fails(request, listener):
        service.events = [Failed("crash", "boom")] if service.tickets else []
        return submit(request, listener)

    service.submit = second_fails
    refusal(client, status=500, n=3)
    assert all(ticket.cancelled.is_set() for ticket in service.tickets)


def test_an_answer_that_the_end_of_the_server_cut(client: TestClient, service: FakeService) -> None:
    service.events = [Finished(result(finish_reason="cancelled"))]
    assert refusal(client, status=503)["code"] == "shutting_down"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/", 405),
        ("GET", "/nothing", 404),
        ("GET", "/v1", 404),
        ("POST", "/v1/embeddings", 404),
        ("GET", "/v1/chat/completions", 405),
        ("DELETE", "/v1/models", 405),
        ("POST", "/health", 405),
        ("OPTIONS", "/v1/models", 405),
        ("GET", "/v1/models/../../etc/passwd", 404),
        ("GET", "/v1/models/nobody", 404),
        ("POST", "/v1/chat/completions/", 404),
    ],
)
def test_paths_and_methods(client: TestClient, method: str, path: str, status: int) -> None:
    response = client.request(method, path)
    assert response.status_code == status
    assert set(response.json()["error"]) == {"message", "type", "param", "code"}


# What is written of each request.


def test_the_access_log_has_one_json_line_without_the_prompt(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "gesso.access")
    messages = [{"role": "user", "content": "my secret"}]
    client.post("/v1/chat/completions", json=chat_body(messages=messages), headers={"X-Request-Id": "abc"})
    (record,) = [record for record in caplog.records if record.name == "gesso.access"]
    line = json.loads(record.getMessage())
    assert line.pop("milliseconds") >= 0
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "request_id": "abc",
        "method": "POST",
        "path": "/v1/chat/completions",
        "status": 200,
        "outcome": "answered",
        "prompt_tokens": 11,
        "completion_tokens": 3,
        "steps": 6,
    }
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("path", "asked", "prompts"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "n": 3}, 1),
        ("/v1/completions", {"prompt": "a", "n": 2, "best_of": 3}, 1),
        ("/v1/completions", {"prompt": ["a", "a"], "n": 2}, 2),
    ],
)
def test_the_access_log_counts_a_prompt_once_as_usage_does(
    client: TestClient, caplog: pytest.LogCaptureFixture, path: str, asked: dict[str, Any], prompts: int
) -> None:
    caplog.set_level(logging.INFO, "gesso.access")
    usage = client.post(path, json={"model": "mini", **asked}).json()["usage"]
    (record,) = [record for record in caplog.records if record.name == "gesso.access"]
    line = json.loads(record.getMessage())
    assert line["prompt_tokens"] == usage["prompt_tokens"] == 11 * prompts
    assert line["completion_tokens"] == usage["completion_tokens"]


def test_prompts_are_logged_when_asked_for(service: FakeService, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "gesso.access")
    client = make_client(service, log_prompts=True)
    client.post("/v1/chat/completions", json=chat_body())
    client.post("/v1/completions", json={"model": "mini", "prompt": "raw text"})
    assert '"prompt": [{"role": "user", "content": "Hi"}]' in caplog.text
    assert '"prompt": "raw text"' in caplog.text


@pytest.mark.parametrize("given", ["", "a b", "x" * 65, 'a"b', "a/b"])
def test_ids_that_could_do_harm_are_replaced(client: TestClient, given: str) -> None:
    found = client.get("/health", headers={"X-Request-Id": given}).headers["x-request-id"]
    assert found.startswith("req_")
    assert client.get("/health", headers={"X-Request-Id": "A-1._b"}).headers["x-request-id"] == "A-1._b"


@pytest.mark.parametrize(
    ("path", "param"),
    [
        ("/v1/chat/completions", "messages"),
        ("/v1/responses", "input"),
        ("/v1/completions", "prompt"),
        ("/v1/fill", "prompt"),
    ],
)
def test_a_text_that_is_refused_is_named_as_its_endpoint_does(path: str, param: str) -> None:
    assert from_gesso(TextError("a tool message needs a call"), path).body["error"]["param"] == param


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"response_format": {}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
    ],
)
def test_a_field_that_says_what_kind_a_thing_is_may_be_missing_like_any_other(
    client: TestClient, fields: dict[str, Any], param: str
) -> None:
    error = refusal(client, **fields)
    assert (error["message"], error["param"], error["code"]) == (f"{param} is missing", param, "missing_field")
