"""Says of the parts of an expression which of them are worth an automaton of their own.

Life cycle: one for an expression and everything that is compiled on the way. `add` walks an expression and all its
parts, each of them once, and counts how often they stand in others; then `of` and `stands_alone` answer at once.
"""

from dataclasses import dataclass

from gesso.constraints.expression import (
    Anchor,
    Chars,
    Difference,
    Expression,
    Fitting,
    Intersection,
    Multiples,
    Repeat,
    Text,
    Whole,
)
from gesso.constraints.measures import COUNTED, parts_of

WORTH = 24
"""Parts of an expression that stands in others more than once, from which on it is compiled by itself."""


@dataclass(slots=True)
class Facts:
    """Holds what is known of one expression."""

    expression: Expression
    """Kept, for its identity is the key."""
    size: int
    """Its characters and parts; each where it stands."""
    longest: int
    """The most repetitions that a counter in it would count."""
    anchored: bool
    """Whether an anchor in it refers to what is around it."""


class Survey:
    """Holds the facts about expressions, by identity, and how often equal ones stand in others."""

    def __init__(self) -> None:
        self._facts: dict[int, Facts] = {}
        self._times: dict[Expression, int] = {}

    def add(self, expression: Expression) -> None:
        """Walks an expression that is to be compiled."""
        if expression in self._times:
            return
        self._times[expression] = 0
        waiting = [expression]
        while waiting:
            for part in parts_of(waiting.pop()):
                if isinstance(part, Text | Chars | Anchor | Multiples):
                    continue
                times = self._times[part] = self._times.get(part, 0) + 1
                if times == 1:
                    waiting.append(part)

    def of(self, expression: Expression) -> Facts:
        """Returns what is known of an expression."""
        if (found := self._facts.get(id(expression))) is None:
            parts = [self.of(part) for part in parts_of(expression)]
            size = sum(part.size for part in parts) + 1
            longest = max((part.longest for part in parts), default=0)
            anchored = any(part.anchored for part in parts)
            match expression:
                case Anchor():
                    anchored = True
                case Text(text):
                    size = len(text)
                case Whole() | Intersection() | Difference() | Fitting():
                    anchored = False
                case Repeat(_, least, most):
                    count = max(least, most or 0)
                    longest = max(longest, count if count >= COUNTED else 0)
                    size *= count if 1 < count < COUNTED else 1
            found = self._facts[id(expression)] = Facts(expression, size, longest, anchored)
        return found

    def stands_alone(self, expression: Expression) -> bool:
        """Tells whether an expression is to be compiled by itself, and put into others as a block."""
        if isinstance(expression, Text | Chars | Anchor | Multiples | Intersection | Difference | Fitting):
            return False
        if not isinstance(expression, Whole) and self._times.get(expression, 0) < 2:
            return False
        facts = self.of(expression)
        return facts.size >= WORTH and not facts.longest and not facts.anchored
