"""Freezes dictionaries and lists, so that what holds them can be hashed.

They are a `dict` and a `list` to whatever reads them, `json` and `isinstance` included.
"""

from collections.abc import Mapping
from typing import Any, NoReturn


def freeze(value: Any) -> Any:
    """Makes a deep copy of JSON-like data whose mappings and lists are frozen.

    Raises:
        RecursionError: it is nested too deeply, or in itself.
    """
    if isinstance(value, Mapping):
        return FrozenDict((key, freeze(part)) for key, part in value.items())
    if isinstance(value, list):
        return FrozenList(freeze(part) for part in value)
    return value


def _refuse(self: Any, *_: Any, **__: Any) -> NoReturn:
    raise TypeError(f"this {type(self).__name__} is part of a frozen configuration")


def _hash(value: Any) -> int:
    """Equal for equal values; what cannot be hashed counts by its type alone."""
    try:
        return hash(value)
    except TypeError:
        return hash(type(value))


class FrozenDict(dict[Any, Any]):
    """Freezes a dictionary: every change is refused."""

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset((key, _hash(value)) for key, value in self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)


class FrozenList(list[Any]):
    """Freezes a list: every change is refused."""

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(_hash(part) for part in self))

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenList, (list(self),)
