"""Draws the numbers that people calculate with: small ones, round ones, and ones at a border, oftener than chance."""

import random

_BASES = (10, 20, 50, 100, 100, 100, 200, 500, 1000, 1000, 1000, 2000, 5000, 10_000)
_ROUND = (
    10, 12, 15, 20, 24, 25, 30, 35, 40, 45, 50, 60, 70, 75, 80, 90, 99, 100, 120, 125, 150, 175, 180, 200, 225, 240,
    250, 275, 300, 350, 360, 365, 400, 450, 499, 500, 600, 650, 700, 725, 750, 800, 850, 900, 950, 999, 1000, 1100,
    1200, 1250, 1500, 1750, 1800, 1999, 2000, 2250, 2500, 3000, 3500, 4000, 4500, 5000, 6000, 7500, 8000, 9000, 9999,
)  # fmt: skip
_SMALL_LIMITS = (9, 12, 20, 20, 30, 50, 100)
_KINDS = ("small", "round", "border", "same")
_KIND_WEIGHTS = (0.42, 0.26, 0.24, 0.08)


def draw_small(rng: random.Random, least: int = 0) -> int:
    """Draws a number below a hundred or so, most often below twenty."""
    return rng.randint(least, rng.choice(_SMALL_LIMITS))


def draw_round(rng: random.Random) -> int:
    """Draws a number that ends in zeros or in fives, or lies beside one that does."""
    return rng.choice(_ROUND)


def draw_terms(rng: random.Random) -> tuple[int, int]:
    """Draws two numbers to add or subtract, the first no smaller than the second."""
    kind = rng.choices(_KINDS, _KIND_WEIGHTS)[0]
    if kind == "small":
        found = draw_small(rng), draw_small(rng)
    elif kind == "round":
        found = draw_round(rng), rng.choice((draw_round(rng), draw_round(rng), draw_small(rng), rng.randint(1, 999)))
    elif kind == "border":
        found = _border(rng)
    else:
        digit, count = rng.randint(1, 9), rng.randint(2, 4)
        same = int(str(digit) * count)
        found = same, rng.choice((same, draw_small(rng), int(str(rng.randint(1, 9)) * rng.randint(1, count))))
    return max(found), min(found)


def _border(rng: random.Random) -> tuple[int, int]:
    """Two numbers whose sum or difference has many carries: beside a round number, or as far from each other."""
    base = rng.choice(_BASES)
    if base >= 100 and rng.random() < 0.4:
        base = base // 10 * rng.randint(2, 10)
    above, below = base + rng.choice((0, 0, rng.randint(0, 12))), base - rng.randint(1, min(12, base - 1))
    kind = rng.random()
    if kind < 0.3:
        return above, below
    if kind < 0.65:
        return min(above, 9999) if rng.random() < 0.9 else above, rng.randint(0, base)
    return below, rng.choice((1, 2, 5, 10, base - below, rng.randint(1, 20), rng.randint(1, base)))


def draw_factors(rng: random.Random) -> tuple[int, int]:
    """Draws two factors: of the times tables, or one of them round or of the same digits."""
    kind = rng.random()
    if kind < 0.5:
        found = rng.randint(2, rng.choice((9, 10, 12))), rng.randint(rng.choice((0, 2, 2, 2)), 12)
    elif kind < 0.7:
        found = (
            rng.randint(2, 12),
            rng.choice((10, 15, 20, 25, 30, 40, 50, 60, 75, 80, 90, 99, 100, 200, 250, 500, 1000)),
        )
    elif kind < 0.77:
        found = rng.randint(11, 25), rng.randint(11, rng.choice((15, 25, 40)))
    elif kind < 0.85:
        found = rng.randint(2, 9), int(str(rng.randint(1, 9)) * rng.randint(2, 4))
    else:
        found = rng.randint(2, 12), rng.randint(11, 99)
    return found if rng.random() < 0.5 else (found[1], found[0])
