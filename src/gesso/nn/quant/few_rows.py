"""Makes the fused softmax pass of few rows over a packed table: all scores first, then every chunk at once.

For a token or a few, calls cost more than arithmetic. Sums are taken in the same order, of the same numbers, so that a
row's bits do not depend on which of the two passes it was in.

    N positions   V vocabulary   D hidden
"""

import torch
from torch import Tensor

from gesso.kernels import SoftmaxPass
from gesso.nn.online_softmax import KernelSoftmax
from gesso.nn.vocabulary import Vocabulary

FEW_ROWS = 8
"""Rows whose scores are held: of 262,144 tokens 8 MiB."""


def softmax_pass_of_few(vocabulary: Vocabulary, hidden_ND: Tensor, inverse_N1: Tensor) -> SoftmaxPass:
    """Computes `Vocabulary._softmax_pass` without the mixture."""
    softmax = KernelSoftmax(vocabulary.size, vocabulary.chunk(hidden_ND.device), vocabulary.softcap, inverse_N1)
    softmax.add(vocabulary.slice(0, vocabulary.size).scores(hidden_ND).float())
    return softmax.take(torch.zeros(len(hidden_ND), 0, dtype=torch.float32, device=hidden_ND.device))
