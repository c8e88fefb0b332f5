"""Leads the ranks that run one model: this process runs the engine, and announces what the others compute.

The engine sees a runner as any other. Samplers, constraints and requests are known to this process alone; the others
hold their parts of weights and caches (see `gesso.ranks`).
"""

import weakref
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import ClassVar, Self

from gesso.errors import RankLostError
from gesso.models.device import pick_device
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.loading import folder_dtype
from gesso.models.vision_tower import VisionModel
from gesso.ranks.caches import CacheNumbers
from gesso.ranks.follower import held_numbers
from gesso.ranks.group import BROKEN_OFF, RankGroup
from gesso.ranks.processes import RankProcesses
from gesso.ranks.uninterrupted import UninterruptedLock
from gesso.runner.model_runner import ModelRunner
from gesso.runner.protocol import CacheHandle, LayerKind, PrefixCopy
from gesso.runner.rows import TensorCopy

ANSWER_SECONDS = 30.0
"""Seconds within which a rank must answer while something is computed."""


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
    """Implements `Runner` as the leader of several ranks. A rank that ends or hangs ends all of them.

    A kind of ranks is a subclass, which says by `_check` and `_load` what can be cut and what a rank holds.
    """

    option: ClassVar[str]
    """The option that asks for ranks of this kind."""
    follower: ClassVar[str]
    """The module that a follower of this kind runs."""
    ring: ClassVar[bool] = False
    """Whether ranks send to the next one, and the last to the first."""

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
        self._lock = UninterruptedLock(partial(_end, group, processes))
        self.group, self.processes = group, processes
        self._cache_numbers = numbers
        self._copies = count()
        self._active: str | None = None
        self.held = [held_numbers(model)]
        """How many numbers every rank holds; this one alone where `start` has not made it."""

    @classmethod
    def start(
        cls,
        folder: Path,
        dtype: str,
        device: str,
        ranks: int,
        vision: VisionModel | None = None,
        adapter: Path | None = None,
        seconds: float = ANSWER_SECONDS,
    ) -> Self:
        """Starts the ranks of a checkpoint and returns their leader.

        Args:
            ranks: how many, this process included; at least 2.
            adapter: folder of a LoRA adapter, which is merged into the weights where that is possible.
            seconds: within which a rank must answer while something is computed.

        Raises:
            CheckpointError: the checkpoint cannot be used.
            OptionError: it cannot be cut into so many parts, or there are not so many devices.
            RankLostError: a rank could not start.
        """
        cls._check(folder, ranks)
        place, kind = pick_device(device), folder_dtype(folder, device, dtype)
        merged = None if adapter is None else str(adapter.absolute())
        processes = RankProcesses(
            cls.follower,
            folder.absolute(),
            kind,
            merged,
            place,
            ranks,
            seconds,
            option=cls.option,
            ring=cls.ring,
        )
        try:
            runner = cls._load(folder, kind, merged, processes, vision)
            runner.held += processes.wait()
        except BaseException:
            processes.close()
            raise
        return runner

    @classmethod
    @abstractmethod
    def _check(cls, folder: Path, ranks: int) -> None:
        """Checks that a checkpoint can be cut into so many parts, before any process is started.

        Raises:
            CheckpointError, ConfigError, OptionError: it cannot.
        """

    @classmethod
    @abstractmethod
    def _load(
        cls, folder: Path, dtype: str, adapter: str | None, processes: RankProcesses, vision: VisionModel | None
    ) -> Self:
        """Starts the followers, which load their parts meanwhile, and returns the leader with its own."""

    def load_adapters(self, folders: Mapping[str, Path]) -> None:
        with self._lock:
            self._activate(None)  # as loading does on every rank
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

    @property
    def lost(self) -> str | None:
        return self.group.lost or (None if self.processes.running else "a rank has ended")

    def check(self) -> None:
        super().check()
        if (reason := self.lost) is None:
            return
        self.group.lost = reason
        self.processes.close()
        raise RankLostError(reason)

    def _number(self, cache: CacheHandle) -> int:
        return self._cache_numbers[self.cache(cache)]

    def close(self) -> None:
        """Ends the other ranks; the runner is of no more use."""
        self.group.lost = "the ranks were ended"
        self.processes.close()


def _end(group: RankGroup, processes: RankProcesses) -> None:
    """Ends ranks that are out of step."""
    group.lost = group.lost or BROKEN_OFF
    processes.close()


def _numbers(copies: Sequence[PrefixCopy]) -> list[int]:
    return [copy.number for copy in copies if isinstance(copy, _NumberedCopy)]
