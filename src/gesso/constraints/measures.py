"""Says what can be told of an expression without compiling it."""

from functools import lru_cache

from gesso.constraints.expression import (
    Anchor,
    Chars,
    Difference,
    Distinct,
    Expression,
    Fitting,
    Intersection,
    Joined,
    Multiples,
    Repeat,
    Sequence,
    Text,
    Union,
    Whole,
)
from gesso.constraints.placeholders import encode

COUNTED = 64
"""Repetitions from which on a counter is kept."""
_MERGED = 4
"""States of different items for one that is left of them, roughly."""
_WIDE = 12
"""States of a set of characters beyond ASCII, roughly."""


def parts_of(expression: Expression) -> tuple[Expression, ...]:
    """Returns the expressions that one is made of."""
    match expression:
        case Sequence(parts) | Union(parts) | Intersection(parts):
            return parts
        case Repeat(body) | Whole(body):
            return (body,)
        case Joined(items, _, rest):
            return (*(item for item, _ in items), *(() if rest is None else (rest,)))
        case Difference(body, removed):
            return (body, removed)
        case Distinct(item):
            return (item,)
        case Fitting(options):
            return options[:1]
        case _:
            return ()


def least_bytes(expression: Expression) -> int:
    """Returns a lower bound of the bytes of each text."""
    known: dict[int, int] = {}

    def least(part: Expression) -> int:
        if (found := known.get(id(part))) is None:
            match part:
                case Text(text):
                    found = len(encode(text))
                case Chars() | Multiples():
                    found = 1
                case Sequence(parts):
                    found = sum(map(least, parts))
                case Union(options):
                    found = min(map(least, options), default=0)
                case Repeat(body, times):
                    found = times * least(body)
                case Joined(items):
                    found = sum(least(item) for item, required in items if required)
                case Intersection(parts):
                    found = max(map(least, parts))
                case Distinct(item, _, separator, times):
                    found = 2 + times * least(item) + max(times - 1, 0) * len(separator)
                case Whole(body) | Difference(body) | Fitting((body, *_)):
                    found = least(body)
                case _:
                    found = 0
            known[id(part)] = found
        return found

    return least(expression)


def holds_anchor(expression: Expression, at_end: bool) -> bool:
    """Tells whether there is an anchor to the end, or else to the begin, anywhere in it."""
    if isinstance(expression, Anchor):
        return expression.at_end == at_end
    return any(holds_anchor(part, at_end) for part in parts_of(expression))


def may_be_empty(expression: Expression) -> bool:
    """Tells whether the empty text may be among what a part of a regular expression stands for; an anchor counts as
    that, and a difference as its body."""
    match expression:
        case Text(text):
            return not text
        case Chars():
            return False
        case Sequence(parts) | Intersection(parts):
            return all(map(may_be_empty, parts))
        case Union(options):
            return any(map(may_be_empty, options))
        case Repeat(body, least):
            return least == 0 or may_be_empty(body)
        case Whole(body) | Difference(body):
            return may_be_empty(body)
    return True


def spelled_size(expression: Expression) -> int:
    """Says how many states an expression has before it is made deterministic, roughly; each part counted where it
    stands."""
    known: dict[int, int] = {}

    def size(part: Expression) -> int:
        if isinstance(part, Whole):
            return _size_of_whole(part)
        if (found := known.get(id(part))) is None:
            match part:
                case Text(text):
                    found = len(text)
                case Sequence(parts) | Union(parts):
                    found = sum(map(size, parts))
                case Chars(chars):
                    found = 1 if not chars or chars[-1][1] < 0x80 else _WIDE
                case Multiples(divisor):
                    found = divisor
                case Repeat(body, least, most):
                    count = max(least, most or 1, 1)
                    found = size(body) * (count if count < COUNTED else 1)
                case Distinct(item, _, _, _, _, max_states):
                    found = max(size(item), max_states // _MERGED)
                case Joined(items, _, rest, least, most):
                    counts = max(least, most or 1, 1)
                    found = sum(size(item) for item, _ in items) * counts + (0 if rest is None else size(rest))
                case _:
                    found = sum(map(size, parts_of(part)))
            known[id(part)] = found
        return found

    return sum(map(size, parts_of(expression))) if isinstance(expression, Whole) else size(expression)


@lru_cache(maxsize=256)
def _size_of_whole(expression: Whole) -> int:
    """The size of what stands in many expressions, as any value does: found once."""
    return spelled_size(expression)
