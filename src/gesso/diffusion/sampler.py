"""Samplers: which positions of a canvas take their sampled token in a step. The rest is re-noised."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from gesso.diffusion.prediction import Prediction


class Sampler(Protocol):
    """A rule that accepts positions."""

    def accept(self, prediction: Prediction) -> Tensor:
        """Accepted positions, bool [C]."""


@dataclass(frozen=True, slots=True)
class EntropyBoundSampler:
    """Accepts the surest positions while their joint uncertainty stays bounded (arXiv 2505.24857).

    In order of entropy, a position is accepted while the entropies before it, its own excluded, sum to at most
    `entropy_bound` nats; so the surest one always is.
    """

    entropy_bound: float

    def accept(self, prediction: Prediction) -> Tensor:
        entropy, order = prediction.entropy_C.sort(stable=True)
        accepted = torch.empty_like(order, dtype=torch.bool)
        accepted[order] = entropy.cumsum(0) - entropy <= self.entropy_bound
        return accepted
