"""Runs the layers for one token of each of M sequences as one list of compiled steps (see `layer_steps`), attention
included.

From pass to pass nothing changes but where keys and values go and the angles of positions.
"""

from array import array
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from torch import Tensor

from gesso.config import AttentionKind
from gesso.kernels.host.row_jobs import float_bits
from gesso.models.block import Block
from gesso.models.cache import SequenceCache
from gesso.models.listed_layers import Angles, Layers, ListedLayers
from gesso.nn.attention import Attention

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


class TokenSteps(ListedLayers):
    """Lists the steps of layers for a token of each of so many sequences."""

    def __init__(self, blocks: Layers, rows: int) -> None:
        self._places = list[_Place]()
        super().__init__(blocks, rows)

    @classmethod
    def _can_list(cls, block: Block) -> bool:
        return super()._can_list(block) and _attends(block.attention)

    def run(self, x_MD: Tensor, rope: dict[AttentionKind, Angles], rows: Sequence[SequenceCache]) -> Tensor | None:
        """Runs all layers, [M, D], and writes each token's keys and values behind the end of its row.

        Returns None, and does nothing, where somebody observes a layer, or another thread is at it.
        """
        return self._run(x_MD, rope, partial(self._pass, rows))

    def _pass(self, rows: Sequence[SequenceCache]) -> None:
        for place in self._places:
            place.add[-1] = float_bits(float(place.scalar))
        for number, row in enumerate(rows):
            self._place(number, row)
        self._steps.run(0, len(self._steps))

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

    def _list(self, block: Block, angles: Angles) -> None:
        from gesso.kernels.host.library import norms
        from gesso.kernels.host.step_kernels import step_kernels

        steps = self._steps
        q, k, v = steps.list_before_attention(block, self._x, angles)
        (rows, heads, width), groups = q.shape, k.shape[1]
        out, own = steps.room(rows, heads * width), list[_Own]()
        for row in range(rows):
            keep = steps.call(step_kernels().keep, (k[row], v[row], 0, 0, groups, width, 0))
            attend = array("q", (q[row].data_ptr(), 0, 0, out[row].data_ptr(), 0, 0, width, heads // groups))
            own.append(_Own(keep, attend, len(steps)))
            steps.step(norms().attend.address, attend, groups, shared=False)
        add = steps.list_behind_attention(block, self._x, out)
        self._places.append(_Place(block.encoder_scalar, own, add, groups, width))


def _attends(attention: Attention) -> bool:
    """Says whether a kernel attends as the layer would."""
    from gesso.kernels.host.one_query import MOST_SHARED

    return attention.q_proj.out_features <= MOST_SHARED * attention.k_proj.out_features
