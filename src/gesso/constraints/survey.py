"""Says of the parts of an expression which of them are worth an automaton of their own.

Life cycle: one for an expression and everything that is compiled on the way. `add` walks an expression and all its
parts, each of them once, and counts how often they stand in others; then `of` and `stands_alone` answer at once.
"""

from dataclasses import dataclass
from functools import lru_cache

from gesso.constraints.expression import (
    Anchor,
    Chars,
    Difference,
    Distinct,
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
LARGE, FEW = 2_000, 6
"""Parts of a repetition, spelled out, from which on a counter is kept for as few times as the second number."""
_MOST = 10**9
"""Parts that are counted."""


@dataclass(slots=True)
class Facts:
    """Holds what is known of one expression."""

    expression: Expression
    """Kept, for its identity is the key."""
    anchored: bool
    """Whether an anchor in it refers to what is around it."""
    size: int
    """Its characters and parts, each where it stands; of what is counted, those of one turn."""
    spelled: int
    """The same where nothing is counted."""
    counts: bool
    """Whether something in it is counted, or it is itself."""
    counted: bool = False
    """Whether it is a repetition with a counter of its own, and what is in it has none."""


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
                # What is compiled by itself is walked then, if it is not known already.
                if times == 1 and not (isinstance(part, Whole) and self.stands_alone(part)):
                    waiting.append(part)

    def of(self, expression: Expression) -> Facts:
        """Returns what is known of an expression."""
        if isinstance(expression, Whole):
            return _of_whole(expression)
        return self._of(expression)

    def _of(self, expression: Expression) -> Facts:
        if (found := self._facts.get(id(expression))) is None:
            size = spelled = 1
            counts = anchored = counted = False
            for part in parts_of(expression):
                facts = self.of(part)
                size += facts.size
                spelled += facts.spelled
                counts |= facts.counts
                anchored |= facts.anchored
            match expression:
                case Anchor():
                    anchored = True
                case Text(text):
                    size = spelled = len(text)
                case Whole() | Intersection() | Difference() | Fitting() | Distinct():
                    anchored = False
                case Repeat(_, least, most):
                    count = max(least, most or 0)
                    # Either this one is counted or what is in it: what is smaller then.
                    many = count >= COUNTED or (count >= FEW and count * size >= LARGE)
                    counted = many and spelled < count * size
                    spelled *= max(count, 1)
                    size *= 1 if counted else max(count, 1)
                    counts |= counted
            found = Facts(expression, anchored, min(size, _MOST), min(spelled, _MOST), counts, counted)
            self._facts[id(expression)] = found
        return found

    def stands_alone(self, expression: Expression) -> bool:
        """Tells whether an expression is to be compiled by itself, and put into others as a block."""
        if isinstance(expression, Text | Chars | Anchor | Multiples | Intersection | Difference | Fitting | Distinct):
            return False
        if not isinstance(expression, Whole) and self._times.get(expression, 0) < 2:
            return False
        facts = self.of(expression)
        return facts.size >= WORTH and not facts.counts and not facts.anchored


@lru_cache(maxsize=256)
def _of_whole(expression: Whole) -> Facts:
    """The facts about what stands in many expressions, as any value does: found once."""
    return Survey()._of(expression)
