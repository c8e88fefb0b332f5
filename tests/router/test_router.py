"""The router as an application: what it forwards, sends again, refuses and tells of itself."""

import json
import logging
from typing import Any

import pytest
from server.fake import FakeService

from gesso.engine.events import Failed
from gesso.errors import OptionError, QueueFullError
from gesso.router.settings import RouterSettings
from router.replicas import Dying, Fleet, run, server

CHAT = {"model": "mini", "messages": [{"role": "user", "content": "Hi"}]}
PATH = "/v1/chat/completions"


APPS = [server(FakeService()) for _ in range(2)]


def fleet(*deaths: list[int | None], **settings: Any) -> Fleet:
    return Fleet(*(Dying(app, each) for app, each in zip(APPS, deaths, strict=False)), **settings)


def test_a_whole_answer_is_asked_for_again() -> None:
    made = fleet([0, 0], [0, 0])
    response = made(PATH, CHAT)
    assert response.status_code == 200
    assert response.json()["choices"][0]["message"]["content"] == "Hello there"
    assert made.metric("retries_total") == 3  # the fourth try was one of two that hold
    assert "seed" not in made.replicas["http://0"].bodies[0]


def test_what_no_replica_can_answer_is_told() -> None:
    made = fleet([0] * 9, [0] * 9)
    response = made(PATH, CHAT)
    assert (response.status_code, response.json()["error"]["code"]) == (503, "replica_lost")
    ollama = fleet([0] * 9)("/api/chat", {**CHAT, "stream": False})
    assert (ollama.status_code, set(ollama.json())) == (503, {"error"})


def test_a_crash_and_a_full_queue_are_asked_of_another() -> None:
    for bad in (FakeService(), FakeService()):
        made = Fleet(Dying(server(bad)), Dying(server(FakeService())))
        made.router.pool.replicas["http://1"].load = 1
        bad.events = [Failed("a pass crashed", "crash")]
        assert made(PATH, CHAT).status_code == 200
    full = FakeService()
    full.error = QueueFullError("full", 3.0)
    made = Fleet(Dying(server(full)), Dying(server(full)))
    response = made(PATH, CHAT)
    assert (response.status_code, response.headers["retry-after"]) == (429, "3")
    assert response.json()["error"]["code"] == "queue_full"
    assert all(replica.failures == 0 for replica in made.router.pool.replicas.values())


def test_what_every_replica_crashes_at_is_no_fault_of_theirs() -> None:
    """It is asked of three, and counts against none of them; where another one answers, it was theirs."""
    services = [FakeService() for _ in range(5)]
    for each in services:
        each.events = [Failed("a pass crashed", "crash")]
    made = Fleet(*(Dying(server(each)) for each in services))
    for _ in range(4):
        assert made(PATH, CHAT).json()["error"]["code"] == "internal_error"
    assert [len(each.requests) for each in services].count(0) >= 2
    assert sum(len(each.requests) for each in services) == 12
    states = made.router.pool.replicas.values()
    assert {replica.failures for replica in states} == {0}
    two = Fleet(Dying(server(services[0])), Dying(server(FakeService())))
    two.router.pool.replicas["http://1"].load = 1
    assert two(PATH, CHAT).status_code == 200
    assert [replica.failures for replica in two.router.pool.replicas.values()] == [1, 0]
    alone = Dying(server(services[0]))
    assert Fleet(alone)(PATH, CHAT).status_code == 500
    assert len(alone.bodies) == 1


def test_a_crash_counts_before_another_has_answered() -> None:
    """Answers may take long: meanwhile others are not to be sent where all crash."""
    bad = FakeService()
    bad.events = [Failed("a pass crashed", "crash")]
    made = Fleet(Dying(server(bad)), Dying(server(FakeService())))
    states = made.router.pool.replicas
    failures: list[int] = []
    send = made.replicas["http://1"].send

    async def seen(*given: Any) -> Any:
        failures.append(states["http://0"].failures)
        return await send(*given)

    made.replicas["http://1"].send = seen  # type: ignore[method-assign]
    for _ in range(2):
        states["http://1"].load = 1
        assert made(PATH, CHAT).status_code == 200
    assert failures == [1, 2]


