"""Serves `POST /v1/fill`, `POST /infill` as llama.cpp has it, and completions with a suffix."""

import dataclasses
import re
from collections.abc import Sequence
from typing import Any, Literal

from anyio import to_thread
from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from gesso.control.fill import FilledHole, FillResult, fill
from gesso.control.holes import Document, Hole
from gesso.control.job import Job
from gesso.errors import OptionError, TextError
from gesso.server.body import JsonRoute
from gesso.server.context import Context
from gesso.server.errors import ApiError, said
from gesso.server.fill_models import Extra, Filled, FilledPart, FillRequest, Infilled, InfillRequest, Timings
from gesso.server.messages import sampling_options
from gesso.server.requests import CompletionRequest
from gesso.server.responses import CachedTokens, CompletionDetails, DiffusionReport, TextChoice, TextCompletion, Usage

INFILL = "Fill in what is missing at the cursor."
"""What the model is asked where an editor asks."""
EXTRA_SHARE = 4
"""One token in so many of the server's length may tell of other files."""


def fill_routes(context: Context) -> APIRouter:
    """Makes the routes of infilling over this engine."""
    router = APIRouter(route_class=JsonRoute, tags=["control"])

    @router.post("/v1/fill", response_model=None, responses={200: {"model": Filled}})
    async def fill_text(body: FillRequest, http: HttpRequest) -> Response:
        """Fills the holes of a text; all around them comes back byte for byte."""
        adapter = context.adapter(body.model)
        context.check_length(body.max_tokens, "max_tokens")
        if context.settings.log_prompts:
            http.state.record.prompt = body.model_dump(include={"text", "instruction"}, exclude_none=True)
        settings = {
            "max_new_tokens": body.max_tokens,
            **body.model_dump(include={"seed", "temperature", "top_p", "top_k"}),
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
        result = await _run(context, job, http, "text")
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
        return Response(answer.model_dump_json(), media_type="application/json")

    @router.post("/infill", response_model=None, responses={200: {"model": Infilled}})
    async def infill(body: InfillRequest, http: HttpRequest) -> Response:
        """Fills in what belongs at the cursor of an editor, in the shape of llama.cpp's answer."""
        model = body.model or context.settings.served_model_name
        adapter = context.adapter(model)
        if context.settings.log_prompts:
            http.state.record.prompt = body.model_dump(
                include={"input_prefix", "prompt", "input_suffix", "input_extra"}
            )
        if body.n_predict == 0:
            answer = _infilled(body, model, None, False)
        else:
            extra, cut = await to_thread.run_sync(_extra, context, body.input_extra or ())
            job = fill(
                context.service.engine,
                Document((body.input_prefix + body.prompt, body.input_suffix), (Hole(),)),
                INFILL + extra,
                alternatives=0,
                max_length=context.max_model_len,
                adapter=adapter,
                max_new_tokens=None if body.n_predict == -1 else body.n_predict,
                temperature=body.temperature,
                top_p=body.top_p,
                top_k=None if body.top_k is None else max(0, body.top_k),
                seed=None if body.seed == -1 else body.seed,
            )
            answer = _infilled(body, model, await _run(context, job, http, "input_prefix"), cut)
        whole = answer.model_dump()
        return JSONResponse(whole if body.response_fields is None else _selected(whole, body.response_fields))

    return router


async def insert(context: Context, body: CompletionRequest, adapter: str | None, http: HttpRequest) -> TextCompletion:
    """Completes what stands between a prompt and a suffix, without the chat template."""
    assert isinstance(body.prompt, str)
    context.check_length(body.max_tokens, "max_tokens")
    if context.settings.log_prompts:
        http.state.record.prompt = body.prompt
    settings = sampling_options(body)
    stop = settings.pop("stop", ())
    document = Document((body.prompt, body.suffix or ""), (Hole(),))
    engine, limit = context.service.engine, context.max_model_len
    job = fill(engine, document, raw=True, alternatives=0, max_length=limit, adapter=adapter, **settings)
    result = await _run(context, job, http, "prompt")
    (hole,) = result.holes
    tokens = await to_thread.run_sync(_count_tokens, context, document.texts)
    report = DiffusionReport(
        seed=result.seed,
        denoising_steps=[result.denoising_steps],
        converged=[hole.converged],
        tokens_per_forward=round(hole.width / max(1, result.denoising_steps), 3),
    )
    text, word = _stopped(hole.text, stop)
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


async def _run(context: Context, job: Job[FillResult], http: HttpRequest, param: str) -> FillResult:
    """Run a fill; `param` is the field that its text comes from."""
    try:
        return await context.run(job, http)
    except TextError as error:
        raise ApiError(400, str(error), param=param) from None
    except OptionError as error:
        if error.option == "instruction":
            raise ApiError(400, said(error), param="instruction" if param == "text" else param) from None
        raise


def _count_tokens(context: Context, texts: Sequence[str]) -> int:
    return sum(len(context.service.engine.tokenizer.encode(text)) for text in texts)


def _extra(context: Context, extras: Sequence[Extra]) -> tuple[str, bool]:
    """Pieces of other files for the model to see, the newest, which stand last, before all; and whether some are
    missing."""
    encode, left = context.service.engine.tokenizer.encode, context.max_model_len // EXTRA_SHARE
    told: list[str] = []
    for extra in reversed(extras):
        piece = f"\n\n{extra.filename or 'Another file'}:\n\n{extra.text}"
        left -= len(encode(piece))
        if left < 0:
            break
        told.append(piece)
    return "".join(reversed(told)), len(told) < len(extras)


def _infilled(body: InfillRequest, model: str, result: FillResult | None, cut: bool) -> Infilled:
    """The answer; None is that nothing was asked for."""
    hole = FilledHole("", "", 0.0, 0, True, False, ()) if result is None else result.holes[0]
    content, word = _stopped(hole.text, body.stop or ())
    indented = _indented(content, body.n_indent or 0)
    prompt, seconds = (0, 0.0) if result is None else (result.prompt_tokens, result.seconds)
    return Infilled(
        content=indented,
        stop=True,
        stop_type="limit" if indented != content else "word" if word else "eos" if hole.complete else "limit",
        stopping_word=word,
        model=model,
        tokens_predicted=hole.width,
        tokens_evaluated=prompt,
        tokens_cached=prompt,
        truncated=cut or (result is not None and result.truncated),
        generation_settings={
            **body.model_dump(include={"n_predict", "n_indent", "temperature", "top_k", "top_p"}, exclude_none=True),
            **({} if result is None else {"seed": result.seed}),
        },
        timings=Timings(
            prompt_n=prompt,
            prompt_ms=0.0,
            prompt_per_token_ms=0.0,
            prompt_per_second=0.0,
            predicted_n=hole.width,
            predicted_ms=1000 * seconds,
            predicted_per_token_ms=1000 * seconds / max(1, hole.width),
            predicted_per_second=hole.width / seconds if seconds else 0.0,
        ),
    )


def _stopped(text: str, stop: Sequence[str]) -> tuple[str, str]:
    """`text` before the first stop string in it, and that string; an empty one where there is none."""
    found = [(text.find(word), word) for word in stop if word in text]
    place, word = min(found, default=(len(text), ""))
    return text[:place], word


def _indented(text: str, least: int) -> str:
    """`text` up to the first line but one that holds something and is indented by less than `least`."""
    for line in re.finditer(r"(?<=\n)[ \t]*(?=\S)", text):
        if len(line[0]) < least:
            return text[: line.start() - 1]
    return text


def _selected(answer: dict[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    """The fields asked for, by their whole paths."""
    found: dict[str, Any] = {}
    for field in fields:
        value: Any = answer
        for part in field.split("/"):
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            found[field] = value
    return found
