"""Puts adapters on a rank's part of a model: of each delta's two matrices the rows or columns that its layer has."""

from pathlib import Path

import torch
from torch import Tensor

from gesso.config import LoraConfig
from gesso.errors import CheckpointError
from gesso.models.adapter_files import load_adapter
from gesso.models.adapters import adapted_layers, adapter_parameters, merge_if_possible, put_layer, wrap
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.nn.lora import LoraExperts
from gesso.ranks.group import RankGroup
from gesso.tensor_parallel.experts import OwnExperts, ShardedExperts
from gesso.tensor_parallel.loading import load_shard
from gesso.tensor_parallel.model import ShardedModel
from gesso.tensor_parallel.packed import ShardedQuantizedExperts
from gesso.tensor_parallel.shards import cut


class ShardedLoraExperts(LoraExperts):
    """Adds deltas to a rank's experts."""

    def forward(self, x_ND: Tensor, weights_Nk: Tensor, experts_Nk: Tensor) -> Tensor:
        assert isinstance(self.base, OwnExperts)
        return self.base.mix(x_ND, *self.base.own_part(weights_Nk, experts_Nk), self.projections())


@torch.no_grad()
def load_adapter_part(model: DiffusionGemma, folder: Path) -> LoraConfig:
    """Puts a rank's part of the adapter in `folder` on its part of the model, frozen; see `load_adapter`.

    Raises:
        CheckpointError: the adapter is damaged or does not fit the model.
    """
    assert isinstance(model, ShardedModel)
    with torch.device("meta"):
        whole = DiffusionGemma(model.whole)
    read: dict[int, Tensor] = {}

    def keep(full: Tensor, parameter: Tensor) -> Tensor:
        read[id(parameter)] = full
        return full

    config = load_adapter(whole, folder, keep)
    if config.separate:
        raise CheckpointError(
            f"{folder} has one delta for the encoder and another for the decoder: ranks run shared deltas only"
        )
    for name in config.targets:
        layer = model.get_submodule(name)
        if isinstance(layer, ShardedExperts | ShardedQuantizedExperts):
            put_layer(model, name, ShardedLoraExperts(layer, config.rank, config.scale).eval())
        else:
            wrap(model, name, config)
    model.requires_grad_(False)
    full = {name: read[id(parameter)] for name, parameter in adapter_parameters(whole).items()}
    for name, layer in adapted_layers(model):
        place = cut(
            f"{name}.down_proj" if isinstance(layer, LoraExperts) else f"{name}.weight", model.whole, model.group
        )
        for label, parameter in layer.named_parameters(recurse=False):
            matrix = full[f"{name}.{label}"]
            if place is not None and isinstance(layer, LoraExperts):
                matrix = matrix[place[1].start : place[1].stop]
            elif place is not None and (label == "lora_B") == (place[0] == 0):
                # B has the layer's rows, A its columns.
                matrix = matrix.narrow(place[0], place[1].start, len(place[1]))
            parameter.copy_(matrix)
    return config


def load_part(folder: Path, dtype: str, adapter: str | None, group: RankGroup) -> ShardedModel:
    """Loads a rank's part of a checkpoint with an adapter merged into it, or beside packed weights, where one is given.

    Raises:
        CheckpointError: the checkpoint or the adapter cannot be used.
        ConfigError: an unknown key or impossible value in `config.json`.
        OptionError: a model that cannot be cut into so many parts.
    """
    model = load_shard(folder, dtype, group)
    if adapter is not None:
        load_adapter_part(model, Path(adapter))
        merge_if_possible(model)
    return model
