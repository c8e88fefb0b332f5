"""Gives every `$dynamicRef` and `$recursiveRef` one meaning, by copies of the resources that hold them.

Such a reference leads to the anchor of its name in the first resource, of those that were entered on the way to it,
that has one. Where several resources have anchors of a name, what is entered is copied once for each set of such first
resources it is entered with: within a copy all is as settled as with `$ref`. A set only grows on the way, so copies
come to an end; a schema with too many is refused.
"""

from copy import deepcopy
from dataclasses import replace

from gesso.constraints import budget
from gesso.constraints.json_places import Place, Schema, Scope, children
from gesso.errors import OptionError

MAX_COPIES = 200
"""Copies of the resources of one schema, at most."""


class Scopes:
    """Holds the copies of one document's resources.

    Args:
        places: where its parts stand, by identity; those of copies are added.
        resources: by base URI.
        anchors: by name, then by base URI: what dynamic references may lead to.
    """

    def __init__(
        self, places: dict[int, Place], resources: dict[str, Schema], anchors: dict[str, dict[str, Schema]]
    ) -> None:
        self._places, self._resources, self._anchors = places, resources, anchors
        self._names: dict[str, list[str]] = {}
        for name, found in anchors.items():
            for base in found if len(found) > 1 else ():
                self._names.setdefault(base, []).append(name)
        self._copies: dict[tuple[str, Scope], dict[int, Schema]] = {}

    @property
    def needed(self) -> bool:
        """Tells whether any reference means something else on another way."""
        return bool(self._names)

    def enter(self, node: Schema, place: Place, scope: Scope) -> Schema:
        """Returns a part of a resource, which stands at `place`, as it is meant where it is come to with `scope`.

        Raises:
            OptionError: there are too many copies.
        """
        if not self._names:
            return node
        scope = self._extended(scope, place.base)
        key = (place.base, scope)
        if key not in self._copies:
            budget.current().check()
            if len(self._copies) == MAX_COPIES:
                raise OptionError(f"#: its dynamic references mean something else on more than {MAX_COPIES} ways")
            self._copies[key] = self._copied(self._resources[place.base], scope)
        return self._copies[key].get(id(node), node)

    def decided(self, name: str, scope: Scope) -> tuple[Schema, Place] | None:
        """Returns the anchor of a name in the resource that decides, and where it stands; None where none does."""
        base = dict(scope).get(name)
        if base is None:
            return None
        node = self._anchors[name][base]
        return node, self._places[id(node)]

    def _extended(self, scope: Scope, base: str) -> Scope:
        decided = dict(scope)
        return tuple(sorted({**dict.fromkeys(self._names.get(base, ()), base), **decided}.items()))

    def _copied(self, root: Schema, scope: Scope) -> dict[int, Schema]:
        """Copies a resource and all inside; by the identity of what is copied."""
        found = {}
        waiting = [(root, deepcopy(root), scope)]
        while waiting:
            node, copy, scope = waiting.pop()
            if not isinstance(node, dict) or (place := self._places.get(id(node))) is None:
                continue
            scope = self._extended(scope, place.base)
            self._places[id(copy)] = replace(place, scope=scope)
            found[id(node)] = copy
            pairs = zip(children(node), children(copy), strict=True)
            waiting += [(part, twin, scope) for (_, part), (_, twin) in pairs]
        return found
