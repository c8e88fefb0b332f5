"""Changes logits by place: what depends on where a position is, beside what a request asks of all of them.

N positions of a pass   R some of them   V vocabulary
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


class LogitsChange(Protocol):
    """Changes the logits of a pass, each position's by what stands where."""

    def apply(self, logits_RV: Tensor, rows: slice, /) -> None:
        """Changes the biased logits of some positions, `rows` of those of the pass, in place."""


@dataclass(frozen=True, slots=True)
class Ban:
    """Makes some tokens impossible at some positions."""

    never_N: Tensor
    """The positions, bool."""
    tokens: Sequence[int]

    def apply(self, logits_RV: Tensor, rows: slice) -> None:
        for token in self.tokens:
            logits_RV[:, token].masked_fill_(self.never_N[rows].to(logits_RV.device), -math.inf)
