"""Pictures that take long to decode: their request ends in time, with its client, and with the server."""

import logging
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest

from gesso.engine.async_engine import Limits
from gesso.engine.media import Media
from server.conftest import chat_body, eventually, running
from server.fake import FakeService
from server.test_hang_up import send

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
LOOK = chat_body(messages=[{"role": "user", "content": [PICTURE]}])
SECONDS = 20


class Decoder:
    """Takes as long as the test does."""

    def __init__(self) -> None:
        self.begun, self.release = threading.Event(), threading.Event()

    def prepare(self, *given: Any) -> Any:
        self.begun.set()
        self.release.wait(SECONDS)
        return [SimpleNamespace(soft_tokens=1, patches=np.zeros((4, 768), np.uint8))], []


@pytest.fixture
def decoder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Decoder]:
    made = Decoder()
    monkeypatch.setattr(Media, "prepare", made.prepare)
    yield made
    made.release.set()


def seeing(limits: Limits | None = None) -> FakeService:
    service = FakeService(limits)
    service.engine.runner.vision = SimpleNamespace()
    return service


PATHS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": LOOK,
    "/v1/choose": {**LOOK, "options": ["a", "b"]},
    "/v1/tokenize": LOOK,
    "/v1/messages/count_tokens": {
        "model": "mini",
        "messages": [
            {
                "role": "user",
                "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}],
            }
        ],
    },
}


@pytest.mark.parametrize("path", PATHS)
def test_the_time_limit_of_requests_covers_their_pictures(decoder: Decoder, path: str) -> None:
    with running(seeing(Limits(request_timeout=0.1))) as url:
        answer = httpx.post(url + path, json=PATHS[path], timeout=SECONDS / 2)
        assert answer.status_code == 504
        assert "its images were not read within 0.1 seconds" in answer.json()["error"]["message"]


def test_the_rest_of_the_time_is_what_the_engine_has(decoder: Decoder) -> None:
    decoder.release.set()
    service = seeing(Limits(request_timeout=10))
    with running(service) as url:
        assert httpx.post(f"{url}/v1/chat/completions", json=LOOK, timeout=SECONDS).status_code == 200
    (request,) = service.requests
    (prepared,) = service.prepared
    assert request.since is not None
    assert request.since < prepared.since


def test_a_client_that_hangs_up_does_not_wait_for_its_pictures(
    decoder: Decoder, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "gesso.access")
    with running(seeing()) as url:
        connection = send(url, messages=LOOK["messages"])
        assert decoder.begun.wait(SECONDS)
        connection.close()
        assert eventually(lambda: '"outcome": "client_disconnected"' in caplog.text, SECONDS / 2)


def test_the_end_of_the_server_does_not_wait_for_pictures(decoder: Decoder, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING")
    answers: list[httpx.Response] = []
    with running(seeing(), drain_seconds=0.0) as url:
        asking = threading.Thread(
            target=lambda: answers.append(httpx.post(f"{url}/v1/chat/completions", json=LOOK, timeout=SECONDS))
        )
        asking.start()
        assert decoder.begun.wait(SECONDS)
    assert not decoder.release.is_set()
    asking.join(SECONDS)
    assert (answers[0].status_code, answers[0].json()["error"]["code"]) == (503, "shutting_down")
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR or record.exc_info]
