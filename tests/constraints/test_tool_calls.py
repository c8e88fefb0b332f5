"""Calls that the automaton writes are read back by the parser, and their arguments validate."""

import itertools
import json
from typing import Any

import jsonschema
import pytest
from thorough import cases

from constraints.schemas import SCHEMAS
from constraints.test_compile import MINI_ENDS, drawn
from gesso.constraints.bytes_automaton import compile_bytes
from gesso.constraints.call_form import SPECIAL
from gesso.constraints.compile import compile_constraint
from gesso.constraints.expression import Expression
from gesso.constraints.placeholders import mark
from gesso.constraints.tool_calls import tool_calls
from gesso.errors import OptionError
from gesso.text.tokenizer import Tokenizer
from gesso.text.tool_calls import CALL, CALL_END, QUOTE, ToolCall, parse_tool_call

OBJECTS = [name for name, schema in SCHEMAS.items() if isinstance(schema, dict) and schema.get("type") == "object"]
CITY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 2, "maxLength": 9},
        "the days": {"type": "integer", "minimum": -3, "maximum": 40},
        "tags": {"type": "array", "items": {"enum": ["a", 'b"{', 3.5, None, True, ["x"], {"k": 1}]}, "maxItems": 3},
        "rest": {},
    },
    "required": ["city", "the days", "tags"],
    "additionalProperties": False,
}


def calls_of(functions: dict[str, Any], **given: Any) -> Expression:
    return tool_calls(functions, **given)[0]


def write(mini: Tokenizer, expression: Any, extra: int, seed: int) -> tuple[str, list[ToolCall]]:
    """One output drawn at random: the text before the calls, and the calls."""
    automaton = compile_constraint(expression, mini, MINI_ENDS, special=SPECIAL)
    tokens = drawn(automaton, automaton.shortest + extra, 0, seed, 3.0)
    text = mini.decode([token for token in tokens if token not in MINI_ENDS])
    before, *calls = text.split(CALL)
    assert all(call.endswith(CALL_END) for call in calls)
    return before, [parse_tool_call(call.removesuffix(CALL_END)) for call in calls]


@pytest.mark.parametrize("name", OBJECTS)
def test_arguments_validate(name: str, mini: Tokenizer) -> None:
    schema = SCHEMAS[name]
    for seed in range(cases(3, 20)):
        before, calls = write(mini, calls_of({"act": schema}), 9 * seed, seed)
        assert before == ""
        assert calls
        for call in calls:
            assert call.name == "act"
            jsonschema.Draft202012Validator(schema).validate(json.loads(call.arguments))


def test_strings_bare_keys_and_literals(mini: Tokenizer) -> None:
    seen = set()
    for seed in range(cases(40, 400)):
        _, calls = write(mini, calls_of({"weather": CITY}, calls=(1, 2)), 30, seed)
        assert 1 <= len(calls) <= 2
        for call in calls:
            jsonschema.validate(json.loads(call.arguments), CITY)
            seen |= json.loads(call.arguments).keys()
    assert seen == {"city", "the days", "tags", "rest"}


def test_text_may_come_first_and_calls_may_be_left_out(mini: Tokenizer) -> None:
    expression = calls_of({"a": None, "b": {}}, calls=(0, None), text_first=True)
    found = [write(mini, expression, 12, seed) for seed in range(40)]
    assert any(before for before, _ in found)
    assert {call.arguments for _, calls in found for call in calls} <= {"{}"}


FREE = compile_bytes(calls_of({"held": None}, calls=(0, 1), text_first=True, free=["weather", "clock"]))


@pytest.mark.parametrize(
    "arguments",
    [
        "{}",
        "{ }",
        "{city:'Oslo',days:3}",
        "{'city':'Oslo, \"the\" {city}',a b:null , <x:true}",
        "{o:{'x':1,y:[]},l:[{p:[-1.5e+100]},'a']}",
        "{a:[[[[{b:[{c:'}',d:[]}]},{'e':{f:{g:0}}}]]]],h:'i'}",
    ],
)
def test_a_free_function_may_have_any_arguments(arguments: str) -> None:
    begin, end, quote = (mark(number) for number in range(3))
    parse_tool_call(f"call:clock{arguments}".replace("'", QUOTE))
    for name in ("weather", "clock"):
        assert FREE.matches(f"Let me see.{begin}call:{name}{arguments}{end}".replace("'", quote))
    assert not FREE.matches(f"{begin}call:other{arguments}{end}".replace("'", quote))
    assert FREE.matches(f"{begin}call:held{arguments}{end}".replace("'", quote)) == (arguments == "{}")


