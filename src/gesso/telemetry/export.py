"""Opens the way that spans take out of the process: OTLP over HTTP, or standard error."""

import contextlib
import os
import sys
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gesso import __version__
from gesso.errors import OptionError
from gesso.extras import pip_install
from gesso.telemetry.settings import Exporter, trace_settings
from gesso.telemetry.traces import Traces

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider


@contextlib.contextmanager
def tracing(service: str, environment: Mapping[str, str] = os.environ) -> Iterator[Traces | None]:
    """Sends traces for as long as it is open; yields None where OpenTelemetry's variables ask for none.

    Args:
        service: the name of the service, where the variables give none.

    Raises:
        OptionError: the variables ask for what is not there.
    """
    settings = trace_settings(environment)
    if settings is None:
        yield None
        return
    try:
        provider = _provider(service, settings.exporter)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("opentelemetry"):
            raise
        raise OptionError(
            f"OpenTelemetry's variables ask for traces, and {error.name} is missing",
            hint=f"{pip_install('otel')}, or OTEL_SDK_DISABLED=true for no traces",
        ) from None
    traces = Traces(provider, settings.follows)
    try:
        yield traces
    finally:
        traces.close()


def _provider(service: str, exporter: Exporter) -> "TracerProvider":
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter

    sends: SpanExporter
    if exporter == "console":
        # Standard output has the line that says where the server is.
        sends = ConsoleSpanExporter(out=sys.stderr, formatter=lambda span: f"{span.to_json(indent=None)}\n")
    else:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        sends = OTLPSpanExporter()
    ours = {"service.name": service, "service.version": __version__, "service.instance.id": str(uuid.uuid4())}
    named = dict(OTELResourceDetector().detect().attributes)
    provider = TracerProvider(resource=Resource.create({**ours, **named}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(sends))
    return provider
