"""Request bodies: JSON and nothing else, bounded in size and depth."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.responses import Response

from gesso.server.errors import ApiError


class JsonRequest(Request):
    """Takes only strict JSON as its body: no NaN, no half characters, no nesting past 200 levels."""

    async def body(self) -> bytes:
        """Reads the whole body, which is never empty.

        Raises:
            ApiError: it is no JSON by its type, too large, or empty.
        """
        if not hasattr(self, "_body"):
            kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json":
                raise ApiError(400, "the body must have the Content-Type application/json", code="wrong_content_type")
            limit = self.app.state.context.settings.max_body_bytes
            parts, size = [], 0
            async for part in self.stream():
                size += len(part)
                if size > limit:
                    raise ApiError(413, f"the body is larger than {limit} bytes", code="body_too_large")
                parts.append(part)
            self._body = b"".join(parts)
            if not self._body:
                raise ApiError(400, "the body is empty; it must be a JSON object", code="invalid_json")
        return self._body

    async def json(self) -> Any:
        """Parses the body, which is an object.

        Raises:
            ApiError: it is no JSON, or no object.
        """
        try:
            parsed = from_json(await self.body(), allow_inf_nan=False)
        except ValueError as error:
            raise ApiError(400, f"the body is no JSON: {error}", code="invalid_json") from None
        if not isinstance(parsed, dict):
            raise ApiError(400, "the body must be a JSON object", code="invalid_json")
        return parsed


class JsonRoute(APIRoute):
    """Gives its handler a `JsonRequest`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            return await handler(JsonRequest(request.scope, request.receive))

        return handle
