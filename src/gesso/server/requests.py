"""Declares the bodies that clients send. Whatever is declared here is honoured; whatever is not is refused by name."""

from typing import Annotated, Any

from pydantic import Discriminator, Field, StringConstraints, Tag, model_validator

from gesso.engine.seeds import SEEDS
from gesso.generation import MOST_LOGPROBS, PENALTIES, SAMPLING
from gesso.server.option_fields import field_of, rows_under, with_options
from gesso.server.schema import Bounded, FirstError, JsonObject, Stop, Strict, TokenId, contradiction, only

MAX_CHOICES = 8
MAX_PROMPTS = 32
MAX_STOP_TOKENS = 64
MAX_TEXT = 2**18
"""Characters of a text with holes."""

NO_PADDING = "streams are not padded here"
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


def diffusion_given(diffusion: Diffusion | None) -> dict[str, Any] | None:
    """Returns what was given of it, as the body of another interface has it; None where there is none."""
    return None if diffusion is None else diffusion.model_dump(exclude_unset=True)


def refuse_unseen_drafts(diffusion: Diffusion | None, stream: bool | None) -> None:
    """Refuses frames of denoising steps where no stream shows them.

    Raises:
        PydanticCustomError: they are asked for.
    """
    if wants_drafts(diffusion) and not stream:
        raise contradiction("diffusion.draft_frames", "needs stream: true")


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
    seed: Annotated[int, Field(ge=0, lt=SEEDS)] | None = None
    stop: Stop | None = None
    stop_token_ids: Annotated[list[TokenId], FirstError, Field(max_length=MAX_STOP_TOKENS)] | None = None
    """End the answer as the model's own ends do, and with `ignore_eos` in their place."""
    include_stop_str_in_output: Annotated[bool, field_of("include_stop")] | None = None
    ignore_eos: Annotated[bool, field_of("ignore_eos")] | None = None
    min_tokens: Annotated[int, field_of("min_new_tokens")] | None = None
    skip_special_tokens: Annotated[bool | None, only(True, because="special tokens are no text")] = None
    spaces_between_special_tokens: Annotated[bool | None, only(True, because="special tokens are no text")] = None
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
    user: str | None = None
    structured_outputs: StructuredOutputs | None = None
    diffusion: Diffusion | None = None

    @model_validator(mode="after")
    def _check_stream(self) -> "Sampling":
        if self.stream_options is not None and not self.stream:
            raise contradiction("stream_options", "needs stream: true")
        refuse_unseen_drafts(self.diffusion, self.stream)
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


_NEUTRAL = {**PENALTIES, "min_tokens": 0, "stop_token_ids": list[int]()}
_OF_WRITING = (
    "stream", "echo", "logprobs", "logit_bias", "structured_outputs", "include_stop_str_in_output", "ignore_eos",
    *_NEUTRAL, "penalty_window",
)  # fmt: skip
"""Fields that go with text that is written on, not with one that is filled in."""


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
        for name in _OF_WRITING:
            value = getattr(self, name)
            if value is not None and value is not False and value != _NEUTRAL.get(name):  # `logprobs: 0` asks for them
                raise contradiction(name, "does not go with a suffix")
        return self
