"""Images in requests: data URLs, allowed hosts and folders, and everything that is refused."""

import base64
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine.seeing import picture, png
from starlette.testclient import TestClient

from gesso.api import load
from gesso.engine.async_engine import AsyncEngine, Limits
from gesso.server import media
from gesso.server.app import create_app
from gesso.server.settings import Settings
from server.conftest import refusal

SHORT = {"max_tokens": 8, "seed": 1, "mm_processor_kwargs": {"max_soft_tokens": 70}}


def url(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def image(address: str, **more: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": address, **more}}


def says(*parts: Any, role: str = "user") -> dict[str, Any]:
    content = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return {"role": role, "content": content}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("pictures")
    (made / "a b.png").write_bytes(png(1))
    (made / "text.png").write_text("no picture")
    return made


@pytest.fixture(scope="module")
def seeing_client(seeing_folder: Path, folder: Path) -> Iterator[TestClient]:
    service = AsyncEngine(load(seeing_folder, "cpu"), Limits(prefill_chunk=32))
    service.start()
    settings = Settings("mini", max_images=3, media_folder=folder, media_hosts=("pictures.test",), log_prompts=True)
    yield TestClient(create_app(service, settings))
    service.close()


def answer(client: TestClient, *messages: Any, **fields: Any) -> dict[str, Any]:
    body = {"model": "mini", "messages": list(messages), **SHORT, **fields}
    response = client.post("/v1/chat/completions", json=body)
    assert response.status_code == 200, response.text
    return dict(response.json())


def test_a_picture_changes_the_answer_and_is_counted(seeing_client: TestClient) -> None:
    text = answer(seeing_client, says("what?"))
    one = answer(seeing_client, says(image(url(png(1))), "what?"))
    two = answer(seeing_client, says(image(url(png(2))), "what?"))
    assert one["usage"]["prompt_tokens"] == two["usage"]["prompt_tokens"] == text["usage"]["prompt_tokens"] + 66
    assert one["choices"][0]["message"]["content"] != two["choices"][0]["message"]["content"]
    again = answer(seeing_client, says(image(url(png(1))), "what?"))
    assert again["choices"] == one["choices"]
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] > 0


def test_the_server_tells_that_its_model_sees(seeing_client: TestClient) -> None:
    props = seeing_client.get("/props").json()
    assert (props["modalities"]["vision"], props["max_images"]) == (True, 3)


def test_details_are_budgets(seeing_client: TestClient) -> None:
    counts = {}
    for detail in ("low", "auto", "high", "original", None):
        part = image(url(png()), **({} if detail is None else {"detail": detail}))
        body = {"messages": [says(part)]}
        counts[detail] = seeing_client.post("/v1/tokenize", json=body).json()["count"]
    assert counts["auto"] == counts[None] == counts["low"] + 256 - 64
    assert counts["original"] == counts["high"] > counts["auto"]
    found = answer(seeing_client, says(image(url(png()), detail="auto")), mm_processor_kwargs={"max_soft_tokens": 140})
    assert found["usage"]["prompt_tokens"] == counts["low"] + 121 - 64


def test_pictures_in_many_places(seeing_client: TestClient) -> None:
    """In the system's turn, in an earlier one, several choices, and a stream."""
    talk = [says("look", image(url(png(1))), role="system"), says(image(url(png(2))), "a"), says("b", role="assistant")]
    found = answer(seeing_client, *talk, says("c", image(url(png(1)))), n=2)
    assert len(found["choices"]) == 2
    body = {"model": "mini", "messages": [*talk, says("c")], "stream": True, **SHORT}
    response = seeing_client.post("/v1/chat/completions", json=body)
    assert response.text.rstrip().endswith("data: [DONE]")


def test_a_clip_is_shown_frame_by_frame(seeing_client: TestClient, tmp_path: Path) -> None:
    frames = [picture(seed=seed) for seed in (1, 2, 3)]
    frames[0].save(tmp_path / "clip.gif", save_all=True, append_images=frames[1:], duration=1000)
    clip = {"type": "video_url", "video_url": {"url": url((tmp_path / "clip.gif").read_bytes(), "image/gif")}}
    text = answer(seeing_client, says("what?"))["usage"]["prompt_tokens"]
    whole = answer(seeing_client, says(clip, "what?"))["usage"]["prompt_tokens"]
    assert whole > text + 3 * 66
    fewer = answer(seeing_client, says(clip, "what?"), mm_processor_kwargs={"num_frames": 2})["usage"]["prompt_tokens"]
    assert text + 2 * 66 < fewer < whole - 60


def test_a_file_of_the_allowed_folder_is_read(seeing_client: TestClient, folder: Path) -> None:
    by_file = answer(seeing_client, says(image((folder / "a b.png").as_uri()), "what?"))
    assert by_file["choices"] == answer(seeing_client, says(image(url(png(1))), "what?"))["choices"]


REFUSED = {
    "data:image/png;base64,AAAA": "no image of a format that is read",
    "data:image/png,AAAA": "must read data:TYPE;base64,DATA",
    "data:text/plain;base64,AAAA": "not image/",
    "file:///etc/passwd": "no such file in the folder",
    "file://pictures.test/a.png": "the address of a file must read",
    "/etc/passwd": "the address must be a data URL, or begin with https",
    "a.png": "the address must be a data URL, or begin with https",
    "ftp://pictures.test/a.png": "the address must be a data URL, or begin with https",
    "https://elsewhere.test/a.png": "fetches nothing from 'elsewhere.test'",
    "https://pictures.test.evil.test/a.png": "fetches nothing from",
    "https://pictures.test:8443/a.png": "fetches nothing from",
    "https://u:p@pictures.test/a.png": "a name or a password",
    "https://pictures.test:99999/": "the address of the image is none",
    "http://[::1/": "the address of the image is none",
}


@pytest.mark.parametrize("address", REFUSED)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/tokenize"])
def test_other_addresses_are_refused(seeing_client: TestClient, address: str, path: str) -> None:
    error = refusal(seeing_client, path, messages=[says("x"), says("what?", image(address))])
    assert error["param"] == "messages[1].content[1].image_url"
    assert REFUSED[address] in error["message"]
    assert "root:" not in error["message"]


def test_a_link_does_not_lead_out_of_the_folder(seeing_client: TestClient, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(png())
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    for name in ("link.png", f"../{tmp_path.name}/secret.png", "", "none.png"):
        error = refusal(seeing_client, messages=[says(image(f"file://{folder}/{name}"))])
        assert "no such file in the folder" in error["message"]
    error = refusal(seeing_client, messages=[says(image((folder / "text.png").as_uri()))])
    assert "no image of a format that is read" in error["message"]


def test_too_many_pictures_are_refused(seeing_client: TestClient) -> None:
    error = refusal(seeing_client, messages=[says(*[image(url(png()))] * 4)])
    assert error["param"] == "messages[0].content[3].image_url"
    assert "a request may have 3 images" in error["message"]
    options = {"mm_processor_kwargs": {"max_soft_tokens": 100}}
    assert refusal(seeing_client, messages=[says("x")], **options)["param"] == "mm_processor_kwargs.max_soft_tokens"
    error = refusal(seeing_client, messages=[says("x")], mm_processor_kwargs={"size": 3})
    assert error["code"] == "unknown_field"
    for part in (image("", detail="low"), image(url(png()), detail="fine"), {"type": "image_url"}):
        assert refusal(seeing_client, messages=[says(part)])["param"].startswith("messages[0].content[0]")


def test_choosing_has_the_same_rules(seeing_client: TestClient) -> None:
    def choose(*parts: Any) -> Any:
        body = {"model": "mini", "messages": [says(*parts)], "options": ["one", "two"]}
        return seeing_client.post("/v1/choose", json=body)

    assert choose(image(url(png(1))), "which?").status_code == 200
    error = choose(*[image(url(png()))] * 4).json()["error"]
    assert (error["param"], "may have 3 images" in error["message"]) == ("messages[0].content[3].image_url", True)
    error = choose(image("https://elsewhere.test/a.png")).json()["error"]
    assert error["param"] == "messages[0].content[0].image_url"
    assert "a file goes as" not in error["message"]


def test_pictures_alone_may_not_be_past_the_context(seeing_folder: Path) -> None:
    service = AsyncEngine(load(seeing_folder, "cpu"), Limits(max_model_len=100))
    service.start()
    client = TestClient(create_app(service, Settings("mini")))
    error = refusal(client, messages=[says(image(url(png()), detail="low")), says(image(url(png()), detail="low"))])
    service.close()
    assert error["message"].endswith("its images alone are past this server's 100 tokens")


def test_pictures_are_refused_while_others_take_the_room(
    seeing_client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = seeing_client.app.state.context.media._held  # type: ignore[attr-defined]
    for number in range(3):
        answer(seeing_client, says(image(url(png(7 + number))), "what?"))
    gc.collect()
    assert len(held) <= 1, "an answered request holds none, but for what the engine's thread did last"
    monkeypatch.setattr(media, "HELD_BYTES", 10_000)
    body = {"model": "mini", "messages": [says(*(image(url(png(n))) for n in range(3)), "what?")], **SHORT}
    response = seeing_client.post("/v1/chat/completions", json=body)
    assert response.status_code == 429
    assert response.json()["error"]["message"] == "the pictures of other requests take all the room that there is"
    assert int(response.headers["retry-after"]) >= 1


def test_the_log_holds_no_pictures(seeing_client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    from gesso.server.chat_models import ChatRequest
    from gesso.server.messages import logged_messages

    body = ChatRequest.model_validate({"model": "mini", "messages": [says("x", image(url(png())))]})
    (message,) = logged_messages(body.messages)
    assert message["content"][0]["text"] == "x"
    assert len(message["content"][1]["image_url"]["url"]) == 64
    assert message["content"][1]["image_url"]["url"].startswith("data:image/png;base64,iVBOR")


def test_metrics_tell_of_images(seeing_client: TestClient) -> None:
    answer(seeing_client, says(image(url(png(77))), "what is that on the other side of the street over there?"))
    answer(seeing_client, says(image(url(png(77))), "what is that on the other side of the street over there?"))
    lines = dict(line.rsplit(" ", 1) for line in seeing_client.get("/metrics").text.splitlines() if line[0] != "#")
    images, stored, encoded = (
        float(lines[f"gesso_{name}_total"]) for name in ("images", "cached_images", "images_encoded")
    )
    assert images > encoded > 0
    assert stored > 0
