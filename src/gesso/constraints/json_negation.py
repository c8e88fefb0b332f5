"""Says what is not valid under one keyword of JSON Schema, in keywords that hold."""

from typing import Any

from gesso.constraints.json_formats import WIDE
from gesso.constraints.json_keywords import Plain, decimal
from gesso.constraints.json_text import TYPES
from gesso.errors import OptionError


def absent(name: str) -> Plain:
    """Returns a plain schema of objects without a property, and of any other value."""
    return {"shapes": [({name: False}, {}, True)]}


def failing(keyword: str, schema: dict[str, Any], at: str) -> list[Plain]:  # noqa: PLR0912 - one for each keyword
    """Returns the ways in which one keyword fails, each as a plain schema.

    Raises:
        OptionError: that cannot be said; it gives the JSON pointer, which is `at`.
    """
    value = schema[keyword]
    if keyword == "type":
        names = {value} if isinstance(value, str) else set(value)
        others = [name for name in TYPES if name not in names | ({"integer"} if "number" in names else set())]
        if "integer" in names and "number" not in names:
            others.remove("number")
            whole: Plain = {"type": "number", "multipleOf": [(decimal(1), False)]}
            return [{"type": others}, whole] if others else [whole]
        return [{"type": others}] if others else []
    if keyword in ("enum", "const"):
        return [{"notEnum": value if keyword == "enum" else [value]}]
    if keyword in _OPPOSITE:
        kind, name, step = _OPPOSITE[keyword]
        return [] if step < 0 and value < 1 else [{"type": kind, name: value + step}]
    if keyword == "pattern":
        return [{"type": "string", "pattern": [(value, False)]}]
    if keyword == "format" and value in WIDE:
        return [{"type": "string", "notFormat": [value]}]
    if keyword == "multipleOf":
        return [{"type": "number", "multipleOf": [(decimal(value), False)]}]
    if keyword == "required":
        return [{"type": "object", **absent(name)} for name in value]
    if keyword == "properties":
        return [
            {"type": "object", "required": [name], "shapes": [({name: {"not": part}}, {}, True)]}
            for name, part in value.items()
            if part is not True and part != {}
        ]
    if keyword == "dependentRequired":
        return [
            {"type": "object", "required": [name], **absent(other)} for name, names in value.items() for other in names
        ]
    if keyword == "items" and not schema.get("prefixItems"):
        return [] if value is True else [{"type": "array", "contains": [({"not": value}, 1, None)]}]
    if keyword == "prefixItems" and schema.get("items", True) is True:
        return [
            {"type": "array", "minItems": place + 1, "tuples": [([True] * place + [{"not": part}], True)]}
            for place, part in enumerate(value)
        ]
    if keyword == "contains":
        least, most = int(schema.get("minContains", 1)), schema.get("maxContains")
        few: list[Plain] = [{"type": "array", "tuples": [([], {"not": value})]}] if least == 1 else []
        few += [{"type": "array", "contains": [(value, 0, least - 1)]}] if least > 1 else []
        return few + ([] if most is None else [{"type": "array", "contains": [(value, int(most) + 1, None)]}])
    if keyword == "additionalProperties" and value not in (True, {}):
        excluded = [*schema.get("properties", {})], [*schema.get("patternProperties", {})]
        return [{"type": "object", "some": [(*excluded, None, True, {"not": value})]}]
    if keyword == "patternProperties":
        return [
            {"type": "object", "some": [([], [], pattern, True, {"not": part})]}
            for pattern, part in value.items()
            if part is not True and part != {}
        ]
    if keyword == "propertyNames" and value not in (True, {}):
        return [{"type": "object", "some": [([], [], None, {"not": value}, True)]}]
    if keyword in _OPEN and value in (True, {}):
        if keyword != "uniqueItems":
            return []
    elif keyword == "uniqueItems":
        return []
    raise OptionError(f"{at}: that this keyword does not hold is not supported (not, if, or branches that overlap)")


_OPEN = ("additionalProperties", "propertyNames", "uniqueItems", "unevaluatedItems", "unevaluatedProperties")
_OPPOSITE = {
    "minLength": ("string", "maxLength", -1), "maxLength": ("string", "minLength", 1),
    "minItems": ("array", "maxItems", -1), "maxItems": ("array", "minItems", 1),
    "minProperties": ("object", "maxProperties", -1), "maxProperties": ("object", "minProperties", 1),
    "minimum": ("number", "exclusiveMaximum", 0), "maximum": ("number", "exclusiveMinimum", 0),
    "exclusiveMinimum": ("number", "maximum", 0), "exclusiveMaximum": ("number", "minimum", 0),
}  # fmt: skip
"""The type a keyword speaks of, the keyword that holds where it does not, and what is added to its value."""
