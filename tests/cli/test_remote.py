"""`gesso chat --server` and `gesso generate --server`: the same, with a model behind HTTP."""

import contextlib
import json
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from engine.seeing import png
from server.conftest import plain_server, running
from server.fake import FakeService, block, frame, result
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from cli.conftest import Gesso
from gesso.api import load
from gesso.cli.remote import RemoteStream, ServedModel
from gesso.cli.render import figures
from gesso.engine.async_engine import AsyncEngine, Limits
from gesso.engine.events import BlockCommitted, DenoisingFrame, Finished
from gesso.errors import GessoError, HubError, OptionError


@pytest.fixture
def fake() -> FakeService:
    """A gesso server that answers `fig` after one frame."""
    service = FakeService(adapters=())
    service.events = [frame(), block("fig"), Finished(result(text="fig"))]
    return service


@pytest.fixture
def url(fake: FakeService) -> Iterator[str]:
    with running(fake, api_keys=("secret",)) as address:
        yield address


def test_a_conversation_with_a_server(gesso: Gesso, fake: FakeService, url: str) -> None:
    outcome = gesso("chat", "--server", url, "--api-key", "secret", "--seed", "7", stdin="one\ntwo\n")
    assert (outcome.code, outcome.out, outcome.err) == (0, "fig\nfig\n", "")
    first, second = fake.requests
    assert first.prompt == [{"role": "user", "content": "one"}]
    assert [message["content"] for message in second.prompt] == ["one", "fig", "two"]
    assert first.options["seed"] == 7


def test_warnings_of_the_server_are_told(gesso: Gesso, fake: FakeService, url: str) -> None:
    fake.events = [Finished(result(text="fig", warnings=("a guess",)))]
    outcome = gesso("chat", "--server", url, "--api-key", "secret", stdin="one\n")
    assert (outcome.code, outcome.err) == (0, "a guess\n")


def test_events_are_those_of_an_engine(fake: FakeService, url: str) -> None:
    model = ServedModel(url + "/v1", "mini", "secret")
    assert model.is_gesso
    assert model.special == fake.engine.tokenizer.special_ids
    options = {"max_new_tokens": 9, "entropy_bound": 0.2}
    events = list(model.stream([{"role": "user", "content": "hi"}], frames=True, thinking=True, **options))
    assert [type(event) for event in events] == [DenoisingFrame, BlockCommitted, Finished]
    assert isinstance(events[0], DenoisingFrame)
    assert (events[0].tokens, events[0].accepted) == (frame().tokens, frame().accepted)
    assert isinstance(events[2], Finished)
    assert (events[2].result.text, events[2].result.finish_reason) == ("fig", "stop")
    [request] = fake.requests
    assert request.frames
    assert {"thinking": True, "max_new_tokens": 9, "entropy_bound": 0.2}.items() <= request.options.items()


def test_events_tell_in_which_mode_they_were_written(fake: FakeService, url: str) -> None:
    fake.events = [frame(), block("a"), block("b", mode="ar"), block("c"), Finished(result(text="abc"))]
    events = ServedModel(url, "mini", "secret").stream([{"role": "user", "content": "hi"}], frames=True)
    blocks = [event for event in events if isinstance(event, BlockCommitted)]
    assert [(block.text, block.mode) for block in blocks] == [("a", "canvas"), ("b", "ar"), ("c", "canvas")]
    fake.events = [block("a", mode="ar"), Finished(result(text="a"))]
    *_, last = ServedModel(url, "mini", "secret").stream([{"role": "user", "content": "hi"}], frames=True)
    assert isinstance(last, Finished)
    assert last.result.mode == "ar"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--api-key", "wrong"], "401"),
        (["--api-key", "schl\xfcssel"], "must be printable ASCII"),
        (["--api-key", "secret", "--model", "other"], "does not serve 'other'; it serves mini"),
        (["--api-key", "secret", "--device", "cpu"], "--device"),
    ],
)
def test_what_does_not_fit_is_one_line(gesso: Gesso, url: str, arguments: list[str], message: str) -> None:
    outcome = gesso("chat", "--server", url, *arguments, stdin="hi\n")
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert outcome.err.count("\n") == 1


def test_no_server_and_no_address() -> None:
    with pytest.raises(HubError, match="no server answers at http://127"):
        ServedModel("http://127.0.0.1:9", None, None)
    with pytest.raises(OptionError, match="takes an address"):
        ServedModel("localhost:8000", None, None)


