"""What a schema's language contains, what of it random scores choose, and what is refused."""

import copy
import datetime
import json
import math
import random
import re
from contextlib import suppress
from decimal import Decimal
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import cases

from constraints.schemas import INTEGER, SCHEMAS, STRING, expression_of
from constraints.test_compile import MINI_ENDS, drawn, text_of
from gesso.constraints import json_limits
from gesso.constraints.byte_table import ByteAutomaton
from gesso.constraints.bytes_automaton import compile_bytes
from gesso.constraints.compile import compile_constraint
from gesso.constraints.expression import NEVER, difference
from gesso.constraints.json_formats import FORMATS, WIDE, format_expression
from gesso.constraints.json_keywords import decimal, same
from gesso.constraints.json_numbers import Bound, numbers
from gesso.constraints.json_schema import schema_expression
from gesso.constraints.json_text import JsonForm, json_object
from gesso.constraints.regex import parse
from gesso.errors import OptionError
from gesso.text.tokenizer import Tokenizer


def compiled(schema: Any, form: JsonForm | None = None) -> ByteAutomaton:
    return compile_bytes(expression_of(schema, form))


FORMAT_CHECKER = copy.deepcopy(jsonschema.Draft202012Validator.FORMAT_CHECKER)
"""With the two formats that jsonschema leaves to a package of its own."""
FORMAT_CHECKER.checks("time", ValueError)(datetime.time.fromisoformat)
FORMAT_CHECKER.checks("date-time", ValueError)(datetime.datetime.fromisoformat)


def check(schema: Any, text: str) -> None:
    """Parse and validate."""
    jsonschema.Draft202012Validator(schema, format_checker=FORMAT_CHECKER).validate(json.loads(text))


def test_there_are_schemas_enough() -> None:
    assert len(SCHEMAS) >= 60


@pytest.mark.parametrize("name", SCHEMAS)
def test_what_is_chosen_validates(name: str, mini: Tokenizer) -> None:
    schema = SCHEMAS[name]
    jsonschema.Draft202012Validator.check_schema(schema)
    automaton = compile_constraint(expression_of(schema), mini, MINI_ENDS)
    generator = random.Random(name)
    seen = set()
    for seed in range(cases(3, 20)):
        extra = generator.choice([0, 0, 3, 12, 40]) if seed else 0
        first = generator.randint(1, automaton.shortest + extra)
        # One canvas, and a canvas with others behind it.
        for width, budget in ((automaton.shortest + extra, 0), (first, automaton.shortest + extra - first)):
            tokens = drawn(automaton, width, budget, seed, generator.choice([1.0, 10.0]))
            assert len(tokens) <= automaton.shortest + extra
            text = text_of(mini, tokens, MINI_ENDS)
            check(schema, text)
            seen.add(text)
    assert len(seen) > 1 or automaton.shortest <= 30


@pytest.mark.parametrize("name", ["item", "tree", "one of tags", "escapes", "mixed enum", "map"])
def test_with_other_tokenizers(name: str, fallback: Tokenizer, byte_level: Tokenizer) -> None:
    for tokenizer, ends in ((fallback, (2,)), (byte_level, (byte_level.special["<end>"],))):
        automaton = compile_constraint(expression_of(SCHEMAS[name]), tokenizer, ends)
        for seed in range(4):
            tokens = drawn(automaton, automaton.shortest + 10 * seed, 0, seed)
            check(SCHEMAS[name], text_of(tokenizer, tokens, ends))


CONTAINED = [
    ("item", ['{"item": "kettle", "price": 36}', '{"item": "", "price": -1, "city": "Oslo \\"x\\""}'],
     ['{"item":"kettle", "price": 36}', '{"price": 36, "item": "kettle"}', '{"item": "kettle"}', "{}",
      '{"item": "kettle", "price": 036}', '{"item": "kettle", "price": 36, }']),
    ("string", ['""', '"é日😀"', '"\\n\\t\\"\\\\"'], ['"\n"', '"\\x"', '"', '"a', '"\\/"']),
    ("exact", ['"abc"', '"日日日"', '"a\\"b"'], ['"ab"', '"abcd"']),
    ("contains", ['"b"', '"\\nb\\n"', '"aabbaa"'], ['"aaa"', '"aaaaaab"']),
    ("escapes", ['"\\"\\\\"', '"\\n\\t\\n"'], ['"\\""', '"ab"']),
    ("byte", ["0", "9", "10", "255", "199", "1.0"], ["256", "-1", "-0", "00", "1000", "1.5", "1."]),
    ("number", ["0", "-1.5", "1e3", "1.25E-07", "9" * 40, "0.1234567890123456789"], ["1e", "01", "e3", "1e100", "+1"]),
    ("signed", ["-128", "127", "0", "-9"], ["128", "-129", "-0"]),
    ("sevens", ["105", "9996"], ["98", "106", "10003"]),
    ("share", ["0", "1", "0.5", "1.000", "0.999999"], ["1.1", "-0.1", ".5", "0.", "1.", "-0"]),
    ("open share", ["0.1", "0.000001"], ["0", "0.0", "1", "1.0"]),
    ("range", ["-1.25", "-1.250", "-1", "-0.7", "0", "10", "10.749999"], ["-1.26", "10.75", "11", "-1.250001"]),
    ("below zero", ["-0.5", "-20", "-20.05", "-20.050"], ["-0.4", "-20.06", "0.5", "-21"]),
    ("tuple", ['["a", 1]'], ['["a"]', '["a", 1, 2]', "[]", '[1, "a"]']),
    ("loose tuple", ["[]", '["a"]', '["a", 1]', '["a", 1, null, true, false]'], ["[true]", '["a", null]']),
    ("bounded tuple", ["[1]", '[1, "a"]', '[1, "a", 2, 3]'], ["[]", '[1, "a", 2, 3, 4]']),
    ("all optional", ["{}", '{"a": 1}', '{"b": ""}', '{"a": 1, "c": null}', '{"a": 1, "b": "", "c": null}'],
     ['{"c": null, "a": 1}', '{, "b": ""}']),
    ("map", ["{}", '{"a": 1, "b": 2}'], ['{"a": ""}', '{"a": 1,}']),
    ("tree", ['{"value": 1}', '{"value": 1, "children": []}', '{"value": 1, "children": [{"value": 2}, {"value": 3}]}'],
     ['{"children": []}']),
    ("list", ["null", '{"head": 1, "tail": {"head": 2, "tail": null}}'], ['{"head": 1}']),
    ("any of required", ['{"mail": "a@b.cd"}', '{"phone": "12345"}', '{"mail": "a@b.cd", "phone": "12345"}'], ["{}"]),
    ("all of", ["4", "28"], ["0", "5", "32"]),
    ("all of closed", ['{"a": 5}', '{"a": 6, "b": ""}'], ['{"a": 4}', '{"a": 5, "z": 1}']),
    ("mixed enum", ["1", "1.5", '"1"', "true", "null", "[1, 2]", '{"a": [], "b": {}}'], ["false", "[1]"]),
    ("bounded enum", ["5", "10"], ["1", "50", "6"]),
    ("typed enum", ["1", "null", "4"], ['"2"', "3.5"]),
    ("one of ranges", ["3", "-5", "11"], ["4", "13"]),
    ("date", ['"2024-02-29"', '"1999-12-31"', '"2000-02-29"'],
     ['"2023-02-29"', '"1900-02-29"', '"2024-04-31"', '"2024-13-01"', '"0999-01-01"']),
    ("any", ["null", "[]", '{"a": [1, {"b": "c"}]}', '"x"', "-3.25"], ["[[[[[]]]]]", "nul"]),
    ("required beside", ['{"b": true}', '{"a": 1, "b": false}'], ['{"a": 1}']),
]  # fmt: skip


