"""Another runner takes the model's place with no change above it; and what the engine makes of its failures."""

import threading
from dataclasses import replace
from typing import Any

import pytest

from engine.conftest import Start
from engine.recording_runner import RecordingRunner, recording
from engine.test_async_engine import Listener, until
from engine.tiny import CANVAS
from gesso.engine.async_engine import AsyncEngine
from gesso.engine.engine import Engine, Request
from gesso.engine.engine_core import EngineCore
from gesso.engine.events import Failed
from gesso.engine.prefix_store import PrefixStore
from gesso.engine.request_state import RequestState
from gesso.errors import EngineDeadError, OptionError, RankLostError
from gesso.runner.prompt_input import EmbeddingSpan, PromptInput
from gesso.runner.protocol import Runner

WORDS = "pear fig apple kiwi lemon mango plum"
CHUNK = 16


def test_an_engine_runs_on_it() -> None:
    engine, runner = recording(WORDS)
    assert isinstance(runner, Runner)
    result = engine.generate("hi", seed=1)
    assert result.text == WORDS
    assert [len(batch.items) for batch in runner.prefills] == [1] * result.canvases
    assert runner.prefills[0].items[0].tokens == engine.start(Request("hi")).prompt.ids
    blocks = [batch.items[0].tokens for batch in runner.prefills[1:]]
    assert tuple(token for block in blocks for token in block) == result.token_ids[: CANVAS * len(blocks)]
    assert len(runner.denoises) == sum(result.denoising_steps)
    assert not runner.caches, "every cache was released"
    with pytest.raises(OptionError, match="the model is not at hand: RecordingRunner runs it"):
        _ = engine.model


def test_every_way_of_writing_runs_on_it() -> None:
    engine, runner = recording(WORDS)
    for options in ({"mode": "ar"}, {"logprobs": 1}, {"verify": 2}, {"begin": "pear", "max_new_tokens": 9}):
        result = engine.generate("hi", seed=1, **options)
        assert result.text.startswith("pear")
        assert len(result.logprobs) == (result.completion_tokens if "logprobs" in options else 0)
    assert runner.calls["sample"] > 0
    assert runner.calls["logprobs"] > 0


def test_a_batch_says_who_is_in_it(start: Start) -> None:
    engine, runner = recording(WORDS)
    requests = [Request("hi", {"seed": seed}, frames=False) for seed in range(3)]
    assert {result.text for result in engine.generate_batch(requests)} == {WORDS}
    assert max(len(batch.items) for batch in runner.denoises) == 3
    for batch in runner.denoises:
        assert len({item.request for item in batch.items}) == len({item.cache for item in batch.items})
        assert batch.adapter is None


def test_an_abandoned_stream_lets_its_cache_go() -> None:
    engine, runner = recording(WORDS)
    stream = engine.stream("hi", seed=1)
    events = iter(stream)
    next(events)
    assert len(runner.caches) == 1
    del events, stream
    assert not runner.caches


def test_a_service_calls_it_from_one_thread(start: Start) -> None:
    engine, runner = recording(WORDS)
    service = start(engine)
    listeners = [Listener() for _ in range(4)]
    for seed, listener in enumerate(listeners):
        service.submit(Request("hi", {"seed": seed, "mode": "auto"}), listener)
    assert {listener.result.text for listener in listeners} == {WORDS}
    until(lambda: len(runner.measured) == 12)
    assert runner.threads == {"gesso-engine"}
    assert service.stats().counters.prefix_failures == service.stats().counters.crashed_passes == 0


# Costs.


