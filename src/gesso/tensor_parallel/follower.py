"""Runs a follower of tensor parallelism; see `gesso.ranks.follower`.

python -m gesso.tensor_parallel.follower SOCKET
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gesso.models.adapter_switch import AdapterSwitch
from gesso.ranks.follower import Follower, run
from gesso.ranks.group import RankGroup
from gesso.ranks.processes import Rendezvous
from gesso.tensor_parallel.adapters import load_adapter_part, load_part
from gesso.tensor_parallel.classes import ShardedClasses, ShardedClassPass
from gesso.tensor_parallel.model import ShardedModel
from gesso.tensor_parallel.vocabulary import EMBEDDING, HIDDEN


class ShardFollower(Follower):
    """Computes with a part of every large weight; what comes of it stays here, but for the sums and gathers in it."""

    def __init__(self, model: ShardedModel) -> None:
        super().__init__(model, AdapterSwitch(model, load_adapter_part))
        self.shard = model
        self.classes: dict[int, ShardedClasses] = {}
        """Classes of the tokens under a constraint."""
        self.class_passes: dict[int, ShardedClassPass] = {}
        """Passes over them that are not finished."""
        self.held |= {"classes": (self.classes,), "class pass": (self.class_passes,)}
        self.actions |= {
            "encode": self.encode,
            "denoise": self.denoise,
            "predict": self.predict,
            "classes": self.new_classes,
            "read_classes": self.read_classes,
            "finish_classes": self.finish_classes,
            "table_rows": self.table_rows,
            "scores": self.scores,
            "weighted": self.weighted,
        }

    def encode(self, tokens: Tensor, counts: list[int], numbers: list[int], images: list[Any]) -> None:
        """Computes a causal pass."""
        for number in numbers:
            self.taken.pop(number, None)
        self.shard.encode_flat(tokens, counts, self.rows(numbers), images)

    def denoise(
        self, canvas: Tensor, widths: list[int], numbers: list[int], known: bool, sent: Tensor | range | None
    ) -> None:
        """Computes a denoising pass."""
        group = self.shard.group
        self_conditioning = group.resolve(EMBEDDING, sent) if known else None
        self.shard.denoise_flat(canvas.to(group.device), widths, self.rows(numbers), self_conditioning)

    def predict(self, sent: Tensor | range | None, temperature: Tensor, uniform: Tensor, mix: bool) -> None:
        """Computes this part's share of a pass over the vocabulary."""
        group = self.shard.group
        hidden = group.resolve(HIDDEN, sent)
        self.shard.vocabulary.predict(hidden, temperature.to(group.device), uniform, mix=mix)

    def new_classes(self, number: int, class_V: NDArray[np.integer]) -> None:
        """Keeps the classes of this part's tokens."""
        self.classes[number] = ShardedClasses(class_V, self.shard.shards.tokens, self.shard.group.device)

    def read_classes(self, number: int, classes: int, sent: Tensor | range | None, temperature: Tensor) -> None:
        """Begins a pass over the classes of tokens."""
        group = self.shard.group
        self.class_passes[number] = ShardedClassPass(
            self.shard.shards.part,
            self.classes[classes],
            group,
            group.resolve(HIDDEN, sent),
            temperature.to(group.device),
        )

    def finish_classes(self, number: int, factor: Tensor, uniform: Tensor) -> None:
        """Ends a pass over the classes of tokens."""
        device = self.shard.group.device
        self.class_passes.pop(number).finish_together(factor.to(device), uniform.to(device))

    def table_rows(self, tokens: Tensor) -> None:
        """Reads rows of the embedding table, each where it lies."""
        self.shard.shards.rows_together(tokens)

    def scores(self, hidden: Tensor) -> None:
        """Computes this part's scores of hidden states."""
        self.shard.shards.scores_together(hidden.to(self.shard.group.device))

    def weighted(self, shares: Tensor) -> None:
        """Sums up this part's rows of the table, weighted."""
        self.shard.shards.weighted_together(shares.to(self.shard.group.device))


def load(plan: Rendezvous, group: RankGroup) -> ShardFollower:
    """Loads a rank's part of a model."""
    return ShardFollower(load_part(Path(plan.folder), plan.dtype, plan.adapter, group))


if __name__ == "__main__":
    run(load)
