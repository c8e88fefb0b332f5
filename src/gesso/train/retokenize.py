"""Begins a run from weights that another tokenizer's ids belong to: tokens of the same text keep what they are.

Embeddings are the only weights with a row for each token. A token that the tokenizer before had as well takes its row;
any other begins near the mean of what its text was before, so that nothing in the model meets a stranger.
"""

import dataclasses

import tokenizers
import torch

from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.text.tokenizer import Tokenizer

NOISE = 0.1
"""Added to a mean, as a share of the table's standard deviation: tokens that begin alike would stay alike."""


def retokenize(model: DiffusionGemma, before: Tokenizer, after: tokenizers.Tokenizer) -> DiffusionGemma:
    """Returns a model for the ids of `after` with the weights of `model`, whose ids are those of `before`."""
    names = after.get_vocab()
    special = {token.content for token in after.get_added_tokens_decoder().values()}
    wrapped = Tokenizer(after)
    table = model.vocabulary.weight.detach()
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(len(names), table.shape[1], generator=generator).to(table) * (NOISE * table.std())
    for name, index in names.items():
        ids = [before.special[name]] if name in special else before.encode(wrapped.decode([index]))
        if len(ids) == 1:
            rows[index] = table[ids[0]]
        else:
            rows[index] += table[ids].mean(dim=0)
    config = dataclasses.replace(model.config, vocab_size=len(names))
    made = DiffusionGemma(config).to(table.device)
    tensors = {**model.state_dict(), "vocabulary.weight": rows}
    made.load_state_dict(tensors)
    return made
