"""Computes log-probabilities of tokens from hidden states of the causal pass."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from gesso.errors import NotANumberError
from gesso.nn.vocabulary import Vocabulary
from gesso.runner.protocol import TokenScore

ROWS = 64
"""Positions whose logits are held at a time."""


def token_scores(vocabulary: Vocabulary, hidden_TD: Tensor, tokens: Sequence[int], top: int) -> list[TokenScore]:
    """Scores each token by the hidden state of the position before it.

    Args:
        hidden_TD: normed hidden states; row i stands before token i.
        tokens: T token ids.
        top: how many of the likeliest tokens to give at each place.

    Raises:
        NotANumberError: a score is none.
    """
    found = []
    for rows, ids in zip(hidden_TD.split(ROWS), torch.tensor(tokens).split(ROWS), strict=True):
        scores = vocabulary.logits(rows).log_softmax(dim=-1)
        own = scores.gather(1, ids.to(scores.device)[:, None])[:, 0].tolist()
        if any(map(math.isnan, own)):
            raise NotANumberError
        best = scores.topk(min(top, scores.shape[1]), dim=-1)
        for token, logprob, values, places in zip(
            ids.tolist(), own, best.values.tolist(), best.indices.tolist(), strict=True
        ):
            found.append(TokenScore(token, logprob, tuple(zip(places, values, strict=True))))
    return found
