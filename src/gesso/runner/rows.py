"""Holds what a runner keeps of a request: its cache, and of the newest passes what a sampler or a roll-back reads."""

from dataclasses import dataclass

from torch import Tensor

from gesso.models.cache import SequenceCache

_WHOLE_TOKENS, _WHOLE_WRITES = 1024, 512
"""Where passes are captured, caches have room for multiples of these: of tokens, and of those written at once."""


@dataclass(eq=False, slots=True)
class Row:
    """Holds one request's cache, and what is kept of the passes over its newest tokens."""

    cache: SequenceCache
    hidden_TD: Tensor | None = None
    """Hidden states of the newest tokens, where a pass was to keep them."""
    before_1D: Tensor | None = None
    """Hidden state of the token before them."""
    rolled_back: tuple[list[Tensor], Tensor | None, Tensor | None] | None = None
    """What was rolled back: keys and values by layer, `hidden_TD` and `before_1D`."""


@dataclass(frozen=True, slots=True)
class TensorCopy:
    """Holds keys and values of some tokens, [2, G, T, K] for each layer of a kind."""

    layers: tuple[Tensor, ...]

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.layers)


def whole_sizes(max_seq_len: int, max_write_len: int, most: int) -> tuple[int, int]:
    """Rounds the sizes of a cache up, so that one request's memory serves the next; of at most `most` tokens."""
    tokens = -(-max_seq_len // _WHOLE_TOKENS) * _WHOLE_TOKENS
    return min(tokens, most), -(-max_write_len // _WHOLE_WRITES) * _WHOLE_WRITES