def test_a_full_replica_is_asked_once_where_the_others_take_nothing() -> None:
    full = FakeService()
    full.error = QueueFullError("full", 3.0)
    replicas = [Dying(server(full)) for _ in range(2)]
    made = Fleet(*replicas, Dying(server(FakeService())))
    made.router.pool.replicas["http://2"].state = "lost"
    assert made(PATH, CHAT).status_code == 429
    assert [len(replica.bodies) for replica in replicas] == [1, 1]


def test_a_bad_request_is_answered_once_and_to_the_letter() -> None:
    made = fleet([], [])
    for body in ({"model": "mini", "stream": True}, {**CHAT, "stream": True, "temprature": 1}):
        response = made(PATH, body)
        assert response.status_code == 400
        assert response.json() == fleet([])(PATH, body).json()
    for content in (b"{", b"[]", b"", b'{"stream": true, "seed": 1, "seed": 2'):
        response = made(PATH, content=content, headers={"content-type": "application/json"})
        assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_json")
    assert made.metric("retries_total") == 0


def test_other_paths_pass() -> None:
    made = fleet([], [])
    assert made("/v1/models", method="GET").json()["data"][0]["id"] == "mini"
    assert made("/v1/tokenize", {"prompt": "a"}).status_code == 200
    assert made("/v1/nothing", method="GET").status_code == 404
    assert "studio" in made("/", method="GET").text
    assert made("/v1/files", method="GET").status_code == 404


