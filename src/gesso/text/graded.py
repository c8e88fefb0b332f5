"""Gives an answer as those who judge it get it: graders, checks and scores."""

import json
from typing import Protocol

from gesso.text.tool_calls import ToolCall


class GradedAnswer(Protocol):
    """Holds an answer that a grader gets: a result, or the parser of an answer's tokens."""

    @property
    def text(self) -> str:
        """Returns the text without calls of functions."""

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Returns the calls."""


def graded_text(result: GradedAnswer) -> str:
    """Returns an answer as a grader gets it: a call of a function, where that is all there is, as a JSON object."""
    if len(result.tool_calls) != 1 or result.text.strip():
        return result.text
    (call,) = result.tool_calls
    return json.dumps({"name": call.name, "arguments": json.loads(call.arguments)})
