"""Tool calls: what the chat template writes is read back, what is malformed is refused with its place."""

import json
from importlib import resources
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gesso.errors import TextError
from gesso.text.chat_template import ChatTemplate
from gesso.text.output import OutputParser
from gesso.text.tokenizer import Tokenizer
from gesso.text.tool_calls import CALL, CALL_END, MAX_DEPTH, ToolCall, parse_tool_call

TEMPLATE = ChatTemplate(
    resources.files("gesso.tasks").joinpath("chat_template.jinja").read_text("utf-8"), {"bos_token": "<bos>"}
)

STRINGS = st.one_of(
    st.text(st.sampled_from("pear{}[]:,\" \n\\'")),
    st.text(st.characters(exclude_categories=["Cs"])).filter(lambda text: "<" not in text),
    st.sampled_from(["", "<", '"', "null", "1", "call:f{}", "a\r\nb", "<|", "|>"]),
)
KEYS = st.one_of(
    st.sampled_from(["items", "keys", "type", "true", "1", "first name", "$ref", "a<b", "\u00e9"]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters='{}[],:"<'), min_size=1).filter(
        lambda key: key == key.strip(" \t\r\n")
    ),
)
NUMBERS = st.one_of(
    st.integers(), st.integers(10**30, 10**40), st.floats(allow_nan=False, allow_infinity=False), st.just(-0.0)
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, STRINGS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)
ARGUMENTS = st.dictionaries(KEYS, VALUES, max_size=4)
NAMES = st.from_regex(r"[A-Za-z0-9_.-]{1,64}", fullmatch=True)


def written(name: str, arguments: dict[str, Any]) -> str:
    """A call as the chat template writes it, with its special tokens."""
    call = {"function": {"name": name, "arguments": arguments}}
    text = TEMPLATE.render([{"role": "assistant", "tool_calls": [call]}], add_generation_prompt=False)
    return text.removeprefix("<bos><|turn>model\n").removesuffix("<turn|>\n")


@given(name=NAMES, arguments=ARGUMENTS)
def test_what_the_chat_template_writes_is_read_back(name: str, arguments: dict[str, Any]) -> None:
    """As JSON text, so that the order of keys and the kind of every number count."""
    text = written(name, arguments).removeprefix(CALL).removesuffix(CALL_END)
    assert parse_tool_call(text) == ToolCall(name, json.dumps(arguments, ensure_ascii=False))


@given(name=NAMES, arguments=ARGUMENTS)
def test_and_so_it_is_token_by_token(tokenizer: Tokenizer, name: str, arguments: dict[str, Any]) -> None:
    parser = OutputParser(tokenizer)
    for token in tokenizer.encode(written(name, arguments)):
        parser.feed(token)
    parser.flush()
    assert parser.tool_calls == (ToolCall(name, json.dumps(arguments, ensure_ascii=False)),)
    assert (parser.text, parser.reasoning, parser.warnings) == ("", "", ())


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("call:f{}", "f", {}),
        (" \n call: get-it.v2_x \t{ } \n", "get-it.v2_x", {}),
        ('call:f{ a : <|"|> b <|"|> , c : [ 1 , { } , [ ] ] }', "f", {"a": " b ", "c": [1, {}, []]}),
        ('call:f{<|"|>a:,{ <|"|>:1,<|"|><|"|>:2}', "f", {"a:,{ ": 1, "": 2}),
        ('call:f{a:<|"|>},]\n"<eos><|turn><|"|>}', "f", {"a": '},]\n"<eos><|turn>'}),
        ('call:f{a:1,b:2,<|"|>a<|"|>:3}', "f", {"a": 3, "b": 2}),
        ("call:f{a:true,b:false,c:null}", "f", {"a": True, "b": False, "c": None}),
        ("call:f{a:123456789012345678901234567890}", "f", {"a": 123456789012345678901234567890}),
    ],
)
def test_calls(text: str, name: str, arguments: dict[str, Any]) -> None:
    assert parse_tool_call(text) == ToolCall(name, json.dumps(arguments))


