"""Says what the parts of a schema have a say in, and what `unevaluatedProperties` and `unevaluatedItems` make of the
rest.

Where a schema's alternatives are told apart it is known of each of them which parts hold. Each part that holds lists
the properties, patterns and items that it evaluates; the keyword then says something of all others, as
`additionalProperties` and `items` do. What stands in `not` evaluates nothing.
"""

from typing import Any

from gesso.constraints.json_keywords import Plain
from gesso.constraints.json_places import Schema

_KEYS = ("evaluated", "evaluatedItems")


def evaluated_by(schema: dict[str, Any], draft: int) -> Plain:
    """Says what the keywords of one schema evaluate: names, patterns and whether all others, of objects; how many
    items, whether all others, and those that `contains` speaks of, of arrays."""
    found: Plain = {}
    names, patterns = [*schema.get("properties", {})], [*schema.get("patternProperties", {})]
    if names or patterns or "additionalProperties" in schema:
        found["evaluated"] = [(names, patterns, "additionalProperties" in schema)]
    prefix = len(schema.get("prefixItems", ()))
    contains = [schema["contains"]] if "contains" in schema and draft != 2019 else []
    if prefix or "items" in schema or contains:
        found["evaluatedItems"] = [(prefix, "items" in schema, contains)]
    return found


def silenced(schema: Plain) -> Plain:
    """Returns a plain schema that evaluates nothing."""
    return {key: value for key, value in schema.items() if key not in _KEYS}


def unevaluated(schema: Plain, keyword: str, rest: Schema) -> Plain:
    """Returns a plain schema and what is said of all that it does not evaluate; it evaluates all then."""
    key, of = ("evaluated", "shapes") if keyword == "unevaluatedProperties" else ("evaluatedItems", "tuples")
    told = schema.get(key, [])
    everything: Any = ([], [], True) if key == "evaluated" else (0, True, [])
    found = {**schema, key: [*told, everything]}
    if rest is True or any(everywhere for _, everywhere, *_ in told if key == "evaluatedItems"):
        return found
    if key == "evaluatedItems":
        contained = [part for _, _, parts in told for part in parts]
        items = rest if not contained else {"anyOf": [*contained, *([] if rest is False else [rest])]}
        said: Any = ([True] * max((count for count, _, _ in told), default=0), items)
    elif any(everywhere for _, _, everywhere in told):
        return found
    else:
        names = {name: True for names, _, _ in told for name in names}
        said = (names, {pattern: True for _, patterns, _ in told for pattern in patterns}, rest)
    found[of] = [*schema.get(of, []), said]
    return found
