"""Holds what a runner keeps of a request: its cache, and of the newest passes what a sampler or a roll-back reads."""

from dataclasses import dataclass

import torch
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

    def note_pass(self, hidden_TD: Tensor, keep: int) -> None:
        """Keeps the hidden states of the last `keep` tokens of a pass, [T, D], and of the one before them."""
        before = self.hidden_TD
        self.rolled_back = self.hidden_TD = self.before_1D = None
        if keep:
            # Copies: a part would hold the memory of the whole pass.
            self.hidden_TD = hidden_TD[-keep:].clone()
            cut = hidden_TD[:-keep] if keep < len(hidden_TD) else before
            self.before_1D = None if cut is None else cut[-1:].clone()

    def newest(self, tokens: int) -> Tensor:
        """Returns what was kept of the newest tokens, [tokens, D]."""
        assert self.hidden_TD is not None, "its hidden states were not kept"
        return self.hidden_TD[-tokens:]

    def before_newest(self, tokens: int) -> Tensor:
        """Returns what was kept of as many tokens, each one place earlier, [tokens, D]."""
        assert self.hidden_TD is not None, "its hidden states were not kept"
        hidden_TD = self.hidden_TD[:-1]
        if self.before_1D is not None:
            hidden_TD = torch.cat((self.before_1D, hidden_TD))
        assert len(hidden_TD) >= tokens, "nothing is known of what comes before the first token"
        return hidden_TD[-tokens:]

    def rollback(self, tokens: int) -> None:
        """Takes the newest tokens out of the cache, which were written at once, and keeps them."""
        self.rolled_back = self.cache.rollback(tokens), self.hidden_TD, self.before_1D
        self.hidden_TD, self.before_1D = self.before_1D, None

    def restore(self) -> None:
        """Puts back what was rolled back last; nothing may have been encoded since."""
        assert self.rolled_back is not None
        taken, self.hidden_TD, self.before_1D = self.rolled_back
        self.rolled_back = None
        self.cache.restore(taken)


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
