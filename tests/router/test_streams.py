"""A replica that dies in a stream costs the client nothing: whatever the interface, and wherever it dies."""

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from server.fake import FakeService, FakeTicket, block, frame, result

from gesso.api import load
from gesso.engine.async_engine import AsyncEngine, Limits
from gesso.engine.events import Failed, Finished
from gesso.text.output import ToolCall
from router.replicas import Dying, Fleet, run, server

QUESTION = [{"role": "user", "content": "Count from 1 to 9."}]
REQUESTS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": QUESTION, "stream_options": {"include_usage": True}},
    "/v1/completions": {"prompt": "1 2 3", "n": 2},
    "/v1/messages": {"messages": QUESTION, "max_tokens": 64},
    "/v1/responses": {"input": "Count."},
    "/api/chat": {"messages": QUESTION},
}
EVENTS = [
    block(reasoning="Well"),
    block("Hello"),
    block(" there, é"),
    block(calls=[ToolCall("add", '{"a": 1}')]),
    Finished(result(text="Hello there, é", reasoning="Well", tool_calls=(ToolCall("add", '{"a": 1}'),))),
]
VOLATILE = ("created", "created_at", "completed_at", "id", "item_id", "call_id")


def service(events: list[Any] | None = None) -> FakeService:
    fake = FakeService()
    fake.events = EVENTS if events is None else events
    return fake


def request(path: str, **fields: Any) -> dict[str, Any]:
    return {"model": "mini", "stream": True, "seed": 3, **REQUESTS[path], **fields} if path != "/api/chat" else {
        "model": "mini", "options": {"seed": 3}, **REQUESTS[path], **fields
    }  # fmt: skip


def plain(text: str) -> list[Any]:
    """The events of a stream without ids and times."""

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: strip(part) for key, part in value.items() if key not in VOLATILE and "duration" not in key}
        return [strip(part) for part in value] if isinstance(value, list) else value

    events = []
    for line in text.splitlines():
        data = line if line.startswith("{") else line.removeprefix("data: ") if line.startswith("data: ") else None
        if data is not None:
            events.append(data if data == "[DONE]" else strip(json.loads(data)))
    return events


def ids(text: str) -> set[str]:
    """The ids that name the whole answer."""
    found = set()
    for line in text.splitlines():
        if line.startswith("data: {"):
            data = json.loads(line.removeprefix("data: "))
            found |= {
                str(part["id"]) for part in (data, data.get("message"), data.get("response")) if part and "id" in part
            }
    return found


@pytest.mark.parametrize("path", REQUESTS)
def test_a_stream_goes_on_wherever_its_replica_dies(path: str) -> None:
    apps = [server(service()) for _ in range(2)]
    undisturbed = Fleet(Dying(apps[0]))(path, request(path)).text
    events = plain(undisturbed)
    assert len(events) > 4
    for death in range(len(events) + 1):
        # Both die: the second one some way behind.
        fleet = Fleet(Dying(apps[0], [death, death + 3]), Dying(apps[1], [death + 1, death + 2]))
        response = fleet(path, request(path))
        assert response.status_code == 200
        assert plain(response.text) == events, death
        assert response.text.count("[DONE]") == undisturbed.count("[DONE]")
        assert len(ids(response.text)) <= 1
        assert fleet.metric("broken_streams_total") == 0
        assert death >= len(events) - 1 or fleet.metric("retries_total") > 0


@pytest.fixture(scope="module")
def mini() -> Iterator[AsyncEngine]:
    torch.set_num_threads(1)
    engine = AsyncEngine(load("mini", "cpu", offline=True), Limits())
    engine.start()
    yield engine
    engine.close()


@pytest.mark.parametrize("drafts", [False, True])
def test_the_model_writes_the_same_text_again(mini: AsyncEngine, drafts: bool) -> None:
    """Without a seed of the client's: the router gives one."""
    body = {"model": "mini", "messages": QUESTION, "stream": True, "diffusion": {"draft_frames": drafts}}
    apps = [Dying(server(mini)), Dying(server(mini))]
    fleet = Fleet(*apps)
    for app in apps:
        app.deaths = [2]
    events = plain(fleet("/v1/chat/completions", body).text)
    asked = [body for app in apps for body in app.bodies]
    assert len(asked) == 3
    assert len({body["seed"] for body in asked}) == 1
    again = plain(Fleet(Dying(server(mini)))("/v1/chat/completions", {**body, "seed": asked[0]["seed"]}).text)

    def shown(events: list[Any]) -> list[Any]:
        return [event for event in events if "draft" not in event]

    def without_places(events: list[Any]) -> list[Any]:
        return [
            {key: part for key, part in event.items() if key != "usage"} if event != "[DONE]" else event
            for event in events
        ]

    assert without_places(shown(events)) == without_places(shown(again))
    frames = [(event["draft"]["canvas"], event["draft"]["step"]) for event in events if "draft" in event]
    assert frames == sorted(set(frames))
    assert bool(frames) == drafts


