"""Serves `POST /v1/explain`: whether a constraint can be used, and whether a text satisfies it."""

import asyncio
from functools import partial
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.requests import Request as HttpRequest

from gesso.constraints.compilation import Compilation
from gesso.constraints.constraint import Constraint
from gesso.constraints.quick_turns import quick_turns
from gesso.constraints.verdict import submit_texts
from gesso.errors import QueueFullError, UserError
from gesso.server.attended import disconnected, ready_before
from gesso.server.body import JsonRoute
from gesso.server.context import Context
from gesso.server.errors import said
from gesso.server.requests import MAX_TEXT, StructuredOutputs
from gesso.server.schema import Strict

_KEYWORDS = {"json_": "json_schema", "regex": "regex", "grammar": "grammar", "choice": "choices"}
"""Keywords of `gesso.constraint` by the fields of `structured_outputs`."""


class ExplainRequest(Strict):
    """Asks for a verdict on a constraint, and on a text under it. No model takes part."""

    model: str | None = None
    structured_outputs: StructuredOutputs
    strict: bool = False
    """Refuses keywords and formats of a schema that are not known, which else are ignored and told of."""
    text: Annotated[str, Field(max_length=MAX_TEXT)] | None = None

    @property
    def constraint(self) -> tuple[str, Any]:
        """Returns the keyword of `gesso.constraint` and its value."""
        outputs = self.structured_outputs
        found = ((keyword, getattr(outputs, field)) for field, keyword in _KEYWORDS.items())
        return next((keyword, value) for keyword, value in found if value is not None)


class Explanation(BaseModel):
    """Holds the verdict."""

    object: Literal["explanation"]
    usable: bool
    """Whether answers can be held to the constraint."""
    accepts: bool | None
    """Whether the text satisfies it; null without a text, or where the constraint is not usable."""
    explanation: str | None
    """Why the constraint is not usable, or where and why the text is refused, in one line."""
    ignored: list[str]
    """JSON pointers of keywords and formats of the schema that say nothing here."""
    states: int
    """States of its automaton over bytes; 0 where it is not usable."""


def explain_routes(context: Context) -> APIRouter:
    """Makes the route of verdicts."""
    router = APIRouter(route_class=JsonRoute, tags=["control"])
    # Constraints that are compiled for verdicts at once are bounded: those of requests are counted by themselves.
    most = context.service.limits.max_waiting + context.service.limits.max_num_seqs
    places = asyncio.Semaphore(most)

    @router.post("/v1/explain")
    async def explain(body: ExplainRequest, http: HttpRequest) -> Explanation:
        """Tells whether a constraint can be used, and whether a text satisfies it: if not, where and why."""
        if body.model is not None:
            context.adapter(body.model)
        option, value = body.constraint
        try:
            if places.locked():
                raise QueueFullError(f"{most} constraints are being compiled already", 1.0)
            async with places:
                compilation = await to_thread.run_sync(lambda: submit_texts(option, value, strict=body.strict))
                await _until_ready(compilation, http)
            constraint = compilation.result(0)
        except UserError as error:
            return _verdict(usable=False, explanation=said(error))
        refusal = None if body.text is None else await to_thread.run_sync(_refusal, constraint, body.text)
        return _verdict(
            usable=True,
            accepts=None if body.text is None else refusal is None,
            explanation=refusal,
            ignored=list(constraint.ignored),
            states=constraint.size,
        )

    return router


def _refusal(constraint: Constraint, text: str) -> str | None:
    with quick_turns():
        return constraint.explain(text)


def _verdict(**fields: Any) -> Explanation:
    nothing: dict[str, Any] = {"accepts": None, "explanation": None, "ignored": [], "states": 0}
    return Explanation(object="explanation", **{**nothing, **fields})


async def _until_ready(compilation: Compilation[Constraint], http: HttpRequest) -> None:
    """Waits until it is compiled.

    Raises:
        ApiError: the client has gone meanwhile; nobody waits for the constraint then.
    """
    try:
        ready = await ready_before(compilation, partial(disconnected, http.receive))
    finally:
        if not compilation.ready:
            compilation.leave()
    if not ready:
        raise http.state.record.disconnected()
