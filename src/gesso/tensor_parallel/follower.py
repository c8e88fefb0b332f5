"""Runs a follower: a process that computes its part of what the leader announces, until the leader is gone.

    python -m gesso.tensor_parallel.follower SOCKET

The leader starts it; SOCKET is the number of the open socket that its messages come through.
"""

import ctypes
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gesso.errors import RankLostError
from gesso.models.adapter_switch import AdapterSwitch
from gesso.models.cache import KVCache, LayerCache, SequenceCache
from gesso.tensor_parallel.adapters import load_adapter_part, load_part
from gesso.tensor_parallel.classes import ShardedClasses, ShardedClassPass
from gesso.tensor_parallel.group import receive, send
from gesso.tensor_parallel.model import ShardedModel
from gesso.tensor_parallel.processes import Rendezvous, join
from gesso.tensor_parallel.vocabulary import EMBEDDING, HIDDEN


class Follower:
    """Does what the leader announces, by name; what comes of it stays here, but for the sums and gathers in it."""

    def __init__(self, model: ShardedModel) -> None:
        self.model = model
        self.caches: dict[int, SequenceCache] = {}
        self.taken: dict[int, list[Tensor]] = {}
        """What was rolled back, by cache."""
        self.copies: dict[int, list[Tensor]] = {}
        """Copies of prefixes: keys and values of the layers of a kind."""
        self.classes: dict[int, ShardedClasses] = {}
        """Classes of the tokens under a constraint."""
        self.class_passes: dict[int, ShardedClassPass] = {}
        """Passes over them that are not finished."""
        self.switch = AdapterSwitch(model, load_adapter_part)
        self._held: dict[str, tuple[dict[int, Any], ...]] = {
            "cache": (self.caches, self.taken),
            "copy": (self.copies,),
            "classes": (self.classes,),
            "class pass": (self.class_passes,),
        }

    @torch.inference_mode()
    def obey(self, name: str, dropped: list[tuple[str, int]], args: list[Any]) -> None:
        """Computes one message."""
        for kind, number in dropped:
            for held in self._held[kind]:
                held.pop(number, None)
        action: Callable[..., None] = getattr(self, f"_{name}")
        action(*args)

    def _new_cache(self, number: int, max_seq_len: int, max_write_len: int) -> None:
        (self.caches[number],) = self.model.new_cache(1, max_seq_len, max_write_len).rows

    def _encode(self, tokens: Tensor, counts: list[int], numbers: list[int], images: list[Any]) -> None:
        for number in numbers:
            self.taken.pop(number, None)
        self.model.encode_flat(tokens, counts, self._rows(numbers), images)

    def _denoise(
        self, canvas: Tensor, widths: list[int], numbers: list[int], known: bool, sent: Tensor | range | None
    ) -> None:
        group = self.model.group
        self_conditioning = group.resolve(EMBEDDING, sent) if known else None
        self.model.denoise_flat(canvas.to(group.device), widths, self._rows(numbers), self_conditioning)

    def _predict(self, sent: Tensor | range | None, temperature: Tensor, uniform: Tensor, mix: bool) -> None:
        group = self.model.group
        hidden = group.resolve(HIDDEN, sent)
        self.model.vocabulary.predict(hidden, temperature.to(group.device), uniform, mix=mix)

    def _classes(self, number: int, class_V: NDArray[np.integer]) -> None:
        self.classes[number] = ShardedClasses(class_V, self.model.shards.tokens, self.model.group.device)

    def _read_classes(self, number: int, classes: int, sent: Tensor | range | None, temperature: Tensor) -> None:
        group = self.model.group
        self.class_passes[number] = ShardedClassPass(
            self.model.shards.part,
            self.classes[classes],
            group,
            group.resolve(HIDDEN, sent),
            temperature.to(group.device),
        )

    def _finish_classes(self, number: int, factor: Tensor, uniform: Tensor) -> None:
        device = self.model.group.device
        self.class_passes.pop(number).finish_together(factor.to(device), uniform.to(device))

    def _table_rows(self, tokens: Tensor) -> None:
        self.model.shards.rows_together(tokens)

    def _scores(self, hidden: Tensor) -> None:
        self.model.shards.scores_together(hidden.to(self.model.group.device))

    def _weighted(self, shares: Tensor) -> None:
        self.model.shards.weighted_together(shares.to(self.model.group.device))

    def _load_adapters(self, folders: dict[str, str]) -> None:
        self.switch.load({name: Path(folder) for name, folder in folders.items()})

    def _activate(self, name: str | None) -> None:
        self.switch.activate(name)

    def _rollback(self, number: int, tokens: int) -> None:
        self.taken[number] = self.caches[number].rollback(tokens)

    def _restore(self, number: int) -> None:
        self.caches[number].restore(self.taken.pop(number))

    def _copy_prefix(self, copy: int, number: int, tokens: int, sliding: bool) -> None:
        self.copies[copy] = [layer.newest(tokens) for layer in self._layers(number, sliding)]

    def _restore_prefix(self, number: int, tokens: int, full: list[int], sliding: list[int]) -> None:
        row = self.caches[number]
        for is_sliding, copies in ((False, full), (True, sliding)):
            stretches = [self.copies[copy] for copy in copies]
            for layer, parts in zip(self._layers(number, is_sliding), zip(*stretches, strict=True), strict=True):
                layer.restore(parts, row.max_seq_len, row.max_write_len)
        row.length = tokens

    def _rows(self, numbers: list[int]) -> KVCache:
        return KVCache([self.caches[number] for number in numbers])

    def _layers(self, number: int, sliding: bool) -> list[LayerCache]:
        pairs = zip(self.caches[number].layers, self.model.config.layers, strict=True)
        return [cache for cache, layer in pairs if layer.is_sliding == sliding]


_PARENT_DEATH = 1
"""`PR_SET_PDEATHSIG` of Linux."""


def _end_with_parent() -> None:
    """Has the system end this process, even a stopped one, when the leader ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_DEATH, signal.SIGKILL)


def main(number: int) -> None:
    """Joins the group, loads this rank's part and obeys; returns when the leader has closed the socket."""
    _end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the leader decides
    channel = socket.socket(fileno=number)
    plan: Rendezvous = receive(channel)
    if plan is None:
        return
    torch.set_num_threads(plan.threads)
    send(channel, plan.rank)
    receive(channel)
    try:
        group = join(plan)
        follower = Follower(load_part(Path(plan.folder), plan.dtype, plan.adapter, group))
        send(channel, sum(tensor.numel() for tensor in follower.model.state_dict().values()))
        while (message := receive(channel)) is not None:
            follower.obey(*message)
    except RankLostError:
        return


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]))
    finally:
        sys.stdout.flush()
        # A group of which a rank is gone would wait for it while it is taken apart.
        os._exit(0 if sys.exc_info()[0] is None else 1)
