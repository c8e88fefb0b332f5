"""Declares the bodies that clients send. Whatever is declared here is honoured; whatever is not is refused by name."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, StringConstraints, Tag, model_validator

from gesso.generation import MOST_LOGPROBS, SAMPLING
from gesso.server.message_models import (
    MAX_TOOLS,
    AllowedToolChoice,
    Content,
    Effort,
    Messages,
    NamedTool,
    Tool,
    ToolChoice,
)
from gesso.server.option_fields import field_of, rows_under, with_options
from gesso.server.schema import (
    Bounded,
    FirstError,
    FunctionName,
    JsonObject,
    Strict,
    TokenId,
    contradiction,
    only,
    refused,
)

MAX_CHOICES = 8
MAX_PROMPTS = 32
MAX_STOP = 16
MAX_TEXT = 2**18
"""Characters of a text with holes."""

NO_PENALTY = "only 0 is supported: a canvas is drawn at once, so there is no count of what was said before a token"
NO_PADDING = "streams are not padded here"
MEDIA_FIELDS = "mm_processor_kwargs."
MAX_CONSTRAINT = 2**16
"""Characters of a regular expression or a grammar."""


@with_options(rows_under("diffusion."))
class Diffusion(Strict):
    """Says how the canvases are denoised; each field overrides the model's default. The fields are the options that the
    table puts here."""

    draft_frames: bool = False

    def options(self) -> dict[str, Any]:
        """Returns the engine's options that were given."""
        return self.model_dump(exclude={"draft_frames"}, exclude_none=True)


def wants_drafts(diffusion: Diffusion | None) -> bool:
    """Says whether a request asks for a frame of every denoising step."""
    return diffusion is not None and diffusion.draft_frames


class StreamOptions(Strict):
    include_usage: bool | None = None
    include_obfuscation: Annotated[bool | None, only(False, because=NO_PADDING)] = None


class StructuredOutputs(Strict):
    """Takes other constraints; exactly one is given."""

    regex: Annotated[str, Field(max_length=MAX_CONSTRAINT)] | None = None
    choice: Annotated[list[str], FirstError, Field(min_length=1, max_length=1024)] | None = None
    grammar: Annotated[str, Field(max_length=MAX_CONSTRAINT)] | None = None
    json_: Annotated[JsonObject | None, Field(alias="json")] = None

    @model_validator(mode="after")
    def _one(self) -> "StructuredOutputs":
        given = [name for name in ("regex", "choice", "grammar", "json_") if getattr(self, name) is not None]
        if len(given) != 1:
            raise contradiction("structured_outputs", "give exactly one of regex, choice, grammar and json")
        return self


@with_options({name: row for name, row in rows_under("").items() if row.group == SAMPLING})
class Sampling(Strict):
    """Declares the fields of both kinds of completion."""

    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, field_of("max_new_tokens")] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63 - MAX_CHOICES)] | None = None
    stop: (
        Annotated[str, StringConstraints(min_length=1)]
        | Annotated[list[Annotated[str, StringConstraints(min_length=1)]], Field(max_length=MAX_STOP)]
        | None
    ) = None
    n: Annotated[int, Field(ge=1, le=MAX_CHOICES)] | None = None
    logit_bias: (
        Annotated[
            dict[
                Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,8})$")],
                Annotated[float, Field(ge=-100, le=100)],
            ],
            Bounded,
        ]
        | None
    ) = None
    frequency_penalty: Annotated[float | None, only(0, 0.0, because=NO_PENALTY)] = None
    presence_penalty: Annotated[float | None, only(0, 0.0, because=NO_PENALTY)] = None
    user: str | None = None
    structured_outputs: StructuredOutputs | None = None
    diffusion: Diffusion | None = None

    @model_validator(mode="after")
    def _check_stream(self) -> "Sampling":
        if self.stream_options is not None and not self.stream:
            raise contradiction("stream_options", "needs stream: true")
        if wants_drafts(self.diffusion) and not self.stream:
            raise contradiction("diffusion.draft_frames", "needs stream: true")
        return self


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
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class ChatRequest(Sampling):
    """Asks for the next message of a conversation."""

    messages: Messages
    max_completion_tokens: Annotated[int, field_of("max_new_tokens")] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MOST_LOGPROBS)] | None = None
    tools: Annotated[list[Tool], FirstError, Field(max_length=MAX_TOOLS)] | None = None
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
    web_search_options: Annotated[None, refused("the server opens no addresses")] = None

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


