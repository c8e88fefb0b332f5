"""Runs the layers for many rows of a small model as compiled steps (see `layer_steps`), between which PyTorch attends.

Of a small model's pass over a canvas Python's calls take half, where its products are not shared by many threads. In a
larger one they do not count, and OpenMP's threads share products better than helpers.
"""

import threading
from array import array
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from gesso.config import AttentionKind
from gesso.kernels.host.threads import product_threads
from gesso.models.block import Block
from gesso.models.layer_steps import LayerSteps, Seen, can_list, float_bits
from gesso.nn.attention import Attend
from gesso.nn.fused_norms import agree


class _Layer(NamedTuple):
    """Holds where a layer's attention stands between its steps, and the words of its factor."""

    kind: AttentionKind
    block: Block
    before: int
    """The number of steps before its attention."""
    heads: tuple[Tensor, Tensor, Tensor]
    attended: Tensor
    add: "array[int]"


class PassSteps:
    """Lists the steps of layers that `can_be_listed`, for so many rows; `serves` says whether their weights are where
    they were."""

    def __init__(self, blocks: Iterable[tuple[int, AttentionKind, Block]], rows: int) -> None:
        layers = [(kind, block) for _, kind, block in blocks]
        self._seen = Seen(block for _, block in layers)
        self._threads = product_threads()
        self._lock = threading.Lock()
        self._layers = list[_Layer]()
        self._angles: dict[AttentionKind, tuple[Tensor, Tensor]] = {}
        with torch.inference_mode(False):  # tensors that passes in any mode may write to
            self._steps = LayerSteps(rows)
            self._x = _room(rows, layers[0][1].attention.q_proj.in_features)
            for kind, block in layers:
                width = block.attention.head_dim
                angles = self._angles.setdefault(kind, (_room(rows, width), _room(rows, width)))
                self._layers.append(self._list(kind, block, angles))

    @staticmethod
    def can_be_listed(blocks: Iterable[tuple[int, AttentionKind, Block]]) -> bool:
        """Says whether kernels compute all of these layers."""
        return all(can_list(block) for _, _, block in blocks) and agree()

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """Copies as None: a copy of a model lists its own."""
        return type(None), ()

    def serves(self) -> bool:
        """Says whether layers and threads are those that the steps were listed for."""
        return self._threads == product_threads() and self._seen.is_same()

    def run(
        self,
        x_MD: Tensor,
        rope: dict[AttentionKind, tuple[Tensor, Tensor]],
        attend: Callable[[int], Attend],
        *,
        causal: bool,
    ) -> Tensor | None:
        """Runs all layers, [M, D].

        Returns None, and does nothing, where somebody observes a layer, or another thread is at it.

        Args:
            attend: gives the attention of a layer.
        """
        if self._seen.is_observed() or not self._lock.acquire(blocking=False):
            return None
        try:
            self._x.copy_(x_MD)
            for kind, own in self._angles.items():
                for angle, given in zip(own, rope[kind], strict=True):
                    angle.copy_(given.view(angle.shape))
            done = 0
            for number, layer in enumerate(self._layers):
                factor = layer.block.encoder_scalar if causal else layer.block.decoder_scalar
                layer.add[-1] = float_bits(float(factor))
                self._steps.run(done, layer.before)
                layer.attended.copy_(attend(number)(*layer.heads))
                done = layer.before
            self._steps.run(done, len(self._steps))
            return self._x.clone()
        finally:
            self._lock.release()

    def _list(self, kind: AttentionKind, block: Block, angles: tuple[Tensor, Tensor]) -> _Layer:
        """Lists the steps of a layer, which leave its output in the place of its input."""
        steps = self._steps
        steps.begin_layer()
        heads = steps.list_before_attention(block, self._x, angles)
        before, attended = len(steps), steps.room(*heads[0].shape)
        add = steps.list_behind_attention(block, self._x, attended.flatten(1))
        return _Layer(kind, block, before, heads, attended, add)


def _room(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.float32, device="cpu")
