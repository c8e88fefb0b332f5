"""The stream of a chat completion: chunks, draft frames, errors on the way."""

import json
from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from gesso.engine.events import Failed, Finished
from gesso.server import choices
from gesso.server.answers import ChatChunk
from gesso.text.output import ToolCall
from server.conftest import chunks, parse_events, refusal, stream
from server.fake import FakeService, block, frame, logprob, result

TOOL = {"type": "function", "function": {"name": "clock"}}


def test_role_then_blocks_then_the_reason(client: TestClient) -> None:
    got = chunks(client)
    for chunk in got:
        ChatChunk.model_validate(chunk)
    assert len({chunk["id"] for chunk in got}) == 1
    assert [chunk["choices"][0]["delta"] for chunk in got] == [
        {"role": "assistant", "content": ""},
        {"content": "Hello"},
        {"content": " there"},
        {},
    ]
    assert [chunk["choices"][0]["finish_reason"] for chunk in got] == [None, None, None, "stop"]
    assert got[-1]["choices"][0]["diffusion"]["seed"] == 9
    assert all("usage" not in chunk for chunk in got)


def test_usage_comes_last_and_only_when_asked_for(client: TestClient) -> None:
    *rest, last = chunks(client, stream_options={"include_usage": True}, n=2)
    assert last["choices"] == []
    assert last["usage"]["prompt_tokens"] == 11
    assert last["usage"]["completion_tokens"] == 6
    assert all(chunk["usage"] is None for chunk in rest)
    assert refusal(client, stream_options={"include_usage": True})["param"] == "stream_options"
    prediction = {"type": "content", "content": "what nobody says"}
    *_, last = chunks(client, stream_options={"include_usage": True}, prediction=prediction)
    details = last["usage"]["completion_tokens_details"]
    assert details["accepted_prediction_tokens"] == 0
    assert details["rejected_prediction_tokens"] > 0


def test_thoughts_and_calls_have_deltas_of_their_own(client: TestClient, service: FakeService) -> None:
    calls = (ToolCall("clock", "{}"), ToolCall("clock", '{"zone": "UTC"}'))
    service.events = [
        block("", "Let me see."),
        block("I look.", "", calls[:1]),
        block("", "", calls[1:]),
        Finished(result(tool_calls=calls)),
    ]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks(client, tools=[TOOL])]
    assert deltas[1] == {"reasoning_content": "Let me see.", "reasoning": "Let me see."}
    assert deltas[2] == {"content": "I look."}
    first, second = (delta["tool_calls"][0] for delta in deltas[3:5])
    assert (first["index"], second["index"]) == (0, 1)
    assert first["id"] != second["id"]
    assert first["type"] == "function"
    assert first["function"] == {"name": "clock", "arguments": "{}"}
    assert second["function"]["arguments"] == '{"zone": "UTC"}'
    assert chunks(client, tools=[TOOL])[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_choices_are_told_apart_by_index(client: TestClient) -> None:
    texts = {0: "", 1: "", 2: ""}
    for chunk in chunks(client, n=3):
        for choice in chunk["choices"]:
            texts[choice["index"]] += choice["delta"].get("content", "")
    assert set(texts.values()) == {"Hello there"}


def test_logprobs_come_with_their_block_once(client: TestClient, service: FakeService) -> None:
    both = block("text", "thought", logprobs=(logprob(), logprob()))
    service.events = [both, block(logprobs=(logprob(),)), Finished(result())]
    found = [chunk["choices"][0].get("logprobs") for chunk in chunks(client, logprobs=True)]
    assert [len(part["content"]) for part in found if part] == [2, 1]


def test_white_space_before_a_call_is_none_of_the_answer(client: TestClient, service: FakeService) -> None:
    call = ToolCall("clock", "{}")
    service.events = [block(" \n"), block("", "", [call]), Finished(result(text=" \n", tool_calls=(call,)))]
    assert not any(chunk["choices"][0]["delta"].get("content") for chunk in chunks(client, tools=[TOOL]))
    for events in ([block(" \n"), block("a")], [block(" "), block("\na")], [block(" \na")]):
        service.events = [*events, Finished(result(text=" \na"))]
        assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks(client)) == " \na"
    service.events = [block(" "), Finished(result(text=" "))]
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks(client)) == " "


def test_warnings_come_with_the_reason(client: TestClient, service: FakeService) -> None:
    service.events = [Finished(result(warnings=("odd",)))]
    assert chunks(client)[-1]["choices"][0]["warnings"] == ["odd"]


# Draft frames.


