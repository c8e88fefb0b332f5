"""Defines noise levels, as samplers' options: how much of a canvas is still clean at a time of the uniform corruption.

Time runs from 1, where all is noise, to 0. A canvas at time t holds its clean token with probability alpha(t), and a
uniformly random one otherwise (D3PM, arXiv 2107.03006).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from gesso.options import option

NoiseSchedule = Literal["linear", "cosine", "square_cosine", "polynomial", "geometric"]

BETA_MIN, BETA_MAX = 1e-3, 10.0
"""Rates of the geometric schedule at times 0 and 1."""
_ALMOST = 1 - 1e-6
"""The largest alpha before time 0; ratios of what is not clean stay finite."""
_LEAST = 1e-12
"""The smallest alpha behind time 1; ratios of what is clean stay finite."""


@dataclass(frozen=True)
class NoiseLevels:
    """Gives a sampler the option `noise_schedule`, and alpha(t) by it."""

    noise_schedule: NoiseSchedule = option("linear", "How the share of clean tokens grows from step to step.")
    noise_degree: float = option(
        2.0, "Degree of the noise schedule polynomial.", above=0, maximum=100, needs=("noise_schedule", "polynomial")
    )

    def alpha(self, time: float) -> float:
        """Returns the probability that a token is clean at `time`: 0 at time 1, 1 at time 0, and strictly between
        them at all others."""
        polynomial = self.noise_schedule == "polynomial"
        alpha = 1.0 - time**self.noise_degree if polynomial else _ALPHA[self.noise_schedule](time)
        return alpha if time in (0, 1) else min(max(alpha, _LEAST), _ALMOST)

    def alpha_after(self, time: float) -> float:
        """Returns alpha at the `time` that a step leads to, above 0 however near to 1 that is."""
        return max(self.alpha(time), _LEAST)


def _geometric(time: float) -> float:
    """exp(-beta_min^(1 - t) beta_max^t) (arXiv 2310.16834), stretched so that it ends at exactly 0 and 1."""
    least, most = math.exp(-BETA_MAX), math.exp(-BETA_MIN)
    return (math.exp(-(BETA_MIN ** (1 - time)) * BETA_MAX**time) - least) / (most - least)


def _cosine(time: float) -> float:
    """cos(pi t / 2) (arXiv 2202.04200); exactly 0 at time 1, where the library's cosine leaves a rest."""
    return 0.0 if time == 1 else math.cos(0.5 * math.pi * time)


_ALPHA: dict[NoiseSchedule, Callable[[float], float]] = {
    "linear": lambda time: 1.0 - time,
    "cosine": _cosine,
    "square_cosine": lambda time: _cosine(time) ** 2,
    "geometric": _geometric,
}
