"""Many requests at once: each result is that of a run alone, and what goes wrong with one concerns no other."""

import dataclasses
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.conftest import Start
from gesso.api import load
from gesso.config import LoraConfig
from gesso.engine.async_engine import AsyncEngine, Limits, RequestHandle
from gesso.engine.engine import Engine, Request
from gesso.engine.engine_core import EngineCore
from gesso.engine.events import BlockCommitted, DenoisingFrame, Event, Failed, Finished
from gesso.engine.result import GenerationResult
from gesso.errors import CheckpointError, ClosingError, OptionError, QueueFullError, TextError
from gesso.models.adapter_files import save_adapter
from gesso.models.adapters import adapter_parameters, attach
from gesso.runner import model_runner as model_runner_module
from gesso.runner.protocol import CanvasBatch
from gesso.tasks.registry import MINI_SKILLS, TASKS

KEEP_ALIVE_SECONDS = 60
PROMPT = "Sort: pear, fig"


class Listener:
    """Collects the events of one request."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.done = threading.Event()

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, Finished | Failed):
            self.done.set()

    @property
    def end(self) -> Event:
        assert self.done.wait(KEEP_ALIVE_SECONDS)
        return self.events[-1]

    @property
    def result(self) -> GenerationResult:
        assert isinstance(self.end, Finished), self.end
        return self.end.result


def told(result: GenerationResult) -> tuple[Any, ...]:
    """All that must not depend on neighbours; log-probabilities show the last bit."""
    return result.token_ids, result.denoising_steps, result.text, result.finish_reason, result.logprobs


def mixed(count: int, seed: int) -> list[Request]:
    """Requests of many kinds, many with a beginning in common."""
    rng = random.Random(seed)
    requests = []
    for i in range(count):
        prompt = TASKS[rng.choice(MINI_SKILLS)].sample(rng).prompt
        if rng.random() < 0.4:
            prompt = "The quick brown fox. " * rng.choice([2, 12, 24]) + prompt
        options: dict[str, Any] = {"seed": i, "max_new_tokens": rng.choice([6, 20, 40]), "logprobs": 1}
        if rng.random() < 0.4:
            options["canvas_length"] = rng.choice([4, 8, 13, 24])
        if rng.random() < 0.3:
            options["temperature"] = rng.choice([0, 0.5, 1.3])
        if rng.random() < 0.2:
            options |= {"top_k": 40, "top_p": 0.9}
        requests.append(Request(prompt, options))
    return requests


@pytest.fixture(scope="module")
def mini() -> Engine:
    return load("mini", "cpu", "float32")


@pytest.mark.numbers
def test_results_do_not_depend_on_neighbours(mini: Engine, start: Start) -> None:
    requests = mixed(12, seed=5)
    solo = [told(mini.generate_batch([request])[0]) for request in requests]
    service = start(mini, kv_memory=2**26)
    for order in range(2):  # the second time prefixes are there, and the neighbours are others
        turns = list(enumerate(requests))
        random.Random(order).shuffle(turns)
        listeners = {}
        for i, request in turns:
            listeners[i] = Listener()
            service.submit(request, listeners[i])
        assert [told(listeners[i].result) for i in range(len(requests))] == solo
    stats = service.stats()
    assert stats.counters.cached_tokens > 0
    assert stats.requests == {"stop": stats.requests["stop"], "length": 2 * len(requests) - stats.requests["stop"]}
    assert stats.counters.canvas_steps > 2 * stats.counters.steps, "canvases shared passes"


def test_tokens_and_canvases_are_counted_apart(mini: Engine, start: Start) -> None:
    """A pass of the model is a pass in either mode; canvases are those that were denoised."""
    service = start(mini)
    listeners = [Listener(), Listener()]
    options = {"mode": "ar", "max_new_tokens": 9, "ignore_eos": True}
    for seed, listener in enumerate(listeners):
        service.submit(Request("Sort: fig, apple", {"seed": seed, **options}), listener)
    assert [listener.result.completion_tokens for listener in listeners] == [9, 9]
    stats = service.stats()
    assert (stats.canvases, stats.completion_tokens, stats.counters.canvas_steps) == (0, 18, 0)
    assert stats.counters.token_steps == 18, "each token is drawn from a pass"
    assert 9 <= stats.counters.steps <= 18, "tokens of two requests share passes"
    listener = Listener()
    service.submit(Request("Sort: fig, apple", {"seed": 1, "mode": "canvas", "max_new_tokens": 40}), listener)
    steps = listener.result.denoising_steps
    now = service.stats()
    assert (now.canvases, now.counters.canvas_steps, now.counters.token_steps) == (len(steps), sum(steps), 18)
    assert now.counters.steps == stats.counters.steps + sum(steps)
    assert {event.mode for event in listener.events if isinstance(event, BlockCommitted)} == {"canvas"}
    assert {event.mode for event in listeners[0].events if isinstance(event, BlockCommitted)} == {"ar"}


def test_a_prompt_that_is_read_in_chunks_draws_one_token_behind_the_last(mini: Engine, start: Start) -> None:
    service = start(mini, prefill_chunk=16)
    listener = Listener()
    service.submit(Request("The quick brown fox. " * 40, {"mode": "ar", "max_new_tokens": 1, "seed": 1}), listener)
    assert listener.result.prompt_tokens > 64
    counters = service.stats().counters
    assert (counters.steps, counters.token_steps) == (1, 1)


def test_a_conversation_goes_on_from_what_was_read(mini: Engine, start: Start) -> None:
    service = start(mini)
    first: list[dict[str, Any]] = [{"role": "user", "content": "The quick brown fox. " * 40 + "Sort: fig, apple"}]
    listener = Listener()
    service.submit(Request(first, {"seed": 1}), listener)
    assert listener.result.cached_tokens == 0
    second = [*first, {"role": "assistant", "content": listener.result.text}, {"role": "user", "content": "3 + 4 = ?"}]
    again = Listener()
    service.submit(Request(second, {"seed": 1}), again)
    assert 0 < again.result.prompt_tokens - again.result.cached_tokens < 2 * mini.chunk
    assert again.result.token_ids == mini.generate(second, seed=1).token_ids


def test_events_come_in_order_and_frames_only_where_asked(tiny: Engine, start: Start) -> None:
    service = start(tiny)
    plain, framed = Listener(), Listener()
    options = {"seed": 3, "max_new_tokens": 20, "ignore_eos": True}
    service.submit(Request("hi", options), plain)
    service.submit(Request("hi", options, frames=True), framed)
    assert told(plain.result) == told(framed.result)
    assert [type(event) for event in plain.events] == [BlockCommitted] * 3 + [Finished]
    frames = [event for event in framed.events if isinstance(event, DenoisingFrame)]
    assert len(frames) == sum(framed.result.denoising_steps)


def hold(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Passes wait for the event that is returned."""
    gate, step = threading.Event(), model_runner_module.denoise_step

    def waits(*arguments: Any) -> None:
        assert gate.wait(KEEP_ALIVE_SECONDS)
        step(*arguments)

    monkeypatch.setattr(model_runner_module, "denoise_step", waits)
    return gate


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + KEEP_ALIVE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_the_queue_is_bounded_and_knows_the_places(tiny: Engine, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = hold(monkeypatch)
    service = start(tiny, max_num_seqs=1, max_waiting=2)
    listeners = [Listener() for _ in range(3)]
    tickets: list[RequestHandle] = []
    for listener in listeners:
        tickets.append(service.submit(Request("hi", {"max_new_tokens": 8, "ignore_eos": True}), listener))
        until(lambda: service.stats().running == 1)
    assert [ticket.position for ticket in tickets] == [0, 0, 1]
    with pytest.raises(QueueFullError) as refused:
        service.submit(Request("hi"), Listener())
    assert refused.value.retry_after >= 1
    assert service.stats().expected_seconds > 0
    tickets[1].cancel()
    gate.set()
    assert [listener.result.finish_reason for listener in listeners] == ["length", "cancelled", "length"]
    assert listeners[1].result.canvases == 0


def test_cancelling_takes_effect_between_two_passes(tiny: Engine, start: Start) -> None:
    service = start(tiny)
    listener = Listener()
    ticket = service.submit(
        Request("hi", {"max_new_tokens": 2000, "ignore_eos": True, "seed": 1}, frames=True), listener
    )
    until(lambda: len(listener.events) > 3)
    ticket.cancel()
    assert listener.result.finish_reason == "cancelled"
    assert listener.result.completion_tokens < 2000
    ticket.cancel()  # once more does no harm


def test_a_deadline_ends_a_request_and_nobody_else(tiny: Engine, start: Start) -> None:
    service = start(tiny, request_timeout=1.0)
    slow, quick = Listener(), Listener()
    service.submit(Request("hi", {"max_new_tokens": 4000, "ignore_eos": True}), slow)
    service.submit(Request("hi", {"max_new_tokens": 4, "ignore_eos": True}), quick)
    assert slow.end == Failed("timeout", "not finished within 1 seconds")
    assert quick.result.finish_reason == "length"
    assert service.stats().requests == {"timeout": 1, "length": 1}


def test_a_deadline_counts_what_came_before_the_request_was_checked(tiny: Engine, start: Start) -> None:
    service, late = start(tiny, request_timeout=100.0), Listener()
    service.submit(Request("hi", {"max_new_tokens": 4000, "ignore_eos": True}, since=time.monotonic() - 99.5), late)
    assert late.end == Failed("timeout", "not finished within 100 seconds")


@pytest.mark.parametrize("where", ["denoise_flat", "encode_flat"])
def test_a_request_that_crashes_hurts_no_other(
    tiny: Engine, start: Start, monkeypatch: pytest.MonkeyPatch, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A pass fails whenever a certain prompt is in it; the others' results are those of runs alone."""
    good = [
        Request(f"Sort: {word}", {"seed": i, "max_new_tokens": 20}) for i, word in enumerate(["fig", "kiwi", "pear"])
    ]
    solo = [told(tiny.generate_batch([request])[0]) for request in good]
    whole = getattr(tiny.model, where)
    poisoned = Request([5] * 77, {"max_new_tokens": 8})
    poison = tiny.start(poisoned).max_seq_len

    def fails(tokens_N: torch.Tensor, counts: Any, cache: Any, *rest: Any) -> torch.Tensor:
        if any(row.max_seq_len == poison for row in cache.rows):
            raise RuntimeError("no")
        result: torch.Tensor = whole(tokens_N, counts, cache, *rest)
        return result

    monkeypatch.setattr(tiny.model, where, fails)
    service = start(tiny)
    listeners = [Listener() for _ in good]
    victim = Listener()
    service.submit(poisoned, victim)
    for request, listener in zip(good, listeners, strict=True):
        service.submit(request, listener)
    assert isinstance(victim.end, Failed)
    assert victim.end.kind == "crash"
    assert "RuntimeError" in victim.end.message
    assert [told(listener.result) for listener in listeners] == solo
    assert service.ready
    assert "failed" in caplog.text


@pytest.mark.parametrize("error", [RuntimeError, OptionError])
def test_a_check_that_fails_within_a_step_ends_its_request_alone(
    tiny: Engine, start: Start, error: type[Exception]
) -> None:
    """Beside others as alone: they go on as if it had not been there."""

    def fail(_: str) -> bool:
        raise error("no")

    good = [Request(PROMPT, {"seed": i, "max_new_tokens": 8, "sampler": "discrete_ddim"}) for i in range(3)]
    solo = [told(tiny.generate_batch([request])[0]) for request in good]
    bad = Request(PROMPT, {"seed": 9, "max_new_tokens": 8, "accept": fail})
    service = start(tiny)
    for neighbours in (good, []):
        listeners = [Listener() for _ in (bad, *neighbours)]
        for request, listener in zip((*neighbours[:1], bad, *neighbours[1:]), listeners, strict=True):
            service.submit(request, listener)
        victim = listeners.pop(len(neighbours[:1]))
        assert isinstance(victim.end, Failed)
        assert victim.end.kind == "refused", "it is the function's fault"
        assert [told(listener.result) for listener in listeners] == solo[: len(neighbours)]


def test_a_token_that_cannot_be_sampled_ends_its_request_alone(
    tiny: Engine, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that were sampled before it in the same call are not sampled twice."""
    good = [Request(PROMPT, {"seed": i, "max_new_tokens": 40, "mode": "ar", "ignore_eos": True}) for i in range(3)]
    solo = [told(tiny.generate_batch([request])[0]) for request in good]
    bad = Request(PROMPT, {"seed": 9, "max_new_tokens": 50, "mode": "ar", "ignore_eos": True})
    sample, poison, beside = tiny.runner.sample, tiny.start(bad).max_seq_len, list[int]()

    def fails(batch: CanvasBatch) -> None:
        for item in batch.items:
            if tiny.runner.cache(item.cache).max_seq_len == poison and len(beside) > 4:  # after some tokens
                raise RuntimeError("no")
            sample(dataclasses.replace(batch, items=(item,)))
        beside.append(len(batch.items))

    monkeypatch.setattr(tiny.runner, "sample", fails)
    service = start(tiny)
    listeners = [Listener() for _ in range(4)]
    for request, listener in zip((*good[:2], bad, good[2]), listeners, strict=True):
        service.submit(request, listener)
    victim = listeners.pop(2)
    assert isinstance(victim.end, Failed)
    assert victim.end.kind == "crash"
    assert [told(listener.result) for listener in listeners] == solo
    assert max(beside) > 1


def test_scores_that_are_no_numbers_fail_a_request_by_name(tiny_folder: Path, start: Start) -> None:
    engine = load(tiny_folder, "cpu")
    with torch.no_grad():
        engine.model.norm.weight[3] = float("nan")
    service, listener = start(engine), Listener()
    service.submit(Request("x", {"seed": 1}), listener)
    assert isinstance(listener.end, Failed)
    assert listener.end.kind == "crash"
    assert "the model's scores are not numbers" in listener.end.message
    assert service.ready


def test_a_request_that_contradicts_itself_is_refused_and_no_crash(tiny: Engine, start: Start) -> None:
    pinned = tiny.tokenizer.encode("fig")
    contradicting = Request("hi", {"max_new_tokens": 8, "choices": ["pear"], "canvas": pinned})
    good = Request("hi", {"max_new_tokens": 8, "seed": 3})
    service = start(tiny)
    listeners = [Listener() for _ in range(3)]
    for request, listener in zip((good, contradicting, good), listeners, strict=True):
        service.submit(request, listener)
    first, refused, last = (listener.end for listener in listeners)
    assert isinstance(refused, Failed)
    assert (refused.kind, refused.message[:26]) == ("refused", "no text satisfies the cons")
    assert refused.option == "choices"
    assert [told(end.result) for end in (first, last) if isinstance(end, Finished)] == [
        told(tiny.generate_batch([good])[0])
    ] * 2
    assert service.stats().counters.crashed_passes == 0


def test_a_listener_that_fails_cancels_its_request(tiny: Engine, start: Start) -> None:
    service = start(tiny)

    def listener(event: Event) -> None:
        raise RuntimeError("gone")

    service.submit(Request("hi", {"max_new_tokens": 500, "ignore_eos": True}, frames=True), listener)
    until(lambda: service.stats().requests.get("cancelled") == 1)


def test_memory_is_bounded_and_what_cannot_fit_is_refused_before_it_starts(tiny: Engine, start: Start) -> None:
    request = Request("hi", {"max_new_tokens": 8, "seed": 4})
    need = AsyncEngine(tiny, Limits())._core.need(tiny.start(request))
    service = start(tiny, kv_memory=2 * need)
    with pytest.raises(OptionError, match=r"bytes of cache, the server has"):
        service.submit(Request("hi", {"max_new_tokens": 2000}), Listener())
    listeners = [Listener() for _ in range(5)]
    seen = []
    for listener in listeners:
        service.submit(request, listener)
        seen.append(service.stats())
    assert {listener.result.text for listener in listeners} == {tiny.generate_batch([request])[0].text}
    assert all(stats.cache_bytes + stats.prefix_bytes <= stats.kv_memory == 2 * need for stats in seen)
    assert all(stats.running <= 2 for stats in seen)


def test_requests_that_start_at_once_do_not_take_the_same_memory(tiny: Engine) -> None:
    sequences = [tiny.start(Request("hi", {"max_new_tokens": 8, "seed": seed})) for seed in range(5)]
    loop = EngineCore(tiny.runner, max_running=8, chunk=tiny.chunk)
    loop.kv_memory = 2 * loop.need(sequences[0])
    for sequence in sequences:
        loop.scheduler.add(sequence)
    while not loop.idle:
        loop.step()
        assert len(loop.scheduler.running) <= 2
        assert loop.cache_bytes <= loop.kv_memory
    assert all(sequence.finished for sequence in sequences)


def test_wrong_requests_are_refused_in_the_callers_thread(tiny: Engine, start: Start) -> None:
    service = start(tiny, max_model_len=64)
    for request, error, match in (
        (Request("", {}), TextError, "empty"),
        (Request("hi", {"top_p": 0}), OptionError, "top_p"),
        (Request("hi", {}, adapter="sudoku"), OptionError, "no adapter 'sudoku'; known: none"),
        (Request("hi", {"max_new_tokens": 64}), OptionError, "past this server's 64"),
    ):
        with pytest.raises(error, match=match):
            service.submit(request, Listener())


@pytest.mark.parametrize(
    "limits",
    [
        {"max_num_seqs": 0},
        {"max_num_seqs": "8"},
        {"max_waiting": -1},
        {"kv_memory": 0},
        {"prefill_chunk": 8},
        {"request_timeout": 0.0},
    ],
)
def test_impossible_limits_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(limits))):
        Limits(**limits)


def test_closing_lets_requests_finish_or_cancels_them(tiny: Engine, start: Start) -> None:
    service = start(tiny)
    drained = Listener()
    service.submit(Request("hi", {"max_new_tokens": 24, "ignore_eos": True}), drained)
    service.close(drain_seconds=KEEP_ALIVE_SECONDS)
    assert drained.result.finish_reason == "length"
    with pytest.raises(ClosingError):
        service.submit(Request("hi"), Listener())
    hasty = start(tiny)
    cut = Listener()
    hasty.submit(Request("hi", {"max_new_tokens": 4000, "ignore_eos": True}), cut)
    hasty.close()
    assert cut.result.finish_reason == "cancelled"


def test_adapters_run_beside_each_other(tiny_folder: Path, tmp_path: Path, start: Start) -> None:
    """Each request as if its adapter were merged and alone."""
    config = LoraConfig(rank=2, targets=("layers.*.attention.*", "layers.*.experts"))
    folders = {}
    for seed, name in enumerate(["red", "blue"]):
        engine = load(tiny_folder, "cpu", "float32")
        attach(engine.model, config)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in adapter_parameters(engine.model).values():
                parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
        folders[name] = tmp_path / name
        save_adapter(engine.model, config, folders[name], "tiny")
    options = {"seed": 2, "max_new_tokens": 16, "ignore_eos": True}
    alone = {
        name: load(tiny_folder, "cpu", "float32", adapter=folders[name]).generate("hi", **options) for name in folders
    }
    plain = load(tiny_folder, "cpu", "float32").generate("hi", **options)
    service = start(load(tiny_folder, "cpu", "float32"), folders)
    assert service.adapters == ("red", "blue")
    listeners: dict[str | None, Listener] = {name: Listener() for name in ("red", None, "blue")}
    for name, listener in listeners.items():
        service.submit(Request("hi", options, adapter=name), listener)
    assert listeners[None].result.token_ids == plain.token_ids
    for name, expected in alone.items():
        assert listeners[name].result.token_ids == expected.token_ids
    assert len({plain.token_ids, *(result.token_ids for result in alone.values())}) == 3


def test_an_adapter_that_is_none_is_refused_at_start(tiny: Engine, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="adapter_config"):
        AsyncEngine(tiny, adapters={"x": tmp_path})


def test_caches_get_what_adapters_leave(tiny: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner, loaded = model_runner_module.ModelRunner, dict[str, Path]()
    monkeypatch.setattr(runner, "load_adapters", lambda self, folders: loaded.update(folders))
    monkeypatch.setattr(runner, "kv_memory", lambda self, reserved: 2**28 - 2**27 * len(loaded))
    assert AsyncEngine(tiny).stats().kv_memory == 2**28
    assert AsyncEngine(tiny, adapters={"red": tmp_path}).stats().kv_memory == 2**27


def test_a_thread_that_hangs_in_a_pass_is_found(tiny: Engine, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """It hangs while a pass takes longer than any does, and no longer than that."""
    gate = hold(monkeypatch)
    service, listener = start(tiny, hang_seconds=0.05), Listener()
    assert not service.hung
    service.submit(Request("hi", {"max_new_tokens": 4}), listener)
    until(lambda: service.hung)
    assert service.failure is None
    gate.set()
    assert listener.result.token_ids
    until(lambda: service.busy_seconds == 0.0)
    with pytest.raises(OptionError, match="hang_seconds"):
        Limits(hang_seconds=0)
