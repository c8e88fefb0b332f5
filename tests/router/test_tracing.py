"""One trace covers the router and the replicas that it tries."""

from typing import Any

from server.fake import RESULT, FakeService, block
from telemetry.spans import Memory

from gesso.engine.events import Failed, Finished
from gesso.router.app import Router
from gesso.server.app import create_app
from gesso.server.settings import Settings
from router.replicas import Dying, Fleet

PATH = "/v1/chat/completions"
CHAT: dict[str, Any] = {"model": "mini", "messages": [{"role": "user", "content": "Hi"}]}
TRACE, PARENT = "a" * 32, "b" * 16
HEADERS = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=1"}


def traced(*services: FakeService, deaths: dict[int, int] | None = None) -> tuple[Fleet, Memory, Memory]:
    """A router before replicas, and what each side keeps."""
    asked, served = Memory(), Memory()
    apps = [create_app(each, Settings(served_model_name="mini"), served.traces) for each in services]
    replicas = [Dying(app, [(deaths or {}).get(number)]) for number, app in enumerate(apps)]
    made = Fleet(*replicas)
    made.router = Router(made.router.settings, connect=made.replicas.__getitem__, traces=asked.traces)
    for number, replica in enumerate(made.router.pool.replicas.values()):
        replica.state, replica.load = "up", number  # the first is asked first
    return made, asked, served


def test_a_trace_covers_router_and_replica() -> None:
    made, asked, served = traced(FakeService())
    assert made(PATH, CHAT, headers=HEADERS).status_code == 200
    request, tried, work = asked.one(f"POST {PATH}"), asked.one("POST"), served.one(f"POST {PATH}")
    assert (request.kind, tried.kind, work.kind) == ("SERVER", "CLIENT", "SERVER")
    assert (request.parent, tried.parent, work.parent) == (PARENT, request.span_id, tried.span_id)
    assert {span.trace_id for span in (*asked.spans, *served.spans)} == {TRACE}
    assert tried.attributes == {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "server.address": "0",
        "gesso.replica": "http://0",
        "gesso.resumed": "no",
    }
    passed = dict(made.replicas["http://0"].headers[-1])
    assert passed[b"traceparent"] == f"00-{TRACE}-{tried.span_id}-01".encode()
    assert passed[b"tracestate"] == b"vendor=1"
    assert [name for name, _ in made.replicas["http://0"].headers[-1]].count(b"traceparent") == 1


def test_every_try_has_a_span_and_the_last_one_goes_on_with_the_stream() -> None:
    events = [block("Hello"), block(" there"), Finished(RESULT)]
    first, second = FakeService(), FakeService()
    first.events = second.events = events
    made, asked, served = traced(first, second, deaths={0: 2})
    response = made(PATH, {**CHAT, "stream": True})
    assert response.text.count("[DONE]") == 1
    lost, held = asked.named("POST")
    assert (lost.attributes["gesso.replica"], lost.status) == ("http://0", "ERROR")
    assert lost.attributes["error.type"] == "ReplicaLostError"
    assert (held.attributes["gesso.replica"], held.status) == ("http://1", "UNSET")
    assert (held.attributes["gesso.resumed"], held.attributes["http.request.resend_count"]) == ("seed", 1)
    assert {span.parent for span in (lost, held)} == {asked.one(f"POST {PATH}").span_id}
    assert {span.parent for span in served.named(f"POST {PATH}")} == {lost.span_id, held.span_id}
    assert len({span.trace_id for span in (*asked.spans, *served.spans)}) == 1


def test_an_answer_that_another_replica_is_asked_for_is_an_error_of_its_try() -> None:
    bad = FakeService()
    bad.events = [Failed("crash", "a pass crashed")]
    made, asked, _ = traced(bad, FakeService())
    assert made(PATH, CHAT).status_code == 200
    lost, held = asked.named("POST")
    assert (lost.attributes["error.type"], lost.attributes["http.response.status_code"]) == ("500", 500)
    assert (held.status, held.attributes["http.response.status_code"]) == ("UNSET", 200)
