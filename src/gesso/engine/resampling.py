"""Computes weights of particles, and how often each of them is drawn anew."""

import math
from collections.abc import Sequence


def relative(log_weights: Sequence[float]) -> tuple[list[float], float]:
    """Returns the weights whose logarithms these are, relative to the highest, and the logarithm of that one."""
    highest = max(log_weights, default=0.0)
    return [math.exp(value - highest) for value in log_weights], highest


def normalised(log_weights: Sequence[float]) -> tuple[float, ...]:
    """Returns the weights whose logarithms these are, scaled to sum to 1."""
    weights, _ = relative(log_weights)
    return tuple(weight / sum(weights) for weight in weights)


def systematic(weights: Sequence[float], uniform: float) -> list[int]:
    """Returns how often each is drawn, len(weights) times in all: n * weight, rounded up or down.

    Args:
        weights: not negative; they sum to 1, but for rounding.
        uniform: in [0, 1); decides which are rounded up.
    """
    number = len(weights)
    last = max(place for place, weight in enumerate(weights) if weight > 0)
    counts, passed, reached = [], 0, 0.0
    for place, weight in enumerate(weights):
        reached += weight * number
        # Points stand at uniform, uniform + 1, and so on; sums are rounded, and the last weight takes what is left.
        below = number if place >= last else min(number, max(passed, math.ceil(reached - uniform)))
        counts.append(below - passed)
        passed = below
    return counts
