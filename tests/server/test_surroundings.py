"""Keys, origins, health, metrics, models and tokens."""

import json
import logging
import time
from typing import Any

import pytest
from starlette.testclient import TestClient

import gesso
from gesso.constraints.compile import automata_stats
from gesso.constraints.verdict import verdict_stats
from gesso.engine.constraint import table_stats
from gesso.engine.events import Finished
from gesso.errors import EngineDeadError, OptionError
from gesso.server.app import create_app
from gesso.server.settings import Settings
from server.conftest import ask, chat_body, make_client, refusal
from server.fake import FakeService, block

TOOL = {"type": "function", "function": {"name": "clock", "description": "The time"}}

# Keys.


def test_without_keys_all_is_open(client: TestClient) -> None:
    assert client.get("/v1/models").status_code == 200
    assert client.get("/docs").status_code == 200


@pytest.mark.parametrize(
    "path", ["/v1/models", "/metrics", "/docs", "/openapi.json", "/nowhere", "/v1/chat/completions", "/health/x"]
)
def test_with_keys_almost_all_is_closed(service: FakeService, path: str) -> None:
    client = make_client(service, api_keys=("one", "two"))
    response = client.get(path)
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    error = response.json()["error"]
    sent = "send Authorization: Bearer KEY or X-API-Key: KEY"
    assert (error["code"], error["message"]) == ("invalid_api_key", f"an API key is needed: {sent}")
    wrong = client.get(path, headers={"X-API-Key": "three"}).json()["error"]["message"]
    assert wrong == f"this API key is not known: {sent}"
    assert client.get("/health").status_code == client.get("/ready").status_code == 200


def test_routes_are_told_apart_also_with_keys(service: FakeService) -> None:
    client, key = make_client(service, api_keys=("one",)), {"X-API-Key": "one"}
    assert client.post("/v1/chat/completions", json=chat_body(), headers=key).status_code == 200
    lines = client.get("/metrics", headers=key).text.splitlines()
    assert 'gesso_http_requests_total{route="/v1/chat/completions",status="200"} 1.0' in lines


@pytest.mark.parametrize("header", ["Bearer one", "bearer two", "Bearer  one "])
def test_any_key_opens(service: FakeService, header: str) -> None:
    client = make_client(service, api_keys=("one", "two"))
    assert client.post("/v1/chat/completions", json=chat_body(), headers={"Authorization": header}).status_code == 200


@pytest.mark.parametrize(
    "header", ["", "one", "Bearer", "Bearer ", "Bearer on", "Bearer onee", "Basic one", "Bearer \xe9"]
)
def test_anything_else_does_not(service: FakeService, header: str) -> None:
    client = make_client(service, api_keys=("one", "two"))
    response = client.post(
        "/v1/chat/completions", json=chat_body(), headers={"Authorization": header.encode("latin-1")}
    )
    assert response.status_code == 401
    assert service.requests == []


@pytest.mark.parametrize("header", ["Basic dXNlcjpwYXNz", "Bearer no", "", "Bearer"])
def test_a_proxys_authorization_shuts_no_other_key_out(service: FakeService, header: str) -> None:
    client = make_client(service, api_keys=("one", "two"))
    brought = {"Authorization": header, "X-API-Key": "two"}
    assert client.get("/v1/models", headers=brought).status_code == 200
    for key in ("", "three", "Bearer two"):
        assert client.get("/v1/models", headers={**brought, "X-API-Key": key}).status_code == 401


@pytest.mark.parametrize("key", ["", "a b", "schlüssel", "a\n"])
def test_keys_that_no_header_can_hold(key: str) -> None:
    with pytest.raises(OptionError, match="API key"):
        Settings(served_model_name="mini", api_keys=(key,))


# Origins.


def test_pages_of_other_origins_are_kept_out(client: TestClient) -> None:
    response = client.get("/v1/models", headers={"Origin": "https://example.org"})
    assert "access-control-allow-origin" not in response.headers


