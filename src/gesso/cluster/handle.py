"""Asks replicas that Ray chooses: a `Client` of the router over the handle of a deployment."""

import json
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any
from urllib.parse import unquote

from ray.exceptions import RayError
from ray.serve.exceptions import BackPressureError, RayServeException

from gesso.cluster.call import Call
from gesso.cluster.route import route_of_this_request
from gesso.cluster.settings import ClusterSettings
from gesso.router.affinity import prefix_digests
from gesso.router.asked import json_fields
from gesso.router.client import Answer, Headers, ReplicaLostError
from gesso.router.replicas import Pool, Replica
from gesso.server.errors import ApiError, error_body

_COUNT = "/v1/responses/input_tokens"
_MODEL = "/v1/models/"
"""What the name of a model follows in a path."""


class HandleClient:
    """Sends requests to whichever replica Ray chooses.

    Args:
        handle: of the deployment of `ModelReplica`.
    """

    def __init__(self, handle: Any, settings: ClusterSettings) -> None:
        self._settings = settings
        several = len(settings.models) > 1
        self._handles = {
            name: handle.options(method_name="ask", stream=True, multiplexed_model_id=name if several else "")
            for name in settings.models
        }

    async def send(self, method: str, target: str, headers: Headers = (), body: bytes = b"") -> Answer:
        """Sends a request; see `Client`."""
        path = target.partition("?")[0]
        fields = json_fields(body)
        if (refusal := self._refusal(method, path, fields)) is not None:
            return _OwnAnswer.error(refusal, path)
        if method == "GET" and path == "/v1/models" and len(self._settings.models) > 1:
            return _OwnAnswer.listing(self._settings.served_names)
        route = route_of_this_request()
        route.digests = prefix_digests(path, fields) if fields else []
        call = Call(method, target, tuple(headers), body)
        named = unquote(path.removeprefix(_MODEL)) if path.startswith(_MODEL) else fields.get("model")
        handle = self._handles[self._settings.model_of(named)]
        parts: Any = None
        try:
            parts = handle.remote(call, route=route)
            status, given = await anext(parts)
        except BackPressureError:
            full = ApiError(429, "too many requests wait already", code="queue_full", headers={"Retry-After": "1"})
            return _OwnAnswer.error(full, path)
        except (RayError, RayServeException, StopAsyncIteration) as error:
            raise ReplicaLostError(_describe(error)) from None
        except BaseException:
            if parts is not None:
                parts.cancel()
            raise
        return _Streamed(parts, status, given)

    def _refusal(self, method: str, path: str, fields: dict[str, Any]) -> ApiError | None:
        """Refuses what refers to a response, where nobody knows which replica, or which model, has stored it."""
        several = self._settings.max_replicas > 1
        if several and fields.get("previous_response_id") is not None:
            message = "responses are stored by one of several replicas: send the whole conversation instead"
            return ApiError(400, message, param="previous_response_id", code="unsupported_value")
        if path.startswith("/v1/responses/") and path != _COUNT and (several or len(self._settings.models) > 1):
            what = "replicas" if several else "models"
            return ApiError(404, f"{method} {path}: responses are stored by one of several {what}, and not found again")
        return None

    async def close(self) -> None:
        """Ends nothing: what runs at a replica ends with its own answer."""


class RayPool(Pool):
    """Holds the one thing that Ray's handle is: replicas are chosen, looked after and replaced behind it."""

    def __init__(self, client: HandleClient) -> None:
        super().__init__(lambda url: client)
        self.add("ray", "ray").state = "up"

    def has_other(self, excluded: Collection[str]) -> bool:  # noqa: ARG002 - what is excluded is the handle itself
        """Says whether Ray has a replica that was not asked for this request."""
        return route_of_this_request().has_other

    def failed(self, replica: Replica) -> None:
        """Counts a failure, which opens no breaker, for it was one replica's of many."""
        replica.failures += 1

    def leaving(self, replica: Replica) -> None:
        """Changes nothing: one of those behind the handle takes nothing for now, and nobody looks when it does."""

    async def lost(self, replica: Replica) -> None:
        """Cuts nothing: Ray takes replicas out of turn that it cannot reach."""


class _Streamed:
    """Passes on an answer that comes from a replica."""

    def __init__(self, parts: Any, status: int, headers: Headers) -> None:
        self._parts, self.status, self.headers = parts, status, headers
        self._whole = False

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for part in self._parts:
                yield part
        except (RayError, RayServeException) as error:
            raise ReplicaLostError(_describe(error)) from None
        self._whole = True

    async def read(self) -> bytes:
        return b"".join([part async for part in self.chunks()])

    async def close(self) -> None:
        if not self._whole:
            self._parts.cancel()


class _OwnAnswer:
    """Answers without asking a replica."""

    def __init__(self, status: int, headers: Headers, body: bytes) -> None:
        self.status, self.headers, self._body = status, headers, body

    @classmethod
    def error(cls, error: ApiError, path: str) -> "_OwnAnswer":
        headers = [(name.lower().encode(), value.encode()) for name, value in (error.headers or {}).items()]
        return cls._json(error.status_code, error_body(error, path), headers)

    @classmethod
    def listing(cls, names: Sequence[str]) -> "_OwnAnswer":
        """Lists models, of which no replica may have all."""
        cards = [
            {"id": name, "object": "model", "created": 0, "owned_by": "gesso", "root": name.partition(":")[0]}
            for name in names
        ]
        return cls._json(200, {"object": "list", "data": cards}, [])

    @classmethod
    def _json(cls, status: int, fields: Any, headers: list[tuple[bytes, bytes]]) -> "_OwnAnswer":
        return cls(status, [(b"content-type", b"application/json"), *headers], json.dumps(fields).encode())

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._body

    async def read(self) -> bytes:
        return self._body

    async def close(self) -> None:
        """Holds nothing."""


def _describe(error: BaseException) -> str:
    first = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
