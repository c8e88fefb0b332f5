"""Builds the router's application: its own few paths, and everything else forwarded."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from types import SimpleNamespace

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from gesso.router import model_list
from gesso.router.asked import Asked, Pins
from gesso.router.client import Client
from gesso.router.forward import Forward
from gesso.router.health import Health
from gesso.router.http import HttpClient
from gesso.router.limits import RateLimits, TokenBuckets
from gesso.router.metrics import RouterMetrics
from gesso.router.replicas import Pool
from gesso.router.settings import RouterSettings
from gesso.router.spawn import Spawner
from gesso.server.errors import ApiError
from gesso.server.http_settings import outer_layers
from gesso.telemetry.traces import Traces

_KNOWN = (
    "/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/messages/count_tokens", "/v1/responses",
    "/v1/responses/input_tokens",
    "/v1/models", "/v1/fill", "/v1/edit", "/v1/choose", "/v1/tokenize", "/v1/detokenize", "/api/chat", "/api/generate",
)  # fmt: skip
"""Paths that metrics tell apart."""
_OF_ONE_SERVER = ("/v1/files", "/v1/batches")


class Router:
    """Holds what a router works with, and ends it."""

    def __init__(
        self,
        settings: RouterSettings,
        connect: Callable[[str], Client] = HttpClient,
        spawner: Spawner | None = None,
        pool: Pool | None = None,
        traces: Traces | None = None,
    ) -> None:
        """
        Args:
            connect: makes the connections to an address.
            spawner: starts servers of this machine.
            pool: one that someone else looks after, instead of the replicas of the settings.
            traces: what makes spans of requests and of the tries that they take.
        """
        self.settings, self.traces = settings, traces
        self.closing = False
        self.refused = False
        """Whether the servers to spawn refuse their arguments."""
        self.on_refusal: Callable[[], None] = lambda: None
        """What is called then."""
        self._spawner = spawner
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watches = pool is None
        self.pool = Pool(connect, settings.slack) if pool is None else pool
        self.metrics = RouterMetrics(self.pool)
        self.forward = Forward(settings, self.pool, self.metrics)
        self.health = Health(self.pool, settings.health_seconds, settings.stall_seconds, self.forward.ready.set)
        for url in settings.replicas:
            self.pool.add(url, url)
        self.app = _application(self)

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:  # noqa: ARG002 - Starlette's signature
        """Looks after the replicas for as long as the application runs."""
        self._loop = asyncio.get_running_loop()
        tasks = [asyncio.create_task(self.health.run())] if self._watches else []
        if self._spawner is not None:
            tasks += self._spawner.start(self.pool, self.health, self.metrics.restarts.inc, self._refuse)
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._spawner is not None:
                await self._spawner.stop(self.settings.drain_seconds)
            await self.pool.close()

    def _refuse(self) -> None:
        self.refused = True
        self.on_refusal()

    def close(self, drain_seconds: float) -> None:
        """Takes no more requests, lets what runs finish for so long, and tells the rest. Of any thread."""
        self.closing = True
        until = time.monotonic() + drain_seconds
        while self.forward.running and time.monotonic() < until:
            time.sleep(0.02)
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self.forward.stopping.set)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forwards a request, unless the router is closing."""
        path = scope["path"]
        scope["route"] = SimpleNamespace(path=path if path in _KNOWN else "other")
        refusal: ApiError | None = None
        if self.closing:
            refusal = ApiError(503, "the router is shutting down", code="shutting_down", headers={"Retry-After": "10"})
        elif path.startswith(_OF_ONE_SERVER):
            refusal = ApiError(404, "files and batches belong to one server: ask that one, or run gesso batch --server")
        if refusal is not None:
            await refusal.response(path)(scope, receive, send)
            return
        if path == model_list.PATH and scope["method"] == "GET":
            asked = Asked(scope, b"", self.settings.replica_api_key, Pins())
            found = await model_list.all_models(self.pool, asked)
            if found is not None:
                await JSONResponse(found)(scope, receive, send)
                return
        await self.forward(scope, receive, send)


def _application(router: Router) -> Starlette:
    settings, metrics = router.settings, router.metrics
    layers = outer_layers(settings, metrics, router.traces)
    if settings.rate_limit is not None:
        buckets = TokenBuckets(settings.rate_limit)
        by_key = bool(settings.api_keys)
        layers.append(Middleware(RateLimits, buckets=buckets, by_key=by_key, refused=metrics.limited.inc))
    routes = [
        Route("/health", lambda _: JSONResponse({"status": "ok"})),
        Route("/ready", partial(_ready, router)),
        Route("/metrics", lambda _: Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)),
        Route("/router/replicas", partial(_replicas, router)),
        Route("/router/replicas/{name:path}/{action}", partial(_drain, router), methods=["POST"]),
    ]
    app = Starlette(routes=routes, middleware=layers, lifespan=router.lifespan)
    app.router.redirect_slashes = False
    default: ASGIApp = router
    app.router.default = default
    return app


async def _ready(router: Router, request: Request) -> Response:
    """Tells whether requests are taken: 503 while no replica takes any, and from the signal to stop."""
    up = [replica for replica in router.pool.replicas.values() if replica.state == "up" and not replica.draining]
    if router.closing or not up:
        return ApiError(503, router.pool.refusal(), code="not_ready").response(request.url.path)
    return JSONResponse({"status": "ready", "replicas": len(up)})


async def _replicas(router: Router, request: Request) -> Response:  # noqa: ARG001 - Starlette's signature
    """Lists the replicas."""
    fields = ("name", "url", "state", "trouble", "draining", "load", "requests", "failures", "open", "pid")
    shown: list[Mapping[str, object]] = [
        {field: getattr(replica, field) for field in fields} for replica in router.pool.replicas.values()
    ]
    return JSONResponse({"object": "list", "data": shown})


async def _drain(router: Router, request: Request) -> Response:
    """Sends a replica nothing new (`drain`), or again (`resume`); what it runs goes on."""
    name, action = request.path_params["name"], request.path_params["action"]
    replica = router.pool.replicas.get(name)
    if replica is None or action not in ("drain", "resume"):
        known = ", ".join(router.pool.replicas)
        message = f"there is no such replica or action; replicas are {known}, actions drain and resume"
        return ApiError(404, message).response(request.url.path)
    replica.draining = action == "drain"
    if not replica.draining:
        router.forward.ready.set()
    return JSONResponse({"name": name, "draining": replica.draining, "load": replica.load})