@pytest.mark.parametrize(
    "number",
    ["-0", "1e3", "-1.50E-07", "9007199254740993.0", "12345678901234567.890", "9" * 400, f"0.{'0' * 400}1"],
)
def test_a_number_stays_as_it_is_written(number: str) -> None:
    assert parse_tool_call(f"call:f{{a:[{number}]}}").arguments == f'{{"a": [{number}]}}'


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "'call:' is missing at character 0, its end"),
        ("f{}", "'call:' is missing at character 0, before 'f{}'"),
        ("call:{}", "a function name is missing at character 5"),
        ("call:f", "'{' is missing at character 6, its end"),
        ("call:f g{}", "'{' is missing at character 7"),
        ("call:f\u00e9{}", "'{' is missing at character 6"),
        ("call:f[]", "'{' is missing at character 6"),
        ("call:f{", "a key is missing at character 7, its end"),
        ("call:f{a}", "':' is missing at character 8, before '}'"),
        ("call:f{a,b:1}", "':' is missing at character 8"),
        ("call:f{:1}", "a key is missing at character 7"),
        ('call:f{"a":1}', "a key is missing at character 7"),
        ("call:f{a:}", "a value is missing at character 9, before '}'"),
        ('call:f{a:"b"}', "a value is missing at character 9"),
        ("call:f{a:1,}", "a key is missing at character 11"),
        ("call:f{a:[1,]}", "a value is missing at character 12"),
        ("call:f{a:[1 2]}", "',' or ']' is missing at character 12"),
        ("call:f{a:[1}", "',' or ']' is missing at character 11"),
        ("call:f{a:1", "',' or '}' is missing at character 10, its end"),
        ('call:f{a:<|"|>b}', "a string that is not closed at character 9"),
        ('call:f{<|"|>a:1}', "a string that is not closed at character 7"),
        ("call:f{} and more", "something follows the closing brace at character 9, before 'and more'"),
        ("call:f{}call:g{}", "something follows the closing brace at character 8"),
        ("call:f{}<|tool_call>", "something follows the closing brace at character 8"),
        *(
            (f"call:f{{a:{word}}}", f"no value that JSON could hold at character 9, before '{word}")
            for word in (
                "NaN",
                "nan",
                "Infinity",
                "-inf",
                "True",
                "None",
                "rain",
                "01",
                "+1",
                "1.",
                ".5",
                "1e",
                "1e999",
            )
        ),
        ("call:f{a:\u0661}", "no value that JSON could hold at character 9"),
        ("call:f{a:" + "9" * 5000 + "}", "no value that JSON could hold at character 9"),
    ],
)
def test_malformed_calls(text: str, what: str) -> None:
    with pytest.raises(TextError) as caught:
        parse_tool_call(text)
    assert what in str(caught.value)
    assert "\n" not in str(caught.value)


def test_how_deep_arguments_may_be() -> None:
    def nested(depth: int) -> str:
        return "call:f{a:" + "[" * (depth - 1) + "]" * (depth - 1) + "}"

    assert json.loads(parse_tool_call(nested(MAX_DEPTH)).arguments)
    for depth in (MAX_DEPTH + 1, 100_000):
        with pytest.raises(TextError, match=f"nested more than {MAX_DEPTH} deep at character {8 + MAX_DEPTH}"):
            parse_tool_call(nested(depth))
    with pytest.raises(TextError, match="nested more than"):
        parse_tool_call("call:f" + "{a:" * 100_000)


@given(
    st.lists(st.sampled_from(["call:f{", "a", ":", ",", "{", "}", "[", "]", '<|"|>', "1", " ", "e", "-", "."])).map(
        "".join
    )
)
def test_any_other_text_is_refused_and_nothing_else_happens(text: str) -> None:
    for whole in (text, "call:f{a:" + text, "call:f{" + text + "}"):
        try:
            call = parse_tool_call(whole)
        except TextError:
            continue
        assert isinstance(json.loads(call.arguments), dict)
