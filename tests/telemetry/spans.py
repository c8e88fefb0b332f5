"""Spans that stay in memory, for tests."""

from dataclasses import dataclass
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler

from gesso.telemetry.traces import Traces


@dataclass
class Kept:
    """One span, as far as tests look."""

    name: str
    span_id: str
    parent: str | None
    trace_id: str
    start: int
    end: int
    kind: str
    status: str
    attributes: dict[str, Any]


class Memory:
    """Traces, and what they kept, in the order in which spans ended."""

    def __init__(self, sampler: Sampler = ALWAYS_ON, follows: bool = True) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.traces = Traces(provider, follows)

    @property
    def spans(self) -> list[Kept]:
        return [
            Kept(
                span.name,
                f"{span.context.span_id:016x}",
                None if span.parent is None else f"{span.parent.span_id:016x}",
                f"{span.context.trace_id:032x}",
                span.start_time,
                span.end_time,
                span.kind.name,
                span.status.status_code.name,
                dict(span.attributes),
            )
            for span in self._exporter.get_finished_spans()
        ]

    def named(self, name: str) -> list[Kept]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> Kept:
        (span,) = self.named(name)
        return span
