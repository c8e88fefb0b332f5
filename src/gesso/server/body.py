"""Reads request bodies: JSON and nothing else, bounded in size and depth.

A page of a stranger may have a browser send a body to this server unasked, as text or as a form; that it is JSON it
can only say after the server has allowed it to. So a body says that it is JSON, and where a client's habit is to say
something else, as Ollama's curl examples do, the request must be none that a browser sends: a browser names the page
(`Origin`, `Referer`) or its own reason (`Sec-Fetch-Site`) with every body that a page has it send.
"""

import json
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from anyio import to_thread
from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope

from gesso.json_files import RepeatedKeyError, unique_members
from gesso.server.errors import ApiError, from_validation

M = TypeVar("M", bound=BaseModel)


READING_BYTES, SMALL_BODY = 1 << 30, 1 << 20
"""Bytes of all bodies that are being read at a time, and of one that is read whatever others take."""
BROWSERS = ("origin", "referer", "sec-fetch-site", "sec-fetch-mode")
"""Headers that a browser sends and a page can neither leave out together nor make up."""


class BodyRoom:
    """Counts the bytes of bodies that are being read: a thousand connections may each begin a large one."""

    def __init__(self) -> None:
        self._held = 0

    @contextmanager
    def reading(self) -> Iterator[Callable[[int], None]]:
        """Gives what a body takes back at its end; what is yielded takes so many bytes more for it.

        Raises:
            ApiError: by what is yielded, where there is no room for more of a large body.
        """
        size = 0

        def take(more: int) -> None:
            nonlocal size
            if size + more > SMALL_BODY and self._held + more > READING_BYTES:
                message = "too many large bodies are being read now; send it again"
                raise ApiError(503, message, code="server_busy", headers={"Retry-After": "1"})
            size += more
            self._held += more

        try:
            yield take
        finally:
            self._held -= size


class JsonRequest(Request):
    """Takes only strict JSON as its body: no NaN, no half characters, no key twice, no nesting past 200 levels."""

    async def body(self) -> bytes:
        """Reads the whole body, which is never empty.

        Raises:
            ApiError: it is no JSON by its type, compressed, too large, or empty, or there is no room for it now.
        """
        if not hasattr(self, "_body"):
            kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json":
                raise ApiError(400, "the body must have the Content-Type application/json", code="wrong_content_type")
            if (coding := self.headers.get("content-encoding", "identity").strip().lower()) != "identity":
                raise ApiError(
                    415,
                    f"the body is sent as Content-Encoding {coding:.40}; send it as it is",
                    code="unsupported_encoding",
                    headers={"Accept-Encoding": "identity"},
                )
            context = self.app.state.context
            limit = context.settings.max_body_bytes
            parts, size = [], 0
            try:
                with context.bodies.reading() as take:
                    async for part in self.stream():
                        size += len(part)
                        if size > limit:
                            raise ApiError(413, f"the body is larger than {limit} bytes", code="body_too_large")
                        take(len(part))
                        parts.append(part)
            except ClientDisconnect:
                raise self.state.record.disconnected() from None
            self._body = b"".join(parts)
            if not self._body:
                raise ApiError(400, "the body is empty; it must be a JSON object", code="invalid_json")
        return self._body

    async def json(self) -> Any:
        """Parses the body and checks it, in a thread of its own: the event loop goes on meanwhile.

        Returns:
            The body's model, which FastAPI takes as it is.

        Raises:
            ApiError: it is no JSON, no object, or does not fit the model.
        """
        data, model = await self.body(), self.scope["gesso.body_model"]
        return await to_thread.run_sync(parse, data, model)


def parse(data: bytes, model: type[BaseModel]) -> BaseModel:
    """Reads a body: strict JSON of at most 200 levels, no key twice in an object, and what the model says of it.

    Raises:
        ApiError: with the field and the reason.
    """
    try:
        parsed = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise ApiError(400, f"the body is no JSON: {error}", code="invalid_json") from None
    if not isinstance(parsed, dict):
        raise ApiError(400, "the body must be a JSON object", code="invalid_json")
    try:
        json.loads(data, object_pairs_hook=unique_members, parse_int=str)
    except RepeatedKeyError as error:
        raise ApiError(400, f"the body says two things: {error}", code="invalid_json") from None
    return checked(model, parsed)


def checked(model: type[M], parsed: Mapping[str, Any]) -> M:
    """Makes the body of these fields.

    Raises:
        ApiError: with the field and the reason.
    """
    try:
        return model.model_validate(parsed)
    except ValidationError as error:
        raise from_validation(error.errors(include_url=False, include_input=False), parsed) from None
    except RecursionError:
        raise ApiError(400, "the body is nested too deeply", code="invalid_json") from None


class UntypedJsonRequest(JsonRequest):
    """Reads as JSON whatever a client that is no browser sends under any `Content-Type`, or none."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        headers = Headers(scope=scope)
        if not any(name in headers for name in BROWSERS):
            others = [header for header in scope["headers"] if header[0] != b"content-type"]
            scope = {**scope, "headers": [*others, (b"content-type", b"application/json")]}
        super().__init__(scope, receive)


class JsonRoute(APIRoute):
    """Gives its handler a `JsonRequest`."""

    request_class: type[JsonRequest] = JsonRequest

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        assert self.body_field is not None, f"{self.path}: a route of JSON has a body"
        model = self.body_field.field_info.annotation

        async def handle(request: Request) -> Response:
            request.scope["gesso.body_model"] = model
            return await handler(self.request_class(request.scope, request.receive))

        return handle


class UntypedJsonRoute(JsonRoute):
    """Gives its handler an `UntypedJsonRequest`."""

    request_class = UntypedJsonRequest
