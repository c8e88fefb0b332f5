"""Serves `POST /infill`, which the editors' plug-ins of llama.cpp ask, in the shape of its answers."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from gesso.control.fill import FilledHole, FillResult, fill
from gesso.control.holes import Document, Hole
from gesso.server.body import JsonRoute
from gesso.server.context import Context
from gesso.server.fill import run_fill, stopped
from gesso.server.fill_models import Text
from gesso.server.option_fields import field_of
from gesso.server.schema import FirstError, StopList, Strict, only

MAX_EXTRA = 256
INFILL = "Fill in what is missing at the cursor."
"""What the model is asked where an editor asks."""
EXTRA_SHARE = 4
"""One token in so many of the server's length may tell of other files."""


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
    min_p: Annotated[float, field_of("min_p")] | None = None
    seed: Annotated[int, Field(ge=-1, lt=2**63)] | None = None
    """-1 draws a fresh one."""
    stop: StopList | None = None
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


def infill_routes(context: Context) -> APIRouter:
    """Makes the route of llama.cpp's infilling over this engine."""
    router = APIRouter(route_class=JsonRoute, tags=["control"])

    @router.post("/infill", response_model=None, responses={200: {"model": Infilled}})
    async def infill(body: InfillRequest, http: HttpRequest) -> Response:
        """Fills in what belongs at the cursor of an editor, in the shape of llama.cpp's answer."""
        model = body.model or context.settings.served_model_name
        logged = partial(body.model_dump, include={"input_prefix", "prompt", "input_suffix", "input_extra"})
        adapter = context.begin(http, model, None, logged)
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
                min_p=body.min_p,
                top_k=None if body.top_k is None else max(0, body.top_k),
                seed=None if body.seed == -1 else body.seed,
            )
            answer = _infilled(body, model, await run_fill(context, job, http, "input_prefix"), cut)
        whole = answer.model_dump()
        return JSONResponse(whole if body.response_fields is None else _selected(whole, body.response_fields))

    return router


def _extra(context: Context, extras: Sequence[Extra]) -> tuple[str, bool]:
    """Pieces of other files for the model to see, the newest, which stand last, before all; and whether some are
    missing."""
    encode, left = context.service.engine.tokenizer.encode, context.max_model_len // EXTRA_SHARE
    pieces: list[str] = []
    for extra in reversed(extras):
        piece = f"\n\n{extra.filename or 'Another file'}:\n\n{extra.text}"
        left -= len(encode(piece))
        if left < 0:
            break
        pieces.append(piece)
    return "".join(reversed(pieces)), len(pieces) < len(extras)


def _infilled(body: InfillRequest, model: str, result: FillResult | None, cut: bool) -> Infilled:
    """The answer; None is that nothing was asked for."""
    hole = FilledHole("", "", 0.0, 0, True, False, ()) if result is None else result.holes[0]
    content, word = stopped(hole.text, body.stop or ())
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
            **body.model_dump(
                include={"n_predict", "n_indent", "temperature", "top_k", "top_p", "min_p"}, exclude_none=True
            ),
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
