"""Scores hidden states by a head of its own, without a soft-cap, and never proposes the mask token.

A masked position has a clean token, so the mask itself has no probability (the parameterization of masked diffusion,
arXiv 2406.07524): its score is as good as minus infinity in every pass.

    N positions   D hidden   V vocabulary   n tokens of a slice
"""

import torch
from torch import Tensor

from gesso.kernels import BLOCK, SoftmaxPass
from gesso.nn.elementwise import LOWEST
from gesso.nn.vocabulary import TableSlice, Vocabulary, pick_block, pick_token


class _HeadSlice(TableSlice):
    """Holds neighbouring rows of the head; the mask token's score among theirs is `LOWEST`."""

    def __init__(self, rows_nD: Tensor, masked: int | None) -> None:
        super().__init__(rows_nD)
        self._masked = masked

    def scores(self, hidden_ND: Tensor) -> Tensor:
        scores_Nn = super().scores(hidden_ND).float()
        if self._masked is not None:
            scores_Nn[:, self._masked] = LOWEST
        return scores_Nn


class MaskedHead(Vocabulary):
    """Scores tokens as `Vocabulary` does, but for soft-cap, mask token and self-conditioning, of which there is
    none."""

    def __init__(self, vocab_size: int, hidden_size: int, mask_token: int) -> None:
        super().__init__(vocab_size, hidden_size, softcap=float("inf"))
        self.mask_token = mask_token

    def slice(self, begin: int, end: int) -> TableSlice:
        inside = begin <= self.mask_token < min(end, self.size)
        return _HeadSlice(self.rows_between(begin, end), self.mask_token - begin if inside else None)

    def embed(self, tokens: Tensor) -> Tensor:
        """Returns the rows of `tokens` [...] as they are, [..., D]."""
        return self.rows(tokens)

    def logits(self, hidden: Tensor) -> Tensor:
        """Returns scores of hidden states [..., D], fp32 [..., V]."""
        scores = self.scores(hidden).float()
        scores[..., self.mask_token] = LOWEST
        return scores

    def mix(self, logits: Tensor) -> Tensor:
        """Returns no columns, [..., 0]: nothing conditions the next step but the canvas."""
        return logits.new_zeros(*logits.shape[:-1], 0)

    def _softmax_pass(self, hidden_ND: Tensor, inverse_N1: Tensor, *, mix: bool) -> SoftmaxPass:  # noqa: ARG002
        return self._softmax_pass_chunked(hidden_ND, inverse_N1, mix=False)

    def _draw(self, mass_NG: Tensor, hidden_ND: Tensor, inverse_N1: Tensor, uniform_N: Tensor) -> Tensor:
        block_N1, share_N1 = pick_block(mass_NG, uniform_N)
        tokens_NB = block_N1 * BLOCK + torch.arange(BLOCK, device=mass_NG.device)
        inside_NB = (tokens_NB < self.size) & (tokens_NB != self.mask_token)
        return pick_token(self, tokens_NB, inside_NB, hidden_ND, inverse_N1, share_N1)