def test_frames_are_not_shown_twice() -> None:
    events = [frame(1), frame(2), block("a"), frame(1), frame(2), block("b"), Finished(result(text="ab"))]
    body = request("/v1/chat/completions", diffusion={"draft_frames": True})
    app = server(service(events))
    undisturbed = plain(Fleet(Dying(app))("/v1/chat/completions", body).text)
    for death in range(1, len(undisturbed)):
        fleet = Fleet(Dying(app, [death]), Dying(app, [death]))
        assert [event for event in plain(fleet("/v1/chat/completions", body).text) if "draft" not in event] == [
            event for event in undisturbed if "draft" not in event
        ]


def test_a_replica_that_is_told_to_stop_hands_its_stream_over() -> None:
    """It says so with an error inside the stream, which the client never sees."""
    stopping = service([block("Hello"), Finished(result(finish_reason="cancelled"))])
    crashing = service([block("Hello"), Failed("a pass crashed", "crash")])
    for first in (stopping, crashing):
        whole = service([block("Hello"), block(" there"), Finished(result())])
        fleet = Fleet(Dying(server(first)), Dying(server(whole)))
        fleet.router.pool.replicas["http://1"].load = 1  # the other one comes first
        text = fleet("/v1/chat/completions", request("/v1/chat/completions")).text
        assert "error" not in text
        assert [e["choices"][0]["delta"].get("content") for e in plain(text)[:3]] == ["", "Hello", " there"]
        assert text.count("[DONE]") == 1


@pytest.mark.parametrize("path", REQUESTS)
def test_streams_of_all_interfaces_are_handed_over(path: str) -> None:
    stopping = service([block("Hello"), Finished(result(finish_reason="cancelled"))])
    whole = service([block("Hello"), block(" there"), Finished(result())])
    fleet = Fleet(Dying(server(stopping)), Dying(server(whole)))
    fleet.router.pool.replicas["http://1"].load = 1
    text = fleet(path, request(path)).text
    assert "shutting_down" not in text
    assert "error" not in text.replace('"error": null', "").replace('"error":null', "")
    assert " there" in text
    assert fleet.metric("broken_streams_total") == 0


@pytest.mark.parametrize("path", [path for path in REQUESTS if path != "/api/chat"])
def test_a_timeout_is_told_once_and_asked_once(path: str) -> None:
    """It is the request's own, so no other replica would do better. Errors of Ollama's interface have no code to tell
    it by."""
    slow = [service([block("Hello"), Failed("timeout", "not finished within 1 seconds")]) for _ in range(2)]
    fleet = Fleet(*(Dying(server(one)) for one in slow))
    text = fleet(path, request(path)).text
    assert text.count("not finished within 1 seconds") == 1
    assert sum(len(replica.bodies) for replica in fleet.replicas.values()) == 1
    assert fleet.metric("retries_total") == fleet.metric("broken_streams_total") == 0


def test_another_rounding_goes_on_by_begin() -> None:
    """The second replica writes something else from its first canvas on: it is asked to begin with what was sent."""
    first = service([block("Hello"), block(" there"), Finished(result())])
    other = service([block("Good day"), Finished(result(text="Good day"))])
    other.scripts = [
        other.events,
        [block("Hel"), block("lo my"), block(" friend"), Finished(result(text="Hello my friend"))],
    ]
    fleet = Fleet(Dying(server(first), [2]), Dying(server(other)))
    fleet.router.pool.replicas["http://1"].load = 1
    response = fleet("/v1/chat/completions", request("/v1/chat/completions"))
    said = [event["choices"][0]["delta"].get("content") for event in plain(response.text)[:-2] if event["choices"]]
    assert said[:4] == ["", "Hello", " my", " friend"]
    assert response.text.count("[DONE]") == 1
    assert len(ids(response.text)) == 1
    assert other.requests[1].options["begin"] == "Hello"
    assert fleet.replicas["http://1"].bodies[1]["diffusion"] == {"begin": "Hello"}


def test_an_answer_that_is_gone_on_with_goes_on_by_begin() -> None:
    first = service([block("Hello"), block(" there"), Finished(result())])
    other = service([block("Good day"), Finished(result(text="Good day"))])
    other.scripts = [other.events, [block("Hello my"), Finished(result(text="Hello my"))]]
    fleet = Fleet(Dying(server(first), [2]), Dying(server(other)))
    fleet.router.pool.replicas["http://1"].load = 1
    asked = request("/v1/chat/completions")
    said = [*asked["messages"], {"role": "assistant", "content": "I say: "}]
    response = fleet("/v1/chat/completions", {**asked, "messages": said, "continue_final_message": True})
    told = [event["choices"][0]["delta"].get("content") for event in plain(response.text)[:-2] if event["choices"]]
    assert told[:3] == ["", "Hello", " my"]
    options = other.requests[1].options
    assert (options["begun"], options["begin"]) == ("I say: ", "Hello")


