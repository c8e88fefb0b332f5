"""Asks for API keys."""

import hmac
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from gesso.server.errors import ApiError
from gesso.server.studio import is_studio

OPEN_PATHS = ("/health", "/ready")


class ApiKeys:
    """Lets a request pass that brings one of the keys as `Authorization: Bearer KEY` or `X-API-Key: KEY`."""

    def __init__(self, app: ASGIApp, keys: Sequence[str]) -> None:
        self._app = app
        self._keys = [key.encode() for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._is_open(scope) or self._knows(Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        error = ApiError(
            401,
            "an API key is needed, as Authorization: Bearer KEY",
            code="invalid_api_key",
            headers={"WWW-Authenticate": "Bearer"},
        )
        await error.response(scope["path"])(scope, receive, send)

    def _is_open(self, scope: Scope) -> bool:
        return scope["path"] in OPEN_PATHS or is_studio(scope["method"], scope["path"])

    def _knows(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        # A proxy's `Authorization: Basic` takes nothing from `X-API-Key`, which Anthropic's clients send.
        brought = [headers.get("x-api-key", ""), given if scheme.lower() == "bearer" else ""]
        # All keys are compared, each in constant time: how long it takes says nothing about any of them.
        same = [hmac.compare_digest(key.strip().encode("latin-1"), known) for key in brought for known in self._keys]
        return any(same)