def test_a_proxy_that_cannot_be_used_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "gopher://a")
    with pytest.raises(HubError, match="cannot be asked") as caught:
        ServedModel("http://127.0.0.1:9", None, None)
    assert "ALL_PROXY" in str(caught.value.hint)


async def other(request: Request) -> Response:
    """A server of another make: standard fields, and a stream that breaks off with an error on request."""
    if request.url.path == "/v1/models":
        return JSONResponse({"object": "list", "data": [{"id": "llama", "owned_by": "somebody"}]})

    body = await request.json()

    async def chunks() -> AsyncIterator[str]:
        assert set(body) <= {
            "model",
            "messages",
            "stream",
            "stream_options",
            "seed",
            "max_tokens",
            "stop",
            "response_format",
        }
        yield 'data: {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}\n\n'
        for word in ("he", "llo"):
            yield f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'content': word}}]})}\n\n"
        if body.get("seed") == 13:
            yield 'data: {"error": {"message": "out of luck"}}\n\n'
        yield 'data: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}\n\ndata: [DONE]\n\n'

    return StreamingResponse(chunks(), media_type="text/event-stream")


@pytest.fixture(scope="module")
def other_url() -> Iterator[str]:
    routes = [Route("/v1/models", other), Route("/v1/chat/completions", other, methods=["POST"])]
    with plain_server(Starlette(routes=routes)) as address:
        yield address


def test_any_server_will_do(gesso: Gesso, other_url: str) -> None:
    outcome = gesso("chat", "--server", other_url, "--max-new-tokens", "5", stdin="hi\n")
    assert (outcome.code, outcome.out, outcome.err) == (0, "hello\n", "")


def test_what_another_server_does_not_know_is_not_asked_of_it(other_url: str) -> None:
    model = ServedModel(other_url, None, None)
    with pytest.raises(OptionError, match=r"entropy_bound: .* is no gesso server"):
        model.stream([], entropy_bound=0.1)
    with pytest.raises(OptionError, match="thinking"):
        model.stream([], thinking=True)


def test_an_error_in_the_stream_ends_it(other_url: str) -> None:
    stream = ServedModel(other_url, None, None).stream([{"role": "user", "content": "hi"}], seed=13)
    with pytest.raises(GessoError, match="out of luck"):
        list(stream)


@pytest.mark.parametrize("person", [True, False])
def test_a_server_that_fails_ends_no_conversation_of_a_person(
    gesso: Gesso, other_url: str, monkeypatch: pytest.MonkeyPatch, person: bool
) -> None:
    answers = iter(["one", "two", "/exit"])
    monkeypatch.setattr("builtins.input", lambda _: next(answers))
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: person)
    outcome = gesso("chat", "--server", other_url, "--seed", 13, stdin=None if person else "one\ntwo\n")
    told = outcome.err.count("gesso: out of luck\n")
    assert (outcome.code, told) == ((0, 2) if person else (1, 1))


def spoken(monkeypatch: pytest.MonkeyPatch, url: str, *stream: str) -> RemoteStream:
    """A request whose answer is these lines."""

    @contextlib.contextmanager
    def answer(*_: object, **__: object) -> Iterator[httpx.Response]:
        yield httpx.Response(200, content=iter(f"{line}\n\n".encode() for line in stream))

    monkeypatch.setattr(httpx, "stream", answer)
    return ServedModel(url, None, None).stream([{"role": "user", "content": "hi"}])


HE = 'data: {"choices": [{"index": 0, "delta": {"content": "he"}}]}'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"error": "model crashed"}', "model crashed"),
        ('{"error": {"message": "out of luck"}}', "out of luck"),
        ('{"error": {"code": 500}}', "the server failed"),
        ("[1]", "no JSON object: "),
        ("{", "no JSON: "),
    ],
)
def test_errors_of_every_shape_are_told(
    monkeypatch: pytest.MonkeyPatch, other_url: str, line: str, message: str
) -> None:
    with pytest.raises(GessoError, match=message):
        list(spoken(monkeypatch, other_url, HE, f"data: {line}"))


