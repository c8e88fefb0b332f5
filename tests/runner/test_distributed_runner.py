"""One model over several ranks: the tokens of one process, and an end that everybody is told of when a rank is gone."""

import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from engine.seeing import make_seeing_folder
from safetensors.torch import load_file, save_file

import gesso
from gesso.api import load
from gesso.engine.engine import Engine, Request
from gesso.errors import CheckpointError, OptionError
from gesso.models.quantization.convert import quantize_folder
from gesso.models.quantization.plan import Quantization
from gesso.nn.quant.integer import Int4, Int8
from gesso.ranks.group import RankGroup
from gesso.ranks.processes import CHECK
from gesso.runner.distributed_runner import DistributedRunner
from runner.spread import (
    check_adapters,
    check_interrupt,
    check_lost_rank,
    check_lost_while_idle,
    check_requests,
    check_two_interrupts,
    make_adapter,
)

RANKS = 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_seeing_folder(tmp_path_factory.mktemp("checkpoint") / "seeing")


@pytest.fixture(scope="module")
def spread(folder: Path) -> Iterator[Engine]:
    """An engine that was loaded in a thread which has ended: the ranks go on."""
    with ThreadPoolExecutor(1) as pool:
        engine = pool.submit(load, folder, "cpu", tensor_parallel=RANKS).result()
    assert isinstance(engine.runner, DistributedRunner)
    yield engine
    engine.runner.close()


@pytest.fixture(scope="module")
def adapter(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_adapter(folder, tmp_path_factory.mktemp("adapter") / "red")


def test_ranks_say_what_one_process_says(spread: Engine, folder: Path) -> None:
    check_requests(spread, folder)


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


@pytest.mark.parametrize("where", ["sum_", "gather", "announce"])
def test_an_interrupt_comes_between_two_passes(spread: Engine, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    check_interrupt(spread, monkeypatch, where)


def test_adapters_are_spread_too(spread: Engine, folder: Path, adapter: Path) -> None:
    check_adapters(spread, folder, adapter)


def test_two_interrupts_end_the_ranks(folder: Path, spread: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    spread.runner.close()
    check_two_interrupts(load(folder, "cpu", tensor_parallel=RANKS), monkeypatch)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_rank_that_is_gone_ends_the_others(
    folder: Path, adapter: Path, number: signal.Signals, spread: Engine
) -> None:
    assert isinstance(spread.runner, DistributedRunner)
    spread.runner.close()
    runner = DistributedRunner.start(folder, "auto", "cpu", RANKS, adapter=adapter, seconds=5.0)
    check_lost_rank(runner, folder, adapter, number)


def test_a_rank_that_ends_while_nothing_is_asked_is_missed(folder: Path, spread: Engine) -> None:
    spread.runner.close()
    check_lost_while_idle(DistributedRunner.start(folder, "auto", "cpu", RANKS), folder)


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


def test_what_a_follower_cannot_load_is_told_as_by_one_process(folder: Path, spread: Engine, tmp_path: Path) -> None:
    spread.runner.close()
    damaged = Path(shutil.copytree(folder, tmp_path / "damaged"))
    files = {path: load_file(path) for path in damaged.glob("*.safetensors")}
    end = "layers.1.self_attn.q_proj.weight"
    path, name = next((path, name) for path, tensors in files.items() for name in tensors if name.endswith(end))
    tensors = files[path]
    tensors[name][-1, -1] = float("nan")  # in the second rank's part
    save_file(tensors, path, {"format": "pt"})
    with pytest.raises(CheckpointError) as alone:
        load(damaged, "cpu")
    assert "not finite" in str(alone.value)
    with pytest.raises(CheckpointError) as over_ranks:
        load(damaged, "cpu", tensor_parallel=RANKS)
    assert str(over_ranks.value) == str(alone.value)


def test_what_cannot_be_spread_is_refused_by_name(folder: Path) -> None:
    with pytest.raises(OptionError, match="4 attention heads cannot be cut into 3 equal parts"):
        load(folder, "cpu", tensor_parallel=3)
    with pytest.raises(OptionError, match="cuda_graphs and tensor_parallel"):
        load(folder, "cpu", tensor_parallel=2, cuda_graphs=True)