def test_servers_may_have_different_models(caplog: pytest.LogCaptureFixture) -> None:
    plain, adapted = (FakeService(adapters=names) for names in ((), ("sudoku", "dashes")))
    made = Fleet(Dying(server(plain)), Dying(server(adapted)))
    listed = made("/v1/models", method="GET").json()
    assert [card["id"] for card in listed["data"]] == ["mini", "mini:sudoku", "mini:dashes"]
    assert (listed["first_id"], listed["last_id"]) == ("mini", "mini:dashes")
    for path in (PATH, "/v1/messages"):
        for stream in (False, True):
            for turn in range(3):
                asked = {**CHAT, "model": "mini:sudoku", "max_tokens": 9, "stream": stream, "seed": turn}
                del asked["seed" if path == "/v1/messages" else "max_tokens"]
                made.router.pool.replicas["http://1"].load = turn
                assert made(path, asked).status_code == 200, path
    assert len(plain.requests) == 0
    assert sum(record.levelname == "WARNING" for record in caplog.records) == 2  # the failed try, and what it showed
    for _ in range(4):
        assert made("/v1/models/mini:sudoku", method="GET").json()["id"] == "mini:sudoku"
    assert made("/v1/nothing", CHAT).status_code == 404
    refused = made(PATH, {**CHAT, "model": "mini:none"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")
    assert {replica.failures for replica in made.router.pool.replicas.values()} == {0}
    assert made.router.pool.replicas["http://0"].lacks == {"mini:sudoku"}


def test_the_models_of_one_that_answers_are_told() -> None:
    made = fleet([], [], wait_seconds=0.1)
    made.replicas["http://0"].refusing = True
    assert [card["id"] for card in made("/v1/models", method="GET").json()["data"]] == ["mini", "mini:sudoku"]
    made.router.pool.replicas["http://1"].draining = True
    refused = made("/v1/models", method="GET")
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "no_replica")


def test_what_is_not_found_is_no_sign_that_a_model_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    async def count(*_: Any) -> int:
        return 3

    monkeypatch.setattr("gesso.server.responses_api.count_prompt", count)
    made = fleet([], [], wait_seconds=0.1)
    stored = run(
        made.replicas["http://1"].send(
            "POST",
            "/v1/responses",
            [(b"content-type", b"application/json")],
            json.dumps({"model": "mini", "input": "Hi"}).encode(),
        )
    )
    identity = json.loads(run(stored.read()))["id"]
    asked = {"model": "mini", "input": "And?", "previous_response_id": identity}
    made.router.pool.replicas["http://1"].load = 1
    assert made("/v1/responses", asked).status_code == 200
    assert [len(replica.bodies) for replica in made.replicas.values()] == [1, 2], "the first one does not know it"
    assert made.router.pool.replicas["http://0"].lacks == set()


def test_a_response_is_found_where_it_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    async def count(*_: Any) -> int:
        return 3

    monkeypatch.setattr("gesso.server.responses_api.count_prompt", count)
    made = fleet([], [])
    asked = {"model": "mini", "input": "Hi"}
    stored = [made("/v1/responses", {**asked, "input": f"Hi {number}"}).json()["id"] for number in range(12)]
    assert all(made(f"/v1/responses/{name}", method="GET").json()["id"] == name for name in stored)
    assert all(made("/v1/responses", {**asked, "previous_response_id": name}).status_code == 200 for name in stored)
    assert {replica.requests > 0 for replica in made.router.pool.replicas.values()} == {True}
    counted = [made("/v1/responses/input_tokens", {**asked, "previous_response_id": name}) for name in stored]
    assert [answer.status_code for answer in counted] == [200] * len(stored)


def test_a_response_keeps_its_name_when_another_replica_finishes_it() -> None:
    made = fleet([3], [])
    made.router.pool.replicas["http://1"].load = 1
    text = made("/v1/responses", {"model": "mini", "input": "Hi", "stream": True}).text
    data = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: {")]
    (name,) = {part["response"]["id"] for part in data if "response" in part}
    assert made(f"/v1/responses/{name}", method="GET").status_code == 200
    assert made("/v1/responses", {"model": "mini", "input": "So?", "previous_response_id": name}).status_code == 200


def test_keys_hosts_and_rates_are_the_routers_own() -> None:
    replica = Dying(server(FakeService(), api_keys=("inner",)))
    settings = {"api_keys": ("outer",), "replica_api_key": "inner", "allowed_hosts": ("localhost",), "rate_limit": 2}
    made = Fleet(replica, **settings)
    key = {"headers": {"Authorization": "Bearer outer"}}
    assert made(PATH, CHAT).status_code == 401
    assert made(PATH, CHAT, headers={"X-API-Key": "inner"}).status_code == 401
    assert made(PATH, CHAT, headers={"Host": "stranger.example"}).status_code == 403
    assert [made(PATH, CHAT, **key).status_code for _ in range(3)] == [200, 200, 429]
    refused = made(PATH, CHAT, **key)
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    assert int(refused.headers["retry-after"]) >= 1
    assert made("/ready", method="GET").status_code == 200
    assert made.metric("rate_limited_total") == 2
    assert made("/router/replicas/http://0/drain", **key).json()["draining"], "who is full can be drained"
    assert refused.json()["error"]["message"] == "too many requests with this key"
    strangers = fleet([], rate_limit=1)
    assert [strangers(PATH, CHAT).status_code for _ in range(2)] == [200, 429]
    assert strangers(PATH, CHAT).json()["error"]["message"] == "too many requests from this address"


def test_routes_are_told_apart_also_with_keys() -> None:
    made = Fleet(Dying(server(FakeService())), api_keys=("k",))
    assert made(PATH, CHAT, headers={"Authorization": "Bearer k"}).status_code == 200
    text = made("/metrics", method="GET", headers={"X-API-Key": "k"}).text
    assert f'gesso_router_http_requests_total{{route="{PATH}",status="200"}} 1.0' in text


def test_a_rate_is_of_the_key_that_counts() -> None:
    """Whatever stands in the other header: what a stranger writes there makes no bucket of its own, nor shares one."""
    made = Fleet(Dying(server(FakeService())), api_keys=("k1", "k2"), rate_limit=2)

    def codes(*headers: tuple[str, str]) -> list[int]:
        return [
            made(PATH, CHAT, headers={"X-API-Key": key, "Authorization": other}).status_code for key, other in headers
        ]

    assert codes(("k1", "Bearer a"), ("k1", "Bearer b"), ("k1", "Bearer c")) == [200, 200, 429]
    assert codes(("k2", "Basic proxy"), ("k1", "Basic proxy"), ("k2", "Basic proxy")) == [200, 429, 200]


def test_a_body_that_is_no_json_is_passed_on_as_it_is() -> None:
    made = Fleet(Dying(server(FakeService())))
    refused = made("/api/chat", content=b"{bad", headers={"Content-Type": "application/json"})
    assert refused.status_code == 400
    assert "model is missing" not in refused.text


def test_without_keys_of_its_own_the_clients_key_is_passed_on() -> None:
    made = Fleet(Dying(server(FakeService(), api_keys=("k",))))
    assert made(PATH, CHAT).status_code == 401
    assert made(PATH, CHAT, headers={"X-API-Key": "k"}).status_code == 200


def test_a_body_that_is_too_large() -> None:
    made = fleet([], max_body_bytes=100)
    assert made(PATH, {**CHAT, "user": "x" * 100}).json()["error"]["code"] == "body_too_large"


def test_a_large_body_and_a_request_id_come_through() -> None:
    made = fleet([])
    headers = {"X-Request-Id": "mine-7", "Content-Type": "application/json"}
    response = made(PATH, content=json.dumps(CHAT).encode() + b" " * 200_000, headers=headers)
    assert response.status_code == 200
    assert response.headers.get_list("x-request-id") == ["mine-7"]


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize(
    ("given", "trace"),
    [
        (f"00-{TRACE}-00f067aa0ba902b7-01", TRACE),
        (f"cc-{TRACE}-00f067aa0ba902b7-01-what-comes-later", TRACE),
        (f"ff-{TRACE}-00f067aa0ba902b7-01", None),
        (f"00-{'0' * 32}-00f067aa0ba902b7-01", None),
        (f"00-{TRACE.upper()}-00f067aa0ba902b7-01", None),
        ("00-4bf9-00f067aa0ba902b7-01", None),
        (None, None),
    ],
)
def test_a_trace_is_passed_on_and_logged_by_both(
    given: str | None, trace: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "gesso.access")
    headers = {} if given is None else {"traceparent": given, "tracestate": "a=1"}
    made = fleet([])
    assert made(PATH, CHAT, headers=headers).status_code == 200
    lines = [json.loads(record.getMessage()) for record in caplog.records if record.name == "gesso.access"]
    assert [line.get("trace_id") for line in lines] == [trace, trace]
    passed = dict(made.replicas["http://0"].headers[-1])
    assert passed.get(b"traceparent") == (None if given is None else given.encode())
    assert passed.get(b"tracestate") == (None if given is None else b"a=1")


def test_where_no_replica_takes_requests() -> None:
    made = fleet([], up=False, wait_seconds=0.01)
    assert made("/health", method="GET").status_code == 200
    ready = made("/ready", method="GET")
    assert (ready.status_code, ready.json()["error"]["code"]) == (503, "not_ready")
    response = made(PATH, CHAT)
    assert (response.status_code, response.json()["error"]["code"]) == (503, "no_replica")
    for refused in (ready, response):
        assert refused.json()["error"]["message"] == "no replica takes requests: 1 unreachable"


def test_replicas_are_listed_and_drained() -> None:
    made = fleet([], [])
    assert made("/router/replicas/http://0/drain").json() == {"name": "http://0", "draining": True, "load": 0}
    assert [each["draining"] for each in made("/router/replicas", method="GET").json()["data"]] == [True, False]
    for _ in range(4):
        made(PATH, CHAT)
    assert made.replicas["http://0"].bodies == []
    assert made("/router/replicas/http://0/resume").json()["draining"] is False
    assert made("/router/replicas/nobody/drain").status_code == 404


def test_a_closing_router_takes_no_requests() -> None:
    made = fleet([])
    made.router.close(0.0)
    assert made("/ready", method="GET").status_code == 503
    assert made(PATH, CHAT).json()["error"]["code"] == "shutting_down"


def test_metrics_are_prometheus_text() -> None:
    made = fleet([], [0])
    for number in range(6):
        made(PATH, {**CHAT, "messages": [{"role": "user", "content": f"Hi {number}"}]})
    assert made.metric("replica_up") == 2
    assert made.metric("requests_total") == 6 + made.metric("retries_total")
    text = made("/metrics", method="GET").text
    assert f'gesso_router_http_requests_total{{route="{PATH}",status="200"}} 6.0' in text
    assert "gesso_router_seconds_to_first_byte_bucket" in text


@pytest.mark.parametrize(
    "settings",
    [
        {"replicas": ("10.0.0.5:8000",)},
        {"replicas": ("http://a/v1",)},
        {"replicas": ("http://a", "http://a")},
        {"replicas": ("http://a:99999",)},
        {"replicas": ("http://me:secret@a",)},
        {"replicas": ("http://a?b=c",)},
        {"replicas": (f"http://{'a' * 64}.example",)},
        {"allowed_hosts": ("a.example:80",)},
        {"wait_seconds": 0.0},
        {"health_seconds": float("nan")},
        {"stall_seconds": -1.0},
        {"drain_seconds": -1.0},
        {"rate_limit": 0.0},
        {"slack": -1},
        {"retries": -1},
        {"api_keys": ("a b",)},
    ],
)
def test_settings_that_are_impossible(settings: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        RouterSettings(**settings)
