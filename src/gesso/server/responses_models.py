"""Declares the bodies of `/v1/responses`: OpenAI's newer interface, whose input and output are lists of items."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from gesso.engine.seeds import SEEDS
from gesso.generation import MOST_LOGPROBS
from gesso.server.message_models import MAX_MESSAGES, MAX_PARTS, MAX_TOOLS, Effort, only_types
from gesso.server.option_fields import field_of, shared_rows, with_options
from gesso.server.requests import NO_PADDING, Diffusion, StructuredOutputs, refuse_unseen_drafts
from gesso.server.schema import (
    Bounded,
    FirstError,
    FunctionName,
    JsonObject,
    NonEmpty,
    Parsed,
    Repeated,
    Strict,
    contradiction,
    only,
    refused,
)

SHARED = (
    "top_p",
    "top_k",
    "min_p",
    "temperature",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "penalty_window",
)
"""Options whose fields are called as in a chat completion."""
LOGPROBS = "message.output_text.logprobs"
_STORED_WHOLE = "a response is streamed while it is made; one that is stored is told whole"
Status = Literal["in_progress", "completed", "incomplete"] | None


class TextPart(Repeated):
    """Holds a part of a message; of an answer's, the fields beside its text have no part in a prompt."""

    type: Literal["input_text", "output_text", "text"]
    text: str
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None
    logprobs: list[Any] | None = None
    parsed: Parsed = None


class ImagePart(Strict):
    type: Literal["input_image"]
    image_url: NonEmpty
    """A data URL, or an address where the server was started with `--allow-media-url` or `--allow-media-folder`."""
    detail: Literal["auto", "low", "high", "original"] | None = None
    file_id: Annotated[None, refused("no files are kept here; give image_url")] = None


Parts = Annotated[list[TextPart], FirstError, Field(max_length=MAX_PARTS)]
_Part = Annotated[TextPart | ImagePart, Field(discriminator="type")]
MediaParts = Annotated[list[_Part], FirstError, Field(max_length=MAX_PARTS)]


class MessageItem(Repeated):
    role: Literal["user", "assistant", "system", "developer"]
    content: str | MediaParts
    type: Literal["message"] | None = None
    id: str | None = None
    status: Status = None

    @field_validator("content")
    @classmethod
    def _check_images(cls, content: str | list[Any], info: ValidationInfo) -> str | list[Any]:
        if info.data.get("role") == "assistant" and any(isinstance(part, ImagePart) for part in content):
            because = "an answer holds no images: they go with role user, system or developer"
            raise PydanticCustomError("refused", "{because}", {"because": because})
        return content


class CallItem(Repeated):
    type: Literal["function_call"]
    call_id: str
    name: FunctionName
    arguments: str
    parsed_arguments: Parsed = None
    id: str | None = None
    status: Status = None


class CallOutputItem(Strict):
    type: Literal["function_call_output"]
    call_id: str
    output: str | Parts
    id: str | None = None
    status: Status = None


class ReasoningItem(Repeated):
    """Repeats earlier reasoning, which is left out of the prompt, as the model's chat format has it."""

    type: Literal["reasoning"]
    id: str | None = None
    summary: list[Any] | None = None
    content: list[Any] | None = None
    encrypted_content: Annotated[None, refused("reasoning is not encrypted here")] = None
    status: Status = None


def _kind(value: Any) -> str:
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return kind if isinstance(kind, str) else "message"


Item = Annotated[
    Annotated[MessageItem, Tag("message")]
    | Annotated[CallItem, Tag("function_call")]
    | Annotated[CallOutputItem, Tag("function_call_output")]
    | Annotated[ReasoningItem, Tag("reasoning")],
    Discriminator(_kind),
]


class FunctionTool(Strict):
    type: Literal["function"]
    name: FunctionName
    description: str | None = None
    parameters: JsonObject | None = None
    strict: bool | None = None


class NamedFunction(Strict):
    type: Literal["function"]
    name: FunctionName


class AllowedFunctions(Strict):
    """Leaves some of the tools; the prompt tells of no others."""

    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: Annotated[list[NamedFunction], FirstError, Field(min_length=1, max_length=MAX_TOOLS)]


ToolChoice = (
    Literal["auto", "none", "required"]
    | Annotated[NamedFunction | AllowedFunctions, Field(discriminator="type")]
    | None
)


