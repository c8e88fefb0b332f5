"""Declares the body of `/v1/fill`, and what it answers."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, StringConstraints, model_validator

from gesso.server.answers import Answer
from gesso.server.option_fields import field_of
from gesso.server.requests import MAX_TEXT, Diffusion, wants_drafts
from gesso.server.schema import Strict, contradiction

MAX_ALTERNATIVES = 15

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
    min_p: Annotated[float, field_of("min_p")] | None = None
    user: str | None = None
    diffusion: Diffusion | None = None

    @model_validator(mode="after")
    def _no_frames(self) -> "FillRequest":
        if wants_drafts(self.diffusion):
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


class Filled(Answer):
    """Holds the text without holes, and each of them in order."""

    object: Literal["fill"]
    text: str
    holes: list[FilledPart]
    prompt_tokens: int
    denoising_steps: int
    seed: int
    truncated: bool
