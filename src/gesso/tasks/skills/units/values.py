"""Draws the numbers of quantities: those that people use, and any others that come out with few decimals."""

from fractions import Fraction

from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.units.kinds import Unit

_ROUND = (10, 12, 15, 20, 24, 25, 30, 40, 45, 50, 60, 70, 75, 80, 90, 100, 120, 125, 150, 180, 200, 250, 300, 350,
          400, 450, 500, 600, 700, 750, 800, 900, 1000, 1200, 1250, 1500, 1800, 2000, 2500, 3000, 5000, 7500,
          10000)  # fmt: skip
_USED_SHARE = 0.5
"""Share of numbers that people use: small, round, halves and quarters."""


def draw_value(slots: Slots, factor: Fraction, *, decimal: bool, downward: bool) -> Fraction:
    """Draws a number of the old unit.

    Args:
        factor: how many of the smaller unit the larger one is.
        decimal: whether it is a power of ten.
        downward: whether the old unit is the larger one.
    """
    rng = slots.rng
    if rng.random() < _USED_SHARE:
        return _used(slots, factor, decimal=decimal, downward=downward)
    if decimal:
        if rng.random() < 0.45:
            places = rng.choices((1, 2, 3), (0.55, 0.35, 0.1))[0]
            return Fraction(max(1, slots.number(rng.choice((2, 3)))), 10**places)
        return Fraction(max(1, slots.number(4)))
    if rng.random() < 0.25:
        # Quarters, of which the result is whole or has a quarter itself.
        quarters = rng.randint(1, 99)
        value = Fraction(quarters, 4) if factor % 4 == 0 else Fraction(quarters)
        return value if downward else value * factor
    number = Fraction(rng.randint(1, 99 if factor < 1000 else 20))
    return number if downward else number * factor


def _used(slots: Slots, factor: Fraction, *, decimal: bool, downward: bool) -> Fraction:
    rng = slots.rng
    kind = rng.choices(("small", "round", "half", "quarter", "tenth"), (0.35, 0.2, 0.23, 0.12, 0.1))[0]
    large = Fraction({
        "small": rng.choice((1, 2, 2, 3, 3, 4, 5, 5, 6, 7, 8, 9, 10, 11, 12)),
        "round": rng.choice(_ROUND if decimal else _ROUND[:16]),
        "half": rng.choice((0, 1, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12)) + Fraction(1, 2),
        "quarter": rng.choice((0, 0, 1, 1, 2, 3, 4, 5, 10)) + Fraction(rng.choice((1, 3)), 4),
        "tenth": Fraction(rng.randint(1, 99), 10),
    }[kind])  # fmt: skip
    if decimal:
        # A number of the smaller unit is round itself as often as its number of the larger is.
        return large if downward or kind not in ("small", "round") else Fraction(rng.choice(_ROUND))
    if factor > 1000 and large > 20:
        large = Fraction(rng.randint(1, 9))
    if (large * factor).denominator > 1:
        large = Fraction(max(1, int(large)))
    return large if downward else large * factor


def write_number(value: Fraction) -> str:
    """Returns a decimal fraction without needless zeros."""
    whole, rest = divmod(value, 1)
    digits = ""
    while rest:
        digit, rest = divmod(rest * 10, 1)
        digits += str(digit)
    return f"{whole}.{digits}" if digits else str(whole)


def counted(amount: Fraction, unit: Unit, spelling: int) -> str:
    """Returns a quantity with its unit, in the singular where it is one."""
    return f"{write_number(amount)} {(unit.singulars if amount == 1 else unit.names)[spelling]}"


def ends(value: Fraction) -> bool:
    """Says whether a fraction has three decimals at most."""
    return (value * 1000).denominator == 1
