"""Sums what steps measure until a record takes their means."""

import torch


class RunningMeans:
    """Holds the measures of the steps since the last record."""

    def __init__(self, seconds: float) -> None:
        """
        Args:
            seconds: what the clock says as they begin.
        """
        self._begin(seconds)

    def _begin(self, seconds: float) -> None:
        self._since, self._totals = seconds, torch.zeros(())
        self._steps = self._tokens = 0

    def add(self, measures: torch.Tensor, tokens: int) -> None:
        """Adds the measures of a step, and the tokens that it trained on."""
        self._totals = self._totals + measures
        self._tokens += tokens
        self._steps += 1

    def take(self, seconds: float) -> tuple[list[float], float]:
        """Returns the mean of each measure and the tokens a second, of one step at least, and begins anew.

        Args:
            seconds: what the clock says behind the last step.
        """
        taken = (self._totals / self._steps).tolist(), self._tokens / (seconds - self._since)
        self._begin(seconds)
        return taken