def _kind_of_prompt(value: Any) -> str:
    first = value[0] if isinstance(value, list) and value else value
    if isinstance(value, list):
        return "batches" if isinstance(first, list) else "texts" if isinstance(first, str) else "tokens"
    return "text"


Prompts = Annotated[
    Annotated[str, Tag("text")]
    | Annotated[list[str], FirstError, Field(min_length=1, max_length=MAX_PROMPTS), Tag("texts")]
    | Annotated[list[TokenId], FirstError, Field(min_length=1), Tag("tokens")]
    | Annotated[
        list[Annotated[list[TokenId], FirstError, Field(min_length=1)]],
        Field(min_length=1, max_length=MAX_PROMPTS),
        Tag("batches"),
    ],
    Discriminator(_kind_of_prompt),
]


class CompletionRequest(Sampling):
    """Asks for what follows text or tokens as they are, without the chat template."""

    prompt: Prompts
    max_tokens: Annotated[int, Field(ge=0, description="Most tokens that are written; 0 only beside echo.")] | None = (
        None
    )
    logprobs: Annotated[int, Field(ge=0, le=MOST_LOGPROBS)] | None = None
    suffix: str | None = None
    """What comes after the text that is to be found; an empty one is none."""
    echo: bool | None = None
    """Whether the prompt is part of the text, and of what `logprobs` are told for: the likelihood of a text is the sum
    of its tokens', by the causal pass."""
    best_of: Annotated[int, Field(ge=1, le=MAX_CHOICES)] | None = None
    """Answers that are made to each prompt, of which the `n` likeliest a token by the causal pass are sent."""

    @property
    def searches(self) -> bool:
        """Says whether more answers are made than are sent."""
        return (self.best_of or 1) > (self.n or 1)

    @model_validator(mode="after")
    def _check_best_of(self) -> "CompletionRequest":
        if self.best_of is None:
            return self
        if self.best_of < (self.n or 1):
            raise contradiction("best_of", f"must be at least n, {self.n}")
        for name in ("stream", "suffix"):
            if self.searches and getattr(self, name):
                raise contradiction("best_of", f"does not go with {name}")
        return self

    @model_validator(mode="after")
    def _check_echo(self) -> "CompletionRequest":
        if self.echo and self.stream:
            raise contradiction("echo", "does not go with stream: the prompt is known to whoever asks")
        if self.max_tokens == 0 and not (self.echo and not self.searches):
            raise contradiction("max_tokens", "must be at least 1; 0 is for echo, without best_of")
        return self

    @model_validator(mode="after")
    def _check_suffix(self) -> "CompletionRequest":
        if not self.suffix:
            return self
        if not isinstance(self.prompt, str):
            raise contradiction("prompt", "is one text where there is a suffix")
        if len(self.prompt) + len(self.suffix) > MAX_TEXT:
            raise contradiction("suffix", f"prompt and suffix may have {MAX_TEXT} characters together")
        if (self.n or 1) > 1:
            raise contradiction("n", "only 1 goes with a suffix; /v1/fill tells of alternatives")
        for name in ("stream", "echo", "logprobs", "logit_bias", "structured_outputs"):
            value = getattr(self, name)
            if value is not None and value is not False:  # `logprobs: 0` asks for them too
                raise contradiction(name, "does not go with a suffix")
        return self