def test_costs_are_measured_when_idle_and_nobody_waits_for_them(start: Start) -> None:
    """A measurement is one pass at a time: a request that comes in between is answered before the next one."""
    engine, runner = recording(WORDS)
    gate, entered, measure = threading.Semaphore(0), threading.Event(), runner.measure

    def waits(*arguments: Any) -> float:
        entered.set()
        assert gate.acquire(timeout=60)
        return measure(*arguments)

    runner.measure = waits  # type: ignore[method-assign]
    service = start(engine)
    first = Listener()
    service.submit(Request("hi", {"mode": "auto", "max_new_tokens": CANVAS, "seed": 1}), first)
    assert first.result.decision.startswith("not measured yet, a token taken to cost what a step does")
    assert first.result.mode == "ar"
    assert entered.wait(60)
    plain = Listener()
    service.submit(Request("hi", {"seed": 1}), plain)
    assert not plain.done.wait(0.05), "the pass that is being timed is done first"
    gate.release()
    assert plain.result.text == WORDS
    assert len(runner.measured) <= 1
    for _ in range(20):
        gate.release()
    until(lambda: not engine.costs.wanted)
    assert set(runner.measured) == {"step", "token"}
    runner.seconds["step"] = 0.0
    after = Listener()
    service.submit(Request("hi", {"mode": "auto", "max_new_tokens": CANVAS, "seed": 1}), after)
    assert " ms, or 1 canvas of 8" in after.result.decision


# Spans of embeddings.


def request_of(engine: Engine, prompt: PromptInput, **options: Any) -> RequestState:
    prepared = engine.prepare(Request("hi", {"max_new_tokens": CANVAS, "seed": 1, **options}), CHUNK)
    return replace(prepared, prompt=prompt).finish()


def run(core: EngineCore, request: RequestState) -> RequestState:
    core.scheduler.add(request)
    while not core.idle:
        core.step()
    return request


def with_image(content: str, length: int = 20, tail: int = 30) -> PromptInput:
    source = object()
    return PromptInput(
        tuple(range(5, 5 + CHUNK + 7 + length + tail)), (EmbeddingSpan(CHUNK + 7, length, content, source),)
    )


def test_spans_come_whole_to_the_runner() -> None:
    engine, runner = recording("pear")
    prompt = with_image("red")
    request = run(EngineCore(runner, max_running=1, chunk=CHUNK), request_of(engine, prompt))
    items = [item for batch in runner.prefills for item in batch.items]
    assert [len(item.tokens) for item in items] == [16, 7, 20, 5, 16, 9]
    assert [len(item.spans) for item in items] == [0, 0, 1, 0, 0, 0]
    assert items[2].spans[0] == EmbeddingSpan(0, 20, "red")
    assert items[2].spans[0].source is prompt.spans[0].source
    assert request.result().prompt_tokens == len(prompt)


def test_no_two_contents_share_a_prefix() -> None:
    engine, runner = recording("pear")
    core = EngineCore(runner, max_running=1, chunk=CHUNK, prefixes=PrefixStore(runner))
    assert run(core, request_of(engine, with_image("red"))).cached_tokens == 0
    again = run(core, request_of(engine, with_image("red")))
    assert again.cached_tokens == 16 + 7 + 20 + 5 + 16
    other = run(core, request_of(engine, with_image("blue")))
    assert other.cached_tokens == 16 + 7, "what stands before the image, and no more"
    text = run(core, request_of(engine, PromptInput(with_image("red").ids)))
    assert text.cached_tokens == 16


def test_the_account_of_memory_reads_spans() -> None:
    engine, runner = recording("pear")
    core = EngineCore(runner, max_running=1, chunk=CHUNK)
    plain, image = (
        request_of(engine, PromptInput(with_image("a", 40).ids, spans)) for spans in ((), with_image("a", 40).spans)
    )
    assert (plain.max_write_len, image.max_write_len) == (CHUNK, 40)
    assert core.need(image) - core.need(plain) == runner.cache_bytes(0, 40 - CHUNK)
    core.kv_memory = core.need(image) - 1
    core.scheduler.add(image)
    core.step()
    assert list(core.scheduler.waiting) == [image], "admission knows how long the span is"
    while image.chunk != 40:
        image.next_chunk += 1
    assert image.pending >= 40, "so does the scheduler, which counts the tokens of a pass"


