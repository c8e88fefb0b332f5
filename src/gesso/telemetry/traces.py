"""Makes spans by OpenTelemetry, of which nothing is imported before traces are asked for.

What a request does is noted in seconds of the monotonic clock, wherever it happens, and becomes spans when the request
is over: whoever computes waits for nothing. `Traces.begin` gives a request its span; `Span.child` begins one inside it,
`Span.note` adds one that is over already.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from gesso import __version__

if TYPE_CHECKING:
    from opentelemetry import trace as otel
    from opentelemetry.sdk.trace import TracerProvider

Value = str | bool | int | float | Sequence[str]
Attributes = Mapping[str, Value]
Kind = Literal["internal", "server", "client"]
LAST_SECONDS = 5.0
"""Seconds for which the process waits at its end until spans are sent."""


class Span:
    """Records one span that is under way; it has to be ended."""

    def __init__(self, traces: "Traces", span: "otel.Span", offset: int) -> None:
        self._traces, self._span, self._offset = traces, span, offset

    @property
    def trace_id(self) -> str:
        """Returns the trace's number, as hexadecimal digits."""
        return f"{self._span.get_span_context().trace_id:032x}"

    @property
    def span_id(self) -> str:
        """Returns the span's number, as hexadecimal digits."""
        return f"{self._span.get_span_context().span_id:016x}"

    @property
    def recording(self) -> bool:
        """Says whether the span is kept; one that is sampled out has its numbers, and nothing else."""
        return self._span.is_recording()

    def rename(self, name: str) -> None:
        """Gives it the name that is known by now."""
        self._span.update_name(name)

    def set(self, attributes: Attributes) -> None:
        """Adds attributes."""
        self._span.set_attributes(attributes)

    def child(self, name: str, kind: Kind = "internal", attributes: Attributes | None = None) -> "Span":
        """Begins a span inside this one."""
        return self._traces._start(name, kind, attributes, self._span, self._offset)

    def note(
        self, name: str, start: float, end: float, attributes: Attributes | None = None, error: str = ""
    ) -> "Span":
        """Adds a span inside this one that is over already; returns it, so that it can have some inside it too.

        Args:
            start: seconds of `time.monotonic`, as `end`.
            error: what kind of error it ended with, if any.
        """
        span = self._traces._start(name, "internal", attributes, self._span, self._offset, int(start * 1e9))
        span.end(error, int(end * 1e9))
        return span

    def headers(self) -> dict[str, str]:
        """Returns the headers that tell another server that it works for this span."""
        return self._traces._headers(self._span)

    def end(self, error: str = "", at: int | None = None) -> None:
        """Ends the span.

        Args:
            error: what kind of error it ended with, if any.
            at: nanoseconds of the monotonic clock; now without it.
        """
        if error:
            from opentelemetry.trace import Status, StatusCode

            self._span.set_attribute("error.type", error)
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end((time.monotonic_ns() if at is None else at) + self._offset)


class Traces:
    """Makes spans of one process.

    Args:
        provider: where spans go.
        follows: whether a trace goes on that a client has begun.
    """

    def __init__(self, provider: "TracerProvider", follows: bool = True) -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider, self._follows = provider, follows
        self._trace = trace
        self._w3c = TraceContextTextMapPropagator()
        self._tracer = provider.get_tracer("gesso", __version__)
        kinds = trace.SpanKind
        self._kinds = {"internal": kinds.INTERNAL, "server": kinds.SERVER, "client": kinds.CLIENT}

    def begin(self, name: str, headers: Mapping[str, str], attributes: Attributes | None = None) -> Span:
        """Begins the span of a request, in the trace that its headers name."""
        context = self._w3c.extract(dict(headers)) if self._follows else None
        parent = None if context is None else self._trace.get_current_span(context)
        # One offset for all of a request: its spans lie in each other whatever is done to the clock meanwhile.
        return self._start(name, "server", attributes, parent, time.time_ns() - time.monotonic_ns())

    def close(self) -> None:
        """Sends what is not sent yet, for a few seconds at most."""
        # A collector that is away is tried for longer than a process should take to end.
        last = threading.Thread(target=self._provider.shutdown, name="gesso-last-spans", daemon=True)
        last.start()
        last.join(LAST_SECONDS)

    def _start(
        self,
        name: str,
        kind: Kind,
        attributes: Attributes | None,
        parent: "otel.Span | None",
        offset: int,
        start: int | None = None,
    ) -> Span:
        context = self._trace.set_span_in_context(self._trace.INVALID_SPAN if parent is None else parent)
        at = (time.monotonic_ns() if start is None else start) + offset
        span = self._tracer.start_span(name, context, self._kinds[kind], dict(attributes or {}), start_time=at)
        return Span(self, span, offset)

    def _headers(self, span: "otel.Span") -> dict[str, str]:
        carrier: dict[str, str] = {}
        if self._follows:
            self._w3c.inject(carrier, self._trace.set_span_in_context(span))
        return carrier
