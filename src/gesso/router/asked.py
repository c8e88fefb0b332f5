"""Reads what a client asks, as far as a router has to know it, and writes it anew for a replica."""

import json
import secrets
from collections import OrderedDict
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Receive, Scope

from gesso.router.affinity import prefix_digests
from gesso.server.body import BROWSERS
from gesso.server.errors import ApiError

_DROPPED = {
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer",
    b"transfer-encoding", b"upgrade", b"host", b"content-length", b"accept-encoding", b"expect", b"cookie",
    b"x-request-id", *(name.encode() for name in BROWSERS),
}  # fmt: skip
"""Headers of one connection, those that the router writes itself, and those of a browser: the router has seen to who
asks, and a replica knows the router alone."""
_KEYS = {b"authorization", b"x-api-key"}
_SEEDED = ("/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses")
BEGUN = ("/v1/chat/completions", "/v1/completions")
"""Paths whose answers can be made to begin with what the client has."""
MOST_PINS = 50_000


class Asked:
    """Holds one request of a client.

    Args:
        pins: where stored responses are; see `Pins`.
    """

    def __init__(self, scope: Scope, body: bytes, replica_key: str | None, pins: "Pins") -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        raw_path: bytes = scope.get("raw_path") or self.path.encode()
        query: bytes = scope.get("query_string", b"")
        self._target = (raw_path + (b"?" + query if query else b"")).decode("latin-1")
        self._body = body
        self._begin: str | None = None
        self.parsed = json_fields(body) if self.method == "POST" else {}
        _, of_model, model = self.path.rpartition("/v1/models/")
        model = model if of_model else self.parsed.get("model")
        self.model: str | None = model if isinstance(model, str) else None
        self.streams = self.parsed.get("stream") is True or self.path in ("/api/chat", "/api/generate")
        self.stores = self.path == "/v1/responses" and self.method == "POST"
        """Whether the replica that answers remembers it under a name."""
        self.digests = prefix_digests(self.path, self.parsed) if self.parsed else []
        self._headers = self._pass_on(scope, replica_key)
        self.pinned: str | None = None
        """The only replica that can answer, where there is one."""
        self._aim(pins)
        if self.streams and self.parsed:
            self._seed()

    def _pass_on(self, scope: Scope, replica_key: str | None) -> list[tuple[bytes, bytes]]:
        given: list[tuple[bytes, bytes]] = scope["headers"]
        dropped = _DROPPED if replica_key is None else _DROPPED | _KEYS
        for name, value in given:
            if name == b"connection" and value.lower() not in (b"keep-alive", b"close"):
                dropped = dropped | {part.strip().lower() for part in value.split(b",")}
        kept = [pair for pair in given if pair[0] not in dropped]
        if replica_key is not None:
            kept.append((b"authorization", f"Bearer {replica_key}".encode()))
        kept.append((b"x-request-id", scope["state"]["record"].request_id.encode()))
        kept.append((b"accept-encoding", b"identity"))
        return kept

    def _aim(self, pins: "Pins") -> None:
        """Finds the replica that holds what is referred to."""
        named = self.parsed.get("previous_response_id")
        if named is None and self.path.startswith("/v1/responses/"):
            named = self.path.removeprefix("/v1/responses/").partition("/")[0]
        if isinstance(named, str) and (pin := pins.find(named)) is not None:
            self.pinned, there = pin
            self._target = self._target.replace(named, there)
            self._body = self._body.replace(json.dumps(named).encode(), json.dumps(there).encode())

    def _seed(self) -> None:
        """Gives a stream a seed, so that another replica can write it again."""
        seed = secrets.randbelow(2**31)
        if self.path in _SEEDED and self.parsed.get("seed") is None:
            if "seed" in self.parsed:  # null
                self._write({**self.parsed, "seed": seed})
            else:
                # Behind all that the client wrote, to the letter: what is wrong with it the replica is to see.
                self._body = self._body.rstrip()[:-1] + f', "seed": {seed}}}'.encode()
                self.parsed["seed"] = seed
        elif self.path.startswith("/api/"):
            options = self.parsed.get("options")
            if options is None or (isinstance(options, dict) and options.get("seed") is None):
                self._write({**self.parsed, "options": {**(options or {}), "seed": seed}})

    def _write(self, fields: dict[str, Any]) -> None:
        self.parsed = fields
        self._body = json.dumps(fields).encode()

    def begin_with(self, text: str) -> bool:
        """Asks for the answer from the end of this text on; returns whether there is a way to ask for it."""
        given = self.parsed.get("diffusion") or {}
        if self.path not in BEGUN or (self.parsed.get("n") or 1) != 1 or not isinstance(given, dict):
            return False
        if any(given.get(name) for name in ("canvas", "start_canvas", "start_step")) or self.parsed.get("prediction"):
            return False
        self._write({**self.parsed, "diffusion": {**given, "begin": text}})
        return True

    @property
    def target(self) -> str:
        """Returns path and query for a replica."""
        return self._target

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Returns the headers for a replica."""
        return self._headers

    @property
    def body(self) -> bytes:
        """Returns the body for a replica."""
        return self._body


def json_fields(body: bytes) -> dict[str, Any]:
    """Returns the fields of a body; none where it is not the JSON that replicas take, which they tell the client."""
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """Reads the body of a request.

    Raises:
        ApiError: it is too large, or the client went away.
    """
    too_large = ApiError(413, f"the body is larger than {limit} bytes", code="body_too_large")
    length = Headers(scope=scope).get("content-length", "0")
    if length.isdecimal() and int(length) > limit:
        raise too_large
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise scope["state"]["record"].disconnected()
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise too_large
        parts.append(part)
        more = message.get("more_body", False)
    return b"".join(parts)


class Pins:
    """Remembers which replica stored which response, and under which id. Of one event loop."""

    def __init__(self, most: int = MOST_PINS) -> None:
        self._most = most
        self._held: OrderedDict[str, tuple[str, str]] = OrderedDict()

    def put(self, identity: str, replica: str, there: str) -> None:
        """Notes that a response that clients know by one id is stored at a replica by this one."""
        self._held[identity] = (replica, there)
        self._held.move_to_end(identity)
        if len(self._held) > self._most:
            self._held.popitem(last=False)

    def find(self, identity: str) -> tuple[str, str] | None:
        """Finds a replica and its id of a response."""
        return self._held.get(identity)
