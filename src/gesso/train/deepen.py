"""Makes a model deeper that is trained already: it starts as the same function, with more layers to learn with.

A layer adds to what passes through it, behind a norm with a scale; a copy of a trained layer whose last scales are zero
adds nothing, and learns from the first step on how much of it to add. The copies stand behind the layers they are
copies of, so that they have layers of theirs on either side. Growing a network by layers that change nothing is of
Chen, Goodfellow and Shlens, "Net2Net" (2016), section 2.3; copying blocks of layers for it of Wu et al., "LLaMA Pro"
(2024), section 3.2.
"""

import copy
from dataclasses import replace

import torch
from torch import nn

from gesso.config import LayerConfig, ModelConfig
from gesso.models.block import Block
from gesso.models.diffusion_gemma import DiffusionGemma


def deeper_layers(layers: tuple[LayerConfig, ...], more: int) -> tuple[LayerConfig, ...]:
    """Returns the layers of a model whose first `more` come twice, one after the other."""
    return layers[:more] * 2 + layers[more:]


def deepens(config: ModelConfig, wanted: ModelConfig) -> bool:
    """Says whether a model of `config` can be made one of the layers that are wanted."""
    more = len(wanted.layers) - len(config.layers)
    return 0 < more <= len(config.layers) and wanted.layers == deeper_layers(config.layers, more)


def deepen(model: DiffusionGemma, layers: int) -> None:
    """Adds copies of the first layers, in place, that change nothing: so many that the model has `layers`.

    What is in 32 bits stays the same number for number; the scales of a layer's own pass through it are 1 in a copy.
    """
    more = layers - len(model.layers)
    blocks = list(model.layers)
    copies = [_silent(block) for block in blocks[:more]]
    model.layers = nn.ModuleList([*blocks[:more], *copies, *blocks[more:]])
    model.config = replace(model.config, layers=deeper_layers(model.config.layers, more))


def _silent(block: nn.Module) -> Block:
    """A copy of a layer that returns what it is given."""
    copied = copy.deepcopy(block)
    assert isinstance(copied, Block)
    with torch.no_grad():
        for norm in (copied.post_attention_norm, copied.post_norm):
            assert norm.weight is not None
            norm.weight.zero_()
        copied.encoder_scalar.fill_(1)
        copied.decoder_scalar.fill_(1)
    return copied