def test_an_origin_that_is_let_in(service: FakeService) -> None:
    client = make_client(service, cors_origins=("https://example.org",), api_keys=("one",))
    asked = {"Origin": "https://example.org", "Access-Control-Request-Method": "POST"}
    asked["Access-Control-Request-Headers"] = "authorization,x-stainless-os"
    preflight = client.options("/v1/chat/completions", headers=asked)
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == "https://example.org"
    refused = client.get("/v1/models", headers={"Origin": "https://example.org"})
    assert refused.status_code == 401
    assert refused.headers["access-control-allow-origin"] == "https://example.org"
    other = client.get("/health", headers={"Origin": "https://example.com"})
    assert "access-control-allow-origin" not in other.headers


# Health, metrics, documents.


def test_ready_until_the_service_closes(client: TestClient, service: FakeService) -> None:
    assert client.get("/ready").json() == {"status": "ready"}
    service.close()
    assert client.get("/ready").status_code == 503
    assert client.get("/health").json() == {"status": "ok"}
    assert [client.head(path).status_code for path in ("/health", "/ready")] == [200, 503]


@pytest.mark.parametrize(
    "path",
    ["/health", "/v1/models", "/v1/models/mini", "/v1/models/other", "/api/tags", "/openapi.json", "/", "/v1/fill"],
)
def test_head_is_get_without_the_body(client: TestClient, path: str, caplog: pytest.LogCaptureFixture) -> None:
    whole = client.get(path)
    caplog.clear()  # another test may have left the log open
    with caplog.at_level(logging.INFO, "gesso.access"):
        head = client.head(path)
    assert (head.status_code, head.content) == (whole.status_code, b"")
    told = {name: value for name, value in whole.headers.items() if name != "x-request-id"}
    assert {name: value for name, value in head.headers.items() if name != "x-request-id"} == told
    assert json.loads(caplog.messages[0])["method"] == "HEAD"


def test_head_is_counted_under_its_route(client: TestClient) -> None:
    client.head("/v1/models/mini")
    assert 'gesso_http_requests_total{route="/v1/models/{model:path}",status="200"} 1.0' in client.get("/metrics").text


@pytest.mark.parametrize(
    ("method", "path", "message"),
    [
        ("POST", "/v1/embeddings", "there is nothing at /v1/embeddings"),
        ("POST", "/chat/completions", "there is nothing at /chat/completions; see /v1/chat/completions"),
        ("POST", "/responses", "there is nothing at /responses; see /v1/responses"),
        ("GET", "/models", "there is nothing at /models; see /v1/models"),
        ("GET", "/v1/models/", "there is nothing at /v1/models/; see /v1/models"),
        ("GET", "/v1/health", "there is nothing at /v1/health; see /health"),
        ("POST", "/v1/chat/completions/", "there is nothing at /v1/chat/completions/; see /v1/chat/completions"),
        ("POST", "/v1/v1/messages", "there is nothing at /v1/v1/messages; see /v1/messages"),
        ("POST", "/v1/api/chat", "there is nothing at /v1/api/chat; see /api/chat"),
        ("GET", "/v1/files", "there is nothing at /v1/files: the server was started without --batch-folder"),
        ("GET", "/v1/fill", "/v1/fill does not take GET"),
        ("POST", "/" + "x" * 200, "there is nothing at /" + "x" * 79),
    ],
)
def test_a_wrong_path_is_told_with_the_right_one(client: TestClient, method: str, path: str, message: str) -> None:
    assert client.request(method, path, json={}).json()["error"]["message"] == message


def test_a_failed_engine_is_not_healthy(client: TestClient, service: FakeService) -> None:
    service.failure = "the device is lost: RuntimeError"
    service.error = EngineDeadError("the engine has failed: the device is lost: RuntimeError")
    for path in ("/health", "/ready"):
        response = client.get(path)
        assert response.status_code == 503
        error = response.json()["error"]
        assert error["message"] == "the engine has failed: the device is lost: RuntimeError"
        assert error["code"] == "engine_failed"
    assert "gesso_engine_up 0.0" in client.get("/metrics").text.splitlines()
    assert refusal(client, status=503)["code"] == "engine_failed"


