"""Leads the ranks that run one model: this process runs the engine, and announces what the others compute.

The engine sees a runner as any other. Samplers, constraints and requests are known to this process alone; the others
hold their parts of weights and caches (see `gesso.ranks`).
"""

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from gesso.errors import RankLostError
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.vision_tower import VisionModel
from gesso.ranks.caches import CacheNumbers
from gesso.ranks.group import RankGroup
from gesso.ranks.processes import RankProcesses
from gesso.runner.model_runner import ModelRunner, TensorCopy
from gesso.runner.protocol import CacheHandle, LayerKind, PrefixCopy

ANSWER_SECONDS = 30.0
"""Within which a rank must answer while something is computed."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class _NumberedCopy(TensorCopy):
    """Holds this rank's part of a prefix; the other ranks know theirs by its number."""

    number: int
    most: int
    """Bytes of the largest part that a rank has of it."""

    @property
    def nbytes(self) -> int:
        return self.most


class LeadingRunner(ModelRunner):
    """Implements `Runner` as the leader of several ranks. A rank that ends or hangs ends all of them."""

    def __init__(
        self,
        model: DiffusionGemma,
        group: RankGroup,
        numbers: CacheNumbers,
        processes: RankProcesses,
        vision: VisionModel | None = None,
    ) -> None:
        """
        Args:
            model: this rank's part.
            numbers: of its caches.
            processes: of the other ranks, which have loaded theirs.
            vision: tower and projector, which run here alone.
        """
        super().__init__(model, None, vision)
        self.group, self.processes = group, processes
        self._cache_numbers = numbers
        self._copies = count()
        self._active: str | None = None

    def load_adapters(self, folders: Mapping[str, Path]) -> None:
        with self._lock:
            super().load_adapters(folders)
            self.group.announce("load_adapters", {name: str(folder.absolute()) for name, folder in folders.items()})

    def kv_memory(self, reserved: int) -> int:
        # On a CPU all ranks have the same memory.
        return super().kv_memory(reserved) // (self.group.size if self.device.type == "cpu" else 1)

    def rollback(self, cache: CacheHandle, tokens: int) -> None:
        with self._lock:
            self.group.announce("rollback", self._number(cache), tokens)
            super().rollback(cache, tokens)

    def restore(self, cache: CacheHandle) -> None:
        with self._lock:
            self.group.announce("restore", self._number(cache))
            super().restore(cache)

    def copy_prefix(self, cache: CacheHandle, tokens: int, kind: LayerKind) -> PrefixCopy:
        with self._lock:
            number = next(self._copies)
            self.group.announce("copy_prefix", number, self._number(cache), tokens, kind == "sliding")
            own = super().copy_prefix(cache, tokens, kind)
            assert isinstance(own, TensorCopy)
            copy = _NumberedCopy(own.layers, number, self.prefix_bytes(tokens, kind))
            weakref.finalize(copy, self.group.dropped.append, ("copy", number)).atexit = False
            return copy

    def restore_prefix(
        self, cache: CacheHandle, tokens: int, full: Sequence[PrefixCopy], sliding: Sequence[PrefixCopy]
    ) -> None:
        with self._lock:
            self.group.announce("restore_prefix", self._number(cache), tokens, _numbers(full), _numbers(sliding))
            super().restore_prefix(cache, tokens, full, sliding)

    def _activate(self, adapter: str | None) -> None:
        super()._activate(adapter)
        if adapter != self._active:
            self.group.announce("activate", adapter)
            self._active = adapter

    def check(self) -> None:
        super().check()
        if self.group.lost is None and self.processes.running:
            return
        reason = self.group.lost or "a rank has ended"
        self.group.lost = reason
        self.processes.close()
        raise RankLostError(reason)

    def _number(self, cache: CacheHandle) -> int:
        return self._cache_numbers[self.cache(cache)]

    def close(self) -> None:
        """Ends the other ranks; the runner is of no more use."""
        self.group.lost = "the ranks were ended"
        self.processes.close()


def _numbers(copies: Sequence[PrefixCopy]) -> list[int]:
    return [copy.number for copy in copies if isinstance(copy, _NumberedCopy)]
