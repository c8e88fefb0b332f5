"""Passes over three stages, as threads of this process: to the bit those of one process, and what a failure leaves."""

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import gesso
from gesso.config import LoraConfig
from gesso.errors import OptionError
from gesso.models.adapter_files import save_adapter
from gesso.models.adapters import adapter_parameters, attach, merge
from gesso.models.cache import KVCache
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.loading import load_folder
from gesso.pipeline_parallel.follower import StageFollower
from gesso.pipeline_parallel.loading import load_stage
from gesso.pipeline_parallel.model import StagedModel
from gesso.ranks.group import RankGroup

MINI = Path(gesso.__file__).parent / "bundled" / "mini"
STAGES, SECONDS = 3, 60


class Sent:
    """What was sent and has arrived."""

    def wait(self) -> None:
        pass


@dataclass(slots=True)
class ThreadGroup(RankGroup):
    """A group whose ranks are threads; everything goes through queues."""

    ways: list[Any] = field(default_factory=list)
    """To each rank, from the one before."""
    messages: list[Any] = field(default_factory=list)
    """To each follower."""
    log: list[str] = field(default_factory=list)

    def announce(self, name: str, *args: Any) -> None:
        if self.leads:
            dropped = [self.dropped.popleft() for _ in range(len(self.dropped))]
            for channel in self.messages[1:]:
                channel.put((name, dropped, list(args)))

    def pass_on(self, x: Tensor) -> Any:
        self.log.append("on")
        self.ways[(self.rank + 1) % self.size].put(x.clone())
        return Sent()

    def take(self, shape: Any, dtype: torch.dtype) -> Tensor:
        self.log.append("take")
        x: Tensor = self.ways[self.rank].get(timeout=SECONDS)
        assert tuple(shape) == x.shape
        assert dtype == x.dtype
        return x


def follow(follower: StageFollower, channel: Any) -> None:
    while (message := channel.get()) is not None:
        follower.obey(*message)


@contextmanager
def staged(count: int, adapter: Path | None = None) -> Iterator[tuple[StagedModel, list[StageFollower]]]:
    """The stages of the bundled model: the leader's, and the followers as threads that do what it announces."""
    ways, messages = ([queue.Queue[Any]() for _ in range(count)] for _ in range(2))
    groups = [ThreadGroup(rank, count, torch.device("cpu"), ways=ways, messages=messages) for rank in range(count)]
    groups[0].followers = [None] * (count - 1)  # type: ignore[list-item]
    path = None if adapter is None else str(adapter)
    leader, *others = (load_stage(MINI, "auto", path, group) for group in groups)
    followers = [StageFollower(model) for model in others]
    threads = [
        threading.Thread(target=follow, args=(follower, channel), daemon=True)
        for follower, channel in zip(followers, messages[1:], strict=True)
    ]
    for thread in threads:
        thread.start()
    yield leader, followers
    for channel in messages[1:]:
        channel.put(None)
    for thread in threads:
        thread.join(SECONDS)


@pytest.fixture(scope="module")
def stages() -> Iterator[tuple[StagedModel, list[StageFollower]]]:
    with staged(STAGES) as made:
        yield made


def passes(model: DiffusionGemma) -> list[Tensor]:
    """Prompts of several lengths, canvases of several widths with self-conditioning, and what was taken back."""
    counts, widths = [5, 40, 3, 17], [8, 32, 8, 20]
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, model.config.vocab_size, (sum(counts),), generator=generator)
    canvas = torch.randint(0, model.config.vocab_size, (sum(widths),), generator=generator)
    believed = torch.randn(sum(widths), model.config.hidden_size, generator=generator)
    cache = model.new_cache(4, 100, 40)
    found = [model.encode_flat(tokens, counts, cache), model.denoise_flat(canvas, widths, cache)]
    found += [model.denoise_flat(canvas, widths, cache, believed)]
    return [*found, model.encode_flat(canvas, widths, cache), torch.tensor(cache.lengths)]


def test_three_stages_compute_what_one_process_does(stages: tuple[StagedModel, list[StageFollower]]) -> None:
    leader, followers = stages
    group = leader.group
    assert isinstance(group, ThreadGroup)
    group.log.clear()
    for one, other in zip(passes(leader), passes(load_folder(MINI, "cpu")), strict=True):
        assert torch.equal(one, other)
    # Four requests in three micro-batches; all are under way before the first is taken back.
    assert group.log == [*["on"] * 3, *["take"] * 3, "on", "take", "on", "take", *["on"] * 3, *["take"] * 3]
    assert leader.most_under_way == STAGES
    assert [len(follower.stage.times) for follower in followers] == [len(leader.times)] * 2
    assert leader.under_way == 0


def test_a_pass_that_fails_changes_no_cache(stages: tuple[StagedModel, list[StageFollower]]) -> None:
    """The second of two micro-batches fails, after the first has gone through all stages."""
    leader, followers = stages
    cache, too_long = leader.new_cache(2, 100, 40), leader.config.max_position_embeddings + 1
    before = leader.encode_flat(torch.arange(8), [4, 4], cache)
    with pytest.raises(OptionError, match="past the model's"):
        leader.encode_flat(torch.zeros(4 + too_long, dtype=torch.int64), [4, too_long], cache)
    assert cache.lengths == [4, 4]
    assert leader.under_way == 0
    again = leader.new_cache(2, 100, 40)
    assert torch.equal(leader.encode_flat(torch.arange(8), [4, 4], again), before)
    both = KVCache([*cache.rows, *again.rows])
    leader.denoise_flat(torch.arange(16), [4] * 4, both)  # behind which all have done what was announced before
    numbers = leader.numbers.of(both)
    held = [follower.caches[number].length for follower in followers for number in numbers]
    assert held == [4] * 8


@pytest.mark.parametrize("separate", [False, True])
def test_an_adapter_is_split_merged_or_not(tmp_path: Path, separate: bool) -> None:
    """Shared deltas are merged; those of encoder and decoder stay beside the weights, in their own passes."""
    whole = load_folder(MINI, "cpu")
    targets = ("layers.*.attention.q_proj", "layers.*.experts", "self_conditioning.*")
    config = LoraConfig(rank=2, targets=targets, separate=separate)
    attach(whole, config)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in adapter_parameters(whole).values():
            parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))
    save_adapter(whole, config, tmp_path, "mini")
    if not separate:
        merge(whole)
    with staged(2, tmp_path) as (leader, _):
        for one, other in zip(passes(leader), passes(whole), strict=True):
            assert torch.equal(one, other)
    assert not torch.equal(passes(whole)[1], passes(load_folder(MINI, "cpu"))[1])
