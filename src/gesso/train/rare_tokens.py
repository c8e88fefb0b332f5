"""Tells tokens apart again that training never showed.

A token that no example has gets the same gradient as every other such token: all of them are pushed away from what is
written, and after long enough their embeddings are one vector. Then a fine-tune cannot teach the model to write one of
them rather than another. Each gets a part of its own here, small beside what they share, so that what the model writes
stays what it was.

    python -m gesso.train.rare_tokens FOLDER --out FOLDER

V tokens   D hidden   N tokens that fell together
"""

import argparse
import sys
from pathlib import Path

import torch
from torch import Tensor

from gesso.errors import CheckpointError
from gesso.train.whole_weights import WEIGHTS, read_weights, run_tool, write_copy

SAME = 0.99
"""Cosine of two embeddings from which on nothing can tell them apart."""
OWN_SHARE = 0.3
"""Length of a token's own part over that of its embedding."""
EMBEDDINGS = "model.decoder.embed_tokens.weight"


def fallen_together(embedding_VD: Tensor) -> Tensor:
    """Returns the ids [N] of tokens whose embedding is nearly that of another."""
    direction_VD = torch.nn.functional.normalize(embedding_VD.float(), dim=1)
    cosine_VV = (direction_VD @ direction_VD.T).fill_diagonal_(-1)
    return (cosine_VV.amax(dim=1) > SAME).nonzero().flatten()


def spread(embedding_VD: Tensor, seed: int = 0) -> int:
    """Gives every token that fell together with others a random part of its own, in place; returns how many."""
    tokens_N = fallen_together(embedding_VD)
    random = torch.Generator().manual_seed(seed)
    own_ND = torch.randn((len(tokens_N), embedding_VD.shape[1]), generator=random)
    rows_ND = embedding_VD[tokens_N].float()
    own_ND *= OWN_SHARE * rows_ND.norm(dim=1, keepdim=True) / own_ND.norm(dim=1, keepdim=True)
    embedding_VD[tokens_N] = (rows_ND + own_ND).to(embedding_VD.dtype)
    return len(tokens_N)


def main(arguments: list[str] | None = None) -> None:
    """Writes a copy of a checkpoint of one file whose tokens are told apart.

    Raises:
        CheckpointError: the folder has no such checkpoint.
    """
    parser = argparse.ArgumentParser(prog="python -m gesso.train.rare_tokens", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    tensors, metadata = read_weights(given.folder)
    if EMBEDDINGS not in tensors:
        raise CheckpointError(f"{given.folder / WEIGHTS} has no {EMBEDDINGS}")
    count = spread(tensors[EMBEDDINGS])
    write_copy(given.folder, given.out, tensors, metadata)
    sys.stdout.write(f"{count} of {len(tensors[EMBEDDINGS])} tokens had fallen together\n")


if __name__ == "__main__":
    run_tool(main)
