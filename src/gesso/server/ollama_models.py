"""Declares the bodies of `/api/chat`, `/api/generate` and `/api/show`: what Ollama's clients send."""

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from gesso.engine.seeds import SEEDS
from gesso.generation import MOST_LOGPROBS
from gesso.server.message_models import MAX_MESSAGES, MAX_PARTS, MAX_TOOLS, Tool
from gesso.server.option_fields import field_of, shared_rows, with_options
from gesso.server.requests import Diffusion, wants_drafts
from gesso.server.schema import FirstError, FunctionName, JsonObject, NonEmpty, Stop, Strict, contradiction, only

_SHARED = ("temperature", "top_p", "top_k", "min_p")
LAST_N = 64
"""Tokens that penalties look at by default."""
NO_EFFECT = "taken, because it does not change the answer: the model stays loaded"
OTHER_CUT = "likelihoods are cut by top_p, top_k and min_p"
NO_MIROSTAT = "taken, because it does not change the answer: mirostat is off"


Images = Annotated[list[NonEmpty], FirstError, Field(max_length=MAX_PARTS)] | None
"""Encoded files in base64."""


class CalledFunction(Strict):
    name: FunctionName
    arguments: JsonObject
    index: int | None = None
    description: str | None = None


class Call(Strict):
    function: CalledFunction
    id: str | None = None
    type: Literal["function"] | None = None


class OllamaMessage(Strict):
    role: Literal["system", "user", "assistant", "tool"]
    content: str = ""
    thinking: str | None = None
    """Left out of the prompt, as the model's chat format has it."""
    tool_calls: Annotated[list[Call], FirstError] | None = None
    tool_name: FunctionName | None = None
    name: FunctionName | None = None
    """`tool_name`, as it was called before."""
    tool_call_id: str | None = None
    images: Images = None

    @field_validator("name", "images")
    @classmethod
    def _check_role(cls, value: Any, info: ValidationInfo) -> Any:
        role, is_name = info.data.get("role"), info.field_name == "name"
        if value and role is not None and role not in (("tool",) if is_name else ("user", "system")):
            because = f"goes with messages of {'a tool' if is_name else 'the user and the system'}"
            raise PydanticCustomError("refused", "{because}", {"because": because})
        return value


@with_options(shared_rows(_SHARED))
class ModelOptions(Strict):
    """Sets what one request may set. What would change the answer and cannot be had is refused."""

    seed: Annotated[int, Field(ge=-1, lt=SEEDS)] | None = None
    """-1: another one each time."""
    num_predict: Annotated[int, Field(ge=-2)] | None = None
    """Most tokens of the answer; -1 and -2: as many as there is room for by default."""
    num_ctx: Annotated[int, Field(ge=1)] | None = None
    """Tokens that there must be room for."""
    stop: Stop | None = None
    repeat_penalty: Annotated[float, field_of("repetition_penalty")] | None = None
    frequency_penalty: Annotated[float, field_of("frequency_penalty")] | None = None
    presence_penalty: Annotated[float, field_of("presence_penalty")] | None = None
    repeat_last_n: Annotated[int, Field(ge=-1, lt=2**31)] | None = None
    """Tokens before that penalties look at, 64 where nothing is said; -1: all, 0: there is no penalty."""
    penalize_newline: bool | None = None
    typical_p: Annotated[float | None, only(1, 1.0, because=f"only 1: {OTHER_CUT}")] = None
    tfs_z: Annotated[float | None, only(1, 1.0, because=f"only 1: {OTHER_CUT}")] = None
    mirostat: Annotated[int | None, only(0, because=f"only 0: {OTHER_CUT}")] = None
    mirostat_tau: Annotated[float | None, Field(description=NO_MIROSTAT)] = None
    mirostat_eta: Annotated[float | None, Field(description=NO_MIROSTAT)] = None
    num_keep: Annotated[int | None, Field(description=NO_EFFECT)] = None
    num_batch: Annotated[int | None, Field(description=NO_EFFECT)] = None
    num_gpu: Annotated[int | None, Field(description=NO_EFFECT)] = None
    num_thread: Annotated[int | None, Field(description=NO_EFFECT)] = None
    main_gpu: Annotated[int | None, Field(description=NO_EFFECT)] = None
    low_vram: Annotated[bool | None, Field(description=NO_EFFECT)] = None
    numa: Annotated[bool | None, Field(description=NO_EFFECT)] = None
    use_mmap: Annotated[bool | None, Field(description=NO_EFFECT)] = None
    use_mlock: Annotated[bool | None, Field(description=NO_EFFECT)] = None

    @property
    def penalises(self) -> bool:
        """Says whether a penalty is given that changes anything."""
        given = self.repeat_penalty not in (None, 1) or self.frequency_penalty or self.presence_penalty
        return bool(given) and self.repeat_last_n != 0

    @model_validator(mode="after")
    def _check_length(self) -> "ModelOptions":
        if self.penalises and self.penalize_newline is False:
            raise contradiction("options.penalize_newline", "newlines are penalised as other tokens are")
        if self.num_predict == 0:
            raise contradiction("options.num_predict", "must be at least 1, or -1 or -2")
        return self


