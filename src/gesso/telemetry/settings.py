"""Reads OpenTelemetry's variables, as far as they say whether there are traces, and of which kind.

Traces are made where one of `ASKING` is set, unless `OTEL_SDK_DISABLED` is true or `OTEL_TRACES_EXPORTER` is `none`.
What else there is (sampler, headers, limits, attributes of the resource) the SDK reads by itself. What is not supported
here is refused by name: a trace that silently goes nowhere is found missing when it is needed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

from gesso.errors import OptionError

ASKING = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER")
"""Variables that ask for traces."""
Exporter = Literal["otlp", "console"]
_PROPAGATORS = {"tracecontext", "baggage", "none"}
_SAMPLERS = (
    "always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off",
    "parentbased_traceidratio",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """Says where spans go, and whether a trace goes on that a client has begun."""

    exporter: Exporter
    follows: bool = True
    """Whether `traceparent` is read and written."""


def trace_settings(environment: Mapping[str, str]) -> TraceSettings | None:
    """Reads the variables; None where they ask for no traces.

    Raises:
        OptionError: they ask for what is not there.
    """

    def value(name: str) -> str:
        return environment.get(name, "").strip()

    if value("OTEL_SDK_DISABLED").lower() == "true" or not any(value(name) for name in ASKING):
        return None
    exporter = _one(
        "OTEL_TRACES_EXPORTER", value("OTEL_TRACES_EXPORTER").lower() or "otlp", ("otlp", "console", "none")
    )
    if exporter == "none":
        return None
    for name in ("OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"):
        if exporter == "otlp":
            _one(name, value(name) or "http/protobuf", ("http/protobuf",))
    _one("OTEL_TRACES_SAMPLER", value("OTEL_TRACES_SAMPLER").lower() or _SAMPLERS[0], _SAMPLERS)
    propagators = {part.strip().lower() for part in value("OTEL_PROPAGATORS").split(",") if part.strip()}
    for part in sorted(propagators):
        _one("OTEL_PROPAGATORS", part, sorted(_PROPAGATORS))
    return TraceSettings(cast("Exporter", exporter), not propagators or "tracecontext" in propagators)


def _one(name: str, given: str, known: tuple[str, ...] | list[str]) -> str:
    if given not in known:
        expected = repr(known[0]) if len(known) == 1 else f"one of {', '.join(known)}"
        raise OptionError(f"{name} must be {expected}, got {given!r}; OTEL_SDK_DISABLED=true turns traces off")
    return given
