"""Nobody stalls the server: others go on while a constraint is compiled, and beside every request that means harm.

Nothing here looks at a clock: a healthy answer either comes while the hostile one is under way, or it does not.
"""

import asyncio
import importlib.util
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gesso.api import load
from gesso.constraints.json_schema import schema_expression
from gesso.engine import constraint_language as constraint_module
from gesso.engine.async_engine import AsyncEngine, Limits
from gesso.engine.events import Finished
from gesso.server.app import create_app
from gesso.server.run import SWITCH_SECONDS
from gesso.server.settings import Settings
from server.conftest import chat_body, eventually
from server.fake import FakeService, logprob, result

BOMBS = Path(__file__).resolve().parents[2] / "benchmarks" / "_bombs.py"
SCHEMA = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "integer", "maximum": 31}}}


def browser(service: Any) -> httpx.AsyncClient:
    app = create_app(service, Settings(served_model_name="mini"))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1", timeout=None)


def bombs() -> list[Any]:
    specification = importlib.util.spec_from_file_location("bombs", BOMBS)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["bombs"] = module
    specification.loader.exec_module(module)
    found: list[Any] = module.bombs()
    return found


@pytest.fixture(scope="module")
def service() -> Iterator[AsyncEngine]:
    made = AsyncEngine(load("mini", "cpu", offline=True), Limits(max_waiting=8, max_model_len=512))
    made.start()
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)  # as the server's process does
    yield made
    sys.setswitchinterval(before)
    made.close()


def question(seed: int = 7, **fields: Any) -> dict[str, Any]:
    return chat_body(
        seed=seed, max_tokens=4, diffusion={"verify": 0, "canvas_length": 8, "max_denoising_steps": 2}, **fields
    )


def test_many_constraints_hold_no_thread_and_no_place_in_the_queue() -> None:
    """More requests than there are worker threads wait for their constraints, and one more is answered at once."""

    async def ask() -> None:
        service = FakeService()
        service.compiles = True
        async with browser(service) as client:
            waiting = [asyncio.create_task(client.post("/v1/chat/completions", json=chat_body())) for _ in range(60)]
            while len(service.prepared) < len(waiting):
                await asyncio.sleep(0)
            service.compiles = False
            healthy = await client.post("/v1/chat/completions", json=chat_body())
            assert healthy.status_code == 200
            assert not any(task.done() for task in waiting)
            for prepared in service.prepared[:60]:
                prepared.release()
            assert {(await task).status_code for task in waiting} == {200}

    asyncio.run(ask())


def test_a_request_s_time_limit_covers_its_constraint() -> None:
    async def ask() -> None:
        service = FakeService(Limits(request_timeout=0.1))
        service.compiles = True
        async with browser(service) as client:
            late = await client.post("/v1/chat/completions", json=chat_body())
        assert (late.status_code, late.json()["error"]["code"]) == (504, "timeout")
        assert service.prepared[0].cancelled.is_set()

    asyncio.run(ask())


def test_the_engine_goes_on_while_a_constraint_is_read(service: AsyncEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a schema, which never ends until it is told to, keeps neither the loop nor the engine's thread."""
    go_on = threading.Event()

    def slow(*given: Any, **fields: Any) -> Any:
        assert go_on.wait(60)
        return schema_expression(*given, **fields)

    monkeypatch.setattr(constraint_module, "schema_expression", slow)

    async def ask() -> None:
        async with browser(service) as client:
            twice = [
                asyncio.create_task(client.post("/v1/chat/completions", json=question(response_format=SCHEMA)))
                for _ in range(2)
            ]
            before = service.stats().counters.steps
            for seed in range(3):
                healthy = await client.post("/v1/chat/completions", json=question(seed))
                assert healthy.status_code == 200
            assert service.stats().counters.steps > before
            assert not any(task.done() for task in twice)
            go_on.set()
            for task in twice:
                answer = (await task).json()
                assert json.loads(answer["choices"][0]["message"]["content"]) <= 31

    asyncio.run(ask())


def test_too_many_constraints_are_refused_and_nobody_else(
    service: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()

    def slow(*given: Any, **fields: Any) -> Any:
        assert go_on.wait(60)
        return schema_expression(*given, **fields)

    monkeypatch.setattr(constraint_module, "schema_expression", slow)
    room = service.limits.max_waiting + service.limits.max_num_seqs

    async def ask() -> None:
        async with browser(service) as client:

            def constrained(number: int) -> asyncio.Task[httpx.Response]:
                schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"const": number}}}
                asked = question(response_format=schema)
                return asyncio.create_task(client.post("/v1/chat/completions", json=asked))

            tasks = [constrained(number) for number in range(room + 3)]
            done: set[asyncio.Task[httpx.Response]] = set()
            while len(done) < 3:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            assert {task.result().status_code for task in done} == {429}
            assert all(task.result().headers["retry-after"] for task in done)
            assert (await client.post("/v1/chat/completions", json=question())).status_code == 200
            go_on.set()
            await asyncio.gather(*tasks)

    asyncio.run(ask())