class OllamaShowRequest(Strict):
    """Asks what a model is."""

    model: str | None = None
    name: str | None = None
    """`model`, as it was called before."""
    verbose: Annotated[bool | None, Field(description="taken, because there is no more to tell")] = None

    @property
    def wanted(self) -> str:
        """Returns the name of the model."""
        return self.model or self.name or ""

    @model_validator(mode="after")
    def _check_name(self) -> "OllamaShowRequest":
        if not self.wanted:
            raise contradiction("model", "is missing")
        if None not in (self.model, self.name) and self.model != self.name:
            raise contradiction("name", "contradicts model")
        return self


class OllamaRequest(Strict):
    """Declares the fields of both."""

    model: str
    stream: bool | None = None
    """Off where it is false."""
    format: Literal["", "json"] | JsonObject | None = None
    """`json`, or a JSON Schema."""
    options: ModelOptions | None = None
    think: bool | Literal["low", "medium", "high"] | None = None
    keep_alive: Annotated[str | float | None, Field(description=NO_EFFECT)] = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MOST_LOGPROBS)] | None = None
    diffusion: Diffusion | None = None

    @property
    def streams(self) -> bool:
        """Says whether the answer is wanted line by line, which it is where nothing is said."""
        return self.stream is not False

    @model_validator(mode="after")
    def _check_report(self) -> "OllamaRequest":
        if wants_drafts(self.diffusion):
            raise contradiction("diffusion.draft_frames", "use /v1/chat/completions, whose streams have events")
        if self.top_logprobs and not self.logprobs:
            raise contradiction("top_logprobs", "needs logprobs: true")
        return self


class OllamaChatRequest(OllamaRequest):
    """Asks for the next message of a conversation; without messages nothing is asked but whether the model is here."""

    messages: Annotated[list[OllamaMessage], FirstError, Field(max_length=MAX_MESSAGES)] | None = None
    tools: Annotated[list[Tool], FirstError, Field(max_length=MAX_TOOLS)] | None = None


class OllamaGenerateRequest(OllamaRequest):
    """Asks for an answer to one prompt, in the chat template or, with `raw`, as it is.

    Without a prompt it asks for nothing but whether the model is here."""

    prompt: str = ""
    system: str | None = None
    raw: bool | None = None
    suffix: str | None = None
    images: Images = None
    template: Annotated[str | None, only("", because="the model's own template is used")] = None
    context: Annotated[list[int] | None, only([], because="use /api/chat for conversations")] = None

    @model_validator(mode="after")
    def _check_together(self) -> "OllamaGenerateRequest":
        if self.raw and self.system:
            raise contradiction("system", "does not go with raw: there is no template to put it in")
        if self.raw and self.think:
            raise contradiction("think", "does not go with raw: there is no template to ask for it")
        if self.images and (self.raw or self.suffix):
            raise contradiction("images", "goes with the template alone: neither with raw nor with suffix")
        if self.suffix and self.options is not None and self.options.penalises:
            raise contradiction("options", "penalties do not go with suffix: the text between is filled in")
        if self.suffix and (self.system or self.format or self.think or self.logprobs):
            raise contradiction("suffix", "goes with a prompt alone: the text between them is filled in as it is")
        return self
