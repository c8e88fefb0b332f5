"""Draws expressions of several numbers with signs and brackets, and what they are worth."""

import random
from collections.abc import Callable

from gesso.tasks.skills.sums.numbers import draw_round, draw_small

_Values = tuple[int, int, int, int]
_FORMS: tuple[tuple[str, Callable[[_Values], int]], ...] = (
    ("{0} + {1} * {2}", lambda v: v[0] + v[1] * v[2]),
    ("{0} + {1} * {2}", lambda v: v[0] + v[1] * v[2]),
    ("{0} - {1} * {2}", lambda v: v[0] - v[1] * v[2]),
    ("{0} * {1} + {2}", lambda v: v[0] * v[1] + v[2]),
    ("{0} * {1} - {2}", lambda v: v[0] * v[1] - v[2]),
    ("({0} + {1}) * {2}", lambda v: (v[0] + v[1]) * v[2]),
    ("({0} + {1}) * {2}", lambda v: (v[0] + v[1]) * v[2]),
    ("({0} - {1}) * {2}", lambda v: (v[0] - v[1]) * v[2]),
    ("{0} * ({1} + {2})", lambda v: v[0] * (v[1] + v[2])),
    ("{0} * ({1} - {2})", lambda v: v[0] * (v[1] - v[2])),
    ("{0} + {1} + {2}", lambda v: v[0] + v[1] + v[2]),
    ("{0} + {1} - {2}", lambda v: v[0] + v[1] - v[2]),
    ("{0} - {1} + {2}", lambda v: v[0] - v[1] + v[2]),
    ("{0} - {1} - {2}", lambda v: v[0] - v[1] - v[2]),
    ("{0} - ({1} + {2})", lambda v: v[0] - (v[1] + v[2])),
    ("{0} - ({1} - {2})", lambda v: v[0] - (v[1] - v[2])),
    ("({0} + {1}) - {2}", lambda v: v[0] + v[1] - v[2]),
    ("{0} + ({1} - {2})", lambda v: v[0] + v[1] - v[2]),
    ("{0} * {1} * {2}", lambda v: v[0] * v[1] * v[2]),
    ("{0} + {1} + {2} + {3}", lambda v: v[0] + v[1] + v[2] + v[3]),
    ("{0} + {1} - {2} + {3}", lambda v: v[0] + v[1] - v[2] + v[3]),
    ("{0} * {1} + {2} * {3}", lambda v: v[0] * v[1] + v[2] * v[3]),
    ("({0} + {1}) * ({2} + {3})", lambda v: (v[0] + v[1]) * (v[2] + v[3])),
)
_SIMPLE: tuple[tuple[str, Callable[[_Values], int]], ...] = (
    ("{0} + {1} - {2}", lambda v: v[0] + v[1] - v[2]),
    ("{0} + {1} - {2}", lambda v: v[0] + v[1] - v[2]),
    ("{0} - {1} - {2}", lambda v: v[0] - v[1] - v[2]),
    ("{0} - {1} - {2}", lambda v: v[0] - v[1] - v[2]),
    ("{0} - {1} + {2}", lambda v: v[0] - v[1] + v[2]),
    ("{0} + {1} + {2}", lambda v: v[0] + v[1] + v[2]),
    ("{0} + {1} + {2} - {3}", lambda v: v[0] + v[1] + v[2] - v[3]),
    ("{0} + {1} + {2} + {3}", lambda v: v[0] + v[1] + v[2] + v[3]),
    ("{0} + {1} * {2}", lambda v: v[0] + v[1] * v[2]),
    ("{0} * {1} + {2}", lambda v: v[0] * v[1] + v[2]),
    ("{0} * {1} - {2}", lambda v: v[0] * v[1] - v[2]),
    ("({0} + {1}) * {2}", lambda v: (v[0] + v[1]) * v[2]),
)  # fmt: skip
_SIMPLE_SHARE = 0.6
"""Expressions of few signs and small numbers, which people ask for most."""
_MOST = 2500


def draw_expression(rng: random.Random) -> tuple[str, int]:
    """Draws an expression, its signs between spaces, and its value; hardly one below zero."""
    form, value = rng.choice(_SIMPLE if rng.random() < _SIMPLE_SHARE else _FORMS)
    products = form.count("*")
    while True:
        limit = rng.choice((5, 9, 10, 12)) if products else 0
        values = (_term(rng, limit), _term(rng, limit), _term(rng, limit), _term(rng, limit))
        if not products:
            values = _terms(rng)
        found = value(values)
        if found <= _MOST and (found >= 0 or rng.random() < 0.05):
            return form.format(*values), found


def _terms(rng: random.Random) -> _Values:
    """Draws numbers to add and subtract: small ones, multiples of five, or as they come."""
    kind = rng.random()
    first = rng.randint(1, rng.choice((20, 50, 100)))
    if kind < 0.5:
        most = rng.choice((10, 20, 20, 40))
        return first, rng.randint(1, most), rng.randint(1, most), rng.randint(1, most)
    if kind < 0.75:
        return first * 5, rng.randint(1, 12) * 5, rng.randint(1, 12) * 5, rng.randint(1, 6) * 5
    return _term(rng, 0), _term(rng, 0), _term(rng, 0), _term(rng, 0)


def _term(rng: random.Random, limit: int) -> int:
    if limit:
        return rng.randint(1, limit) if rng.random() < 0.8 else draw_small(rng, 1)
    return draw_small(rng, 1) if rng.random() < 0.75 else draw_round(rng)
