"""Follows the references of a document, those that lead into themselves as often as the limits say."""

from gesso.constraints.json_document import Document
from gesso.constraints.json_keywords import check
from gesso.constraints.json_one_of import Refs
from gesso.constraints.json_places import Place, Schema
from gesso.errors import OptionError


class References:
    """Holds a document, and what of its references the limits had a say in."""

    def __init__(self, document: Document, max_recursion: int, max_references: int) -> None:
        """
        Args:
            max_recursion: how often a reference may lead into itself.
            max_references: references in each other, of those that may lead into themselves.
        """
        self.document = document
        self.max_recursion, self.max_references = max_recursion, max_references
        self.bounded = 0
        """References that were followed of which the limits have a say."""
        self.cuts = 0
        """References that were not followed because of the limits: what was found is less than all, then."""

    def read(self, schema: Schema, pointer: str) -> tuple[Place, Schema]:
        """Returns where a schema stands, and what it says in the newest draft's keywords; a part of the document is
        read once."""
        if (known := self.document.read.get(id(schema))) is None:
            known = self._read_anew(schema, pointer)
            if self.document.holds(schema):
                self.document.read[id(schema)] = known
        return known

    def _read_anew(self, schema: Schema, pointer: str) -> tuple[Place, Schema]:
        place = self.document.place(schema, pointer)
        check(schema if not isinstance(schema, dict) else {}, place.pointer)
        if isinstance(schema, bool):
            return place, schema
        modern = self.document.modern(schema, place)
        check(modern, place.pointer)
        return place, modern

    def follow(
        self, keyword: str, reference: str, place: Place, refs: Refs, here: Refs
    ) -> tuple[Schema, Place, Refs, Refs | None]:
        """Says what a reference leads to, where that stands, the references that were followed since the value in
        question was entered, and those on the way to it; None of these where it was followed as often as it may be."""
        if keyword == "$ref":
            target, there = self.document.resolve(reference, place)
        else:
            target, there = self.document.resolve_dynamic(keyword, reference, place)
        if there.key in here:
            raise OptionError(
                f"{place.pointer}/{keyword}: {there.pointer} leads back to itself without a value in between"
            )
        inner: Refs | None = refs
        if self.document.leads_back(there):
            self.bounded += 1
            followed = len(refs) >= self.max_references or refs.count(there.key) >= self.max_recursion
            inner = None if followed else (*refs, there.key)
            self.cuts += followed
        return target, there, (*here, there.key), inner
