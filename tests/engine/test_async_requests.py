"""An async engine from an event loop: answers of tasks are those of a run alone, and nothing is left behind."""

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any

import pytest

from gesso.api import load
from gesso.engine.async_engine import AsyncEngine, Limits
from gesso.engine.engine import Engine
from gesso.engine.events import BlockCommitted, DenoisingFrame, Failed, Finished
from gesso.errors import ClosingError, EngineDeadError, OptionError, TextError

PROMPTS = [f"What is {number} + 296?" for number in range(481, 493)]
SCHEMA = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}


@pytest.fixture(scope="module")
def mini() -> Engine:
    return load("mini", "cpu")


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(coroutine, 120))


def test_tasks_share_passes_and_get_the_answers_of_a_run_alone(mini: Engine) -> None:
    async def ask() -> tuple[list[str], int]:
        # More than run and wait at once: the others wait for room.
        async with AsyncEngine(mini, Limits(max_num_seqs=3, max_waiting=2)) as service:
            answers = await asyncio.gather(*(service.generate(prompt, seed=7) for prompt in PROMPTS))
            return [answer.text for answer in answers], service.stats().counters.steps

    texts, passes = run(ask())
    alone = [mini.generate(prompt, seed=7) for prompt in PROMPTS]
    assert texts == [answer.text for answer in alone]
    assert passes < sum(answer.passes for answer in alone)


def test_events_come_one_by_one(mini: Engine) -> None:
    async def ask(**options: Any) -> list[Any]:
        async with AsyncEngine(mini) as service:
            return [event async for event in service.stream(PROMPTS[0], seed=7, **options)]

    events = run(ask())
    assert {type(event) for event in events} == {DenoisingFrame, BlockCommitted, Finished}
    assert isinstance(events[-1], Finished)
    assert events[-1].result.text == mini.generate(PROMPTS[0], seed=7).text
    assert DenoisingFrame not in map(type, run(ask(frames=False)))


def test_a_constraint_is_waited_for_and_held(mini: Engine) -> None:
    async def ask() -> str:
        async with AsyncEngine(mini) as service:
            return (await service.generate("A kettle for 4 euros.", json_schema=SCHEMA, seed=1)).text

    assert run(ask()).startswith('{"item": "')


def test_what_is_left_is_cancelled(mini: Engine) -> None:
    async def until(service: AsyncEngine, *, busy: bool) -> None:
        while bool(service.stats().running) is not busy:
            await asyncio.sleep(0.001)

    async def ask() -> None:
        async with AsyncEngine(mini) as service:
            async with aclosing(service.stream("Count from 1 to 90.", max_new_tokens=600)) as events:
                async for _ in events:
                    break
            await until(service, busy=False)
            task = asyncio.create_task(service.generate("Count from 1 to 90.", max_new_tokens=600))
            await until(service, busy=True)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(service, busy=False)
            assert service.stats().requests == {"cancelled": 2}
            assert (await service.generate(PROMPTS[0], seed=7)).text

    run(ask())


@pytest.mark.parametrize(
    ("prompt", "options", "error"),
    [("x", {"quota": 1}, OptionError), ("", {"raw": True}, TextError), ("x", {"adapter": "none"}, OptionError)],
)
def test_a_bad_request_is_refused_and_the_next_is_answered(
    mini: Engine, prompt: str, options: dict[str, Any], error: type[Exception]
) -> None:
    async def ask() -> str:
        async with AsyncEngine(mini, Limits(max_num_seqs=1, max_waiting=0)) as service:
            for _ in range(3):
                with pytest.raises(error):
                    await service.generate(prompt, **options)
            return (await service.generate(PROMPTS[0], seed=7)).text

    assert run(ask()) == mini.generate(PROMPTS[0], seed=7).text


def test_what_takes_too_long_is_a_timeout(mini: Engine) -> None:
    async def ask() -> None:
        async with AsyncEngine(mini, Limits(request_timeout=1e-3)) as service:
            with pytest.raises(TimeoutError, match="not finished within"):
                await service.generate("Count from 1 to 90.", max_new_tokens=600)

    run(ask())


@pytest.mark.parametrize(("kind", "error"), [("refused", OptionError), ("crash", EngineDeadError)])
def test_a_failure_is_raised(mini: Engine, monkeypatch: pytest.MonkeyPatch, kind: Any, error: type[Exception]) -> None:
    submit = AsyncEngine.submit
    monkeypatch.setattr(
        AsyncEngine, "submit", lambda *given: (given[2](Failed(kind, "it broke", "canvas")), submit(*given))[1]
    )

    async def ask() -> None:
        async with AsyncEngine(mini) as service:
            with pytest.raises(error, match="it broke"):
                await service.generate(PROMPTS[0])

    run(ask())


def test_a_closed_service_takes_no_more(mini: Engine) -> None:
    async def ask() -> None:
        async with AsyncEngine(mini) as service:
            await service.generate(PROMPTS[0])
        with pytest.raises(ClosingError):
            await service.generate(PROMPTS[0])

    run(ask())
