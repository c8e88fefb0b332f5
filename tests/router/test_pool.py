"""Which replica is chosen: beginnings, load, breakers, drains."""

import asyncio
from collections import Counter
from typing import Any, ClassVar

import pytest

from gesso.router.affinity import PrefixTable, prefix_digests
from gesso.router.client import NoHttpError, NotListeningError
from gesso.router.health import Health
from gesso.router.limits import TokenBuckets
from gesso.router.replicas import ANOTHER, FAILURES, LONGEST_PAUSE, PAUSE, Pool, Replica

PATH = "/v1/chat/completions"


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Says:
    """A connection to a server that answers every request the same way."""

    told: ClassVar[dict[str, tuple[int, bytes] | Exception]] = {}

    def __init__(self, url: str) -> None:
        self.status, self._body, self.headers, self.url = 0, b"", [], url
        self.is_closed = False

    async def send(self, *request: Any) -> Any:
        say = self.told[self.url]
        if isinstance(say, Exception):
            raise say
        self.status, self._body = say
        return self

    async def read(self) -> bytes:
        return self._body

    async def close(self) -> None:
        self.is_closed = True


def pool(number: int = 3, **settings: Any) -> Pool:
    made = Pool(Says, **settings)
    for place in range(number):
        made.add(f"r{place}", f"http://r{place}").state = "up"
    return made


def chat(*texts: str, **fields: Any) -> list[bytes]:
    roles = ("user", "assistant")
    messages = [{"role": roles[place % 2], "content": text} for place, text in enumerate(texts)]
    return prefix_digests(PATH, {"model": "mini", "messages": messages, **fields})


def sent(made: Pool, digests: list[bytes]) -> Replica:
    """One request from its beginning to its end."""
    replica = made.choose(digests)
    assert replica is not None
    made.release(replica)
    return replica


def test_digests_are_of_beginnings() -> None:
    short, longer = chat("Hi"), chat("Hi", "Hello", "How are you?")
    assert longer[:1] == short
    assert len(longer) == 3
    assert chat("Hi", model="other") != short
    assert chat("Hi", tools=[{"name": "add"}]) != short
    shared = "x" * 1000
    one, other = chat(shared + "a"), chat(shared + "b")
    assert (len(one), one[:3]) == (4, other[:3])
    assert one[3] != other[3]
    assert prefix_digests("/v1/completions", {"prompt": [1, 2]}) != prefix_digests(
        "/v1/completions", {"prompt": [1, 3]}
    )
    assert chat("\ud800")
    assert prefix_digests(PATH, {"messages": ["no message", 3]}) == prefix_digests(
        PATH, {"messages": ["no message", 3]}
    )


def test_the_messages_interface_shares_the_system_text() -> None:
    one, other = (
        prefix_digests("/v1/messages", {"system": "Be short.", "messages": [{"role": "user", "content": text}]})
        for text in "ab"
    )
    assert one[0] == other[0]
    assert one[1] != other[1]


def test_conversations_stay_where_they_began() -> None:
    made = pool()
    conversations = {name: [f"I am {name}"] for name in "abcdefghijkl"}
    homes = {name: sent(made, chat(*texts)).name for name, texts in conversations.items()}
    assert len(set(homes.values())) == 3
    for turn in range(3):
        for name, texts in conversations.items():
            texts += [f"answer {turn}", f"question {turn}"]
            assert sent(made, chat(*texts)).name == homes[name]


def test_a_shared_beginning_goes_to_one_replica_while_load_is_even() -> None:
    made = pool()
    shared = "The same long instructions. " * 40
    found = Counter(sent(made, chat(shared + f"Question {number}")).name for number in range(100))
    assert found.most_common(1)[0][1] == 100


def test_load_moves_a_beginning_when_it_differs() -> None:
    made = pool(2, slack=2)
    digests = chat("y" * 1000)
    names = [made.choose(digests).name for _ in range(8)]  # type: ignore[union-attr]
    assert Counter(names)[names[0]] == 4
    assert names[:3] == [names[0]] * 3
    # A short beginning is worth less than a long one.
    made = pool(2, slack=4)
    names = [made.choose(chat("short")).name for _ in range(4)]  # type: ignore[union-attr]
    assert Counter(names)[names[0]] == 2


def test_several_routers_agree_on_a_new_beginning() -> None:
    digests = [chat(f"conversation {number}") for number in range(30)]
    one, other = ([sent(pool(), each).name for each in digests] for _ in range(2))
    assert one == other
    assert set(one) == {"r0", "r1", "r2"}


def test_requests_without_a_prompt_take_turns() -> None:
    made = pool()
    assert Counter(sent(made, []).name for _ in range(9)) == {"r0": 3, "r1": 3, "r2": 3}


def test_a_lost_replica_has_forgotten_its_beginnings() -> None:
    made = pool(2)
    home = sent(made, chat("Hi"))
    asyncio.run(made.lost(home))
    away = sent(made, chat("Hi"))
    assert away is not home
    home.state = "up"
    assert sent(made, chat("Hi")) is away


def test_a_draining_replica_gets_nothing_new() -> None:
    made = pool(2)
    home = sent(made, chat("Hi"))
    home.draining = True
    assert {sent(made, chat("Hi")).name for _ in range(3)} == {"r0", "r1"} - {home.name}
    for replica in made.replicas.values():
        replica.draining = True
    assert made.choose(chat("Hi")) is None


