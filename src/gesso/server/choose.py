"""Serves `POST /v1/choose`."""

import dataclasses
from functools import partial
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter
from pydantic import BaseModel, Field, model_validator
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from gesso.control.answers import MOST_OPTIONS
from gesso.control.choose import choose
from gesso.engine.prompt import Prompt
from gesso.server.answers import Answer, respond
from gesso.server.body import JsonRoute
from gesso.server.context import Context
from gesso.server.message_models import Messages
from gesso.server.messages import template_messages
from gesso.server.option_fields import field_of
from gesso.server.schema import NonEmpty, Strict, contradiction


class ChooseRequest(Strict):
    """Scores given answers to a prompt, which is messages or a text without the chat template."""

    model: str
    messages: Messages | None = None
    prompt: NonEmpty | None = None
    options: Annotated[list[NonEmpty], Field(min_length=2, max_length=MOST_OPTIONS)]
    seed: Annotated[int, field_of("seed")] | None = None
    user: str | None = None

    @model_validator(mode="after")
    def _one_prompt(self) -> "ChooseRequest":
        if (self.messages is None) == (self.prompt is None):
            raise contradiction("messages", "give either messages or prompt")
        return self


class ChosenOption(BaseModel):
    """Holds the scores of one answer: shares are probabilities normalised over the given answers, log-probabilities
    are in nats."""

    text: str
    denoising: float
    denoising_logprob: float
    causal: float
    causal_logprob: float
    tokens: int


class Chosen(Answer):
    """Holds the scores of all answers, in the order in which they were given."""

    object: Literal["choice"]
    best: str
    options: list[ChosenOption]
    calibrated: Literal[False]
    seed: int
    prompt_tokens: int


def choose_routes(context: Context) -> APIRouter:
    """Makes the route of option scoring over this engine."""
    router = APIRouter(route_class=JsonRoute, tags=["control"])

    @router.post("/v1/choose", response_model=None, responses={200: {"model": Chosen}})
    async def choose_one(body: ChooseRequest, http: HttpRequest) -> Response:
        """Scores how likely each of the given answers is, by a denoising pass and by the causal pass; uncalibrated."""
        logged = partial(body.model_dump, include={"messages", "prompt", "options"}, exclude_none=True)
        adapter = context.begin(http, body.model, None, logged)
        settings: dict[str, Any] = {} if body.seed is None else {"seed": body.seed}
        prompt: Prompt
        if body.messages is None:
            prompt, settings["raw"] = body.prompt or "", True
        else:
            messages = await to_thread.run_sync(template_messages, body.messages)
            prompt = await context.read_media(messages, http)
        result = await context.run(
            choose(context.service.engine, prompt, body.options, adapter=adapter, **settings), http
        )
        answer = Chosen(
            **context.head("choose", body.model),
            object="choice",
            best=result.best.text,
            options=[ChosenOption.model_validate(dataclasses.asdict(choice)) for choice in result.choices],
            calibrated=False,
            seed=result.seed,
            prompt_tokens=result.prompt_tokens,
        )
        return respond(answer)

    return router
