"""Finds alternatives of a schema under which nothing can be valid, by what they say of a property that must be there.

Chains of `if` and `then`, one for each value of a property that tells kinds of objects apart, are multiplied out to
every combination of conditions that hold and conditions that do not. Nearly all of them want that property to have two
values at once, and are left out before they are multiplied with the next.
"""

from collections.abc import Callable
from contextlib import suppress

from gesso.constraints.json_disjoint import disjoint, of_property
from gesso.constraints.json_document import Document
from gesso.constraints.json_keywords import ANNOTATIONS, Plain, types
from gesso.constraints.json_one_of import Alternative
from gesso.constraints.json_places import Schema
from gesso.errors import OptionError

MANY = 16
"""Alternatives from which on what a property must be is read, to find out."""
MAX_WAYS = 8
"""References that lead to references."""
_Name = tuple[bool, int] | None


class Contradictions:
    """Knows of the schemas of one document which of them nothing can be valid under at once.

    Args:
        alone: returns all alternatives of a schema by itself, or None where they are not known.
    """

    def __init__(self, document: Document, alone: Callable[[Schema], list[Plain] | None]) -> None:
        self._document, self._alone = document, alone
        self._known: dict[frozenset[_Name], bool] = {}
        self._proving = False

    def without(self, found: list[Alternative]) -> list[Alternative]:
        """Leaves out alternatives under which it is easily proved that nothing is valid.

        Raises:
            OptionError: the budget is used up.
        """
        many = len(found) > MANY and not self._proving
        return [way for way in found if not self._contradictory(way[0], many)]

    def _contradictory(self, schema: Plain, many: bool) -> bool:
        required = schema.get("required", ())
        if len(schema.get("shapes", ())) < 2 or not required or types(schema) != {"object"}:
            return False
        for name in required:
            said = of_property(schema, name)
            if len(said) > 1:
                names = frozenset(map(self._name, said))
                if False in said or _both_ways(names) or (many and self._never(said, names)):
                    return True
        return False

    def _never(self, schemas: list[Schema], names: frozenset[_Name]) -> bool:
        """Whether it is proved that no value is valid under each of several schemas."""
        if (known := self._known.get(names)) is None:
            self._proving = True
            try:
                ways = self._alone({"allOf": schemas})
            finally:
                self._proving = False
            known = ways is not None and all(disjoint(way, way, lambda one, other: False) for way in ways)
            if None not in names:
                self._known[names] = known
        return known

    def _name(self, schema: Schema) -> _Name:
        """What a schema is known by as long as the document is there: a part of it, or that a part does not hold."""
        if isinstance(schema, dict) and schema.keys() == {"not"} and self._document.holds(schema["not"]):
            return True, id(self._meant(schema["not"]))
        return (False, id(self._meant(schema))) if self._document.holds(schema) else None

    def _meant(self, schema: Schema) -> Schema:
        """The part of the document that a part of it refers to, if it says nothing else."""
        for _ in range(MAX_WAYS):
            if not isinstance(schema, dict) or "$ref" not in schema or schema.keys() - {"$ref"} - ANNOTATIONS:
                break
            with suppress(OptionError):  # of a reference that leads nowhere it is told where it is read
                target = self._document.resolve(schema["$ref"], self._document.place(schema, "#"))[0]
                if self._document.holds(target):
                    schema = target
                    continue
            break
        return schema


def _both_ways(names: frozenset[_Name]) -> bool:
    """Whether something has to hold and must not."""
    return any(name is not None and name[0] and (False, name[1]) in names for name in names)
