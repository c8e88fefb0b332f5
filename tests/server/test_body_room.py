"""Room for the bodies that are being read."""

import pytest
from starlette.testclient import TestClient

from gesso.server import body
from gesso.server.app import create_app
from gesso.server.body import BodyRoom
from gesso.server.errors import ApiError
from gesso.server.settings import Settings
from server.fake import FakeService


def test_large_bodies_share_a_room_and_small_ones_need_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "READING_BYTES", 100)
    monkeypatch.setattr(body, "SMALL_BODY", 30)
    room = BodyRoom()
    with room.reading() as one:
        one(90)
        with room.reading() as small:
            small(20)
            with pytest.raises(ApiError, match="too many large bodies") as error:
                small(20)
        assert (error.value.status_code, error.value.code) == (503, "server_busy")
    with room.reading() as again:
        again(100)
        with pytest.raises(ApiError):
            again(1)


def test_a_body_gives_its_room_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "READING_BYTES", 3000)
    monkeypatch.setattr(body, "SMALL_BODY", 100)
    client = TestClient(create_app(FakeService(), Settings(served_model_name="mini")))
    for words, status in ((400, 200), (400, 200), (4000, 503), (400, 200)):
        asked = {"model": "mini", "messages": [{"role": "user", "content": "a word" * words}]}
        response = client.post("/v1/chat/completions", json=asked)
        assert response.status_code == status, response.text
