"""One model over several ranks: the tokens of one process, and an end that everybody is told of when a rank is gone."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from engine.seeing import make_seeing_folder

import gesso
from gesso.api import load
from gesso.engine.async_engine import AsyncEngine, Limits
from gesso.engine.engine import Engine, Request
from gesso.engine.events import Failed
from gesso.errors import ClosingError, OptionError
from gesso.models.quantization.convert import quantize_folder
from gesso.models.quantization.plan import Quantization
from gesso.nn.quant.integer import Int4, Int8
from gesso.ranks.group import RankGroup
from gesso.ranks.processes import CHECK
from gesso.runner.distributed_runner import DistributedRunner
from runner.spread import SECONDS, Listener, make_adapter, requests, told

RANKS = 2


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
    return make_adapter(folder, tmp_path_factory.mktemp("adapter") / "red")


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