@pytest.mark.parametrize(("name", "inside", "outside"), CONTAINED, ids=[name for name, _, _ in CONTAINED])
def test_what_a_language_contains(name: str, inside: list[str], outside: list[str]) -> None:
    automaton = compiled(SCHEMAS[name])
    for text in inside:
        check(SCHEMAS[name], text)
        assert automaton.matches(text), text
    for text in outside:
        assert not automaton.matches(text), text


def test_separators_and_limits_can_be_set() -> None:
    form = JsonForm(item_separator=",", key_separator=":", max_digits=4, max_fraction=1, max_depth=1, max_recursion=1)
    automaton = compiled(SCHEMAS["item"], form)
    assert automaton.matches('{"item":"kettle","price":36}')
    assert not automaton.matches('{"item": "kettle", "price": 36}')
    assert not automaton.matches('{"item":"kettle","price":36000}')
    assert [text for text in ("123.5", "1234.5", "0.25") if compiled({"type": "number"}, form).matches(text)] == [
        "123.5"
    ]
    assert [text for text in ("[1]", "[[1]]") if compiled({}, form).matches(text)] == ["[1]"]
    tree = compiled(SCHEMAS["tree"], form)
    assert tree.matches('{"value":1,"children":[]}')
    assert not tree.matches('{"value":1,"children":[{"value":1}]}')
    for wrong in ({"item_separator": ";"}, {"key_separator": ""}, {"max_depth": 0}, {"max_fraction": -1}):
        with pytest.raises(OptionError):
            JsonForm(**wrong)  # type: ignore[arg-type]


def test_any_object() -> None:
    automaton = compile_bytes(json_object())
    for text in ("{}", '{"a": 1}', '{"a": {"b": [1, "x", null]}, "c": true}', '{"a": [{"b": {"c": [1]}}]}'):
        assert automaton.matches(text)
    for text in ("[]", "1", '{"a": [[[[[1]]]]]}', '{"a" : 1}', "{", '{"a": 1'):
        assert not automaton.matches(text)


LARGEST, SMALLEST = 1.7976931348623157e308, 5e-324


@pytest.mark.parametrize(
    ("bounds", "inside", "outside"),
    [
        ({"minimum": -LARGEST, "maximum": LARGEST}, ["0", "-3.25", "9" * 60, "-" + "9" * 60], ["1" + "0" * 60]),
        ({"minimum": 0.5, "maximum": LARGEST}, ["0.5", "7", "9" * 60], ["0.49", "-1", "0"]),
        ({"exclusiveMinimum": -LARGEST, "exclusiveMaximum": 0}, ["-0.5", "-" + "9" * 60], ["0", "1", "-0.0"]),
        ({"minimum": SMALLEST}, ["0.1", "0.000000000000001", "12.5"], ["0", "0.0", "-1"]),
        ({"exclusiveMinimum": 2.2250738585072014e-308, "maximum": 1}, ["0.1", "1"], ["0", "1.1"]),
        ({"minimum": -SMALLEST}, ["0", "0.0", "0.25"], ["-1", "-0.1"]),
        ({"maximum": -SMALLEST}, ["-0.1", "-3"], ["0", "-0.0", "2"]),
        ({"maximum": SMALLEST}, ["0", "-0.5", "-7"], ["0.1", "1"]),
        ({"minimum": 1e100, "maximum": 2e100}, ["15" + "0" * 99], ["9" * 100, "3" + "0" * 100]),
    ],
)
def test_bounds_may_be_the_largest_and_the_smallest_float(
    bounds: dict[str, float], inside: list[str], outside: list[str]
) -> None:
    for kind in ("number", "integer"):
        schema = {"type": kind, **bounds}
        automaton = compiled(schema)
        for text in inside:
            if kind == "number" or "." not in text:
                jsonschema.validate(json.loads(text), schema)
                assert automaton.matches(text), text
        for text in outside:
            assert not automaton.matches(text), text
        assert len(automaton.accepting_S) < 10_000


def test_integer_ranges_are_exact() -> None:
    generator = random.Random(0)
    for _ in range(cases(40, 400)):
        low, high = sorted(generator.choices(range(-1300, 1300), k=2))
        automaton = compiled({"type": "integer", "minimum": low, "maximum": high})
        for value in {
            *range(low - 12, low + 12),
            *range(high - 12, high + 12),
            *generator.choices(range(-2000, 2000), k=80),
        }:
            assert automaton.matches(str(value)) == (low <= value <= high), (low, value, high)


