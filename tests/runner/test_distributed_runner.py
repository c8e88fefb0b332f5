"""One model over several ranks: the tokens of one process, and an end that everybody is told of when a rank is gone."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from engine.seeing import make_seeing_folder, picture

import gesso
from gesso.api import load
from gesso.config import LoraConfig
from gesso.engine.async_engine import AsyncEngine, Limits
from gesso.engine.engine import Engine, Request
from gesso.engine.events import Event, Failed, Finished
from gesso.engine.result import GenerationResult
from gesso.errors import ClosingError, OptionError
from gesso.models.adapter_files import save_adapter
from gesso.models.adapters import adapter_parameters, attach
from gesso.models.quantization.convert import quantize_folder
from gesso.models.quantization.plan import Quantization
from gesso.nn.quant.integer import Int4, Int8
from gesso.runner.distributed_runner import DistributedRunner
from gesso.tensor_parallel.group import RankGroup
from gesso.tensor_parallel.processes import CHECK

SECONDS = 60
RANKS = 2
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
LONG = "The quick brown fox. " * 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_seeing_folder(tmp_path_factory.mktemp("checkpoint") / "seeing")


@pytest.fixture(scope="module")
def spread(folder: Path) -> Iterator[Engine]:
    engine = load(folder, "cpu", tensor_parallel=RANKS)
    assert isinstance(engine.runner, DistributedRunner)
    yield engine
    engine.runner.close()


@pytest.fixture(scope="module")
def adapter(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    engine, made = load(folder, "cpu"), tmp_path_factory.mktemp("adapter") / "red"
    config = LoraConfig(
        rank=2, targets=("layers.*.attention.*", "layers.*.mlp.*", "layers.*.router.*", "layers.*.experts")
    )
    attach(engine.model, config)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in adapter_parameters(engine.model).values():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    save_adapter(engine.model, config, made, "tiny")
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
        {"logit_bias": {40: 3.0}},
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


def test_ranks_say_what_one_process_says(spread: Engine, folder: Path) -> None:
    alone = load(folder, "cpu")
    expected = [told(alone.generate_batch([request])[0]) for request in requests()]
    service = AsyncEngine(spread, Limits(kv_memory=2**24))
    service.start()
    try:
        # The second time prefixes are there.
        for some in (slice(None), slice(None, None, 3)):
            listeners = [Listener() for _ in expected[some]]
            for request, listener in zip(requests()[some], listeners, strict=True):
                service.submit(request, listener)
            assert [told(listener.result) for listener in listeners] == expected[some]
        assert service.stats().cached_tokens > 0
    finally:
        service.close()


def test_what_a_step_and_a_rank_take(spread: Engine, folder: Path) -> None:
    runner = spread.runner
    assert isinstance(runner, DistributedRunner)
    layers, before = len(runner.config.layers), runner.group.collectives
    result = spread.generate("Sort: fig, apple", seed=1, max_new_tokens=8, canvas_length=8, verify=0)
    # A prompt and a committed canvas are encoded: two sums a layer and the embedding's.
    passes = runner.group.collectives - before - sum(result.denoising_steps) * (2 * layers + 3)
    assert passes in (2 * layers + 1, 2 * (2 * layers + 1))
    whole = sum(tensor.numel() for tensor in load(folder, "cpu").model.state_dict().values())
    cut = ("vocabulary.", "_proj.weight", "experts.gate_up_proj", "experts.down_proj")
    own = runner.shard.state_dict()
    large = sum(t.numel() for name, t in own.items() if name.endswith(cut[1:]) or name.startswith(cut[0]))
    assert sum(tensor.numel() for tensor in own.values()) <= 0.75 * whole
    assert large < 0.7 * whole


def test_a_constraint_takes_no_more_and_no_scores_travel(spread: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a constrained canvas classes times positions are gathered, and the steps have the collectives of others."""
    runner = spread.runner
    assert isinstance(runner, DistributedRunner)
    gather, sizes = RankGroup.gather, list[int]()

    def counting(group: RankGroup, x: torch.Tensor) -> torch.Tensor:
        sizes.append(x.numel())
        return gather(group, x)

    monkeypatch.setattr(RankGroup, "gather", counting)
    layers, before = len(runner.config.layers), runner.group.collectives
    # No token past the canvas is held, which would be embedded anew.
    options = {"seed": 1, "max_new_tokens": 8, "canvas_length": 8, "regex": "[a-f]{8,20}", "verify": 0}
    steps = sum(spread.generate("Sort: fig, apple", **options).denoising_steps)
    passes = runner.group.collectives - before - steps * (2 * layers + 3)
    assert passes in (2 * layers + 1, 2 * (2 * layers + 1))
    assert len(sizes) == steps
    assert max(sizes) < 8 * runner.config.vocab_size // 2


