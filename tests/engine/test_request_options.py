"""The first stage of a request: what is said beside the settings of generation."""

from typing import Any

import pytest
from gesso.engine.request_options import RequestOptions, parse_options

from gesso.engine.engine import Engine
from gesso.errors import OptionError

TOOL = {"type": "function", "function": {"name": "clock"}}


def test_none_is_not_given(tiny: Engine) -> None:
    names = ("raw", "thinking", "begin", "prediction", "tools", "tool_choice", "parallel_tool_calls")
    assert parse_options(dict.fromkeys(names)) == parse_options({}) == RequestOptions()
    options: dict[str, Any] = {"seed": 1, "max_new_tokens": 8}
    plain = tiny.generate("hi", **options)
    for name in names:
        assert tiny.generate("hi", **options, **{name: None}).token_ids == plain.token_ids


def test_what_is_given_is_sorted() -> None:
    found = parse_options({"raw": True, "begin": "a", "tools": [TOOL], "tool_choice": "required", "top_k": 3})
    assert (found.raw, found.response_prefix, found.tools, found.tool_choice) == (True, "a", (TOOL,), "required")
    assert found.generation == {"top_k": 3}
    assert found.parallel_tool_calls is True


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"raw": 1}, "raw must be true or false, got 1"),
        ({"thinking": "yes"}, "thinking must be true or false, got 'yes'"),
        ({"begin": 5}, "begin must be a string, got 5"),
        ({"prediction": ["a"]}, r"prediction must be a string, got \['a'\]"),
        ({"tools": {"a": 1}}, "tools must be a list of mappings"),
        ({"tools": ["a"]}, "tools must be a list of mappings"),
    ],
)
def test_other_kinds_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=f"^{message}"):
        parse_options(options)
