"""Makes batches ahead of their steps in worker processes, for devices that are quicker than one core can draw examples.

A step's batch is a function of recipe and step number alone, so who makes it, and when, changes nothing.
"""

import multiprocessing
import os
import pickle
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import torch
from torch.utils.data import DataLoader, Dataset

from gesso.errors import UserError
from gesso.nn.cpu_threads import allowed_cpus
from gesso.train.batch import Batch
from gesso.train.recipe import Recipe
from gesso.train.step import step_batch

_PREFETCH_FACTOR = 4
"""Batches that each worker has ready at most."""
YIELDED = 5
"""How much workers yield to the process that tells a GPU of its kernels, which waits for no one else."""


class _Steps(Dataset[bytes]):
    """The batches of a run by step number, pickled: tensors as they are would go through shared memory, of which
    containers have little."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe

    def __getitem__(self, step: int) -> bytes:
        try:
            return pickle.dumps(step_batch(self.recipe, step))
        except UserError as error:  # which a worker would tell by its traceback alone
            return pickle.dumps(error)


def prefetched_batches(recipe: Recipe, first: int, last: int) -> Iterator[Batch]:
    """Yields the batches of steps `first` (from 0) to `last`, the end left out.

    With `recipe.train.workers` as many processes make them, but no more than there are processors, of
    those that this process may use, beside the trainer's own.
    """
    workers = min(recipe.train.workers, len(allowed_cpus()) - 1)
    if not workers or "fork" not in multiprocessing.get_all_start_methods():
        for step in range(first, last):
            yield step_batch(recipe, step)
        return
    # Forked, because a recipe holds functions and a template that cannot be sent to a fresh process.
    loader = DataLoader(
        _Steps(recipe),
        batch_size=None,
        sampler=range(first, last),
        num_workers=workers,
        prefetch_factor=_PREFETCH_FACTOR,
        multiprocessing_context="fork",
        worker_init_fn=_start,
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
        iterator = iter(loader)
    yield from _unpacked_ahead(iterator)


def _unpacked_ahead(packed: Iterator[bytes]) -> Iterator[Batch]:
    """Yields the batches, each fetched and unpacked by a thread while the step before it is trained on."""
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(_next_batch, packed)
        while (batch := coming.result()) is not None:
            coming = thread.submit(_next_batch, packed)
            yield batch


def _next_batch(packed: Iterator[bytes]) -> Batch | None:
    found = next(packed, None)
    if found is None:
        return None
    batch: Batch | UserError = pickle.loads(found)
    if isinstance(batch, UserError):
        raise batch
    return batch


def _start(_: int) -> None:
    torch.set_num_threads(1)
    if hasattr(os, "nice"):
        os.nice(YIELDED)
