"""Declares the bodies of `/v1/messages`: what Anthropic's clients send."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from gesso.server.message_models import MAX_MESSAGES, MAX_PARTS, MAX_TOOLS, only_types
from gesso.server.option_fields import field_of, shared_rows, with_options
from gesso.server.requests import Diffusion, refuse_unseen_drafts
from gesso.server.schema import (
    FirstError,
    FunctionName,
    JsonObject,
    NonEmpty,
    Repeated,
    StopList,
    Strict,
    contradiction,
    only,
    refused,
)

_SHARED = ("top_p", "top_k", "seed")
"""Options of every request whose fields are called the same here."""
NO_THREADS = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
"""What has Anthropic's tool runner and threads go on without one, as a client whose every request has all messages."""
NO_CACHE = "taken, because it does not change the answer: prefixes are kept by themselves"


NO_CHANGE = "taken, because it does not change the answer"


class CacheControl(Strict):
    """Says what is to be kept for later requests, which happens anyway."""

    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] | None = None


class Block(Strict):
    """Holds a block of content; any may be marked for a cache."""

    cache_control: Annotated[CacheControl | None, Field(description=NO_CACHE)] = None


class TextBlock(Block, Repeated):
    type: Literal["text"]
    text: str
    citations: Annotated[None, refused("there are no documents to cite")] = None


class EncodedSource(Strict):
    type: Literal["base64"]
    media_type: Literal["image/jpeg", "image/png", "image/gif", "image/webp"]
    data: NonEmpty


class AddressSource(Strict):
    """Names an image by its address, where the server was started with `--allow-media-url` or
    `--allow-media-folder`."""

    type: Literal["url"]
    url: NonEmpty


class ImageBlock(Block):
    type: Literal["image"]
    source: Annotated[EncodedSource | AddressSource, Field(discriminator="type")]


class ThinkingBlock(Repeated):
    """Repeats earlier reasoning, which is left out of the prompt, as the model's chat format has it."""

    type: Literal["thinking"]
    thinking: str
    signature: str = ""


class RedactedThinkingBlock(Repeated):
    """Repeats reasoning that another server hid, which is left out as well."""

    type: Literal["redacted_thinking"]
    data: str


class ToolUseBlock(Block, Repeated):
    type: Literal["tool_use"]
    id: str
    name: FunctionName
    input: JsonObject


class ToolResultBlock(Block):
    type: Literal["tool_result"]
    tool_use_id: str
    content: str | Annotated[list[TextBlock], FirstError, Field(max_length=MAX_PARTS)] = ""
    is_error: bool | None = None


UserBlock = Annotated[TextBlock | ImageBlock | ToolResultBlock, Field(discriminator="type")]
Reasoned = ThinkingBlock | RedactedThinkingBlock
AssistantBlock = Annotated[TextBlock | Reasoned | ToolUseBlock, Field(discriminator="type")]


class UserTurn(Strict):
    role: Literal["user"]
    content: str | Annotated[list[UserBlock], FirstError, Field(min_length=1, max_length=MAX_PARTS)]


class AssistantTurn(Strict):
    """Repeats an earlier answer; as the last message, what the answer begins with."""

    role: Literal["assistant"]
    content: str | Annotated[list[AssistantBlock], FirstError, Field(min_length=1, max_length=MAX_PARTS)]


class SystemTurn(Strict):
    role: Literal["system"]
    content: str | Annotated[list[TextBlock], FirstError, Field(min_length=1, max_length=MAX_PARTS)]


Turn = Annotated[UserTurn | AssistantTurn | SystemTurn, Field(discriminator="role")]


class CustomTool(Block):
    name: FunctionName
    input_schema: JsonObject
    description: str | None = None
    type: Literal["custom"] | None = None
    strict: bool | None = None


Tools = Annotated[list[Annotated[CustomTool, only_types("a tool", "custom")]], FirstError, Field(max_length=MAX_TOOLS)]


