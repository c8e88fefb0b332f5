"""Asks for API keys."""

import hmac
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from gesso.server.errors import ApiError
from gesso.server.studio import is_studio

OPEN_PATHS = ("/health", "/ready")
KEY = "gesso.key"
"""Where the scope of a request has the key that it came with."""


class ApiKeys:
    """Lets a request pass that brings one of the keys as `Authorization: Bearer KEY` or `X-API-Key: KEY`; the scope has
    that key as `gesso.key` from there on."""

    def __init__(self, app: ASGIApp, keys: Sequence[str]) -> None:
        self._app = app
        self._keys = [key.encode() for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._is_open(scope):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if (key := self._brought(headers)) is not None:
            scope[KEY] = key  # in the scope itself: it is where the log finds the route
            await self._app(scope, receive, send)
            return
        unknown = "authorization" in headers or "x-api-key" in headers
        error = ApiError(
            401,
            f"{'this API key is not known' if unknown else 'an API key is needed'}: "
            "send Authorization: Bearer KEY or X-API-Key: KEY",
            code="invalid_api_key",
            headers={"WWW-Authenticate": "Bearer"},
        )
        await error.response(scope["path"])(scope, receive, send)

    def _is_open(self, scope: Scope) -> bool:
        return scope["path"] in OPEN_PATHS or is_studio(scope["method"], scope["path"])

    def _brought(self, headers: Headers) -> bytes | None:
        """The key that a request brings, if it is one of those that count."""
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        # A proxy's `Authorization: Basic` takes nothing from `X-API-Key`, which Anthropic's clients send.
        brought = [headers.get("x-api-key", ""), bearer if scheme.lower() == "bearer" else ""]
        # All keys are compared, each in constant time: how long it takes says nothing about any of them.
        given = [key.strip().encode("latin-1") for key in brought]
        same = [known for key in given for known in self._keys if hmac.compare_digest(key, known)]
        return same[0] if same else None
