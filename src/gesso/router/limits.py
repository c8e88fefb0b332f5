"""Bounds the requests of each key, or of each address where there are no keys."""

import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from gesso.server.auth import KEY, OPEN_PATHS
from gesso.server.errors import ApiError

MOST_KEYS = 10_000
OWN = "/router/"
"""Beginning of the paths by which the router itself is told something: a router that is full can still be drained."""


class TokenBuckets:
    """Holds a bucket for each key, which fills evenly up to one minute's worth.

    Args:
        rate: requests a minute.
    """

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic, most: int = MOST_KEYS) -> None:
        self._rate, self._clock, self._most = rate, clock, most
        self._size = max(1.0, rate)
        self._buckets: OrderedDict[bytes, tuple[float, float]] = OrderedDict()

    def wait(self, key: bytes) -> float:
        """Takes one request from a bucket; returns 0, or the seconds until there is one."""
        now = self._clock()
        held, then = self._buckets.get(key, (self._size, now))
        held = min(self._size, held + (now - then) * self._rate / 60)
        taken = held >= 1
        self._buckets[key] = (held - taken, now)
        self._buckets.move_to_end(key)
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return 0.0 if taken else (1 - held) * 60 / self._rate


class RateLimits:
    """Answers with 429 what a key asks beyond its rate. What watches or tells the router is not counted."""

    def __init__(self, app: ASGIApp, buckets: TokenBuckets, by_key: bool, refused: Callable[[], None]) -> None:
        self._app, self._buckets, self._by_key, self._refused = app, buckets, by_key, refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        free = scope["type"] != "http" or scope["method"] != "POST"
        if free or scope["path"] in OPEN_PATHS or scope["path"].startswith(OWN):
            await self._app(scope, receive, send)
            return
        seconds = self._buckets.wait(self._key(scope))
        if not seconds:
            await self._app(scope, receive, send)
            return
        self._refused()
        headers = {"Retry-After": str(math.ceil(seconds))}
        whose = "with this key" if self._by_key else "from this address"
        error = ApiError(429, f"too many requests {whose}", code="rate_limit_exceeded", headers=headers)
        await error.response(scope["path"])(scope, receive, send)

    def _key(self, scope: Scope) -> bytes:
        given: bytes = scope.get(KEY, b"") if self._by_key else b""
        given = given or str((scope.get("client") or ("",))[0]).encode("utf-8", "surrogateescape")
        # Keys themselves are not kept.
        return hashlib.blake2b(given, digest_size=16).digest()
