"""What the tests of runners over ranks ask, how they listen, and what holds of every such runner."""

import os
import signal
import threading
import time
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from engine.seeing import picture

from gesso.api import load
from gesso.config import LoraConfig
from gesso.engine.async_engine import AsyncEngine, Limits
from gesso.engine.engine import Engine, Request
from gesso.engine.events import Event, Failed, Finished
from gesso.engine.result import GenerationResult
from gesso.errors import ClosingError, EngineDeadError, RankLostError
from gesso.models.adapter_files import save_adapter
from gesso.models.adapters import adapter_parameters, attach
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.ranks.group import RankGroup
from gesso.runner.leading_runner import LeadingRunner

SECONDS = 60
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
LONG = "The quick brown fox. " * 12


def make_adapter(folder: Path, made: Path) -> Path:
    """An adapter of all kinds of layers, for the checkpoint in `folder`, that changes what it says."""
    model = load(folder, "cpu").model
    assert isinstance(model, DiffusionGemma)
    config = LoraConfig(
        rank=2, targets=("layers.*.attention.*", "layers.*.mlp.*", "layers.*.router.*", "layers.*.experts")
    )
    attach(model, config)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in adapter_parameters(model).values():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    save_adapter(model, config, made, "tiny")
    return made


def requests() -> list[Request]:
    """Requests of every kind, some with a beginning in common."""
    kinds: list[dict[str, Any]] = [
        {},
        {"mode": "ar", "max_new_tokens": 6},
        {"verify": 1},
        {"verify": 2, "verify_threshold": 0.1},
        {"json_schema": SCHEMA},
        {"regex": "[a-f]{3,9}!"},
        {"choices": ["yes", "no", "perhaps"]},
        {"sampler": "leave_one_out"},
        {"sampler": "confidence", "canvas_length": 5},
        {"guidance_scale": 2.0},
        {"top_k": 9, "top_p": 0.9, "temperature": 1.2},
        {"logit_bias": {40: 3.0}, "frequency_penalty": 1.0, "repetition_penalty": 1.3, "min_new_tokens": 3},
        {"temperature": 0},
        {"logprobs": 2},
        {"images": [picture(seed=1)], "image_budget": 70},
        {"images": [picture(seed=2), picture(48, 24, seed=3)], "image_budget": 70},
    ]
    return [
        Request((LONG if i % 3 == 0 else "") + f"Sort: fig, apple {i}", {"seed": i, "max_new_tokens": 9, **kind})
        for i, kind in enumerate(kinds)
    ]


class Listener:
    """Waits for the end of one request."""

    def __init__(self) -> None:
        self.end: Event | None = None
        self.done = threading.Event()
        self.begun = threading.Event()

    def __call__(self, event: Event) -> None:
        self.begun.set()
        if isinstance(event, Finished | Failed):
            self.end = event
            self.done.set()

    @property
    def result(self) -> GenerationResult:
        assert self.done.wait(SECONDS)
        assert isinstance(self.end, Finished), self.end
        return self.end.result


def told(result: GenerationResult) -> tuple[Any, ...]:
    return result.token_ids, result.denoising_steps, result.finish_reason


def check_requests(engine: Engine, folder: Path) -> None:
    """An engine over ranks answers the requests of every kind as one process does, from its prefixes too."""
    alone = load(folder, "cpu")
    expected = [told(alone.generate_batch([request])[0]) for request in requests()]
    service = AsyncEngine(engine, Limits(kv_memory=2**24))
    service.start()
    try:
        # The second time prefixes are there.
        for some in (slice(None), slice(None, None, 3)):
            listeners = [Listener() for _ in expected[some]]
            for request, listener in zip(requests()[some], listeners, strict=True):
                service.submit(request, listener)
            assert [told(listener.result) for listener in listeners] == expected[some]
        assert service.stats().counters.cached_tokens > 0
    finally:
        service.close()