def test_number_ranges_are_exact() -> None:
    generator = random.Random(0)
    form = JsonForm(max_digits=4, max_fraction=2)
    texts = [f"{sign}{whole}{tail}" for sign in ("", "-") for whole in (0, 1, 2, 9, 10, 11, 99)
             for tail in ("", *(f".{digits:0{n}}" for n in (1, 2) for digits in range(10**n)))]  # fmt: skip
    for _ in range(cases(12, 100)):
        ends = sorted(generator.choice([-10.5, -2, -1.07, -0.5, 0, 0.25, 0.3, 1, 1.9, 9.99, 11]) for _ in range(2))
        low, high = (generator.choice([None, Bound(decimal(end), generator.random() < 0.5)]) for end in ends)
        automaton = compile_bytes(numbers(low, high, form.digits))
        for text in texts:
            value = Decimal(text)
            valid = True
            if low is not None:
                valid &= value > low.value if low.exclusive else value >= low.value
            if high is not None:
                valid &= value < high.value if high.exclusive else value <= high.value
            # Minus zero is valid, and not written.
            valid &= value != 0 or not text.startswith("-")
            assert automaton.matches(text) == valid, (low, high, text)


SNOWFLAKE, ODD = 1234567890123456789, 2**53 + 1
"""Integers that no float is."""


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        ({"enum": [SNOWFLAKE]}, [f"{SNOWFLAKE}"], [f"{SNOWFLAKE}.0", "1.2345678901234568e+18"]),
        ({"const": ODD}, [f"{ODD}"], [f"{ODD}.0", f"{ODD - 1}.0", "9007199254740992.0"]),
        ({"const": 2**60}, [f"{2**60}", f"{2**60}.0", repr(float(2**60))], [f"{2**60 + 1}"]),
        (
            {"type": "number", "not": {"const": 1}},
            ["0.9999", "2", f"{SNOWFLAKE}", "1.5", "-1.0"],
            ["1", "1.0", "0.99999999999999999999", "1.00000000000000000001"],
        ),
        ({"type": "integer", "not": {"const": ODD - 1}}, [f"{ODD}", "1.0"], [f"{ODD - 1}", f"{ODD}.0"]),
        ({"type": "integer", "exclusiveMinimum": ODD - 1}, [f"{ODD}", f"{SNOWFLAKE}"], [f"{ODD}.0", f"{ODD - 1}"]),
        ({"type": "integer", "maximum": 2**53 + 3}, ["9.0", f"{2**53 + 3}"], [f"{2**53 + 3}.0"]),
        ({"type": "number", "maximum": 2**53 + 3}, ["0.25", f"{2**53 + 3}"], [f"{2**53 + 3}.0"]),
        (
            {"type": "number", "exclusiveMaximum": 1e14},
            ["123456.789", "99999999999999.9", "99999999999999"],
            ["100000000000000", "99999999999999.999999"],
        ),
    ],
)
def test_a_number_is_never_read_as_another(schema: Any, valid: list[str], invalid: list[str]) -> None:
    automaton = compile_bytes(expression_of(schema))
    judge = jsonschema.Draft202012Validator(schema)
    assert [automaton.matches(text) for text in valid] == [True] * len(valid)
    assert [automaton.matches(text) for text in invalid] == [False] * len(invalid)
    assert all(judge.is_valid(json.loads(text)) for text in valid)


_LIMITS = (0, 1, 3, -3, 0.5, 99.99, 10**12, 1e14, 2**53, ODD, 2**53 + 3, SNOWFLAKE)
_DIGITS = st.sampled_from(["0", "1", "9", "99", *(str(limit) for limit in (2**53, ODD, 2**53 + 3, SNOWFLAKE))])
_TAILS = st.sampled_from(["", ".0", ".5", ".00000000000000000001", ".99999999999999999999"])
_NUMBERS = st.tuples(
    st.sampled_from(["", "-"]),
    st.one_of(_DIGITS, st.integers(0, 10**19).map(str)),
    st.one_of(_TAILS, st.integers(0, 10**17).map(lambda digits: f".{digits}")),
).map("".join)
_BOUNDS = st.dictionaries(
    st.sampled_from(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]),
    st.sampled_from(_LIMITS),
    max_size=3,
)


@given(
    st.sampled_from(["number", "integer"]),
    _BOUNDS,
    st.one_of(st.none(), st.sampled_from(_LIMITS)),
    st.lists(_NUMBERS, min_size=30, max_size=60),
)
@settings(max_examples=cases(40, 400), deadline=None)
def test_any_number_that_is_taken_is_valid_as_it_is_read(
    kind: str, bounds: dict[str, float], other: float | None, texts: list[str]
) -> None:
    """And what is valid and has no more digits than a float tells apart is taken."""
    schema = {"type": kind, **bounds, **({} if other is None else {"not": {"const": other}})}
    judge, taken = jsonschema.Draft202012Validator(schema), NEVER
    with suppress(OptionError):  # nothing is valid
        taken = expression_of(schema)
    automaton = compile_bytes(taken)
    for text in texts:
        valid = judge.is_valid(json.loads(text))
        if automaton.matches(text):
            assert valid, (schema, text)
        elif valid:
            assert len(re.sub(r"\D", "", text)) > 15 or text.startswith("-0"), (schema, text)


def test_formats_hold(mini: Tokenizer) -> None:
    for name in FORMATS:
        schema = {"type": "string", "format": name}
        automaton = compile_constraint(expression_of(schema), mini, MINI_ENDS)
        for seed in range(cases(4, 50)):
            check(schema, text_of(mini, drawn(automaton, automaton.shortest + seed, 0, seed), MINI_ENDS))


@pytest.mark.parametrize("name", WIDE)
def test_what_is_told_of_a_format_holds_of_all_its_texts(name: str) -> None:
    assert compile_bytes(difference(format_expression(name), parse(WIDE[name]))).empty


@pytest.mark.parametrize(
    ("names", "texts"),
    [
        (["ipv4", "ipv6"], ["1.2.3.4", "::1"]),
        (["date", "date-time"], ["2026-02-28", "2026-02-28T10:00:00Z"]),
        (["email", "uri"], ["a@b.c", "http://a.b/c", "mailto:a@b.c"]),
        (["uuid", "date"], ["2eb8aa08-aa98-11ea-b4aa-73b441d16380", "2026-02-28"]),
        (["hostname", "ipv4", "ipv6"], ["a.b", "1.2.3", "::1"]),
        (["uri", "ipv6", "json-pointer"], ["http://a.b/c", "::1", "/a"]),
    ],
)
def test_one_of_several_formats(names: list[str], texts: list[str]) -> None:
    automaton = compiled({"oneOf": [{"type": "string", "format": name} for name in names]})
    told = compiled({"type": "string", "oneOf": [{"format": name} for name in names]})
    for text in texts:
        assert automaton.matches(json.dumps(text)), text
        assert told.matches(json.dumps(text)), text
    shared = {"uri": '"fe80::1"', "hostname": '"1.2.3.4"'} if "ipv6" in names else {}
    for text in ("1", '"?"', *(text for name, text in shared.items() if name in names)):
        assert not automaton.matches(text), text


