"""Serves `POST /v1/edit`."""

from functools import partial
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter
from pydantic import Field, model_validator
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from gesso.control.edit import CONTEXT, STRENGTH, EditResult, edit
from gesso.control.selection import Lines, Selection, selection_of
from gesso.errors import OptionError, TextError
from gesso.server.answers import Answer, DiffusionReport, Usage, respond
from gesso.server.body import JsonRoute
from gesso.server.context import Context
from gesso.server.errors import ApiError, said
from gesso.server.option_fields import field_of
from gesso.server.report import diffusion_report, usage
from gesso.server.requests import Diffusion
from gesso.server.schema import NonEmpty, Strict, contradiction

_OWN = ("start_canvas", "start_step", "strength", "canvas", "ignore_eos", "draft_frames", "begin")
"""Fields of `diffusion` that an edit decides itself."""


class EditRequest(Strict):
    """Asks for a change of a text, in the whole of it or in a part: lines, or the place where a text stands."""

    model: str
    text: NonEmpty
    instruction: NonEmpty
    lines: str | Annotated[list[int], Field(min_length=2, max_length=2)] | None = None
    match: NonEmpty | None = None
    strength: Annotated[float, field_of("strength")] | None = None
    context: Annotated[int, Field(ge=0)] | None = None
    seed: Annotated[int, field_of("seed")] | None = None
    max_tokens: Annotated[int, field_of("max_new_tokens")] | None = None
    diffusion: Diffusion | None = None
    user: str | None = None

    @model_validator(mode="after")
    def _check_together(self) -> "EditRequest":
        if self.lines is not None and self.match is not None:
            raise contradiction("match", "contradicts lines: give one of them")
        for name in _OWN:
            if getattr(self.diffusion, name, None):
                raise contradiction(f"diffusion.{name}", "has no part in an edit, which starts from the text")
        return self

    @property
    def selection(self) -> Selection:
        """Tells which part may change.

        Raises:
            OptionError: lines that cannot be.
        """
        return Lines(*self.lines) if isinstance(self.lines, list) else selection_of(self.lines, self.match)


class Edited(Answer):
    """Holds the whole text after the edit, and what replaced the selection."""

    object: Literal["edit"]
    text: str
    replacement: str
    diff: str
    changed: bool
    finish_reason: Literal["stop", "length"]
    left_out: str | None
    """Why the answer was left out, and the text is as it was: it was not finished within its tokens, empty, or said
    that this is outside the model's skills."""
    usage: Usage
    diffusion: DiffusionReport


def edit_routes(context: Context) -> APIRouter:
    """Makes the route of edits over this engine."""
    router = APIRouter(route_class=JsonRoute, tags=["control"])

    @router.post("/v1/edit", response_model=None, responses={200: {"model": Edited}})
    async def edit_text(body: EditRequest, http: HttpRequest) -> Response:
        """Changes a part of a text as an instruction says, and nothing else."""
        logged = partial(body.model_dump, include={"instruction", "text"})
        adapter = context.begin(http, body.model, body.max_tokens, logged)
        try:
            result = await context.run(
                edit(
                    context.service.engine,
                    body.text,
                    body.instruction,
                    selection=body.selection,
                    strength=STRENGTH if body.strength is None else body.strength,
                    context=CONTEXT if body.context is None else body.context,
                    adapter=adapter,
                    **_options(body),
                ),
                http,
            )
        except (OptionError, TextError) as error:
            # An edit has fields of its own for some options, and a text where others have a prompt.
            name = "text" if isinstance(error, TextError) else error.option
            if name in EditRequest.model_fields:
                raise ApiError(400, said(error), param=name, code=error.code) from None
            raise
        answer = Edited(**context.head("edit", body.model), object="edit", **await to_thread.run_sync(_outcome, result))
        return respond(answer)

    return router


def _options(body: EditRequest) -> dict[str, Any]:
    """The engine's options of an edit; what was not given is left out."""
    diffusion = {} if body.diffusion is None else body.diffusion.options()
    given = {name: value for name, value in diffusion.items() if name not in _OWN}
    return {"seed": body.seed, "max_new_tokens": body.max_tokens, **given}


def _outcome(result: EditResult) -> dict[str, Any]:
    return {
        "text": result.text,
        "replacement": result.replacement,
        "diff": result.diff,
        "changed": result.changed,
        "finish_reason": result.answer.finish_reason,
        "left_out": result.left_out,
        "usage": usage([result.answer]),
        "diffusion": diffusion_report(result.answer),
    }