def test_a_free_function_has_arguments_that_are_read() -> None:
    begin, end, quote = (mark(number) for number in range(3))
    for arguments in ("", "{a}", "{a:b}", "{a:1,}", "{:1}", "{ :1}", "{a:'b}", "{a:[1}", '{"a":1}', "{a:[{b:1]}}"):
        assert not FREE.matches(f"{begin}call:clock{arguments}{end}".replace("'", quote)), arguments


def test_what_the_language_holds() -> None:
    texts = compile_bytes(calls_of({"f": {"properties": {"x": {"type": "string"}, "y z": {"const": None}}}}))
    begin, end, quote = (mark(number) for number in range(3))
    for inside in ("f{}", f"f{{x:{quote}a,b}}{quote}}}", f"f{{{quote}y z{quote}:null}}", f"f{{x:{quote}<{quote}}}"):
        assert texts.matches(f"{begin}call:{inside}{end}"), inside
    assert texts.matches(f"{begin}call:f{{}}{end}{begin}call:f{{}}{end}")
    for inside in ("f", "g{}", 'f{x:"a"}', f"f{{x:{quote}<|{quote}}}", f"f{{ x:{quote}a{quote}}}", "f{}x"):
        assert not texts.matches(f"{begin}call:{inside}{end}"), inside
    assert not texts.matches("")
    assert not texts.matches("call:f{}")


@pytest.mark.parametrize(
    ("items", "values"),
    [
        ({"type": "string"}, ["'a'", "'b'", "'a\\'", "'\"'", "''", "'a,b'"]),
        ({"type": "integer"}, ["1", "2", "10", "1.0"]),
        ({"type": ["string", "null", "boolean"]}, ["null", "true", "'null'", "'a'"]),
        (
            {"properties": {"k": {"type": "string"}}, "required": ["k"]},
            ["{k:'a'}", "{k:'b'}", "{k:'a','x':1}", "{'x':1}"],
        ),
        ({"properties": {"k 1": {"type": "integer"}}, "required": ["k 1"]}, ["{'k 1':1}", "{'k 1':2}"]),
    ],
)
def test_items_that_differ(items: Any, values: list[str]) -> None:
    schema = {"type": "array", "items": {"type": "object", **items}, "uniqueItems": True, "minItems": 2}
    texts = compile_bytes(calls_of({"f": {"properties": {"x": schema}, "required": ["x"]}}))
    begin, end, quote = (mark(number) for number in range(3))
    taken = 0
    for one, other in itertools.product(values, repeat=2):
        made = f"call:f{{x:[{one},{other}]}}"
        parsed = json.loads(parse_tool_call(made.replace("'", QUOTE)).arguments)["x"]
        found = texts.matches(f"{begin}{made}{end}".replace("'", quote))
        assert parsed[0] != parsed[1] or not found, made
        taken += found
    assert taken >= len(values)


def test_an_object_that_must_not_be_is_none_with_a_quoted_key_either() -> None:
    schema = {"type": "object", "not": {"const": {"a": "x"}}}
    texts = compile_bytes(calls_of({"f": {"properties": {"o": schema}, "required": ["o"]}}))
    begin, end, quote = (mark(number) for number in range(3))
    made = [f"{begin}call:f{{o:{inside}}}{end}".replace("'", quote) for inside in ("{'a':'x'}", "{a:'x'}", "{'a':'y'}")]
    assert list(map(texts.matches, made)) == [False, False, True]


