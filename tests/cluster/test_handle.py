"""What goes through Ray's handle and how a replica is chosen, without a cluster. `make ray-test` runs these."""

import asyncio
import importlib.util
import json
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

if importlib.util.find_spec("ray") is None:
    pytest.skip("make ray-test runs these", allow_module_level=True)

from ray.exceptions import RayError
from ray.serve.exceptions import BackPressureError

from gesso.cluster.call import Call
from gesso.cluster.handle import HandleClient, RayPool
from gesso.cluster.prefix_router import PrefixRouter
from gesso.cluster.route import Route
from gesso.cluster.settings import ClusterSettings
from gesso.router.app import Router
from gesso.router.client import ReplicaLostError
from gesso.router.settings import RouterSettings

pytestmark = pytest.mark.filterwarnings("default")  # what Ray warns of is Ray's affair
PATH = "/v1/chat/completions"


class Parts:
    """What a replica says, part by part; an exception is raised in its place."""

    def __init__(self, said: list[Any]) -> None:
        self.said = said
        self.cancelled = False

    def __aiter__(self) -> "Parts":
        return self

    async def __anext__(self) -> Any:
        if not self.said:
            raise StopAsyncIteration
        part = self.said.pop(0)
        if isinstance(part, BaseException):
            raise part
        return part

    def cancel(self) -> None:
        self.cancelled = True


class Handle:
    """A handle that notes what is asked, and of which model."""

    def __init__(self, *said: Any, model: str | None = None, top: "Handle | None" = None) -> None:
        self.said, self.model, self.top = list(said), model, top or self
        self.asked: list[tuple[str | None, Call, Route]] = []
        self.parts: list[Parts] = []

    def options(self, **given: Any) -> "Handle":
        assert (given["method_name"], given["stream"]) == ("ask", True)
        return Handle(model=given["multiplexed_model_id"], top=self.top)

    def remote(self, call: Call, route: Route) -> Any:
        self.top.asked.append((self.model, call, route))
        if len(self.top.said) == 1 and isinstance(self.top.said[0], BackPressureError):
            raise self.top.said[0]
        self.top.parts.append(Parts(list(self.top.said)))
        return self.top.parts[-1]


def ask(handle: Handle, target: str = PATH, method: str = "POST", body: Any = None, **settings: Any) -> Any:
    async def play() -> Any:
        client = HandleClient(handle, ClusterSettings(**settings))
        answer = await client.send(method, target, (), b"" if body is None else json.dumps(body).encode())
        try:
            return answer.status, await answer.read()
        finally:
            await answer.close()

    return asyncio.run(play())


def test_an_answer_comes_through() -> None:
    handle = Handle((200, [(b"a", b"b")]), b"one", b"two")
    body = {"model": "mini", "messages": [{"role": "user", "content": "Hi"}]}
    assert ask(handle, body=body) == (200, b"onetwo")
    ((model, call, route),) = handle.asked
    assert (model, call.target, json.loads(call.body)) == ("", PATH, body)
    assert len(route.digests) == 1
    assert not handle.parts[0].cancelled


def test_several_models_are_told_apart() -> None:
    handle = Handle((200, []))
    models = {"small": "mini", "large": "/large"}
    for asked in ("small", "large:tone", "nobody"):
        ask(handle, body={"model": asked}, models=models)
    assert [model for model, _, _ in handle.asked] == ["small", "large", "small"]
    status, body = ask(handle, "/v1/models", "GET", models=models, adapters={"large": {"tone": "/tone"}})
    assert (status, [card["id"] for card in json.loads(body)["data"]]) == (200, ["small", "large", "large:tone"])
    assert len(handle.asked) == 3


