"""Tells the branches of a `oneOf` apart.

A value must be valid under one branch alone. Exactly that is each branch without what is valid under any other
(`under_one`), which multiplies out to more than there is room for where many branches overlap, or cannot be said. Most
often they overlap only because a property that tells them apart, a `type`, is not required, or because one requires
what another only allows. So a branch gets the few properties that it then must have, or must not have, for no other
branch to be valid (`told_apart`): no value is taken that is not valid, and those without such a property are left out.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager

from gesso.constraints.json_disjoint import Apart, disjoint
from gesso.constraints.json_keywords import Plain, merge, says_more, types
from gesso.constraints.json_negation import absent
from gesso.constraints.json_text import TYPES
from gesso.errors import OptionError

Refs = tuple[str, ...]
"""The references on the way to a schema, innermost last."""
Alternative = tuple[Plain, Refs]
MAX_OVERLAPPING = 8
"""Branches up to which those that overlap are told apart exactly, whatever that takes."""


def under_one(
    branches: list[list[Alternative]],
    wholes: list[list[Alternative] | None],
    without: Callable[[list[Alternative], int], list[Alternative]],
    apart: Apart,
    leaving_out: Callable[[], AbstractContextManager[None]],
    most: int,
) -> list[Alternative]:
    """Returns the alternatives of all branches, each without what is valid under another one.

    Args:
        branches, wholes, apart: see `told_apart`.
        without: takes what is valid under a branch, by its number, out of alternatives.
        leaving_out: lets what it takes out be less than all, where not every way to fail can be said.
        most: alternatives beyond which they are told apart by a property instead, where that is found.

    Raises:
        OptionError: of no branch it can be said.
    """
    if len(branches) > MAX_OVERLAPPING and (told := told_apart(branches, wholes, apart)) is not None:
        return told
    kept: list[Alternative] = []
    failed: OptionError | None = None
    for number, alternative in ((number, way) for number, branch in enumerate(branches) for way in branch):
        ways = [alternative]
        for second, other in enumerate(wholes):
            if second == number:
                continue
            alone, shared = _alone_and_shared(ways, other, apart)
            if not shared:
                continue
            with leaving_out():
                try:
                    parted = without(shared, second)
                except OptionError as error:
                    # What cannot be told apart is left out, unless nothing else is left.
                    if (told := told_apart(branches, wholes, apart)) is not None:
                        return told
                    parted, failed = [], error
            ways = without_repeated([*alone, *parted])
        kept += ways
        if len(kept) > most:
            return told_apart(branches, wholes, apart) or kept
    if failed is not None and not kept:
        raise failed
    return kept


def told_apart(
    branches: list[list[Alternative]], wholes: list[list[Alternative] | None], apart: Apart
) -> list[Alternative] | None:
    """Returns the alternatives of all branches, each held to what no other branch allows; None where that is not found.

    Args:
        branches: of each, its alternatives.
        wholes: of each, the alternatives that the others must not share; None where they are not known.
        apart: whether no value is valid under two subschemas.
    """
    kept: list[Alternative] = []
    for number, branch in enumerate(branches):
        for plain, refs in branch:
            way = plain
            for second, other in enumerate(wholes):
                if second == number:
                    continue
                if other is None:
                    return None
                found = next((one for one in _narrower(way, other) if _all_disjoint(one, other, apart)), None)
                if found is None:
                    return None
                way = found
            kept.append((way, refs))
    return kept


def _narrower(plain: Plain, other: list[Alternative]) -> list[Plain]:
    """The schema itself, with one more property required, and without one that the other branch requires."""
    required = plain.get("required", [])
    named = dict.fromkeys(name for properties, _, _ in plain.get("shapes", ()) for name in properties)
    theirs = dict.fromkeys(name for schema, _ in other for name in schema.get("required", ()) if name not in required)
    more = [merge(plain, {"type": "object", "required": [name]}) for name in named if name not in required]
    less = [merge(plain, {"type": "object", **absent(name)}) for name in theirs]
    return [plain, *more, *less] if types(plain) == {"object"} else [plain]


def _all_disjoint(plain: Plain, other: list[Alternative], apart: Apart) -> bool:
    return all(disjoint(plain, schema, apart) for schema, _ in other)


def _alone_and_shared(
    ways: list[Alternative], other: list[Alternative] | None, apart: Apart
) -> tuple[list[Alternative], list[Alternative]]:
    """Alternatives that have no value in common with another branch, and those that may have one. Of one that lets all
    values pass that are no objects, these may well be all that it has in common."""
    if other is None:
        return [], ways
    alone, shared = [], []
    for way in ways:
        objects, *rest = _by_type(way)
        if _all_disjoint(way[0], other, apart):
            alone.append(way)
        elif rest and _all_disjoint(objects[0], other, apart):
            alone.append(objects)
            shared += rest
        else:
            shared.append(way)
    return alone, shared


def _by_type(alternative: Alternative) -> list[Alternative]:
    """The objects of an alternative, and apart from them the other values, if there are such and it does not list
    them."""
    plain, refs = alternative
    names = types(plain)
    if names == {"object"} or "object" not in names or "enum" in plain or not {"required", "shapes"} & plain.keys():
        return [alternative]
    parts: list[Plain] = [{"type": "object"}, {"type": [name for name in TYPES if name in names - {"object"}]}]
    return [(merge(plain, part), refs) for part in parts]


def without_repeated(ways: list[Alternative]) -> list[Alternative]:
    """Leaves out alternatives that say all that another one says, and more."""
    kept: list[Alternative] = []
    for way in ways:
        if not any(says_more(way[0], other[0]) for other in kept):
            kept = [other for other in kept if not says_more(other[0], way[0])]
            kept.append(way)
    return kept
