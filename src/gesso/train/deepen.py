"""Makes a model deeper that is trained already: it starts as nearly the same function, with more layers to learn with.

A layer adds to what passes through it, behind norms with scales. A copy of a trained layer with scales of half the size
changes little when it stands behind the layers it is copied from, and learns at once. One with scales of zero changes
nothing and never learned to: four hundred steps left its scales at a fiftieth of the others'
(docs/measurements/skills.md). That stacks of copies learn sooner than layers that start as nothing is found by Du et
al., "Stacking Your Transformers" (2024), section 3.
"""

import copy
from dataclasses import replace

import torch
from torch import nn

from gesso.config import LayerConfig, ModelConfig
from gesso.models.block import Block
from gesso.models.diffusion_gemma import DiffusionGemma

SHARE = 0.5
"""Scales of a copy over those of its original."""


def deeper_layers(layers: tuple[LayerConfig, ...], more: int) -> tuple[LayerConfig, ...]:
    """Returns the layers of a model whose first `more` come twice, one after the other."""
    return layers[:more] * 2 + layers[more:]


def deepens(config: ModelConfig, wanted: ModelConfig) -> bool:
    """Says whether a model of `config` can be made one of the layers that are wanted."""
    more = len(wanted.layers) - len(config.layers)
    return 0 < more <= len(config.layers) and wanted.layers == deeper_layers(config.layers, more)


def deepen(model: DiffusionGemma, layers: int, share: float = SHARE) -> None:
    """Adds copies of the first layers behind them, in place: so many that the model has `layers`.

    Args:
        share: what a copy adds, over what its original would add to the same.
    """
    more = layers - len(model.layers)
    blocks = list(model.layers)
    copies = [_fainter(block, share) for block in blocks[:more]]
    model.layers = nn.ModuleList([*blocks[:more], *copies, *blocks[more:]])
    model.config = replace(model.config, layers=deeper_layers(model.config.layers, more))


def _fainter(block: nn.Module, share: float) -> Block:
    """A copy of a layer that adds `share` of it, and scales nothing that passes through."""
    copied = copy.deepcopy(block)
    assert isinstance(copied, Block)
    with torch.no_grad():
        for norm in (copied.post_attention_norm, copied.post_norm):
            assert norm.weight is not None
            norm.weight.mul_(share)
        copied.encoder_scalar.fill_(1)
        copied.decoder_scalar.fill_(1)
    return copied
