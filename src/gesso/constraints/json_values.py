"""Says what the parts of the JSON Schema compiler ask of each other: the texts of values."""

from typing import Protocol

from gesso.constraints.expression import Expression
from gesso.constraints.json_alternatives import Alternatives
from gesso.constraints.json_keywords import Plain
from gesso.constraints.json_one_of import Refs
from gesso.constraints.json_places import Schema
from gesso.constraints.json_text import JsonForm


class Values(Protocol):
    """Holds the texts of values under a schema of one document."""

    form: JsonForm
    alternatives: Alternatives

    @property
    def open_depth(self) -> int:
        """Returns how deep properties are that nothing is said of, in the value that is being written."""

    def every(self, schemas: list[Schema], pointer: str, refs: Refs) -> Expression:
        """Returns the texts of all values that are valid under each of several schemas."""

    def enum(self, schema: Plain, pointer: str, refs: Refs) -> Expression:
        """Returns the texts of the values of an `enum` that are valid under the rest of a plain schema."""
