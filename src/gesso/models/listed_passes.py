"""Keeps the lists of compiled steps by which a model's passes run on a CPU: of a token, and of numbers of rows."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from gesso.config import AttentionKind, ModelConfig
from gesso.models.cache import SequenceCache
from gesso.models.listed_layers import Angles, Layers
from gesso.models.pass_steps import PassSteps
from gesso.models.token_steps import TokenSteps
from gesso.nn.attention import Attend
from gesso.nn.float32_products import LARGEST
from gesso.nn.pass_threads import FEW_ROWS, in_few_rows

MOST_ROWS = 512
"""Rows of a small model's pass that is listed, at most."""
KEPT = 8
"""Numbers of rows whose lists are kept."""
_Steps = TypeVar("_Steps", TokenSteps, PassSteps)
Blocks = Callable[[], Layers]


def _is_small(config: ModelConfig) -> bool:
    """Says whether a model's matrices are so small that Python's calls between its products count."""
    heads = max(config.num_attention_heads * layer.head_dim for layer in config.layers)
    return config.hidden_size * max(heads, config.intermediate_size, 2 * config.moe_intermediate_size) <= LARGEST


class ListedPasses:
    """Runs the passes of a model's layers by lists that are made when they are first asked for."""

    def __init__(self, config: ModelConfig) -> None:
        self.most_rows = MOST_ROWS if _is_small(config) else FEW_ROWS
        """Rows of a pass up to which what stands between its products takes a single thread."""
        self.tokens = OrderedDict[int, TokenSteps | None]()
        """The lists of a token each of so many sequences, the one that was used last at the end; a copy of a model has
        none."""
        self.passes = OrderedDict[int, PassSteps | None]()
        """The lists of other passes by their rows, likewise."""

    def run(
        self,
        blocks: Blocks,
        x_ND: Tensor,
        rope: dict[AttentionKind, Angles],
        rows: Sequence[SequenceCache],
        attend: Callable[[int], Attend],
        *,
        causal: bool,
    ) -> Tensor | None:
        """Runs the layers over rows as compiled steps, to the same bits; returns None where that cannot be.

        Args:
            rows: the caches of the sequences.
            attend: gives the attention of a layer.
        """
        if not in_few_rows() or x_ND.dtype != torch.float32 or any(row.places is not None for row in rows):
            return None
        count = len(x_ND)
        if causal and count == len(rows):
            token = _kept(self.tokens, TokenSteps, blocks, count)
            return None if token is None else token.run(x_ND, rope, rows)
        if count == 1 or self.most_rows == FEW_ROWS:
            return None
        steps = _kept(self.passes, PassSteps, blocks, count)
        return None if steps is None else steps.run(x_ND, rope, attend, causal=causal)


def _kept(lists: OrderedDict[int, _Steps | None], kind: type[_Steps], blocks: Blocks, count: int) -> _Steps | None:
    """Returns the list for so many rows, made anew where there is none that serves; None where none can be.

    A list stays while others' layers, an adapter's say, are in the place of its own.
    """
    steps = lists.get(count)
    if steps is None or not steps.serves():
        if not kind.can_be_listed(blocks()):
            return None
        steps = kind(blocks(), count)
    lists.pop(count, None)
    lists[count] = steps
    if len(lists) > KEPT:
        lists.popitem(last=False)
    return steps
