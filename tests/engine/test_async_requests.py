"""An async engine from an event loop: answers of tasks are those of a run alone, and nothing is left behind."""

import asyncio
import gc
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any

import pytest

from gesso.api import load
from gesso.engine.async_engine import AsyncEngine, Limits
from gesso.engine.engine import Engine, Request
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


def test_what_a_users_own_code_failed_by_is_the_cause(mini: Engine) -> None:
    async def ask() -> None:
        async with AsyncEngine(mini) as service:
            with pytest.raises(OptionError, match="accept failed: ZeroDivisionError") as refused:
                await service.generate("Count from 1 to 30 separated by commas.", seed=7, accept=lambda _: 1 / 0)
            cause = refused.value.__cause__
            assert isinstance(cause, OptionError)
            assert isinstance(cause.__cause__, ZeroDivisionError)

    run(ask())


def test_it_is_started_once(mini: Engine) -> None:
    async def ask() -> str:
        service = AsyncEngine(mini)
        with pytest.raises(ClosingError, match="has not been started"):
            await service.generate(PROMPTS[0])
        async with service:
            with pytest.raises(ClosingError, match="is started once"):
                service.start()
            return (await service.generate(PROMPTS[0], seed=7)).text

    assert run(ask()) == "777"


def test_a_place_that_is_not_free_yet_is_waited_for(mini: Engine) -> None:
    async def ask() -> str:
        async with AsyncEngine(mini, Limits(max_num_seqs=1, max_waiting=0)) as service:
            long = asyncio.create_task(service.generate(PROMPTS[0], max_new_tokens=600, ignore_eos=True))
            while not service.stats().running:
                await asyncio.sleep(0.001)
            waits = asyncio.create_task(service.generate(PROMPTS[0], seed=7))
            await asyncio.sleep(0.01)
            long.cancel()
            return (await waits).text

    assert run(ask()) == "777"


def test_several_loops_ask_one_service(mini: Engine) -> None:
    service = AsyncEngine(mini, Limits(max_num_seqs=1, max_waiting=1))
    service.start()

    async def burst() -> list[str]:
        return [answer.text for answer in await asyncio.gather(*(service.generate(p, seed=7) for p in PROMPTS[:4]))]

    try:
        with ThreadPoolExecutor(2) as threads:
            assert list(threads.map(lambda _: run(burst()), range(3))) == [["777", "778", "779", "780"]] * 3
    finally:
        service.close()


def test_handlers_in_every_thread_of_the_loop_may_ask(mini: Engine) -> None:
    async def ask() -> list[str]:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(2))
        async with AsyncEngine(mini) as service:

            def handler(prompt: str) -> str:
                asked = asyncio.run_coroutine_threadsafe(service.generate(prompt, seed=7), loop)
                return asked.result(60).text

            return await asyncio.gather(*(asyncio.to_thread(handler, prompt) for prompt in PROMPTS[:2]))

    assert run(ask()) == ["777", "778"]


def test_the_wait_for_room_counts(mini: Engine) -> None:
    async def ask() -> float:
        async with AsyncEngine(mini, Limits(max_num_seqs=1, max_waiting=0, request_timeout=0.5)) as service:
            long = [service.generate(PROMPTS[0], max_new_tokens=3000, ignore_eos=True) for _ in range(4)]
            began = asyncio.get_running_loop().time()
            found = await asyncio.gather(*long, return_exceptions=True)
            assert all(isinstance(each, TimeoutError) for each in found), found
            return asyncio.get_running_loop().time() - began

    assert run(ask()) < 1.9, "four times the limit, one behind the other"


def test_the_wait_for_room_that_others_have_counts_too(mini: Engine) -> None:
    async def ask() -> None:
        async with AsyncEngine(mini, Limits(max_num_seqs=1, max_waiting=0, request_timeout=0.3)) as service:
            long = Request(PROMPTS[0], {"max_new_tokens": 3000, "ignore_eos": True}, since=time.monotonic() + 60)
            handle = service.submit(long, lambda _: None)
            with pytest.raises(TimeoutError, match="not finished within"):
                await service.generate(PROMPTS[0])
            handle.cancel()

    run(ask())


def test_a_failed_pass_leaves_nothing_behind(mini: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[weakref.ref[Any]] = []

    def fail(*_: Any) -> None:
        large = threading.Event()  # stands for a tensor
        held.append(weakref.ref(large))
        raise RuntimeError("out of memory")

    async def ask() -> None:
        async with AsyncEngine(mini) as service:
            with monkeypatch.context() as broken:
                broken.setattr(type(mini.runner), "denoise", fail)
                with pytest.raises(EngineDeadError) as failed:
                    await service.generate(PROMPTS[0])
            assert [each for each in held if each() is not None] == []
            assert "out of memory" in str(failed.value.__cause__)

    gc.disable()
    try:
        run(ask())
    finally:
        gc.enable()


def test_closing_ends_what_runs_by_an_error(mini: Engine) -> None:
    async def ask() -> None:
        async with AsyncEngine(mini) as service:
            task = asyncio.create_task(service.generate(PROMPTS[0], max_new_tokens=3000, ignore_eos=True))
            while not service.stats().running:
                await asyncio.sleep(0.001)
        with pytest.raises(ClosingError, match="closed before the answer was whole"):
            await task

    run(ask())


@pytest.mark.parametrize(
    ("arguments", "option"),
    [(("mini",), "engine"), ((None, {"max_num_seqs": 4}), "limits"), ((None, None, {"red": 5}), "red")],
)
def test_wrong_arguments_are_refused_by_name(mini: Engine, arguments: Any, option: str) -> None:
    with pytest.raises(OptionError, match=f"^{option} must be") as refused:
        AsyncEngine(*(mini if number == 0 and given is None else given for number, given in enumerate(arguments)))
    assert refused.value.option == option


def test_a_program_that_ends_amid_a_pass_keeps_its_exit_code() -> None:
    program = (
        "import asyncio, gesso\n"
        "service = gesso.AsyncEngine(gesso.load('mini', 'cpu', threads=1)); service.start()\n"
        "service.submit(gesso.Request('What is 9 + 4?', {'max_new_tokens': 3000, 'ignore_eos': True}), print)\n"
        "raise SystemExit(3)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr) == (3, "")


def test_a_closed_service_takes_no_more(mini: Engine) -> None:
    async def ask() -> None:
        async with AsyncEngine(mini) as service:
            await service.generate(PROMPTS[0])
        with pytest.raises(ClosingError):
            await service.generate(PROMPTS[0])

    run(ask())
