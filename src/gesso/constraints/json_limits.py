"""Chooses how deep goes what a schema leaves open, and how often a reference leads into itself.

Life cycle: `fitting` is called once for a schema, with what reads it within limits. A first reading, the shallowest,
says how much of the expression is the schema's own; then the deepest limits are looked for that leave room for it, and
deeper ones still where that costs little.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from functools import cache
from math import inf
from typing import Any

from gesso.constraints import budget
from gesso.constraints.expression import NEVER, Expression, Fitting
from gesso.constraints.measures import spelled_size
from gesso.errors import OptionError

ATTEMPT_STATES = 20_000
"""States that an automaton may have for which there is a smaller one."""
SMALL = 5_000
"""Size of an expression up to which its automaton is never too large to be tried."""
MAX_PARTS = 4000
"""Values in each other of a schema, from which on what it leaves open goes less deep."""
MANY_PARTS = 300
"""Values from which on it goes less deep most of the time, and is tried from there: a reading takes seconds in all."""
_OWN = 0.5
"""Part of the size of the shallowest expression that counts."""

Read = Callable[[Mapping[str, Any], float], tuple[Expression, int]]
"""Reads a schema within limits, which are named as in a `JsonForm`, and with so many values at most; returns its texts
and how many values they consist of. Raises `TooManyError` where there are more."""


class TooManyError(Exception):
    """Says that a schema has too many parts when it goes this deep."""


class TooManyAlternativesError(OptionError):
    """Says that a value has too many alternatives; less deep it may have fewer."""


def _limits(
    *open_depths: int, depth: int = 3, recursion: int = 3, references: int = 20, distinct: int = 8_000
) -> dict[str, Any]:
    return {
        "open_depths": open_depths, "max_depth": depth, "max_recursion": recursion, "max_references": references,
        "distinct_states": distinct,
    }  # fmt: skip


LIMITS: tuple[tuple[int, dict[str, Any]], ...] = (
    (2_500, _limits(4, 3)),
    (3_000, _limits(3, 2)),
    (14_000, _limits(4, 3, 2)),
    (18_000, _limits(4, 2, 1)),
    (30_000, _limits(4, 1, 0, depth=2, recursion=2, references=8, distinct=6_000)),
    (40_000, _limits(3, 1, 0, depth=2, recursion=1, references=4, distinct=3_000)),
    (60_000, _limits(3, 0, -1, depth=1, recursion=1, references=2, distinct=1_500)),
    (0, _limits(2, -1, depth=1, recursion=1, references=1, distinct=1_000)),
)
"""How deep goes what a schema leaves open, from deep to shallow: the first whose expression is no larger than the size
before it. Of what the schema itself says, which is there each time, only a part counts."""
DEEPER = (5, 4)
"""Depth of any value, and turns of a reference into itself, that are tried for a small schema instead."""
DEEPER_SIZE = 3_500
"""Size of the expression that is small enough for them, counted as for `LIMITS`."""


def fitting(read: Read) -> Expression:
    """Returns the texts of a schema, as deep as there is room for; a `Fitting` where that is not certain.

    Raises:
        OptionError: a keyword is not supported or malformed, or reading takes too long.
    """
    last = len(LIMITS) - 1
    shallowest, parts = read(LIMITS[last][1], inf)
    known: dict[int, Expression | None] = {last: shallowest}
    size = cache(lambda place: spelled_size(known[place] or NEVER))
    free = (1 - _OWN) * size(last)
    refused: list[OptionError] = []

    def fits(place: int, part: float) -> bool:
        """Whether it is small enough; also where it is so shallow that nothing is left."""
        if place not in known:
            known[place] = None
            try:
                known[place] = read(LIMITS[place][1], MAX_PARTS)[0]
            except TooManyAlternativesError as error:
                refused.append(error)
            except TooManyError:
                pass
        found = known[place]
        return found is not None and (found == NEVER or size(place) - free <= part * LIMITS[place][0])

    def deepest(part: float) -> int:
        if parts < MANY_PARTS:
            place = bisect_left(range(last), True, key=lambda place: fits(place, part))
        else:
            place = next((place + 1 for place in reversed(range(last)) if not fits(place, part)), 0)
        while known[place] == NEVER and place and fits(place - 1, inf):
            place -= 1
        return last if known[place] is None else place

    place = deepest(1.0)
    found = known[place] or NEVER
    most = min(DEEPER_SIZE + free, SMALL)
    if size(place) <= most and (deeper := _deeper(read, LIMITS[place][1], most)) is not None:
        return deeper
    if found == NEVER and refused:
        raise refused[0]
    if size(place) <= SMALL:
        return found
    # The size is a guess: a third of what is allowed is tried next.
    tried = dict.fromkeys((found, known[deepest(1 / 3)] or NEVER, shallowest))
    options = tuple(option for option in tried if option != NEVER)
    return options[0] if len(options) == 1 else Fitting(options, ATTEMPT_STATES) if options else NEVER


def _deeper(read: Read, limits: Mapping[str, Any], most: float) -> Expression | None:
    """The texts within limits that are deeper and of that size at most, if there are any."""
    for depth in DEEPER:
        try:
            found, _ = read({**limits, "max_depth": depth, "max_recursion": depth}, MANY_PARTS)
        except (TooManyError, OptionError):
            budget.current().check()
            continue
        if found != NEVER and spelled_size(found) <= most:
            return found
    return None