def test_an_engine_that_hangs_is_not_healthy(client: TestClient, service: FakeService) -> None:
    service.hung, service.busy_seconds = True, 400.0
    for path in ("/health", "/ready"):
        response = client.get(path)
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "engine_hangs"
        assert "400 seconds" in response.json()["error"]["message"]
    service.hung = False
    assert client.get("/health").status_code == 200


def test_metrics(client: TestClient, service: FakeService) -> None:
    service.events = [block("a"), block("b"), *service.events[2:]]
    ask(client)
    client.get("/somewhere/else")
    response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    lines = set(response.text.splitlines())
    for line in (
        "gesso_requests_waiting 3.0",
        "gesso_requests_running 2.0",
        "gesso_steps_total 40.0",
        "gesso_canvas_steps_total 50.0",
        "gesso_token_steps_total 25.0",
        "gesso_tokens_per_forward 4.0",
        "gesso_cache_hit_share 0.25",
        "gesso_cache_bytes 1000.0",
        "gesso_prefix_bytes 500.0",
        "gesso_kv_memory_bytes 4096.0",
        "gesso_engine_up 1.0",
        "gesso_prefix_failures_total 2.0",
        "gesso_crashed_passes_total 1.0",
        'gesso_requests_total{outcome="stop"} 7.0',
        'gesso_requests_total{outcome="crash"} 1.0',
        "gesso_time_to_first_block_seconds_count 1.0",
        "gesso_canvas_seconds_count 1.0",
        'gesso_http_requests_total{route="/v1/chat/completions",status="200"} 1.0',
        'gesso_http_requests_total{route="unknown",status="404"} 1.0',
    ):
        assert line in lines


def test_tokens_written_one_by_one_are_no_canvases(client: TestClient, service: FakeService) -> None:
    service.events = [block("a", mode="ar"), block("b", mode="ar"), *service.events[2:]]
    ask(client)
    lines = client.get("/metrics").text.splitlines()
    assert "gesso_time_to_first_block_seconds_count 1.0" in lines
    assert "gesso_canvas_seconds_count 0.0" in lines


def test_metrics_of_compiled_constraints(client: TestClient) -> None:
    mini = gesso.load("mini", device="cpu")
    mini.start(gesso.Request("hi", {"regex": "[0-9]{7}"}))
    values = dict(
        line.split(" ") for line in client.get("/metrics").text.splitlines() if " " in line and line[0] != "#"
    )
    assert float(values["gesso_constraint_bytes"]) == automata_stats().bytes + verdict_stats().bytes > 0
    assert float(values["gesso_constraint_table_bytes"]) == table_stats().bytes > 0
    misses = float(values["gesso_constraint_misses_total"])
    mini.start(gesso.Request("hi", {"regex": "[0-9]{8}"}))
    assert f"gesso_constraint_misses_total {misses + 1}" in client.get("/metrics").text


def test_each_application_counts_for_itself(client: TestClient) -> None:
    ask(client)
    assert "gesso_time_to_first_block_seconds_count 0.0" in make_client(FakeService()).get("/metrics").text


