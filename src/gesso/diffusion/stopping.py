"""Stopping rules: when a canvas is done before its steps are used up."""

from collections import deque
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from gesso.diffusion.prediction import Prediction


class Stopper(Protocol):
    """Watches one canvas."""

    def should_stop(self, prediction: Prediction) -> bool:
        """Told of every step in order; True ends the canvas with this step's argmax."""


class StoppingRule(Protocol):
    """Makes a fresh `Stopper` for every canvas."""

    def start(self) -> Stopper: ...


@dataclass(frozen=True, slots=True)
class StableAndConfident:
    """Stops when `stability_threshold` + 1 argmax canvases in a row are equal and the mean entropy of a position
    is below `confidence_threshold` nats. Where `end_tokens` are given, what stands behind the first of them may change
    and counts as certain."""

    stability_threshold: int
    confidence_threshold: float
    end_tokens: tuple[int, ...] = ()

    def start(self) -> "StableAndConfidentStopper":
        return StableAndConfidentStopper(self)


class StableAndConfidentStopper:
    """The argmax canvases of the last `stability_threshold` steps."""

    def __init__(self, rule: StableAndConfident) -> None:
        self._rule = rule
        self._history: deque[Tensor] = deque(maxlen=rule.stability_threshold)

    def should_stop(self, prediction: Prediction) -> bool:
        argmax = prediction.argmax_C
        counted = slice(0, self._length(argmax))
        stable = len(self._history) == self._rule.stability_threshold
        stable = stable and all(torch.equal(argmax[counted], earlier[counted]) for earlier in self._history)
        self._history.append(argmax)
        doubt = prediction.entropy_C[counted].sum().item() / len(argmax)
        return stable and doubt < self._rule.confidence_threshold

    def _length(self, argmax_C: Tensor) -> int:
        """How many positions count."""
        if self._rule.end_tokens:
            ends = torch.isin(argmax_C, torch.tensor(self._rule.end_tokens)).nonzero()
            if len(ends):
                return int(ends[0]) + 1
        return len(argmax_C)
