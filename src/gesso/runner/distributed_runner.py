"""Runs one model over several ranks of this machine: this process leads, and announces what it computes.

The engine sees a runner as any other. Samplers, constraints and requests are known to this process alone; the others
hold their parts of weights and caches (see `gesso.tensor_parallel`).
"""

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from gesso.errors import RankLostError
from gesso.models.adapter_switch import AdapterSwitch
from gesso.models.family import only_diffusion_gemma
from gesso.models.loading import pick_device, read_model_config
from gesso.models.vision_tower import VisionModel
from gesso.runner.model_runner import ModelRunner, TensorCopy
from gesso.runner.protocol import CacheHandle, LayerKind, PrefixCopy
from gesso.tensor_parallel.adapters import load_adapter_part, load_part
from gesso.tensor_parallel.model import ShardedModel
from gesso.tensor_parallel.packed import check_groups, quantization_over_ranks
from gesso.tensor_parallel.processes import RankProcesses
from gesso.tensor_parallel.shards import check_ranks

ANSWER_SECONDS = 30.0
"""Within which a rank must answer while something is computed."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class _NumberedCopy(TensorCopy):
    """Holds this rank's part of a prefix; the other ranks know theirs by its number."""

    number: int


class DistributedRunner(ModelRunner):
    """Implements `Runner` as the leader of several ranks. A rank that ends or hangs ends all of them."""

    def __init__(self, model: ShardedModel, processes: RankProcesses, vision: VisionModel | None = None) -> None:
        """
        Args:
            model: this rank's part.
            processes: of the other ranks, which have loaded theirs.
            vision: tower and projector, which run here alone.
        """
        super().__init__(model, None, vision)
        self.shard = model
        self.processes = processes
        self.group = model.group
        self._copies = count()
        self._active: str | None = None

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
    ) -> "DistributedRunner":
        """Starts the ranks of a checkpoint and returns their leader.

        Args:
            ranks: how many, this process included; at least 2.
            adapter: folder of a LoRA adapter, which is merged into the weights.
            seconds: within which a rank must answer while something is computed.

        Raises:
            CheckpointError: the checkpoint cannot be used.
            OptionError: it cannot be cut into so many parts, or there are not so many devices.
            RankLostError: a rank could not start.
        """
        config = read_model_config(folder)
        check_ranks(config, ranks)
        check_groups(config, quantization_over_ranks(folder), ranks)
        merged = None if adapter is None else str(adapter.absolute())
        processes = RankProcesses(folder.absolute(), dtype, merged, pick_device(device), ranks, seconds)
        try:
            model = load_part(folder, dtype, merged, processes.start())
            processes.wait()
        except BaseException:
            processes.close()
            raise
        return cls(model, processes, vision)

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
            copy = _NumberedCopy(own.layers, number)
            weakref.finalize(copy, self.group.dropped.append, ("copy", number)).atexit = False
            return copy

    def restore_prefix(
        self, cache: CacheHandle, tokens: int, full: Sequence[PrefixCopy], sliding: Sequence[PrefixCopy]
    ) -> None:
        with self._lock:
            self.group.announce("restore_prefix", self._number(cache), tokens, _numbers(full), _numbers(sliding))
            super().restore_prefix(cache, tokens, full, sliding)

    def _new_switch(self) -> AdapterSwitch:
        return AdapterSwitch(only_diffusion_gemma(self.model, "adapter", "adapters"), load_adapter_part)

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
        return self.shard.numbers[self.cache(cache)]

    def close(self) -> None:
        """Ends the other ranks; the runner is of no more use."""
        self.group.lost = "the ranks were ended"
        self.processes.close()


def _numbers(copies: Sequence[PrefixCopy]) -> list[int]:
    return [copy.number for copy in copies if isinstance(copy, _NumberedCopy)]
