"""Runs the layers for one token of each of M sequences as one list of compiled steps (see `layer_steps`), attention
included.

From pass to pass nothing changes but where keys and values go and the angles of positions.
"""

import threading
from array import array
from collections.abc import Iterable, Sequence
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


class _Own(NamedTuple):
    """Holds the words of one sequence in a layer that change from pass to pass."""

    keep: "array[int]"
    attend: "array[int]"
    step: int
    """The number of the step that attends."""


class _Place(NamedTuple):
    """Holds what of a layer changes from pass to pass: its words, and those of each sequence."""

    scalar: Tensor
    own: list[_Own]
    add: "array[int]"
    groups: int
    width: int


class TokenSteps:
    """Lists the steps of layers that `can_be_listed`, for so many sequences; `serves` says whether their weights are
    where they were."""

    def __init__(self, blocks: Iterable[tuple[int, AttentionKind, Block]], rows: int) -> None:
        layers = [(kind, block) for _, kind, block in blocks]
        self._seen = Seen(block for _, block in layers)
        self._threads = product_threads()
        self._lock = threading.Lock()
        self._places = list[_Place]()
        self._angles: dict[AttentionKind, tuple[Tensor, Tensor]] = {}
        with torch.inference_mode(False):  # tensors that passes in any mode may write to
            self._steps = LayerSteps(rows)
            self._x = _room(rows, layers[0][1].attention.q_proj.in_features)
            for kind, block in layers:
                width = block.attention.head_dim
                angles = self._angles.setdefault(kind, (_room(rows, width), _room(rows, width)))
                self._places.append(self._list(block, angles))

    @staticmethod
    def can_be_listed(blocks: Iterable[tuple[int, AttentionKind, Block]]) -> bool:
        """Says whether kernels compute all of these layers."""
        return all(can_list(block) and _attends(block.attention) for _, _, block in blocks) and agree()

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """Copies as None: a copy of a model lists its own."""
        return type(None), ()

    def serves(self) -> bool:
        """Says whether layers and threads are those that the steps were listed for."""
        return self._threads == product_threads() and self._seen.is_same()

    def run(
        self, x_MD: Tensor, rope: dict[AttentionKind, tuple[Tensor, Tensor]], rows: Sequence[SequenceCache]
    ) -> Tensor | None:
        """Runs all layers, [M, D], and writes each token's keys and values behind the end of its row.

        Returns None, and does nothing, where somebody observes a layer, or another thread is at it.
        """
        if self._seen.is_observed() or not self._lock.acquire(blocking=False):
            return None
        try:
            self._x.copy_(x_MD)
            for kind, own in self._angles.items():
                for angle, given in zip(own, rope[kind], strict=True):
                    angle.copy_(given.view(angle.shape))
            for place in self._places:
                place.add[-1] = float_bits(float(place.scalar))
            for number, row in enumerate(rows):
                self._place(number, row)
            self._steps.run(0, len(self._steps))
            return self._x.clone()
        finally:
            self._lock.release()

    def _place(self, number: int, row: SequenceCache) -> None:
        """Says where a sequence keeps its keys and values, and how many there are."""
        from gesso.kernels.host.normed import ATTENDED_ALONE

        for place, cache in zip(self._places, row.layers, strict=True):
            keep, attend, step = place.own[number]
            cache.make_room(1, row.max_seq_len, row.max_write_len)
            apart = cache.kv.shape[2] * place.width
            keys = cache.kv.data_ptr()
            values, count = keys + _BYTES * place.groups * apart, cache.end + 1 - cache.start
            first, last = (_BYTES * place.width * at for at in (cache.start, cache.end))
            keep[3:5] = array("q", (keys + last, values + last))
            keep[-1] = apart
            attend[1:3] = array("q", (keys + first, values + first))
            attend[4:6] = array("q", (count, apart))
            self._steps.steps[4 * step + 3] = count * place.groups * place.width > ATTENDED_ALONE

    def _list(self, block: Block, angles: tuple[Tensor, Tensor]) -> _Place:
        """Lists the steps of a layer, which leave its output in the place of its input."""
        from gesso.kernels.host.library import norms
        from gesso.kernels.host.step_kernels import step_kernels

        steps = self._steps
        steps.begin_layer()
        q, k, v = steps.list_before_attention(block, self._x, angles)
        (rows, heads, width), groups = q.shape, k.shape[1]
        out, own = steps.room(rows, heads * width), list[_Own]()
        for row in range(rows):
            keep = steps.call(step_kernels().keep, (k[row], v[row], 0, 0, groups, width, 0))
            attend = array("q", (q[row].data_ptr(), 0, 0, out[row].data_ptr(), 0, 0, width, heads // groups))
            own.append(_Own(keep, attend, len(steps)))
            steps.step(norms().attend.address, attend, groups, shared=False)
        add = steps.list_behind_attention(block, self._x, out)
        return _Place(block.encoder_scalar, own, add, groups, width)


def _room(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.float32, device="cpu")


def _attends(attention: Attention) -> bool:
    """Says whether a kernel attends as the layer would."""
    from gesso.kernels.host.one_query import MOST_SHARED

    return attention.q_proj.out_features <= MOST_SHARED * attention.k_proj.out_features