def test_the_document_knows_every_path_and_error(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    assert set(document["paths"]) == {
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/choose",
        "/v1/edit",
        "/v1/explain",
        "/v1/fim/completions",
        "/v1/messages",
        "/v1/messages/count_tokens",
        "/v1/responses",
        "/v1/responses/input_tokens",
        "/v1/responses/{identity}",
        "/v1/responses/{identity}/input_items",
        "/api/chat",
        "/api/generate",
        "/api/tags",
        "/api/ps",
        "/api/show",
        "/api/version",
        "/version",
        "/props",
        "/v1/fill",
        "/infill",
        "/v1/models",
        "/v1/models/{model}",
        "/v1/options",
        "/v1/tokenize",
        "/v1/detokenize",
        "/health",
        "/ready",
        "/metrics",
    }
    application: Any = client.app
    assert application.state.endpoints == {path for path, told in document["paths"].items() if "post" in told}
    for path in document["paths"].values():
        for operation in path.values():
            assert {"4XX", "5XX"} <= set(operation["responses"])
            assert "422" not in operation["responses"]


# Models.


def test_models_are_the_model_and_its_adapters(client: TestClient) -> None:
    data = client.get("/v1/models").json()
    assert data["object"] == "list"
    assert [card["id"] for card in data["data"]] == ["mini", "mini:sudoku"]
    card = client.get("/v1/models/mini:sudoku").json()
    assert card == data["data"][1]
    assert (card["object"], card["parent"], card["max_model_len"]) == ("model", "mini", 4096)


def test_a_model_whose_name_has_slashes(service: FakeService) -> None:
    client = TestClient(create_app(service, Settings(served_model_name="org/name")))
    assert client.get("/v1/models/org/name:sudoku").json()["root"] == "org/name"
    assert ask(client, model="org/name")["model"] == "org/name"


# Tokens.


def test_text_to_tokens_and_back(client: TestClient, service: FakeService) -> None:
    answer = client.post("/v1/tokenize", json={"model": "mini", "prompt": "Hi <eos>"}).json()
    assert answer["tokens"] == service.engine.tokenizer.encode("Hi <eos>")
    assert answer["count"] == len(answer["tokens"]) == len(answer["pieces"])
    assert answer["max_model_len"] == 4096
    back = client.post("/v1/detokenize", json={"tokens": answer["tokens"]}).json()
    assert back == {"text": "Hi <eos>"}
    assert client.post("/v1/tokenize", json={"prompt": ""}).json()["tokens"] == []


def test_messages_to_tokens(client: TestClient, service: FakeService) -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}]}
    plain = client.post("/v1/tokenize", json=body).json()["tokens"]
    text = service.engine.tokenizer.decode(plain)
    assert text.startswith("<bos><|turn>user\nHi<turn|>\n")
    kwargs = {"enable_thinking": True}
    more = client.post("/v1/tokenize", json={**body, "tools": [TOOL], "chat_template_kwargs": kwargs}).json()["tokens"]
    assert "<|think|>" in service.engine.tokenizer.decode(more)
    assert "declaration:clock" in service.engine.tokenizer.decode(more)


def test_tokens_refused(client: TestClient) -> None:
    assert refusal(client, "/v1/tokenize")["param"] == "prompt"
    assert refusal(client, "/v1/tokenize", prompt="a", messages=[{"role": "user", "content": "x"}])["param"] == "prompt"
    assert refusal(client, "/v1/tokenize", prompt="a", tools=[TOOL])["param"] == "prompt"
    assert refusal(client, "/v1/tokenize", prompt="a", model="b", status=404)["param"] == "model"
    assert refusal(client, "/v1/tokenize", prompt="a", add_special_tokens=True)["param"] == "add_special_tokens"
    assert refusal(client, "/v1/detokenize", tokens=[5, 1811])["param"] == "tokens[1]"
    assert refusal(client, "/v1/detokenize", tokens=[5, -1])["param"] == "tokens[1]"
    assert refusal(client, "/v1/detokenize", tokens="5")["param"] == "tokens"
    king = [{"role": "assistant", "content": "x"}, {"role": "system", "content": "x"}]
    assert refusal(client, "/v1/tokenize", messages=king)["param"] == "messages"


def test_the_fingerprint_changes_with_the_defaults(client: TestClient, service: FakeService) -> None:
    before = ask(client)["system_fingerprint"]
    assert ask(client)["system_fingerprint"] == before
    service.engine.defaults = service.engine.defaults.override(entropy_bound=0.3)
    assert ask(client)["system_fingerprint"] != before
    assert isinstance(service.events[-1], Finished)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": "a" * 3_000_000}, "prompt"),
        ({"messages": [{"role": "user", "content": "a" * 3_000_000}]}, "messages"),
    ],
)
def test_millions_of_characters_are_refused_at_once(client: TestClient, fields: Any, param: str) -> None:
    started = time.monotonic()
    found = refusal(client, "/v1/tokenize", **fields)
    assert time.monotonic() - started < 3
    assert found["param"] == param
    assert found["message"].startswith("the prompt is too long: it has 3,0")
