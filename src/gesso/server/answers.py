"""Declares the bodies that clients get, in OpenAI's shapes. What is not set is left out."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel
from starlette.responses import Response

Finish = Literal["stop", "length", "tool_calls"]


def respond(answer: BaseModel, *, exclude_unset: bool = False) -> Response:
    """Makes the HTTP answer of a body; `exclude_unset` leaves out what was not set."""
    return Response(answer.model_dump_json(exclude_unset=exclude_unset), media_type="application/json")


class Answer(BaseModel):
    """Has the fields of `Context.head` as OpenAI orders them, which answers and chunks begin with."""

    id: str
    object: str
    created: int
    model: str
    system_fingerprint: str


class CachedTokens(BaseModel):
    cached_tokens: int


class CompletionDetails(BaseModel):
    reasoning_tokens: int
    accepted_prediction_tokens: int = 0
    """Tokens of a predicted answer that are in the answer, in order."""
    rejected_prediction_tokens: int = 0


class Usage(BaseModel):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens
    completion_tokens_details: CompletionDetails


class DiffusionReport(BaseModel):
    """Reports how a choice was denoised."""

    seed: int
    denoising_steps: list[int]
    converged: list[bool]
    tokens_per_forward: float
    mode: str = "canvas"
    decision: str = ""
    """Why `mode: auto` took this mode."""
    ignored: list[str] | None = None
    """JSON pointers of keywords and formats of the request's schema that are not known, and were not held to."""
    verify_rounds: list[int] | None = None
    rejected_tokens: int | None = None
    """Tokens that verification rejected, where it was asked for."""
    guidance_passes: int | None = None
    """Passes behind the second prompt of classifier-free guidance, where it was asked for."""


class TopLogprob(BaseModel):
    token: str
    logprob: float
    bytes: list[int]


class TokenLogprobs(TopLogprob):
    top_logprobs: list[TopLogprob]


class ChatLogprobs(BaseModel):
    content: list[TokenLogprobs]
    refusal: None


class FunctionCall(BaseModel):
    name: str
    arguments: str


class ToolCall(BaseModel):
    index: int = 0
    id: str
    type: Literal["function"]
    function: FunctionCall


class Message(BaseModel):
    role: Literal["assistant"]
    content: str | None
    refusal: None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[ToolCall] = []


class ChatChoice(BaseModel):
    index: int
    message: Message
    logprobs: ChatLogprobs | None
    finish_reason: Finish
    stop_reason: str | int | None = None
    """The stop string, or the one of `stop_token_ids`, that the answer ends with; left out where it ended otherwise."""
    diffusion: DiffusionReport
    warnings: list[str] = []


class ChatCompletion(Answer):
    object: Literal["chat.completion"]
    choices: list[ChatChoice]
    usage: Usage


class Delta(BaseModel):
    role: Literal["assistant"] | None = None
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[ToolCall] = []


class ChunkChoice(BaseModel):
    index: int
    delta: Delta
    logprobs: ChatLogprobs | None = None
    finish_reason: Finish | None
    stop_reason: str | int | None = None
    """The stop string, or the one of `stop_token_ids`, that the answer ends with; left out where it ended otherwise."""
    diffusion: DiffusionReport | None = None
    warnings: list[str] = []


class Draft(BaseModel):
    """Shows one canvas after one denoising step; the lists are of equal length."""

    canvas: int
    step: int
    max_denoising_steps: int
    temperature: float
    tokens: list[int]
    pieces: list[str]
    accepted: list[int]
    entropy: list[float]
    canvas_tokens: list[int] = []
    """What the next step starts from."""
    pinned: list[int] = []
    """1 where a position is held; left out where none is."""
    forced: list[int] = []
    """1 where the constraint leaves one text; left out where none is."""


class Block(BaseModel):
    """Shows a finished canvas, as it becomes part of the answer."""

    canvas: int
    tokens: list[int]
    """Tokens of the answer: cut at its end."""
    text: str
    reasoning: str
    denoising_steps: int
    converged: bool
    mode: Literal["ar"] | None = None
    """`ar` where it is one token of an answer that is written token by token; left out for a canvas."""


class ChatChunk(Answer):
    object: Literal["chat.completion.chunk"]
    choices: list[ChunkChoice]
    usage: Usage | None = None
    draft: Draft | None = None
    block: Block | None = None


class TextLogprobs(BaseModel):
    tokens: list[str]
    token_logprobs: list[float | None]
    """None for the first token of a prompt, which nothing stands before."""
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class TextChoice(BaseModel):
    index: int
    text: str
    logprobs: TextLogprobs | None
    finish_reason: Literal["stop", "length"] | None
    stop_reason: str | int | None = None
    """The stop string, or the one of `stop_token_ids`, that the answer ends with; left out where it ended otherwise."""
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] = []
    diffusion: DiffusionReport | None = None
    warnings: list[str] = []


class SearchCandidate(BaseModel):
    seed: int
    mean_logprob: float
    """Nats a token, by the causal pass."""
    denoising_steps: list[int]


class SearchReport(BaseModel):
    """Reports how the answers to one prompt were chosen, and what all candidates took."""

    candidates: list[SearchCandidate]
    denoising_passes: int
    scoring_passes: int
    """Causal passes over finished candidates that only the choice needed."""


class TextCompletion(Answer):
    """Answers a text completion, whole or as a chunk of its stream."""

    object: Literal["text_completion"]
    choices: list[TextChoice]
    usage: Usage | None = None
    search: list[SearchReport] = []
    """Search of each prompt, where `best_of` makes more answers than are sent."""
    draft: Draft | None = None
    block: Block | None = None


class ModelCard(BaseModel):
    """Describes a model, with what clients of OpenAI's and of Anthropic's interface read."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    type: Literal["model"]
    display_name: str
    created_at: datetime
    lifecycle: Literal["active"]
    max_model_len: int
    max_input_tokens: int
    root: str
    parent: str | None
    special_token_ids: list[int]
    """Tokens of a draft frame that are no text."""
    examples: list[str]
    """Prompts of the kinds that it was measured on; none where nobody said."""
    limits: str
    """What must not be expected of it."""


class ModelList(BaseModel):
    object: Literal["list"]
    data: list[ModelCard]
    has_more: Literal[False]
    first_id: str
    last_id: str


class Tokens(BaseModel):
    tokens: list[int]
    pieces: list[str]
    count: int
    max_model_len: int


class Text(BaseModel):
    text: str


class Status(BaseModel):
    status: str


class ErrorDetail(BaseModel):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorResponse(BaseModel):
    error: ErrorDetail
