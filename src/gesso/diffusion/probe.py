"""Asks the first step of a canvas how likely some texts are."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gesso.nn.vocabulary import Vocabulary


@dataclass(slots=True)
class Probe:
    """Asks the first step for the probabilities of some beginnings of the canvas."""

    sequences: tuple[tuple[int, ...], ...]
    logprobs: tuple[float, ...] = ()
    """Nats, one for each sequence: the sum over its tokens of each position's own log-probability, untempered. Empty
    before the first step."""

    def read(self, vocabulary: Vocabulary, hidden_CD: Tensor) -> None:
        """Computes the log-probabilities from the hidden states of the canvas, [C, D]."""
        longest = max(len(sequence) for sequence in self.sequences)
        scores_PV = vocabulary.logits(hidden_CD[:longest]).log_softmax(dim=-1)
        self.logprobs = tuple(
            float(scores_PV[torch.arange(len(sequence)), torch.tensor(sequence)].sum()) for sequence in self.sequences
        )
