"""Makes the span of an HTTP request, by OpenTelemetry's conventions for servers of HTTP."""

from starlette.datastructures import Headers
from starlette.types import Scope

from gesso.telemetry.traces import Span, Traces, Value

UNTRACED = frozenset(("/health", "/ready", "/metrics"))
"""Paths that are asked for every few seconds, without anybody waiting for an answer of the model."""
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"))


def begin_http_span(traces: Traces, scope: Scope, request_id: str) -> Span | None:
    """Begins the span of an HTTP request; None for paths that are not traced."""
    path, method = scope["path"], scope["method"]
    if path in UNTRACED:
        return None
    known = method if method in _METHODS else "_OTHER"
    attributes: dict[str, Value] = {
        "http.request.method": known,
        "url.path": path,
        "url.scheme": scope.get("scheme", "http"),
        "gesso.request.id": request_id,
    }
    return traces.begin(_name(known), Headers(scope=scope), attributes)


def end_http_span(span: Span, scope: Scope, status: int, outcome: str) -> None:
    """Ends the span of an HTTP request.

    Args:
        status: that was sent; 0 where the client went away before.
        outcome: as the access log has it.
    """
    route = getattr(scope.get("route"), "path", None)
    method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
    attributes: dict[str, Value] = {"gesso.outcome": outcome}
    if status:
        attributes["http.response.status_code"] = status
    if route is not None and route != "other":
        attributes["http.route"] = route
        span.rename(f"{_name(method)} {route}")
    span.set(attributes)
    error = str(status) if status >= 500 else "stream_error" if outcome == "error" else ""
    span.end(error)


def _name(method: str) -> str:
    return "HTTP" if method == "_OTHER" else method
