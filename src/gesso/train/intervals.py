"""Computes 95% intervals of shares, ratios and means."""

import math
from collections.abc import Sequence

import numpy as np

Interval = tuple[float, float]
"""Ends of a 95% interval."""

_RESAMPLES = 2000


def wilson_interval(right: int, total: int) -> Interval:
    """Returns the 95% interval of a share (Wilson 1927)."""
    z = 1.959964
    share = right / total
    centre = share + z * z / (2 * total)
    spread = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    scale = 1 + z * z / total
    return (centre - spread) / scale, (centre + spread) / scale


def ratio_interval(parts: Sequence[float], wholes: Sequence[float]) -> Interval:
    """Returns the 95% interval of sum(parts) / sum(wholes), the percentile bootstrap (Efron 1979) with a fixed seed.

    Element i of both belongs to example i, and whole examples are drawn: the cells of one puzzle, or the canvases of
    one answer, are not independent. Where all examples agree the interval has no width.
    """
    generator = np.random.default_rng(0)
    part, whole = np.asarray(parts, dtype=float), np.asarray(wholes, dtype=float)
    draws = (generator.integers(len(part), size=len(part)) for _ in range(_RESAMPLES))
    ratios = [part[drawn].sum() / whole[drawn].sum() for drawn in draws]
    low, high = np.quantile(ratios, (0.025, 0.975))
    return float(low), float(high)


def mean_interval(values: Sequence[float]) -> Interval:
    """Returns the 95% interval of a mean, as `ratio_interval`."""
    return ratio_interval(values, [1.0] * len(values))