@pytest.mark.parametrize(
    ("path", "told"), [("/v1/messages", "overloaded_error"), ("/v1/chat/completions", "replica_lost")]
)
def test_what_cannot_go_on_ends_with_an_error(path: str, told: str) -> None:
    """What was sent are thoughts, which no answer begins with, or an interface without such a field."""
    other = service([block("Good day"), Finished(result(text="Good day"))])
    fleet = Fleet(Dying(server(service()), [4]), Dying(server(other)))
    fleet.router.pool.replicas["http://1"].load = 1
    text = fleet(path, request(path)).text
    assert told in text
    assert text.count("[DONE]") == ("chat" in path)
    assert fleet.metric("broken_streams_total") == 1


def test_replicas_that_all_die_are_told_of() -> None:
    fleet = Fleet(Dying(server(service()), [2] * 9), Dying(server(service()), [2] * 9), retries=2)
    text = fleet("/v1/chat/completions", request("/v1/chat/completions")).text
    assert '"code": "replica_lost"' in text
    assert text.endswith("data: [DONE]\n\n")
    assert fleet.metric("broken_streams_total") == 1


def test_a_stream_waits_for_a_replica_that_comes_back() -> None:
    """The only one dies in the middle and is lost; when it is back, the stream goes on."""
    dying = Dying(server(service()), [3])
    fleet = Fleet(dying)
    (replica,) = fleet.router.pool.replicas.values()
    undisturbed = plain(Fleet(Dying(server(service())))("/v1/chat/completions", request("/v1/chat/completions")).text)

    async def play() -> str:
        asking = asyncio.create_task(fleet.ask("/v1/chat/completions", request("/v1/chat/completions")))
        while not dying.bodies:
            await asyncio.sleep(0)
        await fleet.router.pool.lost(replica)
        while not fleet.metric("retries_total"):
            await asyncio.sleep(0)
        assert not asking.done()
        await fleet.router.health.look()
        return (await asking).text

    assert plain(run(play())) == undisturbed


def test_refused_connections_are_no_tries() -> None:
    """All servers die and nobody listens for a while: without a retry left, streams wait until one is back."""
    replicas = [Dying(server(service()), [3]), Dying(server(service()), [3])]
    fleet = Fleet(*replicas, retries=1)
    states = fleet.router.pool.replicas.values()
    undisturbed = plain(Fleet(Dying(replicas[0].app))("/v1/chat/completions", request("/v1/chat/completions")).text)

    async def play() -> str:
        asking = asyncio.create_task(fleet.ask("/v1/chat/completions", request("/v1/chat/completions")))
        while not any(replica.bodies for replica in replicas):
            await asyncio.sleep(0)
        for replica in replicas:
            replica.refusing = True
        while {replica.state for replica in states} != {"lost"}:
            await asyncio.sleep(0)
        assert not asking.done()
        replicas[1].refusing = False
        replicas[1].deaths = []
        await fleet.router.health.look()
        return (await asking).text

    assert plain(run(play())) == undisturbed
    assert fleet.metric("broken_streams_total") == 0


