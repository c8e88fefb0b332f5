"""What is asked again, what is an answer, and when a server is given up."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from gesso.batch import ask as module
from gesso.batch.ask import Asker, ServerGoneError, over_http
from gesso.batch.lines import Answer, BatchRequest
from gesso.errors import OptionError

LINE = BatchRequest(1, "a", "/v1/x", {"text": "\ud800", "n": 1})


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_PAUSE", 0.0)


def asked(handler: Callable[[httpx.Request], httpx.Response], patience: float = 300.0) -> Answer:
    async def run() -> Answer:
        client = httpx.AsyncClient(transport=httpx.MockTransport(handler), base_url="http://a")
        async with Asker(client, patience) as ask:
            return await ask(LINE)

    return asyncio.run(run())


def test_an_error_is_an_answer() -> None:
    body = {"error": {"message": "no such model"}}
    answer = asked(lambda request: httpx.Response(404, json=body, headers={"x-request-id": "req_7"}))
    assert (answer.status, answer.request_id, answer.body, answer.ok) == (404, "req_7", body, False)


@pytest.mark.parametrize(("status", "option"), [(401, "api_key"), (403, "server")])
def test_who_is_refused_is_told_before_lines_are_done_with(status: int, option: str) -> None:
    body = {"error": {"message": "an API key is needed"}}
    with pytest.raises(OptionError, match=rf"HTTP {status}\): an API key is needed") as caught:
        asked(lambda request: httpx.Response(status, json=body))
    assert caught.value.option == option


def test_a_server_at_another_address_is_told() -> None:
    def moved(to: str) -> Answer:
        return asked(lambda request: httpx.Response(308, headers={"location": to}))

    with pytest.raises(OptionError, match=r"^--server leads on to https://a/v1/x: name that address"):
        moved("https://a/v1/x")
    assert moved("/v1/y").status == 400, "of this line's path alone"


def test_a_stream_is_told_of() -> None:
    answer = asked(
        lambda request: httpx.Response(200, text="{}\n{}\n", headers={"content-type": "application/x-ndjson"})
    )
    assert answer.status == 400
    assert "set stream to false" in answer.body["error"]["message"]


@pytest.mark.parametrize("first", [429, 503, httpx.ConnectError("refused")])
def test_what_says_nothing_of_the_request_is_asked_again(first: int | Exception) -> None:
    told: list[int | Exception] = [429, first, first, 200]

    def handler(request: httpx.Request) -> httpx.Response:
        say = told.pop(0)
        if isinstance(say, Exception):
            raise say
        return httpx.Response(say, json={"said": request.content.decode()}, headers={"retry-after": "9"})

    assert asked(handler).body == {"said": '{"text": "\\ud800", "n": 1}'}


def test_a_server_that_was_never_there_is_given_up_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    for proxy in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(proxy, raising=False)
        monkeypatch.delenv(proxy.upper(), raising=False)
    with pytest.raises(OptionError, match="no server answers at http://a: refused") as caught:
        asked(handler)
    assert caught.value.hint is None
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with pytest.raises(OptionError, match="no server answers at http://a: refused") as caught:
        asked(handler)
    assert "HTTP_PROXY" in (caught.value.hint or ""), "it may have been the proxy"


def test_a_server_that_does_not_come_back_is_given_up() -> None:
    with pytest.raises(ServerGoneError, match="the engine has failed"):
        asked(lambda request: httpx.Response(503, json={"error": {"message": "the engine has failed"}}), patience=0.0)


def test_patience_begins_with_the_first_failure_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the time of an answer that breaks off counts, nor that of a full queue."""
    now = [0.0]
    monkeypatch.setattr("gesso.batch.ask.time.monotonic", lambda: now[0])
    told: list[tuple[float, int]] = [(500, 0), (290, 0), (0, 429), (500, 0), (200, 503), (90, 0), (900, 200)]

    def handler(request: httpx.Request) -> httpx.Response:
        seconds, status = told.pop(0)
        now[0] += seconds
        if not status:
            raise httpx.ReadError("gone")
        return httpx.Response(status, json={})

    assert asked(handler).status == 200
    told += [(500, 0), (290, 503), (11, 503)]
    with pytest.raises(ServerGoneError):
        asked(handler)


def test_a_key_that_no_header_can_have_is_refused() -> None:
    with pytest.raises(OptionError, match="printable ASCII"):
        over_http("http://a", "k\u00e4")


@pytest.mark.parametrize("url", ["ftp://a", "nowhere", "http://", "http://a:b"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(OptionError, match="is no address"):
        over_http(url)


def test_a_proxy_or_certificates_that_cannot_be_used_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in (("ALL_PROXY", "gopher://a"), ("SSL_CERT_FILE", str(tmp_path / "none"))):
        with monkeypatch.context() as context:
            context.setenv(name, value)
            with pytest.raises(OptionError, match=r"^--server http://a cannot be asked") as caught:
                over_http("http://a")
        assert name in str(caught.value.hint)
