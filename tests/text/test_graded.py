"""What a grader gets of an answer."""

import json

import pytest

from gesso.text.graded import graded_text
from gesso.text.output import OutputParser
from gesso.text.tokenizer import Tokenizer

CALL = '<|tool_call>call:f{a:<|"|>fig<|"|>}<tool_call|>'
AS_JSON = json.dumps({"name": "f", "arguments": {"a": "fig"}})


@pytest.mark.parametrize(
    ("written", "graded"), [("fig", "fig"), (CALL, AS_JSON), (f"kiwi{CALL}", "kiwi"), (CALL + CALL, "")]
)
def test_a_call_that_is_all_there_is_is_json(tokenizer: Tokenizer, written: str, graded: str) -> None:
    parser = OutputParser(tokenizer)
    for token in tokenizer.encode(written):
        parser.feed(token)
    parser.flush()
    assert graded_text(parser) == graded