def test_another_request_tries_where_the_first_has_no_answer_yet() -> None:
    clock = Clock()
    made = pool(1, clock=clock)
    for _ in range(FAILURES):
        made.failed(made.replicas["r0"])
    clock.now += PAUSE
    assert made.choose(()) is not None
    assert made.choose(()) is None
    assert not made.has_other(())
    clock.now += ANOTHER
    assert made.has_other(())
    assert not made.has_other({"r0"})
    assert made.choose(()) is not None
    assert made.choose(()) is None


def test_a_breaker_opens_and_tries_again() -> None:
    clock = Clock()
    made = pool(1, clock=clock)
    (replica,) = made.replicas.values()
    for _ in range(FAILURES):
        assert made.choose([]) is replica
        made.failed(replica)
        made.release(replica)
    assert made.choose([]) is None
    clock.now += PAUSE
    assert made.choose([]) is replica
    assert made.choose([]) is None  # one at a time
    made.failed(replica)
    made.release(replica)
    clock.now += PAUSE
    assert made.choose([]) is None  # twice as long
    clock.now += PAUSE
    assert made.choose([]) is replica
    made.succeeded(replica)
    made.release(replica)
    assert made.choose([]) is made.choose([]) is replica
    for _ in range(40):
        made.failed(replica)
    assert replica.open_until - clock.now == LONGEST_PAUSE


def test_the_table_of_beginnings_is_bounded() -> None:
    table = PrefixTable(most=3)
    table.put([b"1", b"2"], "a")
    table.put([b"1"], "b")
    assert table.find([b"1", b"2"]) == (2, ("a",))
    assert table.find([b"1", b"9"]) == (1, ("b", "a"))
    table.put([b"3", b"4"], "c")
    assert len(table) == 3
    assert table.find([b"0", b"2"]) == (0, ())
    table.forget("c")
    assert table.find([b"3"]) == (0, ())


def test_health_is_what_a_replica_says(monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, tuple[int, bytes] | Exception] = {
        "r0": (200, b""),
        "r1": (503, b'{"error": {"code": "shutting_down"}}'),
        "r2": NotListeningError("refused"),
        "r3": TimeoutError(),
        "r4": (503, b'{"error": {"code": "engine_hangs"}}'),
        "r5": (503, b"<html>"),
        "r6": NoHttpError("its answer is no HTTP: SSH-2.0 at 10.0.0.7"),
    }
    woken: list[int] = []
    monkeypatch.setattr(Says, "told", {f"http://{name}": say for name, say in told.items()})
    made = Pool(Says)
    for name in told:
        made.add(name, f"http://{name}").state = "up"
    made.replicas["r0"].state = "lost"
    connections: dict[str, Any] = {name: replica.client for name, replica in made.replicas.items()}
    asyncio.run(Health(made, 1.0, 9.0, lambda: woken.append(1)).look())
    states = [replica.state for replica in made.replicas.values()]
    assert states == ["up", "away", "lost", "lost", "lost", "away", "lost"]
    assert [name for name, replica in made.replicas.items() if replica.client is not connections[name]] == [
        "r2",
        "r3",
        "r4",
        "r6",
    ]
    assert all(connections[name].is_closed for name in ("r2", "r3", "r4", "r6"))
    assert woken == [1]
    assert [replica.trouble for replica in made.replicas.values()] == [
        "",
        "HTTP 503 shutting_down from /ready",
        "refused",
        "no answer within 9 seconds",
        "engine_hangs",
        "HTTP 503 from /ready",
        "its answer is no HTTP: SSH-2.0 at 10.0.0.7",
    ]
    made.replicas["r0"].draining = True
    kinds = "1 drained, 2 not ready, 1 speaking no HTTP, 1 too slow to answer, 1 unreachable, 1 with a dead engine"
    assert made.refusal() == f"no replica takes requests: {kinds}"


def test_a_refusal_tells_of_replicas_that_fail_at_requests() -> None:
    made = pool(2)
    for _ in range(FAILURES):
        made.failed(made.replicas["r0"])
    made.replicas["r1"].state = "lost"
    assert made.refusal() == "no replica takes requests: 1 failing at requests, 1 unreachable"
    assert Pool(Says).refusal() == "no replica takes requests"


def test_what_looks_find_is_logged_when_it_changes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told: dict[str, tuple[int, bytes] | Exception] = {"http://a": (200, b"")}
    monkeypatch.setattr(Says, "told", told)
    made = Pool(Says)
    made.add("a", "http://a")
    health = Health(made, 1.0, 9.0)

    async def looks() -> None:
        for say in ((200, b""), NotListeningError("refused"), (404, b"Not Found"), (200, b"")):
            told["http://a"] = say
            await health.look()
            await health.look()

    asyncio.run(looks())
    assert caplog.messages == [
        "replica a is lost: refused",
        "replica a takes no requests: HTTP 404 from /ready",
        "replica a takes requests again",
    ]


def test_buckets_fill_evenly() -> None:
    clock = Clock()
    buckets = TokenBuckets(rate=3, clock=clock, most=2)
    assert [buckets.wait(b"a") for _ in range(3)] == [0, 0, 0]
    assert buckets.wait(b"a") == pytest.approx(20)
    assert buckets.wait(b"b") == 0
    clock.now += 20
    assert buckets.wait(b"a") == 0
    assert buckets.wait(b"a") == pytest.approx(20)
    buckets.wait(b"c")
    buckets.wait(b"d")
    assert buckets.wait(b"a") == 0  # forgotten