def test_adapters_are_spread_too(spread: Engine, folder: Path, adapter: Path) -> None:
    options = {"seed": 2, "max_new_tokens": 12, "ignore_eos": True}
    plain, red = (load(folder, "cpu", adapter=given).generate("hi", **options) for given in (None, adapter))
    assert told(plain) != told(red)
    service = AsyncEngine(spread, Limits(), {"red": adapter})
    service.start()
    try:
        listeners = {name: Listener() for name in (None, "red")}
        for _ in range(2):
            for name, listener in listeners.items():
                listener.done.clear()
                service.submit(Request("hi", options, adapter=name), listener)
            assert told(listeners[None].result) == told(plain)
            assert told(listeners["red"].result) == told(red)
    finally:
        service.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_rank_that_is_gone_ends_the_others(
    folder: Path, adapter: Path, number: signal.Signals, spread: Engine
) -> None:
    assert isinstance(spread.runner, DistributedRunner)
    spread.runner.close()
    runner = DistributedRunner.start(folder, "auto", "cpu", RANKS, adapter=adapter, seconds=5.0)
    base = load(folder, "cpu", adapter=adapter)
    engine = Engine(runner, base.tokenizer, base.template, base.defaults)
    few = {"seed": 2, "max_new_tokens": 6}
    assert told(engine.generate("hi", **few)) == told(base.generate("hi", **few))
    service = AsyncEngine(engine, Limits())
    service.start()
    try:
        listener, (pid,) = Listener(), runner.processes.pids
        endless = {"ignore_eos": True, "max_new_tokens": 3000, "confidence_threshold": 0, "seed": 1}
        service.submit(Request("Sort: fig, apple", endless, drafts=True), listener)
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


def test_packed_weights_are_spread_too(tmp_path: Path, spread: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answers of one process, where rounding decides nothing: sums over packed columns come in another order.

    The ranks compare what they decide, too.
    """
    monkeypatch.setenv(CHECK, "1")
    assert isinstance(spread.runner, DistributedRunner)
    spread.runner.close()
    source, packed = Path(gesso.__file__).parent / "bundled" / "mini", tmp_path / "packed"
    quantize_folder(source, packed, Quantization(dense=Int8(), experts=Int4(64), embedding=Int8()))
    asked = Request("What is 481 + 296?", {"seed": 3, "temperature": 0, "max_new_tokens": 32})
    alone = load(packed, "cpu").generate_batch([asked])[0]
    engine = load(packed, "cpu", tensor_parallel=RANKS)
    assert isinstance(engine.runner, DistributedRunner)
    try:
        assert engine.runner.group.checks
        assert engine.generate_batch([asked])[0].token_ids == alone.token_ids
        assert "777" in alone.text
    finally:
        engine.runner.close()


def test_what_cannot_be_spread_is_refused_by_name(folder: Path) -> None:
    with pytest.raises(OptionError, match="4 attention heads cannot be cut into 3 equal parts"):
        load(folder, "cpu", tensor_parallel=3)
    with pytest.raises(OptionError, match="cuda_graphs and tensor_parallel"):
        load(folder, "cpu", tensor_parallel=2, cuda_graphs=True)
