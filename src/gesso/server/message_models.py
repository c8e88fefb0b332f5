"""Declares the messages and tools that clients send, as parts of their bodies."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, StringConstraints, Tag
from pydantic_core import PydanticCustomError

from gesso.server.schema import FirstError, FunctionName, JsonObject, NonEmpty, Parsed, Repeated, Strict, refused

MAX_MESSAGES = 2048
MAX_TOOLS = 128
MAX_PARTS = 1024
"""Parts of one message."""
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How much a client wants the model to think, in OpenAI's words."""


def only_types(what: str, *known: str) -> BeforeValidator:
    """Refuses things of other types by name, before a field that they have or lack is."""

    def check(thing: Any) -> Any:
        kind = thing.get("type") if isinstance(thing, dict) else None
        if isinstance(kind, str) and kind not in known:
            message = f"{what} of type {kind} is not supported here, only {', '.join(known)}"
            raise PydanticCustomError("refused", "{message}", {"message": message})
        return thing

    return BeforeValidator(check)


def _tag(part: Any) -> str:
    """Which kind of part it is, in words that are no field's name: errors leave out of a path what is no field."""
    kind = part.get("type") if isinstance(part, dict) else getattr(part, "type", None)
    return f"{kind if isinstance(kind, str) else 'text'} part"


class TextPart(Strict):
    type: Literal["text"]
    text: str


class ImageUrl(Strict):
    url: NonEmpty
    """A data URL, or an address where the server was started with `--allow-media-url` or `--allow-media-folder`."""
    detail: Literal["auto", "low", "high", "original"] | None = None
    """low: at most 70 soft tokens; high and original: 1120; auto: `mm_processor_kwargs.max_soft_tokens`, or as the
    checkpoint has it."""


class ImagePart(Strict):
    type: Literal["image_url"]
    image_url: ImageUrl


class VideoUrl(Strict):
    url: NonEmpty


class VideoPart(Strict):
    type: Literal["video_url"]
    video_url: VideoUrl


_MediaPart = Annotated[
    Annotated[TextPart, Tag("text part")]
    | Annotated[ImagePart, Tag("image_url part")]
    | Annotated[VideoPart, Tag("video_url part")],
    Discriminator(_tag),
    only_types("a part", "text", "image_url", "video_url"),
]
_Parts = Annotated[
    list[Annotated[TextPart, only_types("a part", "text")]], FirstError, Field(min_length=1, max_length=MAX_PARTS)
]
Content = str | _Parts
MediaContent = str | Annotated[list[_MediaPart], FirstError, Field(min_length=1, max_length=MAX_PARTS)]
"""What a user says: text, images and clips."""
ParticipantName = Annotated[str, StringConstraints(min_length=1, max_length=64)]
"""Who a message is from: the chat template has it, and an answer's warnings say where it has no place for it."""


class SystemMessage(Strict):
    role: Literal["system", "developer"]
    content: MediaContent
    name: ParticipantName | None = None


class UserMessage(Strict):
    role: Literal["user"]
    content: MediaContent
    name: ParticipantName | None = None


class FunctionCall(Repeated):
    name: FunctionName
    arguments: str
    """A JSON object as text."""
    parsed_arguments: Parsed = None


class ToolCall(Repeated):
    id: str
    type: Literal["function"] = "function"
    function: FunctionCall
    index: int | None = None


class AssistantMessage(Repeated):
    """Repeats an earlier answer, as this server gave it. Its reasoning is taken and left out of the prompt, as the
    model's chat format has it."""

    role: Literal["assistant"]
    content: Content | None = None
    tool_calls: Annotated[list[ToolCall], FirstError] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    name: ParticipantName | None = None
    refusal: Annotated[None, refused("refusals are not part of this model's chat format")] = None
    audio: Annotated[None, refused("audio is not supported")] = None
    function_call: Annotated[None, refused("use tool_calls")] = None
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None
    parsed: Parsed = None


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


Tools = Annotated[list[Annotated[Tool, only_types("a tool", "function")]], FirstError, Field(max_length=MAX_TOOLS)]


class NamedFunction(Strict):
    name: FunctionName


class NamedTool(Strict):
    type: Literal["function"]
    function: NamedFunction


class AllowedTools(Strict):
    mode: Literal["auto", "required"]
    tools: Annotated[list[NamedTool], FirstError, Field(min_length=1, max_length=MAX_TOOLS)]


class AllowedToolChoice(Strict):
    """Leaves some of the tools; the prompt tells of no others."""

    type: Literal["allowed_tools"]
    allowed_tools: AllowedTools


def _choice(value: Any) -> str:
    """The branch of a choice, by words that are no fields: errors are placed by those."""
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return "some tools" if kind == "allowed_tools" else "one tool"


_OfTools = Annotated[
    Annotated[NamedTool, Tag("one tool")] | Annotated[AllowedToolChoice, Tag("some tools")], Discriminator(_choice)
]
ToolChoice = Literal["auto", "none", "required"] | _OfTools | None
