"""Logs one JSON line for each HTTP request, and gives every answer an id, and an error's shape after a crash."""

import json
import logging
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gesso.server.errors import ApiError, internal_error
from gesso.server.http_span import begin_http_span, end_http_span
from gesso.server.studio import is_file_of_studio
from gesso.telemetry import w3c

if TYPE_CHECKING:
    from prometheus_client import Counter

    from gesso.engine.result import GenerationResult
    from gesso.telemetry.traces import Span, Traces

log = logging.getLogger("gesso.server")
access = logging.getLogger("gesso.access")


@dataclass(slots=True)
class Record:
    """Holds what the access log says of one request. Endpoints find it as `request.state.record`."""

    request_id: str
    outcome: str = "answered"
    """`client_disconnected` where the client did, `error` where a stream ended with one."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    steps: int = 0
    trace_id: str | None = None
    """Id of the trace that the request is a part of: its own where traces are made, else what `traceparent` names."""
    span: "Span | None" = None
    """Span of the request, where traces are made and this one is kept."""
    closing: list[Callable[[], None]] = field(default_factory=list)
    """Called when the request is over, before its span ends."""
    prompt: Any = None
    """The prompt, only where prompts are to be logged."""

    def add(self, result: "GenerationResult", counts_prompt: bool = True) -> None:
        """Adds a finished choice to the counts: its prompt too, unless another choice of the same prompt counts it."""
        self.prompt_tokens += result.prompt_tokens if counts_prompt else 0
        self.completion_tokens += result.completion_tokens
        self.steps += sum(result.denoising_steps)

    def disconnected(self) -> ApiError:
        """Notes that the client has gone, and makes the error that the request ends with."""
        self.outcome = "client_disconnected"
        return ApiError(499, "the client disconnected")

    def begin(self, traces: "Traces", scope: Scope) -> None:
        """Begins the span of the request, unless its path is none that is traced."""
        span = begin_http_span(traces, scope, self.request_id)
        if span is not None:
            self.trace_id, self.span = span.trace_id, span

    def end(self, scope: Scope, status: int) -> None:
        """Ends the span of the request, if it has one."""
        if self.span is None:
            return
        try:
            for close in self.closing:
                close()
            end_http_span(self.span, scope, status, self.outcome)
        except Exception:
            log.exception("%s: its trace is lost", self.request_id)


class CountsRequests(Protocol):
    """Has the counter of HTTP requests."""

    http: "Counter"
    """Requests by route and status."""


class AccessLog:
    """Logs every request: the outermost layer of the application."""

    def __init__(self, app: ASGIApp, metrics: CountsRequests, traces: "Traces | None" = None) -> None:
        self._app = app
        self._metrics = metrics
        self._traces = traces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.monotonic()
        given = Headers(scope=scope)
        record = Record(_request_id(given.get("x-request-id", "")), trace_id=w3c.trace_id(given.get("traceparent", "")))
        files = is_file_of_studio(scope["method"], scope["path"])
        if self._traces is not None and not files:
            record.begin(self._traces, scope)
        scope.setdefault("state", {})["record"] = record
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = record.request_id
                if scope["path"].startswith("/v1/messages"):
                    headers["Request-Id"] = record.request_id  # where Anthropic's clients look
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except Exception:
            log.exception("%s crashed", record.request_id)
            record.outcome = "error"
            if not status:
                await internal_error(record.request_id).response(scope["path"])(scope, receive, send_with_id)
        finally:
            self._metrics.http.labels(getattr(scope.get("route"), "path", "unknown"), status or 499).inc()
            record.end(scope, status)
            # The page is logged; the dozens of files that it is made of are not, unless one is refused.
            if not (files and 200 <= status < 400):
                access.info(_line(scope, record, status or 499, time.monotonic() - started))


def _request_id(given: str) -> str:
    """The client's own where it is harmless."""
    return given if re.fullmatch(r"[A-Za-z0-9._-]{1,64}", given) else f"req_{secrets.token_hex(12)}"


def _line(scope: Scope, record: Record, status: int, seconds: float) -> str:
    line = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "request_id": record.request_id,
        "method": scope["method"],
        "path": scope["path"],
        "status": status,
        "outcome": record.outcome,
        "milliseconds": round(seconds * 1000, 1),
        "prompt_tokens": record.prompt_tokens,
        "completion_tokens": record.completion_tokens,
        "steps": record.steps,
    }
    if record.trace_id is not None:
        line["trace_id"] = record.trace_id
    if record.span is not None:
        line["span_id"] = record.span.span_id
    if record.prompt is not None:
        line["prompt"] = record.prompt
    return json.dumps(line)
