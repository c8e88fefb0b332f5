"""Cuts packed weights: which part of each packed tensor a rank holds, and layers that compute with it.

Rows of a packed matrix are rows of all its parts, so that rows and experts are cut as those of whole weights are.
Columns are cut where groups end; a format with a scale for a whole row has that on every rank. What a rank reads back
is to the bit what one process reads back there.
"""

import dataclasses
from pathlib import Path

from torch import Tensor, nn

from gesso.config import ModelConfig
from gesso.errors import OptionError
from gesso.models.loading import stored_quantization
from gesso.models.quantization.plan import Quantization, replace_layers
from gesso.nn.quant.base import Format
from gesso.nn.quant.integer import Int4, Int8
from gesso.nn.quant.layers import QuantizedExperts
from gesso.ranks.group import RankGroup
from gesso.tensor_parallel.experts import OwnExperts, ShardedExperts
from gesso.tensor_parallel.shards import cut

__all__ = ["ShardedQuantizedExperts", "check_groups", "cut_packed", "put_packed_layers", "quantization_over_ranks"]


class ShardedQuantizedExperts(OwnExperts, QuantizedExperts):
    """Holds a rank's packed experts and computes their part of the mixture."""

    def __init__(
        self, hidden_size: int, intermediate_size: int, num_experts: int, group: RankGroup, form: Format
    ) -> None:
        self.own = group.share(num_experts)
        super().__init__(hidden_size, intermediate_size, len(self.own), form)

    def forward(self, x_ND: Tensor, weights_Nk: Tensor, experts_Nk: Tensor) -> Tensor:
        return self.mix(x_ND, *self.own_part(weights_Nk, experts_Nk), self.projections())


def quantization_over_ranks(folder: Path) -> Quantization | None:
    """Reads how the weights in a folder are packed; None where they are not.

    Raises:
        CheckpointError: it is not understood.
        OptionError: they are packed in a form that is not cut.
    """
    stored = stored_quantization(folder)
    if stored is None:
        return None
    for part in dataclasses.fields(stored):
        form = getattr(stored, part.name)
        if form is not None and not isinstance(form, Int4 | Int8):
            raise OptionError(
                f"{folder} holds {part.name} as {form.kernel}, which ranks do not cut: tensor_parallel takes whole "
                "weights, and those that gesso quantize wrote in int8 or int4",
                option="tensor_parallel",
            )
    return stored


def check_groups(config: ModelConfig, stored: Quantization | None, ranks: int) -> None:
    """Refuses a number of ranks that would cut through a group of weights with a scale in common.

    Raises:
        OptionError: the first layer of which it would.
    """
    if stored is None or not isinstance(stored.dense, Int4):
        return
    size = stored.dense.group_size
    for number, layer in enumerate(config.layers):
        columns = {
            "attention.o_proj": config.num_attention_heads * layer.head_dim,
            "mlp.down_proj": config.intermediate_size,
        }
        for name, count in columns.items():
            if count // ranks % size:
                raise OptionError(
                    f"{ranks} ranks would cut layers.{number}.{name} every {count // ranks} columns, through groups of "
                    f"{size} weights: take fewer ranks, or quantize with a smaller group size",
                    option="tensor_parallel",
                )


def put_packed_layers(model: nn.Module, config: ModelConfig, stored: Quantization, group: RankGroup) -> None:
    """Puts packed layers of a rank's size into its part of a model. The table stays plain: it is read back once."""
    for name, module in list(model.named_modules()):
        if stored.experts is not None and isinstance(module, ShardedExperts):
            packed = ShardedQuantizedExperts(
                config.hidden_size, config.moe_intermediate_size, config.num_experts, group, stored.experts
            )
            parent, _, label = name.rpartition(".")
            setattr(model.get_submodule(parent), label, packed)
    replace_layers(model, Quantization(dense=stored.dense))  # type: ignore[arg-type]


def cut_packed(name: str, form: Format, config: ModelConfig, group: RankGroup) -> tuple[int, range] | None:
    """Returns the dimension along which a packed tensor is cut and the rank's part of it, as `cut` does of whole ones.

    Args:
        name: of the buffer, such as `layers.0.mlp.down_proj.codes` or `layers.0.experts.gate_up_scales`.
    """
    layer, _, label = name.rpartition(".")
    matrix, _, part = label.rpartition("_")
    place = cut(f"{layer}.{matrix}_proj" if matrix else f"{layer}.weight", config, group)
    if place is None or place[0] == 0:
        return place
    columns = place[1]
    if isinstance(form, Int4):
        by = 2 if part == "codes" else form.group_size
        return 1, range(columns.start // by, columns.stop // by)
    return place if part == "codes" else None
