"""Runs the layers for many rows of a small model as compiled steps (see `layer_steps`), between which PyTorch attends.

Of a small model's pass over a canvas Python's calls take half, where its products are not shared by many threads. In a
larger one they do not count, and OpenMP's threads share products better than helpers.
"""

from array import array
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from torch import Tensor

from gesso.config import AttentionKind
from gesso.kernels.host.row_jobs import float_bits
from gesso.models.block import Block
from gesso.models.listed_layers import Angles, Layers, ListedLayers
from gesso.nn.attention import Attend


class _Layer(NamedTuple):
    """Holds where a layer's attention stands between its steps, and the words of its factor."""

    block: Block
    before: int
    """The number of steps before its attention."""
    heads: tuple[Tensor, Tensor, Tensor]
    attended: Tensor
    add: "array[int]"


class PassSteps(ListedLayers):
    """Lists the steps of layers for rows of any sequences."""

    def __init__(self, blocks: Layers, rows: int) -> None:
        self._layers = list[_Layer]()
        super().__init__(blocks, rows)

    def run(
        self, x_MD: Tensor, rope: dict[AttentionKind, Angles], attend: Callable[[int], Attend], *, causal: bool
    ) -> Tensor | None:
        """Runs all layers, [M, D].

        Returns None, and does nothing, where somebody observes a layer, or another thread is at it.

        Args:
            attend: gives the attention of a layer.
        """
        return self._run(x_MD, rope, partial(self._pass, attend, causal))

    def _pass(self, attend: Callable[[int], Attend], causal: bool) -> None:
        done = 0
        for number, layer in enumerate(self._layers):
            factor = layer.block.encoder_scalar if causal else layer.block.decoder_scalar
            layer.add[-1] = float_bits(float(factor))
            self._steps.run(done, layer.before)
            layer.attended.copy_(attend(number)(*layer.heads))
            done = layer.before
        self._steps.run(done, len(self._steps))

    def _list(self, block: Block, angles: Angles) -> None:
        steps = self._steps
        heads = steps.list_before_attention(block, self._x, angles)
        before, attended = len(steps), steps.room(*heads[0].shape)
        add = steps.list_behind_attention(block, self._x, attended.flatten(1))
        self._layers.append(_Layer(block, before, heads, attended, add))
