"""Writes numbers as JSON texts: all of them, ranges, and what a number divides.

Numbers of a range are plain decimals: an integer part without leading zeros and, behind a point, at least one digit.
Where a schema asks nothing of a number it may have an exponent too. An integer may be written with a fraction of zero
(`3.0`), but for draft 4, which counts that as no integer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from math import gcd

from gesso.constraints import charset
from gesso.constraints.expression import (
    EMPTY,
    NEVER,
    Chars,
    Expression,
    Multiples,
    Repeat,
    Text,
    choices,
    intersection,
    repeat,
    sequence,
    union,
)
from gesso.errors import OptionError

_DIGIT = Chars(charset.DIGIT)
_SIGN = repeat(Text("-"), 0, 1)
_EXACT_DIGITS = 15
"""Digits of a decimal that a float tells from all others with as many."""
_LARGEST_FLOAT = 2**1023
_FAR_DIGITS = 60
"""Digits of the bounds that are held to exactly; those of the largest and the smallest float have hundreds."""
_FAR, _NEAR = Decimal(10) ** _FAR_DIGITS, Decimal(10) ** -_FAR_DIGITS
MAX_DIVISOR = 10_000
"""The greatest `multipleOf`, in units of its last digit."""
ZERO = sequence(_SIGN, Text("0"), repeat(sequence(Text("."), Repeat(Text("0"), 1)), 0, 1))
"""Zero in all plain notations."""
TOLD_APART = sequence(
    _SIGN,
    union(
        [
            Repeat(_DIGIT, 1),
            *(
                sequence(repeat(_DIGIT, count, count), Text("."), repeat(_DIGIT, 1, _EXACT_DIGITS - count))
                for count in range(1, _EXACT_DIGITS)
            ),
        ]
    ),
)
"""Integers, and decimals of so few digits that no two are read as the same float."""


@dataclass(frozen=True, slots=True)
class Digits:
    """Holds how many digits a number may have before and behind its point; None is no bound."""

    whole: int | None = None
    fraction: int | None = None

    @property
    def tail(self) -> Expression:
        """Returns what may follow the integer part: nothing, or a point and digits."""
        return repeat(sequence(Text("."), repeat(_DIGIT, 1, self.fraction)), 0, 1)

    def within(self, most: int | None) -> "Digits":
        """Returns the same with so many before the point at most."""
        return self if most is None else Digits(min(self.whole or most, most), self.fraction)


@dataclass(frozen=True, slots=True)
class Bound:
    """Holds an end of a range of numbers."""

    value: Decimal
    exclusive: bool

    @property
    def fraction(self) -> str:
        """Returns the digits after the point, without zeros at the end."""
        return f"{abs(self.value):f}".partition(".")[2].rstrip("0")

    @property
    def whole(self) -> str:
        """Returns the digits before the point."""
        return str(abs(int(self.value)))

    @property
    def is_exact(self) -> bool:
        """Says whether it has no more digits than a float tells apart."""
        return len(self.whole) + len(self.fraction) <= _EXACT_DIGITS


def nearer(low: Bound | None, high: Bound | None) -> tuple[Bound | None, Bound | None, int | None]:
    """Returns bounds within those that are given, and the digits before the point that numbers have at most, or None:
    digits in the place of a bound as far from zero as numbers hardly are, zero in that of one as near to it."""
    low = None if low is None else _apart_from_zero(low, below=True)
    high = None if high is None else _apart_from_zero(high, below=False)
    far_low = low is not None and low.value <= -_FAR and (high is None or high.value > -_FAR)
    far_high = high is not None and high.value >= _FAR and (low is None or low.value < _FAR)
    most = _FAR_DIGITS if far_low or far_high else None
    return None if far_low else low, None if far_high else high, most


def _apart_from_zero(bound: Bound, below: bool) -> Bound:
    near = 0 < abs(bound.value) < _NEAR
    return Bound(Decimal(0), exclusive=(bound.value > 0) == below) if near else bound


def any_number(digits: Digits) -> Expression:
    """Returns all numbers; of two digits of an exponent at most."""
    exponent = sequence(Chars(charset.of("eE")), repeat(Chars(charset.of("+-")), 0, 1), repeat(_DIGIT, 1, 2))
    return sequence(_SIGN, _naturals(0, None, digits.whole), digits.tail, repeat(exponent, 0, 1))


def integers(low: int | None, high: int | None, digits: Digits) -> Expression:
    """Returns all integers from `low` to `high`, both included, without a point."""
    most = _most(digits, [bound for bound in (low, high) if bound is not None])
    least_below, most_below = 1 if high is None else max(-high, 1), None if low is None else -low
    below = sequence(Text("-"), _naturals(least_below, most_below, most))
    return union([_naturals(max(low or 0, 0), high, most), below])


def numbers(low: Bound | None, high: Bound | None, digits: Digits) -> Expression:
    """Returns all plain decimals between two bounds.

    Raises:
        OptionError: a bound is excluded that a float cannot tell from its neighbours.
    """
    bounds = [bound for bound in (low, high) if bound is not None]
    if any(bound.exclusive and bound.fraction and not bound.is_exact for bound in bounds):
        raise OptionError(f"a bound that is excluded may have no more than {_EXACT_DIGITS} digits")
    fraction = digits.fraction
    if any(bound.exclusive and not bound.value for bound in bounds):
        # A float tells from zero what has so few digits behind its point, whatever stands before it.
        fraction = min(fraction or _EXACT_DIGITS, _EXACT_DIGITS)
    if fraction is not None:
        fraction = max(fraction, *(len(bound.fraction) for bound in bounds), 1)
    digits = Digits(_most(digits, [int(bound.value) for bound in bounds]), fraction)
    # Minus nothing is left to the positive side.
    below = Bound(Decimal(0), exclusive=True) if high is None or high.value >= 0 else _negated(high)
    negative = sequence(Text("-"), _magnitudes(below, None if low is None else _negated(low), digits))
    texts = union([_magnitudes(low, high, digits), negative])
    # Where there are more digits, a number that is not the bound may be read as it, or as one beyond.
    told_apart = any((bound.exclusive and bound.value) or not (bound.fraction or bound.is_exact) for bound in bounds)
    return intersection(texts, TOLD_APART) if told_apart else texts


def literal(value: float) -> Expression:
    """Returns one number as JSON writes it; a whole one with and without a fraction of zero, where that is read as the
    same number."""
    if value != int(value):
        return Text(repr(value))
    whole = int(value)
    same = abs(whole) < _LARGEST_FLOAT and float(whole) == whole
    return choices(dict.fromkeys([str(whole), *([f"{whole}.0", repr(float(whole))] if same else [])]))


def multiples(divisor: int, point: bool = False) -> Expression:
    """Returns the integers that `divisor` divides; with a point, decimals whose digits without it are one."""
    return sequence(_SIGN, Multiples(divisor, point))


def whole_multiples(step: Decimal) -> Expression:
    """Returns the integers that are a multiple of a step.

    Raises:
        OptionError: the step is too long.
    """
    return multiples(_checked(whole_divisor(step)))


def decimal_multiples(step: Decimal) -> Expression:
    """Returns plain decimals that are a multiple: with the point left out, of the step in units of the last digit.

    Raises:
        OptionError: the step is too long.
    """
    sign, figures, exponent = step.as_tuple()
    assert isinstance(exponent, int)
    assert not sign
    units, places = int("".join(map(str, figures))) * 10 ** max(exponent, 0), max(-exponent, 0)
    _checked(units)
    digit = Repeat(_DIGIT, 1)
    options = [multiples(units // gcd(units, 10**places))]
    for count in range(1, places + 1):
        form = sequence(_SIGN, digit, Text("."), Repeat(_DIGIT, count, count))
        divisor = units // gcd(units, 10 ** (places - count))
        options.append(sequence(intersection(form, multiples(divisor, point=True)), Repeat(Text("0"))))
    options.append(sequence(multiples(units // gcd(units, 10**places)), Text("."), Repeat(Text("0"), 1)))
    return union(options)


def whole_divisor(step: Decimal) -> int:
    """Says what an integer is divided by where it is a multiple of `step`."""
    return step.as_integer_ratio()[0]


def _checked(divisor: int) -> int:
    if divisor > MAX_DIVISOR:
        raise OptionError(f"multipleOf of more than {MAX_DIVISOR} units of its last digit is not supported")
    return divisor


def _most(digits: Digits, bounds: list[int]) -> int | None:
    """Digits before the point, enough for the bounds."""
    return None if digits.whole is None else max(digits.whole, *(len(str(abs(bound))) for bound in bounds), 1)


def _naturals(low: int, high: int | None, most: int | None) -> Expression:
    """Numbers from `low` to `high`, or of at most `most` digits, or without end."""
    if high is None and most is not None:
        high = 10**most - 1
    options = []
    whole: list[int] = []
    last_length = len(str(low if high is None else max(high, 0)))
    for length in range(len(str(low)), last_length + 1):
        smallest, largest = 10 ** (length - 1) if length > 1 else 0, 10**length - 1
        first, last = max(low, smallest), largest if high is None else min(high, largest)
        if length > 1 and (first, last) == (smallest, largest):
            whole.append(length)
        elif first <= last:
            options.append(_between(str(first), str(last)))
    if high is None:
        whole.append(last_length + 1)
    if whole:
        upto = None if high is None else whole[-1] - 1
        options.append(sequence(_digits(ord("1"), ord("9")), repeat(_DIGIT, whole[0] - 1, upto)))
    return union(options)


def _between(low: str, high: str) -> Expression:
    """Digits from `low` to `high`, both of one length."""
    rest = len(low) - 1
    if rest < 0:
        return EMPTY
    if set(low) == {"0"} and set(high) == {"9"}:
        return repeat(_DIGIT, rest + 1, rest + 1)
    if low[0] == high[0]:
        return sequence(Text(low[0]), _between(low[1:], high[1:]))
    inner = _digits(ord(low[0]) + 1, ord(high[0]) - 1)
    return union(
        [
            sequence(Text(low[0]), _between(low[1:], "9" * rest)),
            sequence(inner, repeat(_DIGIT, rest, rest)),
            sequence(Text(high[0]), _between("0" * rest, high[1:])),
        ]
    )


def _digits(first: int, last: int) -> Expression:
    return Chars(((first, last),)) if first <= last else NEVER


def _negated(bound: Bound) -> Bound:
    return Bound(-bound.value, bound.exclusive)


def _magnitudes(low: Bound | None, high: Bound | None, digits: Digits) -> Expression:
    """Numbers without a sign."""
    if high is not None and high.value < 0:
        return NEVER
    parts: list[Expression] = []
    if low is not None and low.value >= 0:
        whole = int(low.value)
        above = sequence(_naturals(whole + 1, None, digits.whole), digits.tail)
        parts.append(union([above, sequence(_naturals(whole, whole, None), _tails(low, _at_least, digits))]))
    if high is not None:
        whole = int(high.value)
        under = sequence(_naturals(0, whole - 1, None), digits.tail)
        parts.append(union([under, sequence(_naturals(whole, whole, None), _tails(high, _at_most, digits))]))
    return intersection(*parts) if parts else sequence(_naturals(0, None, digits.whole), digits.tail)


def _tails(bound: Bound, part: Callable[[str, bool], Expression], digits: Digits) -> Expression:
    """What may follow the integer part of a bound: nothing, or a point and digits."""
    body = part(bound.fraction, bound.exclusive)
    nothing = part is _at_most if bound.fraction else not bound.exclusive
    behind = intersection(repeat(_DIGIT, 1, digits.fraction), body)
    return union([*([EMPTY] if nothing else []), sequence(Text("."), behind)])


def _at_most(fraction: str, exclusive: bool) -> Expression:
    """Digits after a point whose value is at most that of `fraction`; of any length, none included."""
    if not fraction:
        return NEVER if exclusive else Repeat(Text("0"))
    less = sequence(_digits(ord("0"), ord(fraction[0]) - 1), Repeat(_DIGIT))
    return union([EMPTY, less, sequence(Text(fraction[0]), _at_most(fraction[1:], exclusive))])


def _at_least(fraction: str, exclusive: bool) -> Expression:
    """Digits after a point whose value is at least that of `fraction`; of any length."""
    if not fraction:
        more = sequence(Repeat(Text("0")), _digits(ord("1"), ord("9")), Repeat(_DIGIT))
        return more if exclusive else Repeat(_DIGIT)
    more = sequence(_digits(ord(fraction[0]) + 1, ord("9")), Repeat(_DIGIT))
    return union([more, sequence(Text(fraction[0]), _at_least(fraction[1:], exclusive))])
