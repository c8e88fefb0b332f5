"""Logs one JSON line for each HTTP request, and gives every answer an id, and an error's shape after a crash."""

import json
import logging
import re
import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gesso.server.errors import internal_error
from gesso.server.studio import is_file_of_studio

if TYPE_CHECKING:
    from prometheus_client import Counter

    from gesso.engine.result import GenerationResult

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
    """Of the W3C trace that the request is a part of, where it says so."""
    prompt: Any = None
    """Only where prompts are to be logged."""

    def add(self, result: "GenerationResult") -> None:
        """Adds a finished choice to the counts."""
        self.prompt_tokens += result.prompt_tokens
        self.completion_tokens += result.completion_tokens
        self.steps += sum(result.denoising_steps)


class CountsRequests(Protocol):
    """Has the counter of HTTP requests."""

    http: "Counter"
    """By route and status."""


class AccessLog:
    """Logs every request: the outermost layer of the application."""

    def __init__(self, app: ASGIApp, metrics: CountsRequests) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.monotonic()
        given = Headers(scope=scope)
        record = Record(_request_id(given.get("x-request-id", "")), trace_id=_trace_id(given.get("traceparent", "")))
        scope.setdefault("state", {})["record"] = record
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-Id"] = record.request_id
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except Exception:
            log.exception("%s crashed", record.request_id)
            record.outcome = "error"
            if not status:
                await internal_error(record.request_id).response()(scope, receive, send_with_id)
        finally:
            self._metrics.http.labels(getattr(scope.get("route"), "path", "unknown"), status or 499).inc()
            # The page is logged; the dozens of files that it is made of are not, unless one is refused.
            if not (is_file_of_studio(scope["method"], scope["path"]) and 200 <= status < 400):
                access.info(_line(scope, record, status or 499, time.monotonic() - started))


def _request_id(given: str) -> str:
    """The client's own where it is harmless."""
    return given if re.fullmatch(r"[A-Za-z0-9._-]{1,64}", given) else f"req_{secrets.token_hex(12)}"


def _trace_id(given: str) -> str | None:
    """Reads the trace of a `traceparent` header, as the W3C's Trace Context has it; None where it is none."""
    found = re.fullmatch(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?", given)
    return found[1] if found is not None and int(found[1], 16) else None


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
    if record.prompt is not None:
        line["prompt"] = record.prompt
    return json.dumps(line)
