"""Verdicts on constraints and texts: `/v1/explain`."""

from typing import Any

import pytest
from starlette.testclient import TestClient

import gesso
from gesso.constraints import verdict
from gesso.constraints.compilation import Compilation, Compiled
from gesso.engine.async_engine import Limits
from server.conftest import make_client, refusal
from server.fake import FakeService

SCHEMA = {"type": "object", "properties": {"price": {"type": "integer"}}, "required": ["price"]}


def explain(client: TestClient, outputs: dict[str, Any], text: str | None = None, **fields: Any) -> dict[str, Any]:
    body = {"structured_outputs": outputs, **fields, **({} if text is None else {"text": text})}
    response = client.post("/v1/explain", json=body)
    assert response.status_code == 200, response.text
    return dict(response.json())


@pytest.mark.parametrize(
    ("outputs", "keyword", "good", "bad"),
    [
        ({"json": SCHEMA}, {"json_schema": SCHEMA}, '{"price": 36}', '{"price": "36"}'),
        ({"regex": "[0-9]{1,4}"}, {"regex": "[0-9]{1,4}"}, "777", "77a"),
        ({"grammar": 'root ::= "a" root | "b"'}, {"grammar": 'root ::= "a" root | "b"'}, "aab", "aa"),
        ({"choice": ["yes", "no"]}, {"choices": ["yes", "no"]}, "no", "nope"),
    ],
)
def test_the_verdict_is_that_of_the_library(
    client: TestClient, outputs: dict[str, Any], keyword: dict[str, Any], good: str, bad: str
) -> None:
    made = gesso.constraint(**keyword)
    accepted = {"object": "explanation", "usable": True, "explanation": None, "ignored": [], "states": made.size}
    assert explain(client, outputs) == {**accepted, "accepts": None}
    assert explain(client, outputs, good) == {**accepted, "accepts": True}
    refused = explain(client, outputs, bad, model="mini")
    assert refused == {**accepted, "accepts": False, "explanation": made.explain(bad)}


@pytest.mark.parametrize(
    ("outputs", "told"),
    [
        ({"regex": "("}, "regular expression"),
        ({"json": {"type": "nothing"}}, "type"),
        ({"grammar": "root ::= other"}, "other"),
        ({"json": {"$ref": "https://example.org/x"}}, "ref"),
    ],
)
def test_what_cannot_be_used_is_a_verdict_too(client: TestClient, outputs: dict[str, Any], told: str) -> None:
    found = explain(client, outputs, "x")
    assert (found["usable"], found["accepts"], found["states"]) == (False, None, 0)
    assert told in found["explanation"]
    assert "\n" not in found["explanation"]


def test_what_is_not_known_of_a_schema_is_told_or_refused(client: TestClient) -> None:
    outputs = {"json": {"type": "integer", "colour": "red"}}
    assert explain(client, outputs, "3")["ignored"] == ["#/colour"]
    assert explain(client, outputs, "3", strict=True)["usable"] is False


def test_bad_requests(client: TestClient) -> None:
    assert refusal(client, "/v1/explain", text="x")["code"] == "missing_field"
    assert refusal(client, "/v1/explain", structured_outputs={})["param"] == "structured_outputs"
    both = {"regex": "a", "grammar": "b"}
    assert refusal(client, "/v1/explain", structured_outputs=both)["param"] == "structured_outputs"
    assert refusal(client, "/v1/explain", structured_outputs={"regex": "a"}, txt="a")["code"] == "unknown_field"
    other = refusal(client, "/v1/explain", 404, structured_outputs={"regex": "a"}, model="other")
    assert other["code"] == "model_not_found"
    long = refusal(client, "/v1/explain", structured_outputs={"regex": "a"}, text="a" * (2**18 + 1))
    assert long["param"] == "text"


def test_as_many_are_compiled_at_once_as_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    client = make_client(FakeService(Limits(max_num_seqs=1, max_waiting=0)))
    inner: list[dict[str, Any]] = []

    def submit(option: str, value: Any, *, strict: bool) -> Compilation[Any]:
        # While this one is compiled, another one asks.
        monkeypatch.setattr("gesso.server.explain.submit_texts", verdict.submit_texts)
        inner.append(refusal(client, "/v1/explain", 429, structured_outputs={"regex": "b"}))
        return verdict.submit_texts(option, value, strict=strict)

    monkeypatch.setattr("gesso.server.explain.submit_texts", submit)
    assert explain(client, {"regex": "a"}, "a")["accepts"] is True
    assert [error["code"] for error in inner] == ["queue_full"]
    assert explain(client, {"regex": "b"}, "a")["accepts"] is False


def test_a_constraint_is_compiled_once(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def count(option: str, value: Any, *, strict: bool) -> Any:
        compiled.append(value)
        return real(option, value, strict=strict)

    real = verdict.compile_texts
    monkeypatch.setattr(verdict, "compile_texts", count)
    for text in ("once", "twice"):
        explain(client, {"regex": "once|compiled"}, text)
    assert compiled == ["once|compiled"]


def test_who_asks_no_more_is_not_compiled_for() -> None:
    """The wait gives the compilation up when it is cancelled, as it is when the client disconnects."""
    import asyncio
    from types import SimpleNamespace

    from gesso.constraints.budget import Budget
    from gesso.server.access_log import Record
    from gesso.server.errors import ApiError
    from gesso.server.explain import _until_ready

    compilation: Compilation[Any] = Compilation(lambda: Compiled(None, ()), Budget(), lambda: None)
    compilation._started, compilation._waiting = True, 1  # and never ready

    async def gone() -> dict[str, str]:
        return {"type": "http.disconnect"}

    http = SimpleNamespace(receive=gone, state=SimpleNamespace(record=Record("one")))
    with pytest.raises(ApiError, match="the client disconnected"):
        asyncio.run(_until_ready(compilation, http))  # type: ignore[arg-type]
    assert (compilation._waiting, http.state.record.outcome) == (0, "client_disconnected")
