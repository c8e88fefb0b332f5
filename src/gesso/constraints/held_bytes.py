"""Counts the bytes that constraints' objects hold."""

import sys
from collections.abc import Mapping

import numpy as np
from torch import Tensor


def held_bytes(*roots: object) -> int:
    """Counts the bytes of all arrays, tensors and byte strings that objects hold, each of them once.

    Attributes, sequences and mappings are followed to the end, of gesso's own objects only.
    """
    seen: set[int] = set()
    total, waiting = 0, list(roots)
    while waiting:
        value = waiting.pop()
        if isinstance(value, Tensor):
            storage = value.untyped_storage()
            mark, size = storage.data_ptr(), storage.nbytes()
        elif isinstance(value, np.ndarray):
            while isinstance(value.base, np.ndarray):
                value = value.base
            mark, size = value.__array_interface__["data"][0], value.nbytes
        else:
            mark, size = id(value), sys.getsizeof(value) if isinstance(value, bytes | str) else 0
            waiting += _parts(value) if mark not in seen else ()
        if mark not in seen:
            seen.add(mark)
            total += size
    return total


def _parts(value: object) -> list[object]:
    """What an object refers to, where it is a container or one of gesso's."""
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    if not type(value).__module__.startswith("gesso."):
        return []
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()) if hasattr(value, name)]
    return [*vars(value).values()] if hasattr(value, "__dict__") else [getattr(value, name) for name in slots]
