"""Log-probabilities of tokens, from the causal pass that committed them."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gesso.engine.result import TokenLogprob
from gesso.nn.vocabulary import Vocabulary
from gesso.text.tokenizer import Tokenizer

ROWS = 64
"""Positions whose logits are held at a time."""


def token_logprobs(
    vocabulary: Vocabulary, hidden_TD: Tensor, tokens: Sequence[int], top: int, tokenizer: Tokenizer
) -> list[TokenLogprob]:
    """Of each token, given the hidden state of the position before it; with the `top` likeliest at its place."""
    found = []
    for rows, ids in zip(hidden_TD.split(ROWS), torch.tensor(tokens).split(ROWS), strict=True):
        scores = vocabulary.logits(rows).log_softmax(dim=-1)
        own = scores.gather(1, ids.to(scores.device)[:, None])[:, 0].tolist()
        best = scores.topk(min(top, scores.shape[1]), dim=-1)
        for token, logprob, values, places in zip(
            ids.tolist(), own, best.values.tolist(), best.indices.tolist(), strict=True
        ):
            others = tuple((i, tokenizer.piece(i), value) for i, value in zip(places, values, strict=True))
            found.append(TokenLogprob(token, tokenizer.piece(token), logprob, others))
    return found