# Failures.


def test_a_cache_that_is_not_made_ends_its_request_only(start: Start) -> None:
    engine, runner = recording(WORDS)
    service = start(engine)
    runner.fail["new_cache"] = MemoryError()
    victim = Listener()
    service.submit(Request("hi", {"seed": 1}), victim)
    assert victim.end == Failed("crash", "the model failed on this request (MemoryError)")
    runner.fail.clear()
    assert service.ready
    after = Listener()
    service.submit(Request("hi", {"seed": 1}), after)
    assert after.result.text == WORDS


@pytest.mark.parametrize("where", ["restore_prefix", "copy_prefix"])
def test_stored_prefixes_are_a_help_and_no_more(start: Start, where: str) -> None:
    engine, runner = recording(WORDS)
    service = start(engine, prefill_chunk=CHUNK)
    options = {"seed": 1}
    prompt = [5] * (3 * CHUNK)
    first = Listener()
    service.submit(Request(prompt, options), first)
    assert first.result.text == WORDS
    runner.fail[where] = RuntimeError("out of memory")
    other = prompt if where == "restore_prefix" else [6] * (3 * CHUNK)
    listeners = [Listener() for _ in range(3)]
    for listener in listeners:
        service.submit(Request(other, options), listener)
    for listener in listeners:
        assert listener.result.text == WORDS
        assert listener.result.cached_tokens == 0
    assert service.stats().counters.prefix_failures >= 3
    assert service.stats().requests == {"stop": 4}
    runner.fail.clear()
    again = Listener()
    service.submit(Request(prompt, options), again)
    assert again.result.cached_tokens == 2 * CHUNK


def broken(runner: RecordingRunner, service: AsyncEngine, how: str) -> None:
    if how == "device":
        runner.fail["denoise"] = runner.fail["check"] = RuntimeError("CUDA error")
    elif how == "rank":
        runner.fail["denoise"] = runner.fail["check"] = RankLostError("a rank of 2 has ended")
    else:
        service._core.scheduler.plan = lambda: 1 / 0  # type: ignore[method-assign,assignment,return-value]


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("device", "the device is lost: RuntimeError"),
        ("rank", "a rank of 2 has ended"),
        ("loop", "ZeroDivisionError in the step loop"),
    ],
)
def test_a_fatal_error_is_told_to_everybody_at_once(start: Start, how: str, reason: str) -> None:
    engine, runner = recording(WORDS)
    service = start(engine, max_num_seqs=1)
    assert service.ready
    assert service.failure is None
    broken(runner, service, how)
    listeners = [Listener() for _ in range(3)]
    for listener in listeners:
        try:
            service.submit(Request("hi", {"seed": 1}), listener)
        except EngineDeadError:
            listener(Failed("crash", f"the engine has failed: {reason}"))
    for listener in listeners:
        assert listener.end == Failed("crash", f"the engine has failed: {reason}")
    until(lambda: service.failure == reason)
    assert not service.ready
    with pytest.raises(EngineDeadError, match=f"^the engine has failed: {reason}$"):
        service.submit(Request("hi", {"seed": 1}), Listener())
    service.close()
    assert not runner.caches


def test_a_thread_that_is_gone_is_not_ready(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = recording(WORDS)
    service = start(engine)
    assert service.ready
    monkeypatch.setattr(AsyncEngine, "_die", lambda self, error: None)
    service._core.scheduler.plan = lambda: 1 / 0  # type: ignore[method-assign,assignment,return-value]
    service.submit(Request("hi", {"seed": 1}), Listener())
    until(lambda: not service.ready)
    assert service.failure == "the engine's thread is gone"
    with pytest.raises(EngineDeadError, match="the engine's thread is gone"):
        service.submit(Request("hi", {"seed": 1}), Listener())
    service._core.close()
