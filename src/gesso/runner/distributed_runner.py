"""Runs one model by tensor parallelism: every rank computes with a part of each large weight.

See `gesso.tensor_parallel`.
"""

from pathlib import Path

from gesso.models.adapter_switch import AdapterSwitch
from gesso.models.family import only_diffusion_gemma
from gesso.models.loading import pick_device, read_model_config
from gesso.models.vision_tower import VisionModel
from gesso.ranks.processes import RankProcesses
from gesso.runner.leading_runner import ANSWER_SECONDS, LeadingRunner
from gesso.tensor_parallel.adapters import load_adapter_part, load_part
from gesso.tensor_parallel.model import ShardedModel
from gesso.tensor_parallel.packed import check_groups, quantization_over_ranks
from gesso.tensor_parallel.shards import check_ranks

FOLLOWER = "gesso.tensor_parallel.follower"


class DistributedRunner(LeadingRunner):
    """Implements `Runner` as the leader of ranks that cut every large weight."""

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
        processes = RankProcesses(
            FOLLOWER, folder.absolute(), dtype, merged, pick_device(device), ranks, seconds, option="tensor_parallel"
        )
        try:
            model = load_part(folder, dtype, merged, processes.start())
            processes.wait()
        except BaseException:
            processes.close()
            raise
        return cls(model, processes, vision)

    def _new_switch(self) -> AdapterSwitch:
        return AdapterSwitch(only_diffusion_gemma(self.model, "adapter", "adapters"), load_adapter_part)
