"""Runs one model by tensor parallelism: every rank computes with a part of each large weight.

See `gesso.tensor_parallel`.
"""

from pathlib import Path
from typing import Self

from gesso.models.adapter_switch import AdapterSwitch
from gesso.models.family import only_diffusion_gemma
from gesso.models.loading import read_model_config
from gesso.models.vision_tower import VisionModel
from gesso.ranks.processes import RankProcesses
from gesso.runner.leading_runner import LeadingRunner
from gesso.tensor_parallel.adapters import load_adapter_part, load_part
from gesso.tensor_parallel.model import ShardedModel
from gesso.tensor_parallel.packed import check_groups, quantization_over_ranks
from gesso.tensor_parallel.shards import check_ranks


class DistributedRunner(LeadingRunner):
    """Implements `Runner` as the leader of ranks that cut every large weight."""

    option = "tensor_parallel"
    follower = "gesso.tensor_parallel.follower"

    def __init__(self, model: ShardedModel, processes: RankProcesses, vision: VisionModel | None = None) -> None:
        """
        Args:
            model: this rank's part.
            processes: of the other ranks, which have loaded theirs.
            vision: tower and projector, which run here alone.
        """
        super().__init__(model, model.group, model.numbers, processes, vision)
        self.shard = model

    @classmethod
    def _check(cls, folder: Path, ranks: int) -> None:
        config = read_model_config(folder)
        check_ranks(config, ranks)
        check_groups(config, quantization_over_ranks(folder), ranks)

    @classmethod
    def _load(
        cls, folder: Path, dtype: str, adapter: str | None, processes: RankProcesses, vision: VisionModel | None
    ) -> Self:
        return cls(load_part(folder, dtype, adapter, processes.start()), processes, vision)

    def _new_switch(self) -> AdapterSwitch:
        return AdapterSwitch(only_diffusion_gemma(self.model, "adapter", "adapters"), load_adapter_part)