def test_a_stream_that_stops_before_its_end_is_no_answer(monkeypatch: pytest.MonkeyPatch, other_url: str) -> None:
    """What stands between may close it as if it were whole, when the server is gone."""
    with pytest.raises(GessoError, match="the stream stopped before the end of the answer"):
        list(spoken(monkeypatch, other_url, HE))
    for end in ('data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}', "data: [DONE]"):
        *_, last = spoken(monkeypatch, other_url, HE, end)
        assert isinstance(last, Finished)
        assert last.result.text == "he"


def test_fields_that_are_null_are_left_out(monkeypatch: pytest.MonkeyPatch, other_url: str) -> None:
    chunks = (
        '{"error": null, "choices": [{"index": 0, "delta": {"content": "llo"}}]}',
        '{"choices": null, "usage": {"prompt_tokens": null, "completion_tokens": null}}',
    )
    *_, last = spoken(monkeypatch, other_url, HE, *(f"data: {chunk}" for chunk in chunks), "data: [DONE]")
    assert isinstance(last, Finished)
    result = last.result
    assert (result.text, result.finish_reason) == ("hello", "stop")
    assert (result.prompt_tokens, result.completion_tokens) == (0, 0)


def test_the_stop_string_is_told(monkeypatch: pytest.MonkeyPatch, other_url: str) -> None:
    """By the name that vLLM has for it, whose other reasons are numbers of tokens."""
    for told, expected in (('"llo"', "llo"), ("107", None), ("null", None)):
        ending = f'data: {{"choices": [{{"delta": {{}}, "finish_reason": "stop", "stop_reason": {told}}}]}}'
        *_, last = spoken(monkeypatch, other_url, HE, ending, "data: [DONE]")
        assert isinstance(last, Finished)
        assert (last.result.text, last.result.stop_string) == ("he", expected)


def test_a_comment_is_a_line_that_cancelling_ends_at(monkeypatch: pytest.MonkeyPatch, other_url: str) -> None:
    class Pinging(httpx.SyncByteStream):
        """Goes on for as long as it is read, and is cancelled at the third line."""

        def __iter__(self) -> Iterator[bytes]:
            yield f"{HE}\n\n".encode()
            for number in range(5):
                assert number < 4, "read on after cancelling"
                if number == 3:
                    stream.cancel()
                yield b": ping\n\n"

    @contextlib.contextmanager
    def answer(*_: object, **__: object) -> Iterator[httpx.Response]:
        yield httpx.Response(200, stream=Pinging())

    monkeypatch.setattr(httpx, "stream", answer)
    stream = ServedModel(other_url, None, None).stream([{"role": "user", "content": "hi"}])
    *_, last = stream
    assert isinstance(last, Finished)
    assert (last.result.finish_reason, last.result.text) == ("cancelled", "he")


def test_cancelling_keeps_what_came(other_url: str) -> None:
    stream = ServedModel(other_url, None, None).stream([{"role": "user", "content": "hi"}])
    events = []
    for event in stream:
        events.append(event)
        stream.cancel()
    assert isinstance(events[-1], Finished)
    assert (events[-1].result.finish_reason, events[-1].result.text) == ("cancelled", "he")
    assert figures(events[-1].result)[1:] == ["cancelled"], "a server that was hung up on has told no counts"


def test_images_go_to_a_server_as_data_urls(gesso: Gesso, seeing_folder: Path, tmp_path: Path) -> None:
    """And cost the budget that was asked for, in every turn again."""
    (tmp_path / "a.png").write_bytes(png(1))
    service = AsyncEngine(load(seeing_folder, "cpu"), Limits())
    with running(service, max_body_bytes=2**24) as url:
        lines = f"one\n/image {tmp_path / 'a.png'}\ntwo\nthree\n"
        arguments = ("--image-budget", 70, "--max-new-tokens", 8, "--seed", 1)
        outcome = gesso("chat", "--server", url, *arguments, stdin=lines)
        assert (outcome.code, outcome.out.count("\n") >= 3) == (0, True)
        assert "goes with your next message" in outcome.err
        stats = service.stats()
        assert (stats.counters.images, stats.images_encoded) == (2, 1)
        assert stats.counters.prompt_tokens > 2 * 66
    service.close()


