"""Runs the layers for a single token as one list of compiled steps (see `layer_steps`), attention included.

From token to token nothing changes but where keys and values go and the angles of the position.
"""

import threading
from array import array
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from gesso.config import AttentionKind
from gesso.kernels.host.threads import product_threads
from gesso.models.block import Block
from gesso.models.cache import SequenceCache
from gesso.models.layer_steps import LayerSteps, Seen, can_list, float_bits
from gesso.nn.attention import Attention
from gesso.nn.fused_norms import agree

_BYTES = 4


class _Place(NamedTuple):
    """Holds the words of a layer that change from token to token."""

    scalar: Tensor
    keep: "array[int]"
    attend: "array[int]"
    step: int
    """The number of the step that attends."""
    add: "array[int]"
    groups: int
    width: int


class TokenSteps:
    """Lists the steps of a stack of layers, whose weights stay where they are as long as `serves` says so."""

    def __init__(self, blocks: Iterable[tuple[int, AttentionKind, Block]]) -> None:
        layers = [(kind, block) for _, kind, block in blocks]
        self._seen = Seen(block for _, block in layers)
        self._threads = product_threads()
        self._lock = threading.Lock()
        self._places = list[_Place]()
        self.listed: bool = all(can_list(block) and _attends(block.attention) for _, block in layers) and agree()
        if not self.listed:
            return
        self._angles: dict[AttentionKind, tuple[Tensor, Tensor]] = {}
        with torch.inference_mode(False):  # tensors that passes in any mode may write to
            self._steps = LayerSteps(1)
            self._x = torch.zeros(1, layers[0][1].attention.q_proj.in_features, dtype=torch.float32, device="cpu")
            for kind, block in layers:
                width = block.attention.head_dim
                angles = self._angles.setdefault(kind, (_room(width), _room(width)))
                self._places.append(self._list(block, angles))

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """Copies as None: a copy of a model lists its own."""
        return type(None), ()

    def serves(self) -> bool:
        """Says whether layers and threads are those that the steps were listed for."""
        return self._threads == product_threads() and self._seen.is_same()

    def run(self, x_1D: Tensor, rope: dict[AttentionKind, tuple[Tensor, Tensor]], row: SequenceCache) -> Tensor | None:
        """Runs all layers, [1, D], and writes the token's keys and values behind the row's end.

        Returns None, and does nothing, where steps are not all there is, or another thread is at it.
        """
        from gesso.kernels.host.normed import ATTENDED_ALONE

        if not self.listed or self._seen.is_observed() or not self._lock.acquire(blocking=False):
            return None
        try:
            self._x.copy_(x_1D)
            for kind, own in self._angles.items():
                for angle, given in zip(own, rope[kind], strict=True):
                    angle.copy_(given.view(-1))
            for place, cache in zip(self._places, row.layers, strict=True):
                cache.make_room(1, row.max_seq_len, row.max_write_len)
                apart = cache.kv.shape[2] * place.width
                keys = cache.kv.data_ptr()
                values, count = keys + _BYTES * place.groups * apart, cache.end + 1 - cache.start
                first, last = (_BYTES * place.width * at for at in (cache.start, cache.end))
                place.keep[3:5] = array("q", (keys + last, values + last))
                place.keep[-1] = apart
                place.attend[1:3] = array("q", (keys + first, values + first))
                place.attend[4:6] = array("q", (count, apart))
                self._steps.steps[4 * place.step + 3] = count * place.groups * place.width > ATTENDED_ALONE
                place.add[-1] = float_bits(float(place.scalar))
            self._steps.run(0, len(self._steps))
            return self._x.clone()
        finally:
            self._lock.release()

    def _list(self, block: Block, angles: tuple[Tensor, Tensor]) -> _Place:
        """Lists the steps of a layer, which leave its output in the place of its input."""
        from gesso.kernels.host.library import norms
        from gesso.kernels.host.step_kernels import step_kernels

        steps = self._steps
        steps.begin_layer()
        q, k, v = steps.list_before_attention(block, self._x, angles)
        (_, heads, width), groups = q.shape, k.shape[1]
        keep = steps.call(step_kernels().keep, (k, v, 0, 0, groups, width, 0))
        out = steps.room(1, heads * width)
        attend, number = array("q", (q.data_ptr(), 0, 0, out.data_ptr(), 0, 0, width, heads // groups)), len(steps)
        steps.step(norms().attend.address, attend, groups, shared=False)
        add = steps.list_behind_attention(block, self._x, out)
        return _Place(block.encoder_scalar, keep, attend, number, add, groups, width)


def _room(width: int) -> Tensor:
    return torch.zeros(width, dtype=torch.float32, device="cpu")


def _attends(attention: Attention) -> bool:
    """Says whether a kernel attends as the layer would."""
    from gesso.kernels.host.one_query import MOST_SHARED

    return attention.q_proj.out_features <= MOST_SHARED * attention.k_proj.out_features
