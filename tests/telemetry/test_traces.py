"""Spans, the headers between servers, and the way out of the process."""

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased

from gesso.errors import OptionError
from gesso.extras import pip_install
from gesso.telemetry.export import tracing
from telemetry.spans import Memory

TRACE, PARENT = "a" * 32, "b" * 16


def test_a_trace_goes_on_across_servers() -> None:
    memory = Memory()
    span = memory.traces.begin("first", {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=1"})
    headers = span.headers()
    assert headers == {"traceparent": f"00-{TRACE}-{span.span_id}-01", "tracestate": "vendor=1"}
    second = memory.traces.begin("second", headers)
    second.end()
    span.end("boom")
    assert [kept.parent for kept in memory.spans] == [span.span_id, PARENT]
    assert {kept.trace_id for kept in memory.spans} == {TRACE} == {span.trace_id}
    assert memory.one("first").status == "ERROR"
    assert memory.one("first").attributes == {"error.type": "boom"}
    assert memory.one("second").status == "UNSET"


def test_what_is_sampled_out_keeps_its_number() -> None:
    memory = Memory(ParentBased(ALWAYS_OFF))
    span = memory.traces.begin("one", {"traceparent": f"00-{TRACE}-{PARENT}-00"})
    assert not span.recording
    assert span.trace_id == TRACE
    assert span.headers()["traceparent"].startswith(f"00-{TRACE}-")
    assert span.headers()["traceparent"].endswith("-00")
    span.child("two").end()
    span.end()
    assert memory.spans == []


def test_a_trace_that_is_not_followed() -> None:
    memory = Memory(follows=False)
    span = memory.traces.begin("one", {"traceparent": f"00-{TRACE}-{PARENT}-01"})
    assert span.trace_id != TRACE
    assert span.headers() == {}


def test_a_span_that_is_over_has_its_times() -> None:
    memory = Memory()
    span = memory.traces.begin("outer", {})
    now, before = time.monotonic(), time.time_ns()
    span.note("inner", now - 2.0, now - 0.5, {"a": 1}).note("innermost", now - 1.0, now - 0.6)
    inner = memory.one("inner")
    assert inner.end - inner.start == pytest.approx(1.5e9, abs=1e6)
    assert inner.end == pytest.approx(before - 0.5e9, abs=1e9)
    assert inner.attributes == {"a": 1}
    assert memory.one("innermost").parent == inner.span_id


def test_spans_leave_by_http_and_the_variables_say_where(monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[tuple[str, str | None, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            got.append((self.path, self.headers["x-team"], body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as collector:
        thread = threading.Thread(target=collector.serve_forever)
        thread.start()
        try:
            given = {
                "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_port}",
                "OTEL_EXPORTER_OTLP_HEADERS": "x-team=blue",
                "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test,service.instance.id=one",
            }
            for name, value in given.items():
                monkeypatch.setenv(name, value)
            with tracing("gesso") as traces:
                assert traces is not None
                traces.begin("asked", {}).end()
        finally:
            collector.shutdown()
            thread.join()
    ((path, team, body),) = got
    assert (path, team) == ("/v1/traces", "blue")
    (told,) = ExportTraceServiceRequest.FromString(body).resource_spans
    resource = {pair.key: pair.value.string_value for pair in told.resource.attributes}
    assert resource["service.name"] == "gesso"
    assert resource["service.instance.id"] == "one"
    assert resource["deployment.environment.name"] == "test"
    assert [span.name for span in told.scope_spans[0].spans] == ["asked"]


def test_spans_on_standard_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    with tracing("gesso", {"OTEL_TRACES_EXPORTER": "console"}) as traces:
        assert traces is not None
        traces.begin("asked", {}).end()
    told = capsys.readouterr()
    assert told.out == ""
    (line,) = [json.loads(line) for line in told.err.splitlines()]
    assert line["name"] == "asked"
    assert line["resource"]["attributes"]["service.name"] == "mine"


def test_without_the_extra_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(OptionError, match=r"opentelemetry\.sdk\.trace is missing") as caught:  # noqa: SIM117
        with tracing("gesso", {"OTEL_TRACES_EXPORTER": "console"}):
            pass
    assert pip_install("otel") in str(caught.value.hint)


def test_without_the_variables_nothing_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with tracing("gesso", {}) as traces:
        assert traces is None