class PlainFormat(Strict):
    type: Literal["text"]


class ObjectFormat(Strict):
    type: Literal["json_object"]


class SchemaFormat(Strict):
    type: Literal["json_schema"]
    name: FunctionName
    schema_: Annotated[JsonObject, Field(alias="schema")]
    description: str | None = None
    strict: bool | None = None


class TextConfig(Strict):
    format: Annotated[PlainFormat | ObjectFormat | SchemaFormat, Field(discriminator="type")] | None = None
    verbosity: Annotated[None, refused("not supported; ask for it in the prompt")] = None


class Reasoning(Strict):
    effort: Effort | None = None
    summary: Annotated[None, refused("reasoning comes as it is, in items of type reasoning")] = None


class ResponseStreamOptions(Strict):
    include_obfuscation: Annotated[bool | None, only(False, because=NO_PADDING)] = None


class ResponsesPrompt(Strict):
    """Holds what a response answers: all that has a say in the prompt."""

    model: str
    input: str | Annotated[list[Item], FirstError, Field(min_length=1, max_length=MAX_MESSAGES)]
    instructions: str | None = None
    previous_response_id: str | None = None
    text: TextConfig | None = None
    tools: (
        Annotated[
            list[Annotated[FunctionTool, only_types("a tool", "function")]], FirstError, Field(max_length=MAX_TOOLS)
        ]
        | None
    ) = None
    tool_choice: ToolChoice = None
    parallel_tool_calls: bool | None = None
    reasoning: Reasoning | None = None
    truncation: Annotated[Literal["disabled"] | None, only("disabled", because="nothing is cut off a prompt")] = None
    conversation: Annotated[None, refused("use previous_response_id")] = None


class CountInputTokens(ResponsesPrompt):
    """Asks how many tokens the prompt of a response has."""


@with_options(shared_rows(SHARED))
class ResponsesRequest(ResponsesPrompt):
    """Asks for an answer, by itself or after an earlier response."""

    store: bool | None = None
    max_output_tokens: Annotated[int, field_of("max_new_tokens")] | None = None
    stream: bool | None = None
    stream_options: ResponseStreamOptions | None = None
    include: (
        Annotated[
            list[Literal["message.output_text.logprobs", "reasoning.encrypted_content"]],
            FirstError,
            Field(max_length=2),
        ]
        | None
    ) = None
    """Reasoning comes as it is, so nothing of it is encrypted: who asks for that as well gets what there is."""
    top_logprobs: Annotated[int, Field(ge=0, le=MOST_LOGPROBS)] | None = None
    seed: Annotated[int, Field(ge=0, lt=SEEDS)] | None = None
    structured_outputs: StructuredOutputs | None = None
    diffusion: Diffusion | None = None
    background: Annotated[bool | None, only(False, because="an answer is waited for")] = None
    metadata: Annotated[dict[str, str], Bounded] | None = None
    user: str | None = None
    service_tier: Literal["auto", "default", "flex", "scale", "priority"] | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: Literal["in_memory", "24h"] | None = None
    prompt: Annotated[None, refused("no prompts are kept here")] = None
    max_tool_calls: Annotated[None, refused("the server calls no tools")] = None

    @model_validator(mode="after")
    def _check_together(self) -> "ResponsesRequest":
        refuse_unseen_drafts(self.diffusion, self.stream)
        if self.stream_options is not None and not self.stream:
            raise contradiction("stream_options", "needs stream: true")
        if self.top_logprobs is not None and LOGPROBS not in (self.include or ()):
            raise contradiction("top_logprobs", f"needs include: [{LOGPROBS}]")
        return self


class InputItemsQuery(Strict):
    """Asks for the items that a stored response answered."""

    after: str | None = None
    limit: Annotated[int, Field(strict=False, ge=1, le=100)] = 20
    order: Literal["asc", "desc"] = "desc"


class StoredResponseQuery(Strict):
    """Asks for a response that is stored."""

    stream: Annotated[str | None, only("false", because=_STORED_WHOLE)] = None
    starting_after: Annotated[str | None, refused(_STORED_WHOLE)] = None
    include: Annotated[str | None, refused("what is stored is told as it was answered")] = None
    include_obfuscation: Annotated[str | None, only("false", because=NO_PADDING)] = None