def test_frames_are_named_events_and_chunks_without_content(client: TestClient, service: FakeService) -> None:
    service.events = [frame(1), frame(2), block("Hello"), Finished(result())]
    events = stream(client, diffusion={"draft_frames": True})
    names = [None, "diffusion.draft", "diffusion.draft", "diffusion.block", None, None]
    assert [name for name, _ in events] == names
    assert service.requests[0].frames is True
    drafts = [data for name, data in events if name == "diffusion.draft"]
    ChatChunk.model_validate(drafts[0])
    assert drafts[0]["choices"] == [{"index": 0, "delta": {}, "finish_reason": None}]
    assert drafts[0]["draft"] == {
        "canvas": 0,
        "step": 1,
        "max_denoising_steps": 48,
        "temperature": 0.8,
        "tokens": [5, 6],
        "pieces": ["a", "\u2028"],
        "accepted": [1, 0],
        "entropy": [0.0005, 1.2346],
    }


def test_frames_tell_what_is_behind_a_step_where_there_is_something(client: TestClient, service: FakeService) -> None:
    more = replace(frame(), canvas_tokens=(5, 9), pinned=(True, False), forced=(False, False))
    service.events = [more, Finished(result())]
    (draft,) = [data["draft"] for name, data in stream(client, diffusion={"draft_frames": True}) if name]
    assert (draft["canvas_tokens"], draft["pinned"]) == ([5, 9], [1, 0])
    assert "forced" not in draft


def test_blocks_stand_beside_frames_even_where_they_add_no_text(client: TestClient, service: FakeService) -> None:
    silent = block(canvas=1, tokens=(6, 7), denoising_steps=3, converged=False)
    service.events = [frame(1), block("Hello", "hm"), silent, Finished(result())]
    events = stream(client, diffusion={"draft_frames": True})
    blocks = [data for name, data in events if name == "diffusion.block"]
    ChatChunk.model_validate(blocks[0])
    assert blocks[0]["choices"] == [{"index": 0, "delta": {}, "finish_reason": None}]
    first = {"canvas": 0, "tokens": [5], "text": "Hello", "reasoning": "hm", "denoising_steps": 2, "converged": True}
    assert blocks[0]["block"] == first
    assert blocks[1]["block"]["tokens"] == [6, 7]
    assert "diffusion.block" not in [name for name, _ in stream(client)]


def test_frames_need_a_stream(client: TestClient) -> None:
    assert refusal(client, diffusion={"draft_frames": True})["param"] == "diffusion.draft_frames"


def test_events_are_ascii_so_that_no_client_breaks_lines_in_them(client: TestClient, service: FakeService) -> None:
    service.events = [block("a\u2028b\x85c\r\nd"), Finished(result())]
    body = {"model": "mini", "messages": [{"role": "user", "content": "x"}], "stream": True}
    text = client.post("/v1/chat/completions", json=body).text
    assert text.isascii()
    assert "\r" not in text
    assert json.loads(parse_events(text)[1][1])["choices"][0]["delta"]["content"] == "a\u2028b\x85c\r\nd"


def test_a_slow_client_loses_old_frames_and_nothing_else(
    client: TestClient, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choices, "MAX_FRAMES", 3)
    # All events are there before the first is read: the slowest of clients.
    service.events = [block("a"), *map(frame, range(10)), block("b"), Finished(result())]
    events = stream(client, diffusion={"draft_frames": True})
    assert [data["draft"]["step"] for name, data in events if name == "diffusion.draft"] == [7, 8, 9]
    assert "".join(data["choices"][0]["delta"].get("content", "") for _, data in events) == "ab"


# Errors in the middle.


@pytest.mark.parametrize(
    ("event", "code", "kind"),
    [
        (Failed("timeout", "not finished within 3 seconds"), "timeout", "server_error"),
        (Failed("crash", "the step failed"), "internal_error", "server_error"),
        (Finished(result(finish_reason="cancelled")), "shutting_down", "server_error"),
    ],
)
def test_an_error_on_the_way_ends_the_stream(
    client: TestClient, service: FakeService, event: Failed | Finished, code: str, kind: str
) -> None:
    service.events = [block("Hel"), event]
    last = chunks(client, n=2)[-1]
    assert set(last) == {"error"}
    assert (last["error"]["code"], last["error"]["type"]) == (code, kind)
    assert all(ticket.cancelled.is_set() for ticket in service.tickets)


def test_a_crash_of_the_server_ends_the_stream_without_a_trace(client: TestClient, service: FakeService) -> None:
    service.events = [block("x", logprobs=("no logprob",)), Finished(result())]
    last = chunks(client)[-1]
    assert last["error"]["code"] == "internal_error"
    assert "Traceback" not in str(last)
    assert "attribute" not in str(last)


def test_what_is_refused_at_once_is_no_stream(client: TestClient, service: FakeService) -> None:
    service.ready = False
    assert refusal(client, status=503, stream=True)["code"] == "shutting_down"


def test_silence_is_filled_with_comments(
    client: TestClient, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gesso.server.chunks.KEEP_ALIVE_SECONDS", 0.01)
    service.events = []
    body = {"model": "mini", "messages": [{"role": "user", "content": "x"}], "stream": True}

    thread = service.finish_after(0.2)
    text = client.post("/v1/chat/completions", json=body).text
    thread.join()
    assert ": 2 requests wait before this one\n\n" in text
