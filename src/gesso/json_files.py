"""Reads JSON objects that come from elsewhere."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from gesso.errors import CheckpointError

MAX_DEPTH = 64
"""Levels of nesting, since readers of a deeper value recurse once for each."""
MAX_BYTES = 2**28


class RepeatedKeyError(ValueError):
    """Is raised for an object of JSON that has a key twice."""


def unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Makes an object of its members, as an `object_pairs_hook` of `json.loads`.

    Raises:
        RepeatedKeyError: a key stands in it twice, of which readers take one or the other.
    """
    made = dict(pairs)
    if len(made) < len(pairs):
        [(twice, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise RepeatedKeyError(f"the key {twice!r:.80} stands twice in one object")
    return made


def read_json(path: Path) -> dict[str, Any]:
    """Returns the JSON object that a file of a checkpoint holds.

    Raises:
        CheckpointError: the file is missing, too large, or no JSON object of at most `MAX_DEPTH` levels.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise CheckpointError(f"{path} has more than {MAX_BYTES // 2**20} MiB: no file of settings")
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path.name} is missing in {path.parent}") from None
    except RecursionError:
        raise CheckpointError(f"{path} is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:  # no UTF-8, no JSON, or a number of thousands of digits
        raise CheckpointError(f"{path} is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} holds no JSON object")
    if _is_too_deep(value):
        raise CheckpointError(f"{path} is nested deeper than {MAX_DEPTH} levels")
    return value


def _is_too_deep(value: Any) -> bool:
    """Says whether containers are nested more than `MAX_DEPTH` levels deep, without recursion."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
    return bool(level)