def test_what_is_not_of_a_format_is_not_nearly_of_it_either() -> None:
    automaton = compiled({"type": "string", "not": {"format": "date"}})
    assert automaton.matches('"2026"')
    assert not automaton.matches('"2026-02-28"')
    assert not automaton.matches('"0026-02-28"')
    listed = compiled({"oneOf": [{"type": "string", "format": "uri"}, {"enum": ["", "a:b"]}]})
    assert [listed.matches(text) for text in ('""', '"a:b"', '"a:c"')] == [True, False, True]


def _forked(steps: int) -> dict[str, Any]:
    """A schema on each of whose levels one of two resources may decide what a name means."""
    parts: dict[str, Any] = {"last": {"$id": "last"}}
    for step in range(steps):
        for side in "ab":
            name = f"{side}{step}"
            down = {"properties": {"down": {"$ref": f"step{step + 1}" if step + 1 < steps else "last"}}}
            parts[name] = {"$id": name, "$defs": {"n": {"$dynamicAnchor": f"n{step}"}}, **down}
        parts[f"step{step}"] = {"$id": f"step{step}", "anyOf": [{"$ref": f"a{step}"}, {"$ref": f"b{step}"}]}
    return {"$id": "http://e.x/", "$ref": "step0", "$defs": parts}


def test_what_dynamic_references_mean_may_depend_on_a_few_ways_only() -> None:
    expression_of(_forked(3))
    with pytest.raises(OptionError, match="something else on more than 200 ways"):
        expression_of(_forked(8))


def test_a_branch_beyond_the_limits_holds_all_the_same() -> None:
    """A value that is valid under a branch which is not followed so deep is valid under no other."""
    node = {"type": "object", "properties": {"a": {"oneOf": [{"type": "object"}, {"$ref": "#/$defs/m"}]}},
            "required": ["a"], "additionalProperties": False}  # fmt: skip
    schema = {"$ref": "#/$defs/m", "$defs": {"m": node}}
    automaton = compile_bytes(expression_of(schema))
    assert automaton.matches('{"a": {}}')
    value: dict[str, Any] = {}
    for _ in range(7):
        value = {"a": value}
        if automaton.matches(json.dumps(value)):
            jsonschema.validate(value, schema)


def test_schemas_that_cannot_be_told_apart_are_refused() -> None:
    part = {"$id": "x", "$ref": "#/$defs/n"}
    twice = {"properties": {"p": {**part, "$defs": {"n": INTEGER}}, "q": {**part, "$defs": {"n": STRING}}}}
    with pytest.raises(OptionError, match="several schemas have the name 'x'"):
        expression_of(twice)
    shared = {"$ref": "#/$defs/n"}
    here = {"p": {"$id": "http://e.x/p", "allOf": [shared], "$defs": {"n": INTEGER}},
            "q": {"$id": "http://e.x/q", "allOf": [shared], "$defs": {"n": STRING}}}  # fmt: skip
    with pytest.raises(OptionError, match="the same object stands at"):
        expression_of({"properties": here})


@pytest.mark.parametrize("schema", [
    {"$id": "https://e.x/a", "$ref": "http://[x/"}, {"properties": {1: True}},
    {"dependencies": {"a": ["b"]}, "dependentRequired": 5}, {"allOf": [STRING], "$ref": "#/allOf/-1"},
])  # fmt: skip
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    with pytest.raises(OptionError):
        expression_of(schema)


