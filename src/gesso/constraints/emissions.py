"""Says what a constraint sees of a prediction: each class of tokens as one, position by position."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Emissions:
    """Holds a prediction, summed up over the classes of tokens; [R, K] on the prediction's device."""

    total: Tensor
    """log-sum-exp of the class, fp64."""
    entropy: Tensor
    """Entropy of the tokens inside the class, nats, fp64."""
    best: Tensor
    """The highest score in the class."""
    token: Tensor
    """The token that has it, the lowest of several, int64."""

    @staticmethod
    def cat(parts: Sequence["Emissions"]) -> "Emissions":
        """Puts rows of several one after the other."""
        names = ("total", "entropy", "best", "token")
        return Emissions(*(torch.cat([getattr(part, name) for part in parts]) for name in names))

    def hold(self, fixed_R: Tensor, class_V: Tensor) -> None:
        """Makes a position sure of its token in `fixed_R`, in place, where that is not -1.

        Args:
            class_V: the class of every token, -1 for one that stands nowhere: nothing is possible there then.
        """
        (rows,) = torch.nonzero(fixed_R >= 0, as_tuple=True)
        kind_R1 = class_V[fixed_R[rows]][:, None]
        score_RK = torch.where(kind_R1 == torch.arange(self.total.shape[1], device=rows.device), 0.0, -torch.inf)
        self.total[rows], self.best[rows] = score_RK.to(self.total), score_RK.to(self.best)
        self.entropy[rows] = 0.0
        self.token[rows] = fixed_R[rows, None].expand_as(score_RK)
