"""The OpenAPI document, fuzzed against the bundled model: whatever comes, nothing crashes.

`GESSO_FUZZ_EXAMPLES` is the number of requests for each endpoint.
"""

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings, strategies

schemathesis = pytest.importorskip("schemathesis")

EXAMPLES = int(os.environ.get("GESSO_FUZZ_EXAMPLES", "15"))


SHORT: dict[str, Any] = {
    "/v1/messages": {"max_tokens": 8},
    "/v1/responses": {"max_output_tokens": 8, "previous_response_id": None},
    "/api/chat": {"options": {"num_predict": 8}},
    "/api/generate": {"options": {"num_predict": 8}},
}
"""What makes most made-up bodies of these paths reach the model, for a short answer."""
OTHERS = ("/v1/messages", "/v1/messages/count_tokens", "/api/chat", "/api/generate")
"""Paths whose errors have another interface's shape."""


@strategies.composite
def generated(draw: strategies.DrawFn, case: strategies.SearchStrategy[Any]) -> Any:
    """A case, where there is one: the fuzzer cannot always make what a schema that it changed asks for."""
    try:
        return draw(case)
    except schemathesis.errors.InvalidSchema:
        reject()


def reach_further(body: Any) -> None:
    """Made-up bodies seldom get as far as the model, or ask for a lot of work: mend most of them in place."""
    if not isinstance(body, dict) or len(repr(body)) % 8 == 0:
        return
    body["model"] = "mini"
    for name in ("max_tokens", "max_completion_tokens"):
        body.pop(name, None)
    body["max_tokens"] = 8
    if isinstance(body.get("diffusion"), dict | None):
        body["diffusion"] = {**(body.get("diffusion") or {}), "max_denoising_steps": 1}
        for name in ("start_canvas", "canvas_length"):
            body["diffusion"].pop(name, None)
    messages = body.get("messages")
    for number, message in enumerate(messages if isinstance(messages, list) else ()):
        if not isinstance(message, dict):
            continue
        if number and message.get("role") in ("system", "developer"):
            message["role"] = "user"
        if message.get("role") == "tool":
            message["name"] = "weather"
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict) and isinstance(call.get("function"), dict):
                call["function"]["arguments"] = "{}"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/chat/completions"),
        ("POST", "/v1/completions"),
        ("POST", "/v1/fill"),
        ("POST", "/v1/edit"),
        ("POST", "/v1/choose"),
        ("POST", "/v1/explain"),
        ("POST", "/infill"),
        ("POST", "/v1/messages"),
        ("POST", "/v1/messages/count_tokens"),
        ("POST", "/v1/responses"),
        ("POST", "/v1/responses/input_tokens"),
        ("POST", "/api/chat"),
        ("POST", "/api/generate"),
        ("POST", "/v1/tokenize"),
        ("POST", "/v1/detokenize"),
        ("GET", "/v1/models"),
        ("GET", "/v1/models/{model}"),
        ("GET", "/health"),
        ("GET", "/ready"),
        ("GET", "/metrics"),
    ],
)
def test_nothing_crashes(mini_url: str, method: str, path: str) -> None:
    document = schemathesis.openapi.from_url(f"{mini_url}/openapi.json")
    modes = [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE]
    cases = [generated(document[path][method].as_strategy(generation_mode=mode)) for mode in modes]

    @given(case=strategies.one_of(cases))
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    def fuzz(case: Any) -> None:
        if path in SHORT and isinstance(case.body, dict) and len(repr(case.body)) % 8:
            case.body |= {"model": "mini", **SHORT[path], "diffusion": {"max_denoising_steps": 1}}
        elif "completions" in path:
            reach_further(case.body)
        elif method == "POST" and isinstance(case.body, dict) and len(repr(case.body)) % 8:
            # A known model, and few steps; texts as they come.
            case.body["model"] = "mini"
            if path in ("/v1/fill", "/v1/edit"):
                case.body["diffusion"] = {"max_denoising_steps": 1}
        check(case.call(timeout=120), path)

    fuzz()


def check(response: Any, path: str) -> None:
    """An answer or a refusal, and nothing in between."""
    told_of = f"{bytes(response.request.body or b'')!r:.2000} -> {response.text}"
    assert response.status_code < 500, told_of
    if response.status_code >= 400:
        told = response.json()["error"]
        if path not in OTHERS:
            assert set(told) == {"message", "type", "param", "code"}
    elif path in SHORT:
        assert '{"error"' not in response.text, told_of
        assert "event: error" not in response.text, told_of
    elif response.headers["content-type"][0].startswith("text/event-stream"):
        assert '{"error"' not in response.text, told_of
        assert response.text.endswith("data: [DONE]\n\n")
