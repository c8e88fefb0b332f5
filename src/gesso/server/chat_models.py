"""Declares the body of a chat completion, which those of other interfaces become."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from gesso.generation import MOST_LOGPROBS
from gesso.server.message_models import (
    AllowedToolChoice,
    AssistantMessage,
    Content,
    Effort,
    Message,
    Messages,
    NamedTool,
    Tool,
    ToolChoice,
    Tools,
)
from gesso.server.option_fields import field_of, rows_under, with_options
from gesso.server.requests import Sampling
from gesso.server.schema import Bounded, FunctionName, JsonObject, Strict, contradiction, only, refused

MEDIA_FIELDS = "mm_processor_kwargs."


class TemplateOptions(Strict):
    enable_thinking: bool | None = None
    thinking_budget: Annotated[int, Field(ge=1)] | None = None


@with_options(rows_under(MEDIA_FIELDS))
class MediaKwargs(Strict):
    """Says how images and clips are made for the model."""

    def options(self) -> dict[str, Any]:
        """Returns the engine's options that were given."""
        rows = rows_under(MEDIA_FIELDS)
        return {rows[field].name: value for field, value in self.model_dump(exclude_none=True).items()}


class TextFormat(Strict):
    type: Literal["text"]


class ObjectFormat(Strict):
    type: Literal["json_object"]


class SchemaOfFormat(Strict):
    """Wraps a schema as OpenAI does; `strict` refuses keywords and formats that are not known, which else are ignored
    and told of in the answer's `diffusion.ignored`. What is written always validates."""

    name: FunctionName
    schema_: Annotated[JsonObject, Field(alias="schema")]
    description: str | None = None
    strict: bool | None = None


class SchemaFormat(Strict):
    type: Literal["json_schema"]
    json_schema: SchemaOfFormat


class Prediction(Strict):
    """Says what the answer will mostly be: denoising starts from it, and from noise as `diffusion.strength` says."""

    type: Literal["content"]
    content: Content

    @property
    def text(self) -> str:
        """Joins all parts."""
        return _joined(self.content)


def _joined(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.text for part in content)


def _check_end(messages: Sequence[Message], continued: bool | None, prompted: bool | None) -> None:
    """Checks what the answer is to a conversation: a turn of its own, or the rest of the last one."""
    if not continued:
        if prompted is False:
            raise contradiction("add_generation_prompt", "an answer is a turn of its own, or continue_final_message")
        return
    if prompted:
        raise contradiction("add_generation_prompt", "contradicts continue_final_message")
    last = messages[-1]
    if not isinstance(last, AssistantMessage) or not last.content or last.tool_calls:
        raise contradiction("continue_final_message", "needs a last message of the assistant with text and no calls")
    if len(messages) == 1:
        raise contradiction("continue_final_message", "needs a message before the assistant's")


class ChatRequest(Sampling):
    """Asks for the next message of a conversation."""

    messages: Messages
    max_completion_tokens: Annotated[int, field_of("max_new_tokens")] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MOST_LOGPROBS)] | None = None
    tools: Tools | None = None
    tool_choice: ToolChoice = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: Effort | None = None
    chat_template_kwargs: TemplateOptions | None = None
    mm_processor_kwargs: MediaKwargs | None = None
    thinking_budget: Annotated[int, Field(ge=1)] | None = None
    response_format: Annotated[TextFormat | ObjectFormat | SchemaFormat, Field(discriminator="type")] | None = None
    metadata: Annotated[dict[str, str], Bounded] | None = None
    store: Annotated[bool | None, only(False, because="nothing is stored here")] = None
    service_tier: Literal["auto", "default", "flex", "scale", "priority"] | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: Literal["in_memory", "24h"] | None = None
    modalities: Annotated[list[str] | None, only(["text"], because="the model writes text only")] = None
    functions: Annotated[None, refused("use tools")] = None
    function_call: Annotated[None, refused("use tool_choice")] = None
    audio: Annotated[None, refused("audio is not supported")] = None
    prediction: Prediction | None = None
    verbosity: Annotated[None, refused("not supported; ask for it in the prompt")] = None
    continue_final_message: bool | None = None
    """Goes on with the last message, which is the assistant's, and tells what comes behind it."""
    add_generation_prompt: bool | None = None
    """False beside `continue_final_message` alone: any other answer is a turn of its own."""
    web_search_options: Annotated[None, refused("the server opens no addresses")] = None

    @property
    def begun(self) -> str:
        """Returns the text of the answer that the messages end with; empty where it is a turn of its own."""
        last = self.messages[-1]
        return _joined(last.content) if self.continue_final_message and last.content else ""

    @property
    def turns(self) -> Sequence[Message]:
        """Returns the messages before the answer."""
        return self.messages[:-1] if self.continue_final_message else self.messages

    @property
    def asks_for_calls(self) -> bool:
        """Says whether the answer is calls of tools and nothing else."""
        return bool(self.tools) and self.wanted_calls not in (None, "none", "auto")

    @property
    def wanted_calls(self) -> str | NamedTool | None:
        """Says whether there are to be calls: the mode, where `tool_choice` leaves some of the tools."""
        choice = self.tool_choice
        return choice.allowed_tools.mode if isinstance(choice, AllowedToolChoice) else choice

    @property
    def allowed_tools(self) -> list[Tool]:
        """Lists the tools that `tool_choice` leaves; all, where it names none."""
        tools, choice = self.tools or [], self.tool_choice
        if not isinstance(choice, AllowedToolChoice):
            return tools
        allowed = {tool.function.name for tool in choice.allowed_tools.tools}
        return [tool for tool in tools if tool.function.name in allowed]

    @model_validator(mode="after")
    def _check_together(self) -> "ChatRequest":
        _check_end(self.messages, self.continue_final_message, self.add_generation_prompt)
        if None not in (self.max_tokens, self.max_completion_tokens) and self.max_tokens != self.max_completion_tokens:
            raise contradiction("max_tokens", "contradicts max_completion_tokens")
        constrained = self.response_format is not None and not isinstance(self.response_format, TextFormat)
        if constrained and self.structured_outputs is not None:
            raise contradiction("structured_outputs", "contradicts response_format")
        if self.structured_outputs is not None and self.asks_for_calls:
            raise contradiction("structured_outputs", "a call that is asked for is the whole answer; see tool_choice")
        if self.prediction is not None and self.diffusion is not None and "start_canvas" in self.diffusion.options():
            raise contradiction("prediction", "contradicts diffusion.start_canvas")
        if self.top_logprobs is not None and not self.logprobs:
            raise contradiction("top_logprobs", "needs logprobs: true")
        if self.tool_choice not in (None, "none", "auto") and not self.tools:
            raise contradiction("tool_choice", "needs tools")
        if self.parallel_tool_calls is False and not self.tools:
            raise contradiction("parallel_tool_calls", "needs tools")
        names = [tool.function.name for tool in self.tools or ()]
        if len(set(names)) < len(names):
            raise contradiction("tools", "two have the same name")
        if isinstance(self.tool_choice, NamedTool) and self.tool_choice.function.name not in names:
            raise contradiction("tool_choice.function.name", "no tool has this name")
        if isinstance(self.tool_choice, AllowedToolChoice):
            for tool in self.tool_choice.allowed_tools.tools:
                if tool.function.name not in names:
                    raise contradiction("tool_choice.allowed_tools", f"no tool has the name {tool.function.name}")
        return self
