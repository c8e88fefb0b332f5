"""Lists the keywords that each draft of JSON Schema knows, and annotations of others."""

_COMMON = frozenset(
    ("type", "enum", "properties", "required", "additionalProperties", "patternProperties", "minProperties",
     "maxProperties", "items", "minItems", "maxItems", "uniqueItems", "minLength", "maxLength", "pattern", "format",
     "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "allOf", "anyOf", "oneOf", "not",
     "$ref", "definitions", "$schema", "title", "description", "default")
)  # fmt: skip
_SINCE_6 = frozenset(("const", "contains", "propertyNames", "$id", "examples"))
_SINCE_7 = frozenset(("if", "then", "else", "$comment", "readOnly", "writeOnly", "contentEncoding", "contentMediaType"))
_SINCE_2019 = frozenset(
    ("$anchor", "$defs", "$vocabulary", "dependentRequired", "dependentSchemas", "minContains", "maxContains",
     "unevaluatedItems", "unevaluatedProperties", "deprecated", "contentSchema")
)  # fmt: skip
KEYWORDS = {
    4: _COMMON | {"id", "dependencies", "additionalItems"},
    6: _COMMON | _SINCE_6 | {"dependencies", "additionalItems"},
    7: _COMMON | _SINCE_6 | _SINCE_7 | {"dependencies", "additionalItems"},
    2019: _COMMON | _SINCE_6 | _SINCE_7 | _SINCE_2019 | {"additionalItems", "$recursiveRef", "$recursiveAnchor"},
    2020: _COMMON | _SINCE_6 | _SINCE_7 | _SINCE_2019 | {"prefixItems", "$dynamicRef", "$dynamicAnchor"},
    # Without $schema: the newest draft, with what older ones said otherwise and nothing else can mean.
    0: _COMMON | _SINCE_6 | _SINCE_7 | _SINCE_2019
    | {"prefixItems", "$dynamicRef", "$dynamicAnchor", "dependencies", "additionalItems"},
}  # fmt: skip
"""Keywords that a draft knows; 0 stands for a schema that names none."""
OTHERS_ANNOTATIONS = frozenset(
    ("discriminator", "example", "xml", "externalDocs", "markdownDescription", "enumDescriptions",
     "markdownEnumDescriptions", "deprecationMessage", "defaultSnippets")
)  # fmt: skip
"""Annotations of OpenAPI and of editors, which change nothing that is valid, as do all that begin with `x-`."""
OTHERS_FORMATS = frozenset(("password", "binary"))
"""Formats of OpenAPI that every string has: how a field shows it, and that its bytes are any. Pydantic writes them for
`SecretStr` and `bytes`."""
