"""Lists how deep goes what a schema leaves open, from deep to shallow."""

from typing import Any


def _limits(recursion: int, depth: int, references: int, distinct: int) -> dict[str, int]:
    return {
        "max_recursion": recursion, "max_depth": depth, "max_references": references, "distinct_states": distinct,
    }  # fmt: skip


LIMITS: tuple[tuple[int, dict[str, Any]], ...] = (
    (2_500, {"open_depths": (4, 3)}),
    (3_000, {"open_depths": (3, 2)}),
    (14_000, {"open_depths": (4, 3, 2)}),
    (18_000, {"open_depths": (4, 2, 1)}),
    (30_000, {"open_depths": (4, 1, 0), **_limits(recursion=2, depth=2, references=8, distinct=6_000)}),
    (40_000, {"open_depths": (3, 1, 0), **_limits(recursion=1, depth=2, references=4, distinct=3_000)}),
    (60_000, {"open_depths": (3, 0, -1), **_limits(recursion=1, depth=1, references=2, distinct=1_500)}),
    (0, {"open_depths": (2, -1), **_limits(recursion=1, depth=1, references=1, distinct=1_000)}),
)
"""How deep goes what a schema leaves open, from deep to shallow: the first whose expression is no larger than the size
before it. Of what the schema itself says, which is there each time, only a part counts."""
