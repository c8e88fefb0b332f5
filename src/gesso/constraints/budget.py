"""Says what compiling one constraint may cost, asked inside every stage.

A budget lives as long as one compilation. Stages call `states` and `bytes` for what they are about to hold and `check`
in their loops; either raises where a bound is passed or nobody waits any more. The budget in force is a context
variable, so a stage need not be handed one, and two threads never share theirs.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from gesso.errors import OptionError

MAX_STATES = 60_000
"""States of one automaton over bytes; what a counted repetition adds by its count is not among them."""
MAX_BYTES = 256 * 2**20
"""Bytes of the largest table of one stage."""
MAX_SECONDS = 3.0
"""Seconds of the compiling thread's own CPU time."""


class CancelledError(Exception):
    """Says that nobody waits for the constraint any more."""


@dataclass(slots=True)
class Budget:
    """Holds the bounds of one compilation.

    Raises, from its methods:
        OptionError: a bound is passed; the message names it.
        CancelledError: `cancelled` said so.
    """

    max_states: int = MAX_STATES
    max_bytes: int = MAX_BYTES
    max_seconds: float = MAX_SECONDS
    cancelled: Callable[[], bool] = lambda: False
    _started: float = field(default_factory=time.thread_time)

    def check(self) -> None:
        """Checks whether to go on: cheap enough for every hundredth turn of a loop."""
        if self.spent() > self.max_seconds:
            raise OptionError(f"the constraint is too large: to compile it takes more than {self.max_seconds:g} s")
        if self.cancelled():
            raise CancelledError

    def part(self, max_states: int, max_seconds: float) -> "Budget":
        """Returns a budget for a part of the work that may be given up: as much as is left at most."""
        seconds = min(max_seconds, self.max_seconds - self.spent())
        return Budget(min(max_states, self.max_states), self.max_bytes, seconds, self.cancelled)

    def spent(self) -> float:
        """Returns the CPU seconds of the calling thread since the budget was made."""
        return time.thread_time() - self._started

    def states(self, count: int) -> None:
        """Checks that there may be an automaton of so many states."""
        if count > self.max_states:
            raise OptionError(f"the constraint is too large: its automaton needs more than {self.max_states} states")

    def bytes(self, count: int) -> None:
        """Checks that there may be a table of so many bytes."""
        if count > self.max_bytes:
            raise OptionError(
                f"the constraint is too large: over this vocabulary it needs more than {self.max_bytes >> 20} MiB"
            )


@contextmanager
def python_bounds() -> Iterator[None]:
    """Refuses what is past the bounds of Python itself.

    Raises:
        OptionError: its parts are nested too deeply, a number is too large, or there is no memory left.
    """
    try:
        yield
    except RecursionError:
        raise OptionError("the constraint is too large: its parts are nested too deeply") from None
    except OverflowError:
        raise OptionError("the constraint is too large: a number of it is past what can be reckoned with") from None
    except MemoryError:
        raise OptionError("the constraint is too large for the memory that is left") from None


_current: ContextVar[Budget | None] = ContextVar("gesso_constraint_budget", default=None)


def current() -> Budget:
    """Returns the budget in force; a fresh one where nobody set any."""
    return _current.get() or Budget()


@contextmanager
def within(budget: Budget) -> Iterator[Budget]:
    """Puts a budget in force for the calling thread."""
    token = _current.set(budget)
    try:
        yield budget
    finally:
        _current.reset(token)
