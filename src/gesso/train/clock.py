"""Measures how long a run has trained, the same in all of its processes: what the main one's clock says."""

import time

import torch

from gesso.train.distributed import ProcessGroup
from gesso.train.records import Reason


class Clock:
    """Counts the seconds of a run from now on, behind those that it was trained before."""

    def __init__(self, group: ProcessGroup, before: float = 0.0, within_minutes: float | None = None) -> None:
        """
        Args:
            before: seconds that earlier processes trained.
            within_minutes: what the whole run may take; None for no bound.
        """
        self._group, self._before, self._within = group, before, within_minutes
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Returns the seconds since this clock was started; each process has its own."""
        return time.monotonic() - self._started

    @property
    def bounded_seconds(self) -> float:
        """Returns the seconds of the whole run so far, 0 where it has no bound; each process has its own."""
        return 0.0 if self._within is None else self._before + self.seconds

    def spent(self) -> float:
        """Returns the share of the run's time that is over, 0 where it has no bound; all processes ask together."""
        if self._within is None:
            return 0.0
        own = self.bounded_seconds / (60 * self._within) if self._group.is_main else 0.0
        return float(self._group.all_reduce_sum(torch.tensor(own, dtype=torch.float64)))

    def stop_reason(self, max_minutes: float | None, *, stop: bool) -> Reason | None:
        """Returns why to end now, the same in every process: the main one's clock, or any one's wish.

        Args:
            max_minutes: how long this process may train; None for no bound.
            stop: whether it was told to end.
        """
        late = max_minutes is not None and self.seconds > 60 * max_minutes
        flags = self._group.all_reduce_sum(torch.tensor([float(late and self._group.is_main), float(stop)])).tolist()
        return "interrupted" if flags[1] else "minutes" if flags[0] else None