MAPS: list[tuple[dict[str, Any], list[str]]] = [
    ({"additionalProperties": {"type": "integer"}}, ["", "a:1,ab:2,'c d':3", "'a':1,'ab':2", "a:1,a:2", "a:1,'a':2"]),
    ({"additionalProperties": {"type": "integer"}, "maxProperties": 2}, ["", "a:1,ab:2"]),
    ({"additionalProperties": {"type": "integer"}, "minProperties": 2}, ["a:1,'c d':2", "'c d':1,ab:2,ab:1"]),
    ({"additionalProperties": {"type": "integer"}, "minProperties": 3}, ["a:1,b:2,'c d':1"]),
    ({"patternProperties": {"^a": {"const": 1}}, "additionalProperties": False}, ["a:1,ab:1", "'ab':1,a:1,'ab':1"]),
    ({"patternProperties": {"^a": {"const": 1}}}, ["a:1,b:2,ab:1", "b:2,b:1", "'c d':{a:2}"]),
    ({"propertyNames": {"enum": ["a", "b", "c d"]}}, ["a:1,b:2", "'a':1,'c d':2", "b:1,a:1,b:2"]),
    ({"propertyNames": {"pattern": "b$", "maxLength": 2}}, ["b:1,ab:2", "'b':1"]),
    ({"properties": {"a": {"const": 1}}, "required": ["a"]}, ["a:1,b:1,ab:2", "a:1,'c d':2"]),
    ({"required": ["a", "b"]}, ["a:1,b:1,ab:2", "a:2,b:{a:1}"]),
    ({"not": {"additionalProperties": {"const": 1}}}, ["a:2", "a:1,b:2,c:2", "'c d':2"]),
    ({"not": {"propertyNames": {"enum": ["a", "b"]}}}, ["ab:1", "a:1,'c d':2"]),
    ({"properties": {"a": {}}, "not": {"patternProperties": {"^a": {"const": 1}}}}, ["a:2", "a:1,ab:2", "ab:2"]),
    ({"not": {"const": {"a": 1}}}, ["b:1", "a:1,b:1", "a:1,'ab':1"]),
]


@pytest.mark.parametrize(("schema", "taken"), MAPS)
def test_maps_have_several_members_and_validate_whichever_of_a_key_counts(
    schema: dict[str, Any], taken: list[str]
) -> None:
    """All objects of up to three members, of keys in both notations, some twice."""
    whole = {"properties": {"o": {"type": "object", **schema}}, "required": ["o"], "additionalProperties": False}
    texts, validator = compile_bytes(calls_of({"f": whole})), jsonschema.Draft202012Validator(whole)
    begin, end, quote = (mark(number) for number in range(3))
    members = [f"{key}:{value}" for key in ("a", "'a'", "b", "ab", "'ab'", "'c d'") for value in ("1", "2")]
    several = (",".join(chosen) for count in range(4) for chosen in itertools.product(members, repeat=count))
    found = 0
    for inside in [*taken, *several]:
        made = f"call:f{{o:{{{inside}}}}}"
        if texts.matches(f"{begin}{made}{end}".replace("'", quote)):
            found += 1
            validator.validate(json.loads(parse_tool_call(made.replace("'", QUOTE)).arguments))
        else:
            assert inside not in taken
    assert found > len(taken)


def test_a_mark_is_no_token_that_spells_its_byte(fallback: Tokenizer) -> None:
    """Byte tokens could write the byte that stands for a special token."""
    automaton = compile_constraint(calls_of({"b": None}), _with_calls(fallback), [2], special=SPECIAL)
    spelled = [fallback._tokenizer.token_to_id(f"<0x{0xF8 + number:02X}>") for number in range(3)]
    assert all(automaton.class_V[token] < 0 for token in spelled)


def _with_calls(tokenizer: Tokenizer) -> Tokenizer:
    from tokenizers import AddedToken

    tokenizer._tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    return Tokenizer(tokenizer._tokenizer)


@pytest.mark.parametrize("kind", [["object"], ["null", "object"]])
def test_arguments_are_an_object_where_other_types_are_allowed_beside(kind: list[str]) -> None:
    texts = compile_bytes(calls_of({"f": {"type": kind, "properties": {"x": {"const": 1}}, "required": ["x"]}}))
    begin, end = mark(0), mark(1)
    assert texts.matches(f"{begin}call:f{{x:1}}{end}")
    assert not texts.matches(f"{begin}call:fnull{end}")


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": ["array", "null"]}, "tools: the parameters of f: #/type: the arguments are an object"),
        ({"type": "array"}, "tools: the parameters of f: #/type: the arguments are an object"),
        (True, "tools: the parameters of f: #: the arguments are an object"),
        (
            {"properties": {"a": {"uniqueItems": True, "minItems": 9}}},
            "tools: the parameters of f: #/properties/a/uniqueItems",
        ),
    ],
)
def test_parameters_that_cannot_be_held_to_are_refused(schema: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        calls_of({"f": schema})