def test_stored_responses_are_refused_where_nobody_knows_whose_they_are() -> None:
    handle = Handle((200, []))
    body = {"model": "mini", "input": "a", "previous_response_id": "resp_1"}
    status, said = ask(handle, "/v1/responses", body=body, max_replicas=2)
    assert (status, json.loads(said)["error"]["param"]) == (400, "previous_response_id")
    assert ask(handle, "/v1/responses/resp_1", "GET", max_replicas=2)[0] == 404
    assert not handle.asked
    assert ask(handle, "/v1/responses", body=body, max_replicas=1)[0] == 200


def test_a_model_is_described_by_a_replica_that_has_it() -> None:
    handle = Handle((200, []))
    models = {"small": "mini", "large:9b": "/large"}
    for name in ("large:9b", "large%3A9b", "large:9b:tone?a=b", "small", "nobody"):
        ask(handle, f"/v1/models/{name}", "GET", models=models)
    assert [model for model, _, _ in handle.asked] == ["large:9b", "large:9b", "large:9b", "small", "small"]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_stored_responses_of_several_models_are_not_looked_for_at_the_first(method: str) -> None:
    handle = Handle((200, []))
    assert ask(handle, "/v1/responses/resp_1", method, models={"small": "mini", "large": "/large"})[0] == 404
    assert not handle.asked
    assert ask(handle, "/v1/responses/resp_1", method)[0] == 200


def test_a_full_queue_is_429() -> None:
    full = BackPressureError(num_queued_requests=9, max_queued_requests=9)
    status, said = ask(Handle(full), body={"model": "mini"})
    assert (status, json.loads(said)["error"]["code"]) == (429, "queue_full")


@pytest.mark.parametrize("said", [[RayError("died")], [(200, []), b"a", RayError("died")], []])
def test_a_lost_replica_is_one_to_the_router(said: list[Any]) -> None:
    with pytest.raises(ReplicaLostError):
        ask(Handle(*said), body={"model": "mini"})


def test_who_stops_reading_cancels() -> None:
    handle = Handle((200, []), b"a", b"b")

    async def play() -> None:
        answer = await HandleClient(handle, ClusterSettings()).send("POST", PATH)
        async for _ in answer.chunks():
            break
        await answer.close()

    asyncio.run(play())
    assert handle.parts[0].cancelled


def test_rays_replicas_open_no_breaker() -> None:
    pool = RayPool(HandleClient(Handle(), ClusterSettings()))
    (replica,) = pool.replicas.values()
    for _ in range(9):
        assert pool.choose([]) is replica
        pool.failed(replica)
        pool.release(replica)
    asyncio.run(pool.lost(replica))
    assert pool.choose([]) is replica