def check_adapters(engine: Engine, folder: Path, adapter: Path) -> None:
    """An engine over ranks answers with an adapter and without it, in turns, as one process does."""
    options = {"seed": 2, "max_new_tokens": 12, "ignore_eos": True}
    plain, red = (load(folder, "cpu", adapter=given).generate("hi", **options) for given in (None, adapter))
    assert told(plain) != told(red)
    for _ in range(2):  # the second time the adapter is loaded anew, right behind an answer with it
        service = AsyncEngine(engine, Limits(), {"red": adapter})
        service.start()
        try:
            for names in (("red",), (None, "red"), (None, "red"), ("red",)):
                listeners = {name: Listener() for name in names}
                for name, listener in listeners.items():
                    service.submit(Request("hi", options, adapter=name), listener)
                for name, listener in listeners.items():
                    assert told(listener.result) == told(plain if name is None else red)
        finally:
            service.close()


def check_lost_rank(runner: LeadingRunner, folder: Path, adapter: Path, number: signal.Signals) -> None:
    """A runner of two ranks with a merged adapter answers, gets the signal at its follower, and ends for everybody."""
    base = load(folder, "cpu", adapter=adapter)
    engine = Engine(runner, base.tokenizer, base.template, base.defaults)
    few = {"seed": 2, "max_new_tokens": 6}
    assert told(engine.generate("hi", **few)) == told(base.generate("hi", **few))
    service = AsyncEngine(engine, Limits())
    service.start()
    try:
        listener, (pid,) = Listener(), runner.processes.pids
        endless = {"ignore_eos": True, "max_new_tokens": 3000, "confidence_threshold": 0, "seed": 1}
        service.submit(Request("Sort: fig, apple", endless, frames=True), listener)
        assert listener.begun.wait(SECONDS)
        os.kill(pid, number)
        assert listener.done.wait(SECONDS)
        assert isinstance(listener.end, Failed)
        assert not service.ready
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        with pytest.raises(ClosingError):
            service.submit(Request("Sort: fig, apple"), Listener())
    finally:
        service.close()
        runner.close()


def check_lost_while_idle(runner: LeadingRunner, folder: Path) -> None:
    """A rank that ends while nothing is asked is known before the next request."""
    base = load(folder, "cpu")
    service = AsyncEngine(Engine(runner, base.tokenizer, base.template, base.defaults), Limits())
    service.start()
    try:
        assert (service.ready, service.failure) == (True, None)
        os.kill(runner.processes.pids[0], signal.SIGKILL)
        until = time.monotonic() + SECONDS
        while service.failure is None and time.monotonic() < until:
            time.sleep(0.01)
        assert (service.ready, service.failure) == (False, "a rank has ended")
        with pytest.raises(EngineDeadError, match="a rank has ended"):
            service.submit(Request("hi"), Listener())
    finally:
        service.close()
        runner.close()
    assert service.failure is None


def interrupted(monkeypatch: pytest.MonkeyPatch, where: str, times: int) -> None:
    """Presses Ctrl-C behind the fifth call of a method of the group."""
    method, calls = getattr(RankGroup, where), count()

    def interrupting(*args: Any) -> Any:
        found = method(*args)
        for _ in range(times if next(calls) == 4 else 0):
            signal.raise_signal(signal.SIGINT)
        return found

    monkeypatch.setattr(RankGroup, where, interrupting)


def check_interrupt(engine: Engine, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """An engine over ranks that was interrupted answers as before."""
    few = {"seed": 2, "max_new_tokens": 9}
    expected = told(engine.generate("hi", **few))
    with monkeypatch.context() as patch:
        interrupted(patch, where, times=1)
        with pytest.raises(KeyboardInterrupt):
            engine.generate("hi", **few)
    assert told(engine.generate("hi", **few)) == expected


def check_two_interrupts(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two interrupts within one pass end an engine over ranks, which says so and leaves nothing behind."""
    runner = engine.runner
    assert isinstance(runner, LeadingRunner)
    (pid,), folder = runner.processes.pids, Path(runner.processes._folder.name)
    assert folder.is_dir()
    with monkeypatch.context() as patch:
        interrupted(patch, "announce", times=2)
        with pytest.raises(KeyboardInterrupt):
            engine.generate("hi", max_new_tokens=9)
    with pytest.raises(RankLostError, match="was broken off"):
        engine.generate("hi", max_new_tokens=9)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not folder.exists()
