"""Images by Anthropic's, Ollama's and OpenAI's newer interface: the same answers as a chat completion's, the same
rules."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine.seeing import png
from starlette.testclient import TestClient

from gesso.api import load
from gesso.engine.async_engine import AsyncEngine, Limits
from gesso.server.app import create_app
from gesso.server.settings import Settings
from server.conftest import make_client
from server.fake import FakeService

ONE, TWO = (base64.b64encode(png(seed)).decode() for seed in (1, 2))
SEED, TOKENS = 5, 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("pictures")
    (made / "a.png").write_bytes(png(1))
    return made


@pytest.fixture(scope="module")
def seeing_client(seeing_folder: Path, folder: Path) -> Iterator[TestClient]:
    service = AsyncEngine(load(seeing_folder, "cpu"), Limits(prefill_chunk=64))
    service.start()
    yield TestClient(create_app(service, Settings("mini", max_images=3, media_folder=folder)))
    service.close()


def post(client: TestClient, path: str, **fields: Any) -> dict[str, Any]:
    response = client.post(path, json={"model": "mini", **fields})
    assert response.status_code == 200, response.text
    return dict(response.json())


def chat(client: TestClient, *parts: Any, before: Any = ()) -> tuple[str, int]:
    """Text and prompt tokens of a chat completion; a part that is no word is an image in base64."""
    content = [
        {"type": "text", "text": part[1:]}
        if part[0] == "!"
        else {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{part}"}}
        for part in parts
    ]
    messages = [*before, {"role": "user", "content": content}]
    found = post(client, "/v1/chat/completions", messages=messages, max_tokens=TOKENS, seed=SEED)
    return found["choices"][0]["message"]["content"], found["usage"]["prompt_tokens"]


def block(data: str) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def message(client: TestClient, *content: Any, **more: Any) -> dict[str, Any]:
    said = [{"role": "user", "content": list(content)}]
    return post(client, "/v1/messages", messages=said, max_tokens=TOKENS, seed=SEED, **more)


def test_anthropics_blocks(seeing_client: TestClient, folder: Path) -> None:
    text = {"type": "text", "text": "what?"}
    expected, tokens = chat(seeing_client, ONE, "!what?", TWO)
    found = message(seeing_client, block(ONE), {**text, "cache_control": {"type": "ephemeral"}}, block(TWO))
    assert found["content"][0]["text"] == expected
    usage = found["usage"]
    assert usage["input_tokens"] + usage["cache_read_input_tokens"] == tokens
    assert message(seeing_client, block(TWO), text, block(TWO))["content"] != found["content"]
    by_file = {"type": "image", "source": {"type": "url", "url": (folder / "a.png").as_uri()}}
    assert message(seeing_client, by_file, text, block(TWO))["content"] == found["content"]
    streamed = seeing_client.post(
        "/v1/messages",
        json={
            "model": "mini", "messages": [{"role": "user", "content": [block(ONE)]}], "max_tokens": 4, "stream": True,
        },
    )  # fmt: skip
    assert "message_stop" in streamed.text


def test_anthropics_turns_with_tools_and_images(seeing_client: TestClient) -> None:
    """A result stays a message of its own, before what the turn says beside it."""
    use = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
    talk = [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "here"}, block(ONE)]},
    ]
    called = {"id": "t1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    before = [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": "", "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "t1", "content": "here"},
    ]
    found = post(seeing_client, "/v1/messages", messages=talk, max_tokens=TOKENS, seed=SEED)
    assert found["content"][0]["text"] == chat(seeing_client, ONE, before=before)[0]


def test_openais_items(seeing_client: TestClient) -> None:
    def respond(*parts: Any, role: str = "user", **more: Any) -> dict[str, Any]:
        item = {"role": role, "content": list(parts)}
        options = {"max_output_tokens": TOKENS, "seed": SEED, **more}
        return post(seeing_client, "/v1/responses", input=[item], **options)

    def shown(data: str, **more: Any) -> dict[str, Any]:
        return {"type": "input_image", "image_url": f"data:image/png;base64,{data}", **more}

    text = {"type": "input_text", "text": "what?"}
    expected, tokens = chat(seeing_client, ONE, "!what?", TWO)
    found = respond(shown(ONE), text, shown(TWO, detail="auto"))
    assert found["output"][0]["content"][0]["text"] == expected
    assert found["usage"]["input_tokens"] == tokens
    assert (
        respond(shown(ONE, detail="low"), text)["usage"]["input_tokens"] == chat(seeing_client, ONE, "!what?")[1] - 192
    )
    # What is stored has its images: the next turn sees them again.
    earlier = respond(shown(ONE), text)
    answer = {"role": "assistant", "content": earlier["output"][0]["content"][0]["text"]}
    went_on = respond({"type": "input_text", "text": "and?"}, previous_response_id=earlier["id"])
    url = f"data:image/png;base64,{ONE}"
    first = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "what?"}]
    before = [{"role": "user", "content": first}, answer]
    assert went_on["output"][0]["content"][0]["text"] == chat(seeing_client, "!and?", before=before)[0]


def test_ollamas_images(seeing_client: TestClient) -> None:
    options = {"seed": SEED, "num_predict": TOKENS}
    expected, tokens = chat(seeing_client, ONE, TWO, "!what?")
    asked = [{"role": "user", "content": "what?", "images": [ONE, TWO]}]
    found = post(seeing_client, "/api/chat", messages=asked, options=options, stream=False)
    assert (found["message"]["content"], found["prompt_eval_count"]) == (expected, tokens)
    prompted = {"prompt": "what?", "images": [ONE, TWO], "options": options, "stream": False}
    assert post(seeing_client, "/api/generate", **prompted)["response"] == expected
    alone = post(seeing_client, "/api/generate", images=[ONE], options=options, stream=False)
    assert alone["response"] == chat(seeing_client, ONE)[0]


WRONG = ("!!!", "no base64"), ("AAAA", "no image of a format that is read")
ADDRESSES = ("http://127.0.0.1/a.png", "fetches nothing from"), ("file:///etc/passwd", "no such file in the folder")


@pytest.mark.parametrize(("data", "what"), WRONG)
def test_bad_files_are_named_where_they_stand(seeing_client: TestClient, data: str, what: str) -> None:
    def refused(path: str, **fields: Any) -> str:
        response = seeing_client.post(path, json={"model": "mini", **fields})
        assert response.status_code == 400, response.text
        error = response.json()["error"]
        return str(error["message"] if isinstance(error, dict) else error)

    texts = [{"type": "text", "text": "x"}, block(data)]
    said = refused("/v1/messages", system="s", max_tokens=4, messages=[{"role": "user", "content": texts}])
    assert said.startswith("messages[0].content[1]: ")
    assert what in said
    shown = {"type": "input_image", "image_url": f"data:image/png;base64,{data}"}
    items = [{"role": "user", "content": "x"}, {"role": "user", "content": [shown]}]
    said = refused("/v1/responses", instructions="s", input=items)
    assert said.startswith("input[1].content[0]: ")
    assert what in said
    said = refused("/api/chat", messages=[{"role": "user", "content": "x", "images": [ONE, data]}])
    assert said.startswith("messages[0].images[1]: ")
    assert what in said
    assert refused("/api/generate", prompt="x", system="s", images=[data]).startswith("images[0]: ")


@pytest.mark.parametrize(("address", "what"), ADDRESSES)
def test_addresses_have_the_same_rules(seeing_client: TestClient, address: str, what: str) -> None:
    source = {"type": "image", "source": {"type": "url", "url": address}}
    shown = {"type": "input_image", "image_url": address}
    for path, fields in (
        ("/v1/messages", {"max_tokens": 4, "messages": [{"role": "user", "content": [source]}]}),
        ("/v1/responses", {"input": [{"role": "user", "content": [shown]}]}),
    ):
        response = seeing_client.post(path, json={"model": "mini", **fields})
        assert response.status_code == 400
        assert what in response.json()["error"]["message"]


def refusals() -> Iterator[tuple[str, dict[str, Any]]]:
    result = {"type": "tool_result", "tool_use_id": "t", "content": [block(ONE)]}
    document = {"type": "document", "source": {"type": "text", "data": "x"}}
    for content in (result, document, block("") | {"source": {"type": "file", "file_id": "f"}}, {"type": "image"}):
        yield "/v1/messages", {"max_tokens": 4, "messages": [{"role": "user", "content": [content]}]}
    answered = [{"role": "user", "content": "x"}, {"role": "assistant", "content": [block(ONE)]}]
    yield "/v1/messages", {"max_tokens": 4, "messages": answered}
    kind = block(ONE) | {"source": {"type": "base64", "media_type": "image/bmp", "data": ONE}}
    yield "/v1/messages", {"max_tokens": 4, "messages": [{"role": "user", "content": [kind]}]}
    shown = {"type": "input_image", "image_url": f"data:image/png;base64,{ONE}"}
    yield "/v1/responses", {"input": [{"role": "assistant", "content": [shown]}]}
    yield "/v1/responses", {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]}
    yield "/v1/responses", {"input": [{"role": "user", "content": [shown | {"detail": "fine"}]}]}
    yield "/api/chat", {"messages": [{"role": "assistant", "content": "x", "images": [ONE]}]}
    yield "/api/chat", {"messages": [{"role": "user", "content": "x", "images": [5]}]}
    yield "/api/generate", {"prompt": "x", "raw": True, "images": [ONE]}
    yield "/api/generate", {"prompt": "x", "suffix": "y", "images": [ONE]}
    yield "/api/chat", {"messages": [{"role": "user", "content": "x", "images": [ONE] * 4}]}


def test_pictures_of_answers_are_named_where_they_stand(seeing_client: TestClient) -> None:
    shown = {"type": "input_image", "image_url": f"data:image/png;base64,{ONE}"}
    items = [{"role": "user", "content": "x"}, {"role": "assistant", "content": [shown]}]
    error = seeing_client.post("/v1/responses", json={"model": "mini", "input": items}).json()["error"]
    assert error["param"] == "input[1].content"
    assert error["message"].startswith("input[1].content: an answer holds no images")
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "x", "images": [ONE]}]
    said = seeing_client.post("/api/chat", json={"model": "mini", "messages": messages}).json()["error"]
    assert said == "messages[1].images: goes with messages of the user and the system"


@pytest.mark.parametrize(("path", "fields"), list(refusals()))
def test_what_has_no_place_is_refused(seeing_client: TestClient, path: str, fields: dict[str, Any]) -> None:
    assert seeing_client.post(path, json={"model": "mini", **fields}).status_code == 400


def test_a_model_without_eyes_says_so_by_every_interface(service: FakeService) -> None:
    client = make_client(service)
    shown = {"type": "input_image", "image_url": f"data:image/png;base64,{ONE}"}
    for path, fields, place in (
        ("/v1/messages", {"max_tokens": 4, "messages": [{"role": "user", "content": [block(ONE)]}]}, "messages[0]"),
        ("/v1/responses", {"input": [{"role": "user", "content": [shown]}]}, "input[0].content[0]"),
        ("/api/generate", {"prompt": "x", "images": [ONE]}, "images[0]"),
    ):
        response = client.post(path, json={"model": "mini", **fields})
        assert response.status_code == 400
        assert "this model reads text only" in response.text
        assert place in response.text
    assert service.requests == []