def test_a_crash_of_the_router_is_told_inside_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong between two chunks: the stream has an error and an end, and its connection lives."""
    fleet = Fleet(Dying(server(service())))

    def crash(*given: Any) -> bytes:
        raise KeyError("a mistake")

    async def broken(*given: Any) -> None:
        crash()

    path = "/v1/chat/completions"
    with monkeypatch.context() as patched:
        # Once the stream has begun, the next server cannot be chosen.
        fleet.replicas["http://0"].deaths = [2]
        patched.setattr(fleet.router.forward, "_go_on", crash)
        text = fleet(path, request(path)).text
    assert '"code": "internal_error"' in text
    assert text.endswith("data: [DONE]\n\n")
    assert fleet.metric("broken_streams_total") == 1
    assert next(iter(fleet.router.pool.replicas.values())).load == 0
    # What a server says is never a reason to crash: another one is asked.
    two = Fleet(Dying(server(service())), Dying(server(service())))
    with monkeypatch.context() as patched:
        patched.setattr("gesso.router.forward.is_fault", crash)
        assert '"code": "replica_lost"' in two(path, request(path)).text
    assert two.metric("retries_total") == 3
    # Before anything was sent, a crash is an answer as any other.
    with monkeypatch.context() as patched:
        patched.setattr(fleet.router.forward, "_choose", broken)
        assert fleet(path, request(path)).status_code == 500


@pytest.mark.parametrize("path", REQUESTS)
def test_a_request_that_takes_too_long_is_asked_for_once(path: str) -> None:
    late = service([block("Hello"), Failed("timeout", "not finished within 1 seconds")])
    replicas = [Dying(server(late)) for _ in range(2)]
    fleet = Fleet(*replicas)
    assert "not finished within 1 seconds" in fleet(path, request(path)).text
    assert sum(len(replica.bodies) for replica in replicas) == 1
    assert {replica.failures for replica in fleet.router.pool.replicas.values()} == {0}


def test_a_breaker_closes_with_the_first_words_of_a_stream() -> None:
    """Others may ask a server again while the stream that tried it is still under way; this one breaks off."""
    fleet = Fleet(Dying(server(service()), [2]), retries=0)
    (replica,) = fleet.router.pool.replicas.values()
    replica.opened, replica.failures = 3, 5
    assert '"code": "replica_lost"' in fleet("/v1/chat/completions", request("/v1/chat/completions")).text
    assert (replica.open, replica.failures) == (False, 1)


def test_a_stream_that_ran_before_closes_no_breaker() -> None:
    fleet = Fleet(Dying(server(service()), [3]), retries=0)
    (replica,) = fleet.router.pool.replicas.values()
    take = fleet.router.pool.take

    def then_opens(taken: Any) -> None:
        take(taken)
        asyncio.get_running_loop().call_soon(setattr, taken, "opened", 3)

    fleet.router.pool.take = then_opens  # type: ignore[method-assign]
    fleet("/v1/chat/completions", request("/v1/chat/completions"))
    assert replica.opened == 4  # it was not closed by the stream, and counts its end


def test_an_answer_that_never_says_what_the_client_has_ends() -> None:
    """The second server writes otherwise, and does not begin as it is asked to either."""
    other = service([block("Good day"), Finished(result(text="Good day"))])
    fleet = Fleet(
        Dying(server(service([block("Hello"), block(" you"), Finished(result())])), [2]), Dying(server(other))
    )
    fleet.router.pool.replicas["http://1"].load = 1
    text = fleet("/v1/chat/completions", request("/v1/chat/completions")).text
    assert '"code": "replica_lost"' in text
    assert len(other.requests) == 2
    assert fleet.metric("broken_streams_total") == 1


def test_the_reason_to_finish_is_told_once() -> None:
    """The first server dies before `[DONE]`; the second one writes otherwise and begins with all that was said."""
    first = service([block("Hello"), Finished(result(text="Hello"))])
    other = service([block("Hel"), block("lo"), Finished(result(text="Hello"))])
    for death in (3, 4):
        fleet = Fleet(Dying(server(first), [death]), Dying(server(other)))
        fleet.router.pool.replicas["http://1"].load = 1
        text = fleet("/v1/chat/completions", request("/v1/chat/completions")).text
        finished = [
            event for event in plain(text)[:-1] if event["choices"] and event["choices"][0]["finish_reason"] is not None
        ]
        assert len(finished) == 1
        assert text.count('"usage":{') == 1
        assert text.count("[DONE]") == 1
        assert "error" not in text


def test_a_client_that_leaves_ends_its_request() -> None:
    silent = service([])
    fleet = Fleet(Dying(server(silent)))

    async def play() -> None:
        asking = asyncio.create_task(fleet.ask("/v1/chat/completions", request("/v1/chat/completions")))
        while not silent.tickets:
            await asyncio.sleep(0.001)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    run(play())
    assert silent.tickets[0].cancelled.is_set()
    assert next(iter(fleet.router.pool.replicas.values())).load == 0


@pytest.mark.parametrize("seconds", [0.0, 0.2])
def test_the_end_of_the_router_is_told(seconds: float) -> None:
    """Also where the server has not begun to answer: queueing takes it so many seconds."""
    silent = service([block("Hello")])
    submit = silent.submit

    def slowly(*given: Any) -> FakeTicket:
        ticket = submit(*given)
        time.sleep(seconds)
        return ticket

    silent.submit = slowly  # type: ignore[method-assign]
    fleet = Fleet(Dying(server(silent)))

    async def play() -> str:
        asking = asyncio.create_task(fleet.ask("/v1/chat/completions", request("/v1/chat/completions")))
        while not silent.tickets:
            await asyncio.sleep(0.001)
        fleet.router.forward.stopping.set()
        return (await asking).text

    text = run(play())
    assert '"code": "shutting_down"' in text
    assert silent.tickets[0].cancelled.is_set(), "the server hears of it"