@pytest.mark.parametrize("broken_off", [False, True])
def test_a_replica_that_leaves_is_no_end_of_the_others(broken_off: bool) -> None:
    """One that drains says so once; nobody looks after it here, and Ray sends the next request elsewhere."""
    told = b'{"error": {"message": "stops", "code": "shutting_down"}}'
    handle = Handle((503, [(b"content-type", b"application/json")]), told)
    if broken_off:
        handle = Handle((200, [(b"content-type", b"text/event-stream")]), b"data: " + told + b"\n\n")
    settings = RouterSettings(retries=1, retry_seconds=0.0, wait_seconds=0.2)

    async def play() -> list[int]:
        router = Router(settings, pool=RayPool(HandleClient(handle, ClusterSettings())))
        transport = httpx.ASGITransport(router.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            said = [(await client.post(PATH, json={"model": "mini"})).status_code]
            handle.said[:] = [(200, [(b"content-type", b"application/json")]), b"{}"]
            said.append((await client.post(PATH, json={"model": "mini"})).status_code)
            said.append((await client.get("/ready")).status_code)
        return said

    assert asyncio.run(play()) == [503, 200, 200]
    assert len(handle.asked) == 3, "one goes out again, to whom Ray chooses"


REPLICAS = [SimpleNamespace(replica_id=SimpleNamespace(unique_id=name)) for name in "abc"]


def prefix_router(loads: dict[str, int]) -> Any:
    router: Any = PrefixRouter.__new__(PrefixRouter)
    router._replica_queue_len_cache = SimpleNamespace(get=lambda replica_id: loads[replica_id.unique_id] or None)
    router.initialize_state(slack=2)
    return router


def pending(route: Route) -> Any:
    return SimpleNamespace(kwargs={"route": route}, metadata=SimpleNamespace(multiplexed_model_id=""))


class Cluster(Handle):
    """A handle of replicas `a`, `b` and `c`: the named ones say what they are given, the others answer."""

    def __init__(self, **said: list[Any]) -> None:
        super().__init__()
        self.router = prefix_router(dict.fromkeys("abc", 0))
        self.fails, self.taken = said, list[str]()

    def options(self, **given: Any) -> "Cluster":
        return self

    async def _answer(self, route: Route) -> Any:
        ((replica, *_), *_) = await self.router.choose_replicas(REPLICAS, pending(route))
        self.router.on_request_routed(pending(route), replica.replica_id, None)
        name = replica.replica_id.unique_id
        self.taken.append(name)
        for part in self.fails.get(name, [(200, [(b"content-type", b"application/json")]), name.encode()]):
            if isinstance(part, BaseException):
                raise part
            yield part

    def remote(self, call: Call, route: Route) -> Any:
        return self._answer(route)


JSON = [(b"content-type", b"application/json")]
FAILURES: dict[str, list[Any]] = {
    "lost": [RayError("died")],
    "crash": [(500, JSON), b'{"error": {"code": "internal_error"}}'],
    "leaves": [(503, JSON), b'{"error": {"code": "shutting_down"}}'],
    "full": [(429, JSON), b'{"error": {"code": "queue_full"}}'],
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_request_is_sent_again_to_whom_was_not_asked(failure: str) -> None:
    """`a` holds the beginning, and has least to do whenever it has failed."""
    cluster = Cluster(a=FAILURES[failure], b=FAILURES[failure])

    async def play() -> list[str]:
        router = Router(RouterSettings(), pool=RayPool(HandleClient(cluster, ClusterSettings(max_replicas=3))))
        transport = httpx.ASGITransport(router.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            body = {"model": "mini", "messages": [{"role": "user", "content": "Hi"}]}
            return [(await client.post(PATH, json=body)).text for _ in range(2)]

    assert asyncio.run(play()) == ["c", "c"]
    assert sorted(cluster.taken[:3]) == ["a", "b", "c"]
    assert cluster.taken[3:] == ["c"], "the next request knows where its beginning is, and of no failures"


def test_a_request_that_fails_everywhere_is_asked_once_of_each() -> None:
    cluster = Cluster(**dict.fromkeys("abc", FAILURES["full"]))

    async def play() -> int:
        router = Router(RouterSettings(), pool=RayPool(HandleClient(cluster, ClusterSettings(max_replicas=3))))
        transport = httpx.ASGITransport(router.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return (await client.post(PATH, json={"model": "mini"})).status_code

    assert asyncio.run(play()) == 429
    assert sorted(cluster.taken) == ["a", "b", "c"]


def test_a_beginning_stays_with_its_replica_until_load_differs() -> None:
    replicas, loads = REPLICAS, {"a": 0, "b": 0, "c": 2}
    router = prefix_router(loads)

    def ranks(digests: list[bytes]) -> list[list[str]]:
        chosen = asyncio.run(router.choose_replicas(replicas, pending(Route(digests))))
        return [[each.replica_id.unique_id for each in rank] for rank in chosen]

    beginning = [b"1", b"2", b"3"]
    assert ranks(beginning) == [["a", "b"], ["c"]]
    router.on_request_routed(pending(Route(beginning)), replicas[2].replica_id, None)
    assert ranks(beginning)[0] == ["c"]
    assert ranks([*beginning, b"4"])[0] == ["c"]
    assert ranks([b"1", b"9"]) == [["a", "b"], ["c"]]  # one part in common is worth one request, not two
    loads["c"] = 3
    assert ranks(beginning) == [["a", "b"], ["c"]]
