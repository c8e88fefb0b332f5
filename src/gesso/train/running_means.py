"""Sums what steps measure until a record takes their means."""

from typing import Any

import torch


class RunningMeans:
    """Holds the measures of the steps since the last record."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._totals = torch.zeros(())
        self._steps = self._tokens = 0
        self._seconds = self._rate = self._ended = 0.0

    def __bool__(self) -> bool:
        """Says whether there is a step that no record has taken."""
        return self._steps > 0

    def add(self, measures: torch.Tensor, tokens: int, rate: float, begun: float, ended: float) -> None:
        """Adds a step.

        Args:
            measures: what it measured, the gradient's norm last.
            tokens: those that it trained on.
            rate: its learning rate.
            begun: what the clock said before its batch was made.
            ended: what the clock said behind it.
        """
        self._totals = self._totals + measures
        self._tokens += tokens
        self._steps += 1
        # Evaluations, samples and checkpoints between two steps are no time of training.
        self._seconds += ended - begun
        self._rate, self._ended = rate, ended

    def take(self) -> tuple[list[float], dict[str, Any]]:
        """Returns the mean of each measure but the norm, and what every record says of its steps, of one at least;
        begins anew."""
        *means, norm = (self._totals / self._steps).tolist()
        pace = {
            "learning_rate": self._rate,
            "gradient_norm": round(norm, 4),
            "tokens_per_second": round(self._tokens / max(self._seconds, 1e-9), 1),
            "seconds": round(self._ended, 1),
        }
        self._begin()
        return means, pace
