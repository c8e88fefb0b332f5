"""Declares the bodies of `/v1/fill` and `/infill`, and what they answer."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StringConstraints, model_validator

from gesso.server.option_fields import field_of
from gesso.server.requests import MAX_STOP, MAX_TEXT, Diffusion
from gesso.server.schema import FirstError, Strict, contradiction, only

MAX_ALTERNATIVES = 15
MAX_EXTRA = 256

Text = Annotated[str, StringConstraints(max_length=MAX_TEXT)]


class FillRequest(Strict):
    """Asks for a text with holes to be filled, such as `{{ }}` or `{{city: 2-12}}`; see `gesso.control.holes`."""

    model: str
    text: Text
    instruction: Text | None = None
    alternatives: Annotated[int, Field(ge=0, le=MAX_ALTERNATIVES)] = 3
    """How many other texts are told of each hole at most."""
    max_tokens: Annotated[int, field_of("max_new_tokens")] | None = None
    """Most tokens of a hole without a length of its own."""
    seed: Annotated[int, field_of("seed")] | None = None
    temperature: Annotated[float, field_of("temperature")] | None = None
    top_p: Annotated[float, field_of("top_p")] | None = None
    top_k: Annotated[int, field_of("top_k")] | None = None
    user: str | None = None
    diffusion: Diffusion | None = None

    @model_validator(mode="after")
    def _no_frames(self) -> "FillRequest":
        if self.diffusion is not None and self.diffusion.draft_frames:
            raise contradiction("diffusion.draft_frames", "a fill is not streamed")
        if self.diffusion is not None and getattr(self.diffusion, "begin", None):
            raise contradiction("diffusion.begin", "has no part in a fill, whose text begins with what is given")
        return self


class Alternative(BaseModel):
    text: str
    score: float
    """Nats a token, of the hole and what follows it, by the causal pass."""
    width: int
    """Tokens."""


class FilledPart(Alternative):
    name: str
    converged: bool
    complete: bool
    """False where it ends the text and was cut at its greatest length."""
    alternatives: list[Alternative]


class Filled(BaseModel):
    """Holds the text without holes, and each of them in order."""

    object: Literal["fill"]
    id: str
    created: int
    model: str
    system_fingerprint: str
    text: str
    holes: list[FilledPart]
    prompt_tokens: int
    denoising_steps: int
    seed: int
    truncated: bool


class Extra(Strict):
    """Holds a piece of another file."""

    text: Text
    filename: str | None = None
    time: Annotated[
        float | None, Field(description="accepted for the editors, without effect: the newest stand last")
    ] = None


_NO_EFFECT = "accepted for the editors, without effect"


class InfillRequest(Strict):
    """Asks as the editors' plug-ins of llama.cpp do: with text before and after the cursor.

    `prompt` follows `input_prefix`. Without effect here: `samplers` (the order is fixed), `cache_prompt` (prompts are
    always cached), `id_slot`, `slot_id`, `t_max_prompt_ms` and `t_max_predict_ms` (a canvas is written whole).
    """

    input_prefix: Text = ""
    input_suffix: Text = ""
    input_extra: Annotated[list[Extra], FirstError, Field(max_length=MAX_EXTRA)] | None = None
    prompt: Text = ""
    model: str | None = None
    """None and an empty one take the server's."""
    n_predict: Annotated[int, Field(ge=-1)] | None = None
    """Most tokens; -1 leaves it to the model, 0 answers nothing."""
    n_indent: Annotated[int, Field(ge=0)] | None = None
    """The answer ends before its first line that is indented by less, the line of the cursor aside."""
    temperature: Annotated[float, field_of("temperature")] | None = None
    top_k: Annotated[int, Field(ge=-1)] | None = None
    """-1 and 0 count all tokens."""
    top_p: Annotated[float, field_of("top_p")] | None = None
    seed: Annotated[int, Field(ge=-1, lt=2**63)] | None = None
    """-1 draws a fresh one."""
    stop: Annotated[list[Annotated[str, StringConstraints(min_length=1)]], Field(max_length=MAX_STOP)] | None = None
    stream: Annotated[bool | None, only(False, because="an infill is not streamed")] = None
    response_fields: Annotated[list[str], FirstError, Field(max_length=64)] | None = None
    """Fields to answer with; `a/b` takes `b` out of `a` under that name. What there is not is left out."""
    samplers: Annotated[Annotated[list[str], FirstError] | None, Field(description=_NO_EFFECT)] = None
    cache_prompt: Annotated[bool | None, Field(description=_NO_EFFECT)] = None
    id_slot: Annotated[int | None, Field(description=_NO_EFFECT)] = None
    slot_id: Annotated[int | None, Field(description=_NO_EFFECT)] = None
    t_max_prompt_ms: Annotated[float | None, Field(description=_NO_EFFECT)] = None
    t_max_predict_ms: Annotated[float | None, Field(description=_NO_EFFECT)] = None


class Timings(BaseModel):
    """Tells tokens and milliseconds. All time counts as predicting: what the prompts took is not measured apart."""

    prompt_n: int
    prompt_ms: float
    prompt_per_token_ms: float
    prompt_per_second: float
    predicted_n: int
    predicted_ms: float
    predicted_per_token_ms: float
    predicted_per_second: float


class Infilled(BaseModel):
    """Holds the fields of llama.cpp's answer that there is something to say for."""

    content: str
    stop: Literal[True]
    stop_type: Literal["eos", "word", "limit"]
    """`word`: a stop string; `limit`: `n_predict` or `n_indent`."""
    stopping_word: str
    model: str
    tokens_predicted: int
    tokens_evaluated: int
    tokens_cached: int
    """Tokens of the prompt that stand in the cache."""
    truncated: bool
    generation_settings: dict[str, Any]
    timings: Timings