class ToolChoice(Strict):
    type: Literal["auto", "any", "tool", "none"]
    name: FunctionName | None = None
    disable_parallel_tool_use: bool | None = None

    @model_validator(mode="after")
    def _check_name(self) -> "ToolChoice":
        if (self.type == "tool") != (self.name is not None):
            raise contradiction("tool_choice.name", "goes with type tool, and with no other")
        return self


class Thinking(Strict):
    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: Annotated[int, Field(ge=1)] | None = None
    display: Literal["summarized"] | None = None

    @model_validator(mode="after")
    def _check_budget(self) -> "Thinking":
        if self.budget_tokens is not None and self.type != "enabled":
            raise contradiction("thinking.budget_tokens", "goes with type enabled")
        return self


class OutputFormat(Strict):
    type: Literal["json_schema"]
    schema_: Annotated[JsonObject, Field(alias="schema")]


class OutputConfig(Strict):
    format: OutputFormat | None = None
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None


class ContextManagement(Strict):
    edits: Annotated[list[Any] | None, only([], because="no message is edited here")] = None


class Metadata(Strict):
    user_id: str | None = None


class Conversation(Strict):
    """Holds what a message answers: all that has a say in the prompt."""

    model: str
    messages: Annotated[list[Turn], FirstError, Field(min_length=1, max_length=MAX_MESSAGES)]
    system: str | Annotated[list[TextBlock], FirstError, Field(max_length=MAX_PARTS)] | None = None
    tools: Tools | None = None
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None
    output_format: OutputFormat | None = None
    output_config: OutputConfig | None = None
    cache_control: Annotated[CacheControl | None, Field(description=NO_CACHE)] = None
    mcp_servers: Annotated[list[Any] | None, only([], because="the server opens no addresses")] = None

    @model_validator(mode="after")
    def _check_together(self) -> "Conversation":
        if self.output_format is not None and self.output_config is not None and self.output_config.format is not None:
            raise contradiction("output_format", "contradicts output_config.format")
        if self.tool_choice is not None and self.tool_choice.type not in ("auto", "none") and not self.tools:
            raise contradiction("tool_choice", "needs tools")
        return self


class CountTokensRequest(Conversation):
    """Asks how many tokens the prompt of a conversation has."""


@with_options(shared_rows(_SHARED))
class MessagesRequest(Conversation):
    """Asks for the next message of a conversation, in Anthropic's form."""

    max_tokens: Annotated[int, field_of("max_new_tokens")]
    stream: bool | None = None
    temperature: Annotated[float, field_of("temperature")] | None = None
    stop_sequences: StopList | None = None
    metadata: Metadata | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
    speed: Annotated[Literal["standard"] | None, Field(description="There is one speed.")] = None
    user_profile_id: Annotated[str | None, Field(description=NO_CHANGE)] = None
    diagnostics: Annotated[JsonObject | None, Field(description=NO_CHANGE)] = None
    context_management: Annotated[ContextManagement | None, Field(description="No message is edited here.")] = None
    inference_geo: Annotated[None, refused("this server is where it is")] = None
    container: Annotated[None, refused("there are no containers here")] = None
    thread: Annotated[None, refused("no conversation is kept here; send all its messages", NO_THREADS)] = None
    logit_bias: Annotated[dict[str, float] | None, refused("use /v1/chat/completions")] = None
    diffusion: Diffusion | None = None

    @model_validator(mode="after")
    def _check_budget(self) -> "MessagesRequest":
        budget = self.thinking.budget_tokens if self.thinking is not None else None
        if budget is not None and budget >= self.max_tokens:
            raise contradiction("thinking.budget_tokens", f"must be below max_tokens, {self.max_tokens}")
        return self

    @model_validator(mode="after")
    def _check_frames(self) -> "MessagesRequest":
        refuse_unseen_drafts(self.diffusion, self.stream)
        return self
