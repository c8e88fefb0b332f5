"""Serves `POST /v1/fim/completions`: what belongs between two texts, as Mistral's clients ask."""

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field, model_validator
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from gesso.engine.seeds import SEEDS
from gesso.server.answers import ChatChoice, ChatChunk, ChatCompletion, ChunkChoice, Delta, Message, respond
from gesso.server.body import JsonRoute, checked
from gesso.server.context import Context
from gesso.server.fill import insert
from gesso.server.option_fields import field_of, shared_rows, with_options
from gesso.server.requests import MAX_TEXT, CompletionRequest, Diffusion, diffusion_given, wants_drafts
from gesso.server.schema import Stop, Strict, contradiction, only
from gesso.server.stream import DONE, data

_SHARED = ("temperature", "top_p", "top_k", "min_p")


@with_options(shared_rows(_SHARED))
class FimRequest(Strict):
    """Asks for what stands between a text and its suffix."""

    model: str
    prompt: Annotated[str, Field(max_length=MAX_TEXT)]
    suffix: Annotated[str, Field(max_length=MAX_TEXT)] | None = None
    max_tokens: Annotated[int, field_of("max_new_tokens")] | None = None
    stop: Stop | None = None
    random_seed: Annotated[int, Field(ge=0, lt=SEEDS)] | None = None
    stream: bool | None = None
    min_tokens: Annotated[int | None, only(0, because="an answer ends where it ends")] = None
    metadata: dict[str, Any] | None = None
    diffusion: Diffusion | None = None

    @model_validator(mode="after")
    def _check_frames(self) -> "FimRequest":
        if wants_drafts(self.diffusion):
            raise contradiction("diffusion.draft_frames", "a fill is not streamed step by step")
        if not self.prompt and not self.suffix:
            raise contradiction("prompt", "there is no text around what is to be found")
        return self


def fim_routes(context: Context) -> APIRouter:
    """Makes the route of fills in the middle over this engine."""
    router = APIRouter(route_class=JsonRoute, tags=["control"])

    @router.post("/v1/fim/completions", response_model=None, responses={200: {"model": ChatCompletion}})
    async def fim(body: FimRequest, http: HttpRequest) -> Response:
        """Fills in what stands between a prompt and a suffix; a stream tells it in one piece, when it is whole."""
        given: dict[str, Any] = {
            **body.model_dump(include={"model", "prompt", "suffix", "max_tokens", "stop", *_SHARED}),
            "seed": body.random_seed,
            "diffusion": diffusion_given(body.diffusion),
        }
        filled = await insert(context, checked(CompletionRequest, given), http)
        (found,) = filled.choices
        head = {**filled.model_dump(include={"created", "model", "system_fingerprint"}), "id": filled.id}
        assert filled.usage is not None
        assert found.diffusion is not None
        assert found.finish_reason is not None
        ended = found.finish_reason
        if not body.stream:
            message = Message(role="assistant", content=found.text, refusal=None)
            choice = ChatChoice(index=0, message=message, logprobs=None, finish_reason=ended, diffusion=found.diffusion)
            whole = ChatCompletion(**head, object="chat.completion", choices=[choice], usage=filled.usage)
            return respond(whole, exclude_unset=True)
        piece = ChunkChoice(
            index=0, delta=Delta(role="assistant", content=found.text), finish_reason=ended, diffusion=found.diffusion
        )
        chunk = ChatChunk(**head, object="chat.completion.chunk", choices=[piece], usage=filled.usage)
        return Response(data(chunk) + DONE, media_type="text/event-stream")

    return router