def test_a_prompt_goes_to_a_server_with_its_options(gesso: Gesso, fake: FakeService, url: str) -> None:
    schema = '{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}'
    key = ("--server", url, "--api-key", "secret")
    outcome = gesso("generate", "one", *key, "--system", "be brief", "--seed", 7, "--json-schema", schema)
    assert (outcome.code, outcome.out) == (0, "fig\n")
    gesso("generate", "two", *key, "--json-schema", schema, "--strict-schema", "--entropy-bound", 0.2)
    gesso("generate", "three", *key, "--json-object", "--thinking", "--mode", "ar")
    gesso("generate", "four", *key, "--choices", "yes,no", "--stop", "o")
    first, second, third, fourth = fake.requests
    assert [message["content"] for message in first.prompt] == ["be brief", "one"]
    assert (first.options["seed"], first.options["json_schema"]["required"]) == (7, ["a"])
    assert (second.options["strict_schema"], second.options["entropy_bound"]) == (True, 0.2)
    assert (third.options["json_object"], third.options["thinking"], third.options["mode"]) == (True, True, "ar")
    assert (list(fourth.options["choices"]), list(fourth.options["stop"])) == (["yes", "no"], ["o"])


def test_a_prompt_that_went_to_a_server_can_be_replayed(
    gesso: Gesso, fake: FakeService, url: str, tmp_path: Path
) -> None:
    trace = tmp_path / "run.jsonl"
    outcome = gesso("generate", "one", "--server", url, "--api-key", "secret", "--trace", trace)
    assert (outcome.code, outcome.out) == (0, "fig\n")
    kinds = [json.loads(line).get("event") for line in trace.read_text(encoding="utf-8").strip().split("\n")]
    assert kinds[1:] == ["draft", "block", "finished"]
    assert gesso("replay", trace).out == "fig\n"


def test_json_has_what_the_server_told(gesso: Gesso, fake: FakeService, url: str) -> None:
    told = result(
        text="fig", mode="ar", decision="a token is quicker", cached_tokens=5, prompt_tokens=9, completion_tokens=4,
        reasoning_tokens=2, verify_rounds=(1, 2), rejected_tokens=3, guidance_passes=4, denoising_steps=(1, 1, 1, 1),
        converged=(True,) * 4, seed=11, ignored=("/x",),
    )  # fmt: skip
    fake.events = [block("fig"), Finished(told)]
    outcome = gesso("generate", "one", "--server", url, "--api-key", "secret", "--json")
    found, expected = json.loads(outcome.out), json.loads(json.dumps(told.to_dict()))
    differ = {name for name in expected if found[name] != expected[name]}
    assert differ <= {"token_ids", "seconds", "seconds_to_first_block", "seconds_to_prompt", "tokens_per_second"}


def test_an_image_goes_with_a_prompt(gesso: Gesso, seeing_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(1))
    service = AsyncEngine(load(seeing_folder, "cpu"), Limits())
    with running(service, max_body_bytes=2**24) as url:
        outcome = gesso("generate", "hi", "--server", url, "--image", tmp_path / "a.png", "--max-new-tokens", 8)
        assert outcome.code == 0
        assert service.stats().counters.images == 1
    service.close()


@pytest.mark.parametrize(
    "arguments",
    [("--raw",), ("--best-of", 3), ("--device", "cpu"), ("--image", "absent.png"), ("--thinking-budget", 9)],
)
def test_what_a_server_cannot_do_for_a_prompt_is_refused(
    gesso: Gesso, fake: FakeService, url: str, arguments: tuple[object, ...]
) -> None:
    outcome = gesso("generate", "hi", "--server", url, "--api-key", "secret", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.count("\n") == 1
    assert not fake.requests


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--strict-schema",), "--strict-schema needs --json-schema"),
        (("--json-object", "--json-schema", "{}"), "contradict"),
        (("--json-object", "--regex", "a"), "contradict"),
    ],
)
def test_options_that_do_not_go_together_are_refused_as_here(
    gesso: Gesso, fake: FakeService, url: str, arguments: tuple[str, ...], message: str
) -> None:
    outcome = gesso("generate", "hi", "--server", url, "--api-key", "secret", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert not fake.requests


def test_a_format_is_known_to_every_server(gesso: Gesso, other_url: str) -> None:
    outcome = gesso("generate", "hi", "--server", other_url, "--json-object")
    assert (outcome.code, outcome.out) == (0, "hello\n")
    outcome = gesso("generate", "hi", "--server", other_url, "--regex", "a")
    assert (outcome.code, outcome.out) == (2, "")
    assert "regex" in outcome.err
