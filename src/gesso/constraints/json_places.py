"""Says where the parts of a JSON Schema stand."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gesso.errors import OptionError

Schema = Any
"""A dict or a bool, once it is checked."""
Scope = tuple[tuple[str, str], ...]
"""Names of anchors that several resources have, each with the base URI of the one that decides (see `json_scopes`)."""

MAX_NESTING = 100
"""Objects and arrays of a schema in each other."""

_SUBSCHEMA = frozenset(
    ("not", "if", "then", "else", "contains", "propertyNames", "additionalProperties", "items", "additionalItems",
     "unevaluatedItems", "unevaluatedProperties", "contentSchema")
)  # fmt: skip
_LISTS = frozenset(("allOf", "anyOf", "oneOf", "prefixItems", "items"))
_MAPS = frozenset(("properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"))


@dataclass(frozen=True, slots=True)
class Place:
    """Holds where a subschema stands."""

    pointer: str
    base: str
    draft: int
    scope: Scope = ()

    @property
    def key(self) -> str:
        """Tells apart all that references may lead to."""
        return f"{self.pointer} {self.scope}" if self.scope else self.pointer


def escape_pointer(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def children(node: dict[str, Any]) -> Iterator[tuple[str, Schema]]:
    """Yields the subschemas of a schema, each with the way to it."""
    for keyword, value in node.items():
        if keyword in _MAPS and isinstance(value, dict):
            yield from ((f"{keyword}/{escape_pointer(str(name))}", part) for name, part in value.items())
        elif keyword in _LISTS and isinstance(value, list):
            yield from ((f"{keyword}/{place}", part) for place, part in enumerate(value))
        elif keyword in _SUBSCHEMA:
            yield keyword, value


def check_nesting(root: Any) -> None:
    """Refuses a schema that is nested too deeply, or has a key that is no text.

    Raises:
        OptionError: it does.
    """
    level = [root]
    for _ in range(MAX_NESTING + 1):
        for node in level:
            if isinstance(node, dict) and not all(isinstance(key, str) for key in node):
                raise OptionError("#: a key is no text")
        level = [
            part
            for node in level
            if isinstance(node, dict | list)
            for part in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return
    raise OptionError(f"#: more than {MAX_NESTING} objects and arrays in each other")
