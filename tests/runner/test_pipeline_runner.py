"""One model split by its layers: the tokens of one process, micro-batches under way together, and an end for all."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine.seeing import make_seeing_folder

from gesso.api import load
from gesso.engine.engine import Engine, Request
from gesso.errors import OptionError
from gesso.ranks.follower import held_numbers
from gesso.runner import model_runner
from gesso.runner.pipeline_runner import PipelineRunner
from runner.spread import check_adapters, check_interrupt, check_lost_rank, check_requests, make_adapter


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of two layers, a sliding and a full one: no stage has both kinds."""
    return make_seeing_folder(tmp_path_factory.mktemp("checkpoint") / "seeing")


@pytest.fixture(scope="module")
def adapter(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_adapter(folder, tmp_path_factory.mktemp("adapter") / "red")


@pytest.fixture(scope="module")
def staged(folder: Path) -> Iterator[Engine]:
    engine = load(folder, "cpu", pipeline_parallel=2)
    yield engine
    runner_of(engine).close()


def runner_of(engine: Engine) -> PipelineRunner:
    assert isinstance(engine.runner, PipelineRunner)
    return engine.runner


def test_stages_say_what_one_process_says(staged: Engine, folder: Path) -> None:
    check_requests(staged, folder)
    assert runner_of(staged).stage.most_under_way == 2


def test_what_a_stage_holds_and_computes(staged: Engine, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner, whole = runner_of(staged), load(folder, "cpu").runner
    model = runner.stage
    assert [list(stage) for stage in model.stages] == [[0], [1]]
    held = {name for name, tensor in model.state_dict().items() if not tensor.is_meta}
    assert held == {name for name in model.state_dict() if not name.startswith("layers.1.")}
    assert held_numbers(model) < sum(tensor.numel() for tensor in model.state_dict().values())
    # What caches may take is counted by the largest stage.
    assert whole.cache_bytes(100, 8) > runner.cache_bytes(100, 8) >= whole.cache_bytes(100, 8) // 2
    for kind in ("full", "sliding"):
        assert runner.prefix_bytes(10, kind) == whole.prefix_bytes(10, kind)  # type: ignore[arg-type]
    first, second = runner.held
    assert first + second == held_numbers(load(folder, "cpu").model) + model.config.hidden_size  # type: ignore[arg-type]
    monkeypatch.setattr(model_runner, "cache_memory", lambda device, reserved: 10**9 - reserved)
    monkeypatch.setattr(runner, "held", [first, first + 5])
    assert runner.kv_memory(0) == (10**9 - 64 * 2**20 - 5 * 4) // 2
    before, begun = [len(times) for times in runner.stage_times], model.begun
    staged.generate_batch([Request("hi", {"seed": seed, "max_new_tokens": 8, "verify": 0}) for seed in range(4)])
    after = runner.stage_times
    assert model.begun - begun == len(after[0]) - before[0] == len(after[1]) - before[1]
    # The second of two micro-batches is begun before the first has come back; both stages compute both, in order.
    assert [number for number, _, _ in after[1]] == [number for number, _, _ in after[0]]


@pytest.mark.parametrize("where", ["announce", "take", "pass_on"])
def test_an_interrupt_comes_between_two_passes(staged: Engine, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    check_interrupt(staged, monkeypatch, where)


def test_adapters_are_split_too(staged: Engine, folder: Path, adapter: Path) -> None:
    check_adapters(staged, folder, adapter)


def test_a_stage_that_hangs_ends_the_others(staged: Engine, folder: Path, adapter: Path) -> None:
    runner_of(staged).close()
    runner = PipelineRunner.start(folder, "auto", "cpu", 2, adapter=adapter, seconds=5.0)
    check_lost_rank(runner, folder, adapter, signal.SIGSTOP)


def test_what_cannot_be_split_is_refused_by_name(folder: Path) -> None:
    with pytest.raises(OptionError, match="2 layers cannot be cut into 3 stages"):
        load(folder, "cpu", pipeline_parallel=3)
    with pytest.raises(OptionError, match="cuda_graphs and pipeline_parallel"):
        load(folder, "cpu", pipeline_parallel=2, cuda_graphs=True)
    with pytest.raises(OptionError, match="pipeline_parallel and tensor_parallel"):
        load(folder, "cpu", pipeline_parallel=2, tensor_parallel=2)
