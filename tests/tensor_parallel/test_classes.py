"""The pass over classes of tokens in parts: what one process sums up, mixes and draws."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gesso.constraints.class_pass import TINY, ClassPass, TokenClasses, stretches
from gesso.nn.vocabulary import Vocabulary
from gesso.ranks.group import RankGroup
from gesso.tensor_parallel.classes import ShardedClasses, ShardedClassPass
from gesso.tensor_parallel.shards import tokens_of

ROWS, WIDTH, CHUNK = 7, 24, 128
CPU = torch.device("cpu")


@dataclass(slots=True)
class Meeting:
    """Where the threads of one group put down what they bring."""

    size: int
    parts: dict[int, Tensor] = field(default_factory=dict)
    barrier: threading.Barrier = field(init=False)

    def __post_init__(self) -> None:
        self.barrier = threading.Barrier(self.size, timeout=60)


@dataclass(slots=True)
class ThreadGroup(RankGroup):
    """A group whose ranks are threads of one process."""

    meeting: Meeting = field(default_factory=lambda: Meeting(1))

    def gather(self, x: Tensor) -> Tensor:
        self.collectives += 1
        self.meeting.parts[self.rank] = x
        self.meeting.barrier.wait()
        found = torch.stack([self.meeting.parts[rank] for rank in range(self.size)])
        self.meeting.barrier.wait()
        return found

    def sum_(self, x: Tensor) -> Tensor:
        return self.gather(x).sum(dim=0)


def on_ranks(size: int, work: Callable[[RankGroup], Any]) -> list[Any]:
    """Does something on every rank, and returns what comes of it."""
    meeting, found = Meeting(size), {}

    def run(rank: int) -> None:
        found[rank] = work(ThreadGroup(rank, size, CPU, meeting=meeting))

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[rank] for rank in range(size)]


def classes_of(size: int, seed: int) -> Any:
    """Classes of very different sizes, some tokens in none; the last quarter of the vocabulary is of one class."""
    generator = np.random.default_rng(seed)
    class_V = generator.choice(7, size=size, p=[0.2, 0.4, 0.3, 0.06, 0.03, 0.01, 0.0]) - 1
    class_V[-size // 4 :] = 0
    class_V[:6] = np.arange(6)
    return class_V


@pytest.mark.parametrize("seed", range(4))
def test_a_sample_is_looked_up_in_the_order_of_one_process(seed: int) -> None:
    class_V = classes_of(900, seed)
    stretch_V, class_S = stretches(class_V, CHUNK)
    inside = stretch_V >= 0
    assert np.array_equal(class_V[inside], class_S[stretch_V[inside]])
    assert (stretch_V[~inside] == -1).all()
    assert set(class_V[~inside].tolist()) <= {-1}
    order = TokenClasses(class_V, CPU, CHUNK).columns_T
    expected = order[order >= 0].numpy()
    assert np.array_equal(expected, np.flatnonzero(inside)[np.argsort(stretch_V[inside], kind="stable")])
    assert min(np.bincount(class_V + 1)[1:]) <= TINY < CHUNK < max(np.bincount(class_V + 1)[1:])


@pytest.mark.parametrize("size", [2, 3])
def test_ranks_find_what_one_process_finds(size: int) -> None:
    count = 900
    for seed in range(6):
        generator = torch.Generator().manual_seed(seed)
        whole = Vocabulary(count, WIDTH, 30.0)
        whole.weight.data = torch.randn(count, WIDTH, generator=generator)
        class_V = classes_of(count, seed)
        if seed == 5:  # a rank none of whose tokens may stand
            class_V[count // 4 :] = -1
        hidden = torch.randn(ROWS, WIDTH, generator=generator)
        temperature = 0.4 + torch.rand(ROWS, generator=generator)
        uniform = torch.rand(ROWS, generator=generator)
        factors = torch.randn(ROWS, int(class_V.max()) + 1, generator=generator).double()
        factors[torch.rand(factors.shape, generator=generator) < 0.2] = -torch.inf
        factors[:, 0] = 0.0
        alone = ClassPass(whole, TokenClasses(class_V, CPU, CHUNK), hidden, temperature)
        factors -= (factors + alone.summary.total).logsumexp(dim=-1, keepdim=True)

        def work(
            group: RankGroup,
            whole: Vocabulary = whole,
            class_V: Any = class_V,
            given: tuple[Tensor, ...] = (hidden, temperature, factors, uniform),
        ) -> Any:
            tokens = tokens_of(count, group.rank, group.size)
            part = Vocabulary(len(tokens), WIDTH, 30.0)
            part.weight.data = whole.weight.data[tokens.start : tokens.stop]
            classes = ShardedClasses(class_V, tokens, CPU, CHUNK)
            made = ShardedClassPass(part, classes, group, *given[:2])
            return made.summary, *made.finish_together(*given[2:]), group.collectives

        found = on_ranks(size, work)
        sample, embedding = alone.finish(factors, uniform)
        for summary, drawn, mixed, collectives in found:
            for name in ("total", "entropy", "best"):
                torch.testing.assert_close(getattr(summary, name), getattr(alone.summary, name), atol=1e-5, rtol=1e-5)
            assert torch.equal(summary.token, alone.summary.token)
            assert summary.best.dtype == alone.summary.best.dtype
            assert torch.equal(drawn, sample)
            torch.testing.assert_close(mixed, embedding, atol=1e-4, rtol=1e-4)
            assert collectives == 2
        assert torch.equal(found[0][2], found[1][2])
