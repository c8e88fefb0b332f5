"""What OpenTelemetry's variables ask for."""

import pytest

from gesso.cli.app import run
from gesso.errors import OptionError
from gesso.telemetry.settings import TraceSettings, trace_settings
from gesso.telemetry.w3c import trace_id

HERE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, None),
        ({"OTEL_SERVICE_NAME": "mine", "OTEL_TRACES_SAMPLER": "always_on"}, None),
        (HERE, TraceSettings("otlp")),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1/v1/traces"}, TraceSettings("otlp")),
        ({"OTEL_TRACES_EXPORTER": "console"}, TraceSettings("console")),
        ({**HERE, "OTEL_TRACES_EXPORTER": "none"}, None),
        ({**HERE, "OTEL_SDK_DISABLED": "TRUE"}, None),
        ({**HERE, "OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "zipkin"}, None),
        ({**HERE, "OTEL_SDK_DISABLED": "false", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, TraceSettings("otlp")),
        ({**HERE, "OTEL_PROPAGATORS": "tracecontext,baggage"}, TraceSettings("otlp")),
        ({**HERE, "OTEL_PROPAGATORS": "none"}, TraceSettings("otlp", follows=False)),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, None),
    ],
)
def test_what_asks_for_traces(given: dict[str, str], wanted: TraceSettings | None) -> None:
    assert trace_settings(given) == wanted


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_TRACES_EXPORTER", "zipkin"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
        ("OTEL_TRACES_SAMPLER", "sometimes"),
        ("OTEL_PROPAGATORS", "b3"),
    ],
)
def test_what_is_not_there_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(OptionError, match=f"{name} must be .*got '{value}'"):
        trace_settings({**HERE, name: value})


@pytest.mark.parametrize("command", [["serve"], ["router", "--replicas", "http://127.0.0.1:9"]])
def test_a_mistake_is_one_line_before_anything_is_loaded(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")
    assert run([*command, "--port", "0"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "OTEL_TRACES_EXPORTER must be one of otlp, console, none" in told.err
    assert len(told.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (f"00-{'a' * 32}-{'b' * 16}-01", "a" * 32),
        (f"cc-{'a' * 32}-{'b' * 16}-01-more", "a" * 32),
        (f"ff-{'a' * 32}-{'b' * 16}-01", None),
        (f"00-{'0' * 32}-{'b' * 16}-01", None),
        (f"00-{'A' * 32}-{'b' * 16}-01", None),
        ("", None),
    ],
)
def test_the_trace_of_a_header(given: str, wanted: str | None) -> None:
    assert trace_id(given) == wanted
