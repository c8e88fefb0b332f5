"""Declares the messages and tools that clients send, as parts of their bodies."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from gesso.server.schema import FirstError, FunctionName, JsonObject, Strict, refused

MAX_MESSAGES = 2048
MAX_PARTS = 1024
"""Of one message."""


def _text_only(part: Any) -> Any:
    kind = part.get("type") if isinstance(part, dict) else None
    if isinstance(kind, str) and kind != "text":
        raise PydanticCustomError("refused", "a part of type {kind} is not supported, only text", {"kind": kind})
    return part


class TextPart(Strict):
    type: Literal["text"]
    text: str


_Parts = Annotated[
    list[Annotated[TextPart, BeforeValidator(_text_only)]], FirstError, Field(min_length=1, max_length=MAX_PARTS)
]
Content = str | _Parts
NoName = Annotated[None, refused("the chat template has no place for names of participants")]


class SystemMessage(Strict):
    role: Literal["system", "developer"]
    content: Content
    name: NoName = None


class UserMessage(Strict):
    role: Literal["user"]
    content: Content
    name: NoName = None


class FunctionCall(Strict):
    name: FunctionName
    arguments: str
    """A JSON object as text."""


class ToolCall(Strict):
    id: str
    type: Literal["function"] = "function"
    function: FunctionCall
    index: int | None = None


class AssistantMessage(Strict):
    """Repeats an earlier answer, as this server gave it. Its reasoning is taken and left out of the prompt, as the
    model's chat format has it."""

    role: Literal["assistant"]
    content: Content | None = None
    tool_calls: Annotated[list[ToolCall], FirstError] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    name: NoName = None
    refusal: Annotated[None, refused("refusals are not part of this model's chat format")] = None
    audio: Annotated[None, refused("audio is not supported")] = None
    function_call: Annotated[None, refused("use tool_calls")] = None
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None


class ToolMessage(Strict):
    role: Literal["tool"]
    content: Content
    tool_call_id: str
    name: FunctionName | None = None


Message = Annotated[SystemMessage | UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")]
Messages = Annotated[list[Message], FirstError, Field(min_length=1, max_length=MAX_MESSAGES)]


class Function(Strict):
    name: FunctionName
    description: str | None = None
    parameters: JsonObject | None = None
    strict: bool | None = None


class Tool(Strict):
    type: Literal["function"]
    function: Function


class NamedFunction(Strict):
    name: FunctionName


class NamedTool(Strict):
    type: Literal["function"]
    function: NamedFunction