@pytest.mark.parametrize("part", range(3))
def test_a_healthy_client_is_answered_beside_every_bomb(service: AsyncEngine, part: int) -> None:
    """Its answer comes while they are under way; what is answered of them is an answer or a refusal, never a fault."""

    async def ask() -> None:
        async with browser(service) as client:
            alone = (await client.post("/v1/chat/completions", json=question())).json()
            headers = {"Content-Type": "application/json"}
            tasks = {
                bomb.name: asyncio.create_task(client.post(bomb.path, content=bomb.body, headers=headers))
                for bomb in bombs()[part::3]
            }
            healthy = await client.post("/v1/chat/completions", json=question())
            while healthy.status_code == 429:  # bombs that are ordinary requests take places, as they should
                healthy = await client.post("/v1/chat/completions", json=question())
            assert healthy.json()["choices"][0]["message"] == alone["choices"][0]["message"]
            answered = {name: task.result() for name, task in tasks.items() if task.done()}
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)
            codes = {name: response.status_code for name, response in answered.items()}
            assert set(codes.values()) <= {200, 400, 413, 429}, codes

    asyncio.run(ask())
    assert eventually(lambda: service.stats().running == service.stats().waiting == 0, 200)


@pytest.mark.parametrize("levels", [150, 190, 199, 200, 5000])
@pytest.mark.parametrize("wrap", ["items", "not", "tools"])
def test_nesting_is_refused(service: AsyncEngine, levels: int, wrap: str) -> None:
    """Nothing that is nested deeply is a fault of the server's."""
    inner = '{"type": "string"}'
    keyword = "not" if wrap == "not" else "items"
    schema = f'{{"{keyword}": ' * levels + inner + "}" * levels
    if wrap == "tools":
        tool = f'{{"type": "function", "function": {{"name": "a", "parameters": {{"properties": {{"a": {schema}}}}}}}}}'
        fields = f'"tools": [{tool}]'
    else:
        fields = f'"response_format": {{"type": "json_schema", "json_schema": {{"name": "a", "schema": {schema}}}}}'
    body = f'{{"model": "mini", "max_tokens": 4, "messages": [{{"role": "user", "content": "x"}}], {fields}}}'

    async def ask() -> None:
        async with browser(service) as client:
            response = await client.post(
                "/v1/chat/completions", content=body, headers={"Content-Type": "application/json"}
            )
            assert response.status_code == 400, response.text
            assert response.json()["error"]["message"]

    asyncio.run(ask())


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "logprobs": True, "top_logprobs": 2}),
        ("/v1/completions", {"prompt": "x", "logprobs": 2}),
        ("/v1/responses", {"input": "x", "include": ["message.output_text.logprobs"], "top_logprobs": 2}),
        ("/api/chat", {"messages": [{"role": "user", "content": "x"}], "stream": False, "logprobs": True}),
    ],
)
def test_log_probabilities_are_written_beside_the_loop(
    path: str, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are twenty objects a token, and whoever waits would wait for all of them."""
    service = FakeService()
    where = set[str]()

    class Watched:
        def __init__(self, token: Any) -> None:
            self._token = token

        def __getattr__(self, name: str) -> Any:
            where.add(threading.current_thread().name)
            return getattr(self._token, name)

    told: Any = (Watched(logprob("fig")),)
    service.events = [Finished(result(text="fig", logprobs=told))]

    async def ask() -> int:
        async with browser(service) as client:
            return (await client.post(path, json={"model": "mini", **fields})).status_code

    assert asyncio.run(ask()) == 200
    assert where
    assert all(name.startswith("AnyIO worker thread") for name in where)