REFUSED = [
    ({"not": {"unevaluatedProperties": False}}, "#/not/unevaluatedProperties: that this keyword does not hold"),
    ({"not": {"anyOf": [{"unevaluatedItems": False}]}}, "#/not/anyOf/0/unevaluatedItems: that this"),
    ({"properties": {"a/b~": {"contains": {"$dynamicRef": "#a"}}}}, "#/properties/a~1b~0/contains/.ref: .*nowhere"),
    ({"not": {"uniqueItems": True}}, "#/not/uniqueItems: that this keyword does not hold"),
    ({"not": {"type": "string", "format": "uri-template"}}, "#/not/format: that this"),
    (
        {
            "type": "object",
            "properties": {"a": {"oneOf": [{"format": "uri-reference"}, {"format": "regex"}], "type": "string"}},
            "required": ["a"],
        },
        "#/properties/a/oneOf/1/format: that this keyword does not hold",
    ),
    ({"if": {"items": INTEGER, "prefixItems": [STRING]}, "then": {}}, "#/if/(items|prefixItems): that this"),
    ({"uniqueItems": True, "minItems": 5}, "#/uniqueItems: 5 items cannot be told apart"),
    ({"prefixItems": [STRING], "uniqueItems": True}, "#/uniqueItems: with prefixItems it is only"),
    ({"uniqueItems": 1}, "#/uniqueItems: must be true or false"),
    ({"minProperties": 4}, "#/minProperties: more than 3 properties that"),
    ({"patternProperties": {letter: {} for letter in "abcdef"}}, "#/patternProperties: more than 5"),
    ({"patternProperties": {"(?<=a)b": {}}}, "#/patternProperties: .*look-behind"),
    ({"patternProperties": {"^.$": {}}, "properties": {"\u2028": {}}}, "#/patternProperties: dialects differ"),
    ({"type": "number", "multipleOf": 12345.5}, "#: multipleOf of more than"),
    ({"type": "integer", "multipleOf": 50001}, "#: multipleOf of more than"),
    ({"multipleOf": 0}, "#/multipleOf: must be a number above 0"), ({"multipleOf": "2"}, "#/multipleOf"),
    ({"type": "text"}, "#/type: must be one or several of null"), ({"type": [1]}, "#/type"),
    ({"minLength": -1}, "#/minLength: must be a whole"), ({"minLength": "3"}, "#/minLength"),
    ({"maxItems": 1.5}, "#/maxItems"), ({"minimum": "1"}, "#/minimum: must be a number"),
    ({"maximum": True}, "#/maximum"),
    ({"required": "a"}, "#/required"), ({"properties": [1]}, "#/properties"),
    ({"properties": {"a": 1}}, "#/properties"), ({"dependentRequired": {"a": "b"}}, "#/dependentRequired: must be"),
    ({"enum": "a"}, "#/enum"), ({"anyOf": []}, "#/anyOf"), ({"anyOf": [1]}, "#/anyOf"), ({"items": 3}, "#/items"),
    ({"$schema": "https://json-schema.org/draft/2020-12/schema", "items": [{}]}, "#/items: must be a schema"),
    ({"pattern": 3}, "#/pattern"), ([1], "#: a schema must be an object"), ("x", "#: a schema"),
    ({"$ref": "other.json"}, "#/\\$ref: .*only references into"), ({"$ref": "#/$defs/none"}, "leads nowhere"),
    ({"$ref": "#anchor"}, "#/\\$ref: .*leads nowhere"),
    ({"properties": {"a": {"$ref": "#/x/0"}}}, "#/properties/a/\\$ref"),
    ({"properties": {"p": {"type": "string", "pattern": "(?<=a)"}}}, "#/properties/p/pattern: .*look-behind"),
    ({"type": "string", "pattern": "(\\bword)*"}, "#/pattern: .*word boundary in a group"),
    (False, "#: no value is valid"), ({"enum": []}, "#: no value"), ({"type": "string", "enum": [1]}, "#: no value"),
    ({"type": "object", "required": ["a"], "additionalProperties": False}, "#: no value"),
    ({"type": "array", "items": False, "minItems": 1}, "#: no value"),
    ({"type": "string", "minLength": 3, "maxLength": 2}, "#: no value"),
    ({"oneOf": [{"type": "integer"}, {"type": "integer"}]}, "#: no value"),
    ({"not": {}}, "#: no value"), ({"type": "integer", "not": {"type": "number"}}, "#: no value"),
    ({"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}, "never come to an end"),
    ({"$ref": "#"}, "#/\\$ref: # leads back to itself without a value"),
    ({"anyOf": [INTEGER, {"allOf": [{"$ref": "#"}]}]}, "leads back to itself"),
    ({"items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "leads back"),
    ({"type": "number", "exclusiveMinimum": 1234567890123456.5}, "no more than 15 digits"),
    ({"const": "\ud800"}, "#/const: must be a JSON"), ({"enum": [math.nan]}, "#/enum: must be a list of JSON values"),
    ({"allOf": [{"anyOf": [{"minimum": i} for i in range(20)]}] * 3}, "more than 256 alternatives"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "what"), REFUSED, ids=[str(place) for place in range(len(REFUSED))])
def test_what_is_not_supported_is_refused_by_its_pointer(schema: Any, what: str) -> None:
    with pytest.raises(OptionError, match=what):
        expression_of(schema)


def test_values_are_equal_as_json_has_it() -> None:
    assert same(1, 1.0)
    assert same([{"a": 1}], [{"a": 1.0}])
    assert not same(1, True)
    assert not same(0, False)
    assert not same("1", 1)
    assert not same([1], [1, 2])
    assert not same({}, [])


# Found from outside


@pytest.mark.parametrize("draft", [{}, {"$schema": "https://json-schema.org/draft/2020-12/schema"}])
def test_a_reference_means_the_resource_it_stands_in(draft: dict[str, Any]) -> None:
    schema = {
        **draft,
        "$id": "http://e.x/root",
        "$defs": {"n": STRING},
        "required": ["a"],
        "properties": {"a": {"$id": "http://e.x/inner", "$defs": {"n": INTEGER}, "$ref": "#/$defs/n"}},
    }
    automaton = compiled(schema)
    assert automaton.matches('{"a": 1}')
    assert not automaton.matches('{"a": "x"}')


def test_references_of_every_kind() -> None:
    root = {"$id": "http://e.x/dir/root.json", "$ref": "item.json#part", "$defs": {
        "a": {"$id": "item.json", "$defs": {"b": {"$anchor": "part", "type": "object", "required": ["c"],
              "properties": {"c": {"$ref": "/dir/root.json#/$defs/s"}}}}}, "s": {"const": "s"}}}  # fmt: skip
    automaton = compiled(root)
    assert automaton.matches('{"c": "s"}')
    assert not automaton.matches('{"c": 1}')
    four = {"$schema": "http://json-schema.org/draft-04/schema#", "id": "http://e.x/", "items": {"$ref": "#x"},
            "definitions": {"y": {"id": "#x", "type": "integer", "minimum": 1, "exclusiveMinimum": True}}}  # fmt: skip
    assert [text for text in ("[2]", "[1]", '["a"]') if compiled(four).matches(text)] == ["[2]"]
    seven = {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {
        "a": {"$ref": "#/definitions/a", "minLength": 9}}, "definitions": {"a": STRING}}  # fmt: skip
    assert compiled(seven).matches('{"a": "x"}')


@pytest.mark.parametrize("character", ["\r", "\u2028", "\u2029", "\n"])
def test_a_point_is_no_end_of_a_line(character: str) -> None:
    text = json.dumps(f"a{character}b", ensure_ascii=False)
    assert not compiled({"type": "string", "pattern": "^a.b$"}).matches(text)
    assert compiled({"type": "string", "pattern": "^a[^x]b$"}).matches(text)


@pytest.mark.parametrize("pattern", ["[]a]", "\\a", "\\x{41}", "\\A..\\z", "{2}", "(?P<n>a)", "a]", "\\U00000041"])
def test_patterns_that_no_engine_of_ecmascript_takes_are_refused(pattern: str) -> None:
    with pytest.raises(OptionError, match="#/pattern"):
        expression_of({"type": "string", "pattern": pattern})


@pytest.mark.parametrize("levels", [40, 101, 190, 199, 200, 400, 5000])
@pytest.mark.parametrize("way", ["items", "not", "allOf", "properties"])
def test_what_is_nested_too_deeply_is_refused_by_name(levels: int, way: str) -> None:
    schema: Any = INTEGER
    for _ in range(levels):
        schema = {way: {"a": schema} if way == "properties" else [schema] if way == "allOf" else schema}
    if levels > 100:
        with pytest.raises(OptionError, match="more than 100 objects and arrays in each other"):
            compiled(schema)
    elif way in {"items", "allOf"}:
        compiled(schema)


def test_what_is_not_known_is_an_annotation_unless_it_is_read_strictly() -> None:
    schema = {"type": "object", "ordr": 3, "properties": {"a/b": {"type": "string", "format": "int32", "self": {}}}}
    _, ignored = schema_expression(schema)
    assert sorted(ignored) == ["#/ordr", "#/properties/a~1b/format", "#/properties/a~1b/self"]
    for other in ({"type": "integer", "format": "int64"}, {"enum": [1, 2], "format": "int64"}, {"format": "int64"}):
        assert schema_expression(other)[1] == ("#/format",)
        with pytest.raises(OptionError, match="#/format: the format 'int64' is not known"):
            schema_expression(other, strict=True)
    with pytest.raises(OptionError, match="#/ordr: this keyword is not known"):
        schema_expression(schema, strict=True)
    with pytest.raises(OptionError, match="#/format: the format 'int32' is not known"):
        schema_expression({"type": "string", "format": "int32"}, strict=True)


def test_a_format_that_contradicts_the_pattern_beside_it_gives_way() -> None:
    # As zod's `z.iso.time()` is written.
    time = {"type": "string", "format": "time", "pattern": "^(?:[01]\\d|2[0-3]):[0-5]\\d(?::[0-5]\\d(?:\\.\\d+)?)?$"}
    expression, ignored = schema_expression({"properties": {"at": time}, "required": ["at"]}, strict=True)
    automaton = compile_bytes(expression)
    assert ignored == ("#/properties/at/format",)
    assert automaton.matches('{"at": "12:30"}')
    assert not automaton.matches('{"at": "12:30:00Z"}')
    held = {"type": "string", "format": "date", "pattern": "^2026"}
    assert schema_expression(held)[1] == ()
    assert compiled(held).matches('"2026-11-29"')
    assert not compiled(held).matches('"2026"')


@pytest.mark.parametrize(
    ("schema", "inside", "outside"),
    [
        (
            {"type": "string", "maxLength": 5, "anyOf": [{"format": "date-time"}, {"pattern": "^[a-z]+$"}]},
            ['"ab"'],
            ['"!!"'],
        ),
        (
            {
                "type": "string",
                "maxLength": 4,
                "if": {"format": "date"},
                "then": {"pattern": "^a"},
                "else": {"pattern": "^b"},
            },
            ['"b"'],
            ['"a"'],
        ),
        (
            {
                "oneOf": [
                    {"type": "string", "format": "time", "pattern": "^\\d\\d:\\d\\d$"},
                    {"type": "string", "pattern": "^1"},
                ]
            },
            ['"22:30"'],
            ['"12:30"'],
        ),
    ],
)
def test_a_format_means_the_same_wherever_it_is_asked_for(
    schema: dict[str, Any], inside: list[str], outside: list[str]
) -> None:
    automaton = compiled(schema)
    assert all(map(automaton.matches, inside))
    assert not any(map(automaton.matches, outside))


def test_formats_of_other_branches_hold() -> None:
    assert compiled({"type": "string", "pattern": "^x", "oneOf": [{"format": "date"}, {"format": "uuid"}]}).empty


def test_annotations_of_openapi_and_editors_are_known() -> None:
    kinds = {"anyOf": [kind("a", a={"const": 1}), kind("b", b={"const": 2})], "discriminator": {"propertyName": "a"}}
    plain = {**kinds, "x-order": [1], "example": {"a": 1}, "externalDocs": {"url": "x"}, "xml": {"name": "y"}}
    assert schema_expression(plain, strict=True) == schema_expression({"anyOf": kinds["anyOf"]})
    for name in ("password", "binary"):
        told = schema_expression({"type": "string", "format": name}, strict=True)
        assert told == schema_expression({"type": "string"})
    with pytest.raises(OptionError, match="#/nullable: this keyword is not known"):
        schema_expression({"type": "string", "nullable": True}, strict=True)


def test_a_format_that_is_not_known_holds_nothing_apart() -> None:
    for schema in (
        {"oneOf": [{"type": "integer", "format": "int32"}, {"type": "integer", "format": "int64"}]},
        {"properties": {"a": {"oneOf": [{"format": "uri-reference"}, {"type": "number"}]}, "z": False},
         "required": ["a", "z"], "type": "object"},
    ):  # fmt: skip
        with pytest.raises(OptionError, match="#: no value is valid"):
            schema_expression(schema)
    assert compiled({"not": {"type": "integer", "format": "int32"}}).matches('"a"')


def test_drafts_read_what_they_know() -> None:
    four, seven = ({"$schema": f"http://json-schema.org/draft-0{draft}/schema#"} for draft in (4, 7))
    assert compiled({**four, "type": "integer", "const": 3}).matches("4")
    assert not compiled({**seven, "type": "integer", "const": 3}).matches("4")
    pair = {"type": "array", "items": [INTEGER, STRING], "additionalItems": False, "minItems": 2}
    for schema in (pair, seven | pair, four | pair):
        assert [text for text in ('[1, "a"]', "[1]", '[1, "a", 2]') if compiled(schema).matches(text)] == ['[1, "a"]']
    needs = {"type": "object", "properties": {"a": INTEGER, "b": INTEGER}, "dependencies": {"a": ["b"]}}
    assert [text for text in ('{"a": 1}', '{"b": 1}', '{"a": 1, "b": 2}') if compiled(seven | needs).matches(text)] == [
        '{"b": 1}',
        '{"a": 1, "b": 2}',
    ]


def test_a_large_schema_goes_less_deep() -> None:
    """What is open or leads back to itself is cut shorter until there is room; what is named stays."""
    small = {"type": "object", "properties": {"a": {"$ref": "#"}}}
    assert compiled(small).matches('{"a": {"a": {"a": {}}}}')
    names = [f"property{number}" for number in range(30)]
    node = {"type": "object", "properties": {name: {"$ref": "#/$defs/node"} for name in names} | {"v": INTEGER}}
    large = compiled({"$ref": "#/$defs/node", "$defs": {"node": node}})
    assert len(large.accepting_S) < 20_000
    assert large.matches('{"property0": {"v": 1}, "property29": {}, "v": 2}')
    assert not large.matches('{"property0": {"v": ""}}')


def test_what_a_small_schema_leaves_open_goes_deeper() -> None:
    """Where it costs little, any value and a reference into itself are five deep."""
    closed = {"type": "object", "additionalProperties": False}
    free = closed | {"properties": {"meta": {"type": "object"}}}
    assert compiled(free).matches('{"meta": {"a": {"b": [{"c": [1]}]}}}')
    assert not compiled(free).matches('{"meta": {"a": {"b": [{"c": [[1]]}]}}}')
    tree = closed | {"properties": {"v": INTEGER, "children": {"type": "array", "items": {"$ref": "#"}}}}
    for levels, written in ((5, True), (6, False)):
        text = '{"children": [' * levels + '{"v": 1}' + "]}" * levels
        jsonschema.validate(json.loads(text), tree)
        assert compiled(tree).matches(text) == written
    # Five places for any value cost more: these stay three deep.
    several = closed | {"properties": {name: {"type": "object"} for name in "abcde"}}
    assert compiled(several).matches('{"e": {"a": {"b": [1]}}}')
    assert not compiled(several).matches('{"e": {"a": {"b": [[1]]}}}')


def test_a_schema_that_can_only_be_read_less_deep_is_read_so() -> None:
    """A value at the third turn would be one of 625 alternatives, more than are allowed; the schema says no such thing
    itself."""

    def node(both: str, names: str) -> dict[str, Any]:
        inner = {"allOf": [{"$ref": f"#/$defs/{name}"} for name in both]}
        return {
            "type": "object",
            "properties": {"k": inner} | {name: {"type": "null"} for name in "cdefghijlm"},
            "anyOf": [{"required": [name]} for name in names],
            "additionalProperties": False,
        }

    schema = {"$ref": "#/$defs/a", "$defs": {"a": node("ab", "cdefg"), "b": node("ba", "hijlm")}}
    automaton = compiled(schema)
    text = '{"k": {"c": null, "h": null}, "d": null}'
    jsonschema.validate(json.loads(text), schema)
    assert automaton.matches(text)
    assert not automaton.matches('{"k": {"c": null}, "d": null}')


def test_references_are_followed_where_they_do_not_lead_back() -> None:
    chain: dict[str, Any] = {"d9": INTEGER}
    for number in range(9):
        chain[f"d{number}"] = {"type": "object", "properties": {"a": {"$ref": f"#/$defs/d{number + 1}"}}}
    automaton = compiled({"$ref": "#/$defs/d0", "$defs": chain})
    assert automaton.matches('{"a": ' * 9 + "1" + "}" * 9)


def kind(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


APART: list[tuple[Any, list[Any], list[Any]]] = [
    # One enum, of which patterns leave one value each.
    (
        {
            "properties": {"t": {"enum": ["line", "arc"]}},
            "oneOf": [kind("t", t={"type": "string", "pattern": text}) for text in ("line", "arc")],
        },
        [{"t": "line"}, {"t": "arc"}],
        [{"t": "x"}, {}],
    ),
    # Two properties are one too many.
    (
        {
            "oneOf": [
                kind("t", "u", t={"const": "a"}, u=STRING),
                {"type": "object", "additionalProperties": {"const": False}, "minProperties": 1, "maxProperties": 1},
            ]
        },
        [{"t": "a", "u": "b"}, {"x": False}],
        [{"t": "a"}, {}, {"x": False, "y": False}],
    ),
    # What tells many branches apart is not required, so it has to be there: without it several hold.
    (
        {"oneOf": [{**kind(t={"const": n}, **{n: INTEGER}), "additionalProperties": False} for n in "abcdefghijkl"]},
        [{"t": "a", "a": 1}, {"t": "l", "l": 2}],
        [{}, {"a": 1}, {"t": "a", "a": "x"}, {"t": "m"}],
    ),
    # That this format does not hold cannot be said: what would need it is left out.
    ({"oneOf": [{"type": "string", "format": "uri-template"}, {"enum": ["{", None]}]}, ["a/{b}", None], ["{", "}"]),
    # A value that must not be, however its members are ordered and its numbers written.
    (
        {"type": "object", "not": {"const": {"a": {"b": [1, "x"]}, "c": True}}, "required": ["a", "c"]},
        [{"a": 1, "c": True}, {"a": {"b": [1, "y"]}, "c": True}],
        [{"a": {"b": [1, "x"]}, "c": True}, {"c": True, "a": {"b": [1.0, "x"]}}],
    ),
]  # fmt: skip


KINDS = [f"k{number}" for number in range(24)]
CHAINED: list[tuple[Any, list[Any], list[Any]]] = [
    # A chain of conditions: all but a few combinations of them want one property to have two values.
    (
        {
            "type": "object",
            "properties": {"t": {"enum": KINDS}, **{name: {"type": ["integer", "string"]} for name in KINDS}},
            "additionalProperties": False,
            "required": ["t"],
            "allOf": [
                {"if": {"properties": {"t": {"const": name}}}, "then": kind(name, **{name: INTEGER})}
                for name in KINDS
            ],
        },
        [{"t": "k0", "k0": 1}, {"t": "k23", "k1": "x", "k23": 2}],
        [{"t": "k0"}, {"t": "k1", "k0": 1}, {"t": "k23", "k23": "x"}, {"k0": 1}, {"t": "x"}],
    ),
    # The same where the property may be missing: all conditions hold then.
    (
        {
            "properties": {"t": {"$ref": "#/$defs/tag"}, "n": {}},
            "allOf": [
                {"if": {"properties": {"t": {"const": name}}}, "then": {"properties": {"n": {"minimum": place}}}}
                for place, name in enumerate(KINDS)
            ],
            "$defs": {"tag": STRING},
        },
        [{"t": "k3", "n": 3}, {"t": "k22", "n": 40}, {"n": 23}, {"t": "x", "n": -1}, {"t": "k9", "n": "x"}],
        [{"t": "k3", "n": 2}, {"n": 22}, {"t": 3}],
    ),
    # Objects are told apart by what they must have, other values not at all: those are valid under all branches.
    (
        {
            "oneOf": [
                {"anyOf": [{"properties": {"t": {"const": name}, name: INTEGER, "n": STRING}, "required": ["t", name],
                            "additionalProperties": False} for name in KINDS]},
                {"properties": {"t": {"const": "other"}}, "required": ["t"]},
            ]
        },
        [{"t": "k0", "k0": 1}, {"t": "k23", "k23": 1, "n": "x"}, {"t": "other", "n": 1}],
        [1, "x", None, [], {}, {"t": "k0"}, {"t": "k0", "k0": "x"}, {"t": "x"}],
    ),
    # What one branch says of a property the other one says too: that it does not hold need never be written.
    (
        {
            **kind(a={"$ref": "#/$defs/list"}, b=STRING),
            "oneOf": [
                {"properties": {"a": {"$ref": "#/$defs/list"}}, "required": ["a"]},
                {"properties": {"b": STRING}, "required": ["b"]},
            ],
            "$defs": {"list": {"type": "array", "items": INTEGER, "uniqueItems": True}},
        },
        [{"a": [1, 2]}, {"b": "x"}],
        [{"a": [1, 1]}, {}, {"a": [1], "b": "x"}, {"a": [1, 1], "b": "x"}],
    ),
]  # fmt: skip


LISTED: list[tuple[Any, list[Any], list[Any]]] = [
    # Members come in the order in which the schema names them, those inside of them too.
    ({"enum": [{"b": 1, "a": 2}], "properties": {"a": {}, "b": {}}}, [{"a": 2, "b": 1}], [{"a": 2}]),
    (
        {"enum": [{"x": {"b": 1, "a": [{"d": 1, "c": 2}]}}, 3], "properties": {"x": kind(
            "a", a={"items": kind(c={}, d=INTEGER)}, b=INTEGER)}},
        [{"x": {"a": [{"c": 2, "d": 1}], "b": 1}}, 3],
        [],
    ),
    (
        {"enum": [{"a": 1}, {"c": 2, "a": 1}, {"c": "x"}, {}], "minProperties": 1, "patternProperties": {"^c": STRING}},
        [{"a": 1}, {"c": "x"}],
        [{"c": 2, "a": 1}, {}],
    ),
    ({"enum": [[1, 2], [1, 1.0], [1], [1, True]], "uniqueItems": True, "minItems": 2}, [[1, 2], [1, True]],
     [[1, 1], [1]]),
    ({"enum": [[1, 2], [1, 1], [], ["a"]], "contains": {"const": 2}}, [[1, 2]], [[1, 1], [], ["a"]]),
    ({"enum": [[1, "a"], ["a", 1], [1]], "prefixItems": [INTEGER], "items": STRING}, [[1, "a"], [1]], [["a", 1]]),
    # Numbers are compared as what they are, however they are written.
    ({"enum": [1e-7, 1e-8, -1e-7, 1e22], "minimum": 0}, [1e-7, 1e-8, 1e22], [-1e-7]),
    ({"enum": [1, 1.5, 2, 3, 0.3], "multipleOf": 0.5, "exclusiveMaximum": 3}, [1, 1.5, 2], [3, 0.3]),
    ({"enum": [1, 1.5, 2, 3, 0.3], "not": {"multipleOf": 0.5}}, [0.3], [1, 1.5, 2, 3]),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "valid", "invalid"), [*APART, *CHAINED, *LISTED])
def test_branches_and_values_are_told_apart(schema: Any, valid: list[Any], invalid: list[Any]) -> None:
    automaton = compiled(schema)
    for value in valid:
        jsonschema.Draft202012Validator(schema).validate(value)
        assert automaton.matches(json.dumps(value)), value
    for value in invalid:
        assert not automaton.matches(json.dumps(value)), value


def test_older_and_newer_words_for_what_depends_hold_both() -> None:
    both = [
        {"dependentRequired": {"a": ["b"]}, "dependencies": {"a": ["c"]}},
        {"dependentSchemas": {"a": {"required": ["b"]}}, "dependencies": {"a": {"required": ["c"]}}},
        {"dependentRequired": {"a": ["b"]}, "dependencies": {"a": {"required": ["c"]}}},
    ]
    for words in both:
        automaton = compiled(kind(a={}, b={}, c={}) | words)
        texts = ('{"b": 1}', '{"a": 1, "b": 1, "c": 1}', '{"a": 1, "b": 1}', '{"a": 1, "c": 1}', '{"a": 1}')
        assert [automaton.matches(text) for text in texts] == [True, True, False, False, False]
    with pytest.raises(OptionError, match="#/dependentRequired: must be lists of names"):
        compiled({"dependentRequired": {"a": "b"}, "dependencies": {"a": ["c"]}})


def test_resources_of_one_name_that_differ_in_a_value_alone_are_refused() -> None:
    named = {str(value): {"$id": "x", "const": value} for value in (1, True)}
    with pytest.raises(OptionError, match="several schemas have the name 'x'"):
        expression_of({"$defs": named, "items": {"$ref": "x"}})


def test_what_is_left_open_goes_deepest_outside() -> None:
    automaton = compiled({"properties": {"a": {"type": "object", "properties": {"b": INTEGER}}}})
    assert automaton.matches('{"x": [{"y": {"z": 1}}]}')
    assert automaton.matches('{"a": {"b": 1, "x": [{"y": 1}]}}')
    assert not automaton.matches('{"a": {"b": 1, "x": [[[[[1]]]]]}}')


def test_a_schema_that_turns_out_too_large_goes_less_deep(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = kind(**{f"k{n}": STRING for n in range(6)})
    schema = kind("a", **{name: {"type": "array", "items": inner} for name in "abcdef"})
    texts = [f'{{"a": [{{"k0": "x", "y": {more}}}]}}' for more in ("1", "[1]")]
    assert all(map(compiled(schema).matches, texts))
    monkeypatch.setattr(json_limits, "ATTEMPT_STATES", 300)
    shallow = compiled(schema)
    assert [shallow.matches(text) for text in ('{"a": [{"k0": "x"}]}', '{"a": [{"k0": 1}]}', *texts)] == [
        True,
        False,
        False,
        False,
    ]
