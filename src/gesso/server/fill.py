"""Serves `POST /v1/fill`, and completions with a suffix."""

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Literal

from anyio import to_thread
from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from gesso.control.fill import FillResult, fill
from gesso.control.holes import Document, Hole
from gesso.control.job import Job
from gesso.errors import OptionError, TextError
from gesso.generation import PENALTIES
from gesso.server.answers import (
    CachedTokens,
    CompletionDetails,
    DiffusionReport,
    TextChoice,
    TextCompletion,
    Usage,
    respond,
)
from gesso.server.body import JsonRoute
from gesso.server.context import Context
from gesso.server.errors import ApiError, said
from gesso.server.fill_models import Filled, FilledPart, FillRequest
from gesso.server.messages import sampling_options
from gesso.server.requests import CompletionRequest
from gesso.text.output import StopStrings

_NEUTRAL = {**PENALTIES, "min_new_tokens": 0, "include_stop": False, "ignore_eos": False}
"""Options that a fill does not have, and the values that clients may send all the same: they change nothing."""


def fill_routes(context: Context) -> APIRouter:
    """Makes the routes of infilling over this engine."""
    router = APIRouter(route_class=JsonRoute, tags=["control"])

    @router.post("/v1/fill", response_model=None, responses={200: {"model": Filled}})
    async def fill_text(body: FillRequest, http: HttpRequest) -> Response:
        """Fills the holes of a text; all around them comes back byte for byte."""
        logged = partial(body.model_dump, include={"text", "instruction"}, exclude_none=True)
        adapter = context.begin(http, body.model, body.max_tokens, logged)
        settings = {
            "max_new_tokens": body.max_tokens,
            **body.model_dump(include={"seed", "temperature", "top_p", "top_k", "min_p"}),
        }
        if body.diffusion is not None:
            settings |= body.diffusion.options()
        job = fill(
            context.service.engine,
            body.text,
            body.instruction or "",
            alternatives=body.alternatives,
            max_length=context.max_model_len,
            adapter=adapter,
            **settings,
        )
        result = await run_fill(context, job, http, "text")
        answer = Filled(
            **context.head("fill", body.model),
            object="fill",
            text=result.text,
            holes=[FilledPart.model_validate(dataclasses.asdict(hole)) for hole in result.holes],
            prompt_tokens=result.prompt_tokens,
            denoising_steps=result.denoising_steps,
            seed=result.seed,
            truncated=result.truncated,
        )
        return respond(answer)

    return router


async def insert(context: Context, body: CompletionRequest, http: HttpRequest) -> TextCompletion:
    """Completes what stands between a prompt and a suffix, without the chat template."""
    assert isinstance(body.prompt, str)
    adapter = context.begin(http, body.model, body.max_tokens, lambda: body.prompt)
    asked = sampling_options(body, context.service.engine)
    settings = {name: value for name, value in asked.items() if name not in _NEUTRAL or value != _NEUTRAL[name]}
    stop = settings.pop("stop", ())
    document = Document((body.prompt, body.suffix or ""), (Hole(),))
    engine, limit = context.service.engine, context.max_model_len
    job = fill(engine, document, raw=True, alternatives=0, max_length=limit, adapter=adapter, **settings)
    result = await run_fill(context, job, http, "prompt")
    (hole,) = result.holes
    tokens = await to_thread.run_sync(_count_tokens, context, document.texts)
    report = DiffusionReport(
        seed=result.seed,
        denoising_steps=[result.denoising_steps],
        converged=[hole.converged],
        tokens_per_forward=round(hole.width / max(1, result.denoising_steps), 3),
    )
    text, word = stopped(hole.text, stop)
    ended: Literal["stop", "length"] = "stop" if word or hole.complete else "length"
    return TextCompletion(
        **context.head("cmpl", body.model),
        object="text_completion",
        choices=[TextChoice(index=0, text=text, logprobs=None, finish_reason=ended, diffusion=report)],
        usage=Usage(
            prompt_tokens=tokens,
            completion_tokens=hole.width,
            total_tokens=tokens + hole.width,
            prompt_tokens_details=CachedTokens(cached_tokens=0),
            completion_tokens_details=CompletionDetails(reasoning_tokens=0),
        ),
    )


async def run_fill(context: Context, job: Job[FillResult], http: HttpRequest, param: str) -> FillResult:
    """Runs a fill; `param` is the field that its text comes from.

    Raises:
        ApiError: the text, or the instruction, cannot be used.
    """
    try:
        return await context.run(job, http)
    except TextError as error:
        raise ApiError(400, str(error), param=param, code=error.code) from None
    except OptionError as error:
        if error.option == "instruction":
            raise ApiError(400, said(error), param="instruction" if param == "text" else param) from None
        raise


def _count_tokens(context: Context, texts: Sequence[str]) -> int:
    return sum(len(context.service.engine.tokenizer.encode(text)) for text in texts)


def stopped(text: str, stop: Sequence[str]) -> tuple[str, str]:
    """Returns `text` before the first stop string in it, and that string; an empty one where there is none."""
    finder = StopStrings(stop)
    before = finder.feed(text)
    return (before, finder.hit) if finder.hit is not None else (before + finder.flush(), "")
