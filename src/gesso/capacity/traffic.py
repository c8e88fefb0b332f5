"""Describes what users ask, and draws requests from it."""

import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Load:
    """Describes what users ask. Lengths and steps are means; the lengths are exponentially distributed, at least 1."""

    requests_per_second: float
    prompt: float
    """Tokens that have to be encoded, those of stored prefixes left out."""
    output: float
    steps: float
    """Denoising steps of a canvas."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """Describes one request that comes."""

    came: float
    """Seconds since the beginning."""
    prompt: int
    """Tokens that have to be encoded."""
    canvases: Sequence[int]
    """Denoising steps of each canvas."""


SEED = 0
"""What every draw begins with, so that two plans differ by nothing but what they were asked for."""


def draw_arrivals(load: Load, canvas: int, requests: int) -> list[Arrival]:
    """Draws so many requests, at random moments and of random lengths; their steps vary by a quarter of the mean.

    Args:
        canvas: tokens of a canvas.
    """
    draw, came, times = random.Random(SEED), 0.0, list[float]()
    for _ in range(requests):
        came += draw.expovariate(load.requests_per_second)
        times.append(came)
    arrivals = []
    for time in times:
        canvases = -(-_length(draw, load.output) // canvas)
        steps = [max(1, round(draw.gauss(load.steps, load.steps / 4))) for _ in range(canvases)]
        arrivals.append(Arrival(time, _length(draw, load.prompt) if load.prompt else 0, steps))
    return arrivals


def _length(draw: random.Random, mean: float) -> int:
    return max(1, round(draw.expovariate(1 / mean)))
