"""Batches that worker processes make ahead are those that the trainer would make."""

import dataclasses
import os
from pathlib import Path

import pytest
import torch

from gesso.errors import DataError
from gesso.train import prefetch
from gesso.train.batch import Batch, Conversation
from gesso.train.prefetch import prefetched_batches
from train.runs import recipe, same_files, train


def alike(left: Batch, right: Batch) -> bool:
    pairs = ((getattr(left, f.name), getattr(right, f.name)) for f in dataclasses.fields(Batch))
    return all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in pairs)


def test_workers_make_the_same_batches_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2}, raising=False)
    plain, ahead = recipe(), recipe(workers=2)
    assert all(map(alike, prefetched_batches(plain, 3, 9), prefetched_batches(ahead, 3, 9)))
    assert len(list(prefetched_batches(ahead, 3, 9))) == 6
    assert not alike(next(prefetched_batches(plain, 3, 4)), next(prefetched_batches(plain, 4, 5)))


def test_a_run_with_workers_is_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1}, raising=False)
    assert same_files(train(recipe(), tmp_path / "plain"), train(recipe(workers=3), tmp_path / "ahead"))


def test_on_one_processor_the_trainer_makes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0}, raising=False)
    monkeypatch.delattr(prefetch, "DataLoader")
    assert alike(next(prefetched_batches(recipe(workers=2), 3, 4)), next(prefetched_batches(recipe(), 3, 4)))


class Broken:
    """Examples that cannot be made from a step on."""

    fingerprint = "broken"

    def batch(self, step: int, size: int, canvas_length: int | None) -> list[Conversation]:
        if step > 1:
            raise DataError(f"no examples for step {step}", hint="make them")
        return recipe().examples.batch(step, size, canvas_length)

    def evaluation(self, limit: int) -> list[Conversation]:
        return recipe().examples.evaluation(limit)


def test_what_fails_in_a_worker_fails_at_its_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1}, raising=False)
    batches = prefetched_batches(dataclasses.replace(recipe(workers=1), data=Broken()), 0, 4)
    assert alike(next(batches), next(prefetched_batches(recipe(), 0, 1)))
    next(batches)
    with pytest.raises(DataError, match=r"^no examples for step 2$") as error:
        next(batches)
    assert error.value.hint == "make them"


class Nice:
    """Examples that say in their prompts how much their process yields."""

    fingerprint = "nice"

    def batch(self, step: int, size: int, canvas_length: int | None) -> list[Conversation]:
        del step, canvas_length
        return [Conversation([1] * (1 + os.nice(0)), [2])] * size

    def evaluation(self, limit: int) -> list[Conversation]:
        return self.batch(0, limit, None)


@pytest.mark.skipif(not hasattr(os, "nice"), reason="processes here have no niceness")
def test_workers_yield_to_the_trainer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1}, raising=False)
    ahead, own = (
        next(prefetched_batches(dataclasses.replace(recipe(workers=workers), data=Nice()), 0, 1)) for workers in (1, 0)
    )
    assert int(ahead.starts_B[0]) == min(20, int(own.starts_B[0]) + prefetch.YIELDED)
