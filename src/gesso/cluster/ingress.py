"""Is what Ray's HTTP proxies send requests to: the router, before the replicas that Ray has."""

import asyncio
import os
from contextlib import ExitStack
from typing import Any

from ray.serve.handle import DeploymentHandle
from starlette.types import ASGIApp

from gesso.cluster.handle import HandleClient, RayPool
from gesso.cluster.settings import ClusterSettings
from gesso.router.app import Router
from gesso.router.settings import RouterSettings
from gesso.server.run import log_to_stderr
from gesso.telemetry.export import tracing


class Ingress:
    """Builds the router's application where it runs, as what it holds goes through no pickle."""

    def __init__(self, models: DeploymentHandle, settings: ClusterSettings) -> None:
        log_to_stderr()
        self._models: Any = models
        self._settings = settings
        self._open = ExitStack()

    def __serve_build_asgi_app__(self) -> ASGIApp:
        """Makes what Ray Serve serves; the name is Ray's."""
        client = HandleClient(self._models, self._settings)
        traces = self._open.enter_context(tracing("gesso-router"))
        return Router(router_settings(self._settings), pool=RayPool(client), traces=traces).app

    async def __del__(self) -> None:
        # Ray calls this when no request is under way any more. The last spans may take seconds.
        await asyncio.to_thread(self._open.close)


def router_settings(settings: ClusterSettings) -> RouterSettings:
    """Returns the settings of the router; keys are those of `GESSO_API_KEY`."""
    return RouterSettings(
        api_keys=tuple(os.environ.get("GESSO_API_KEY", "").split()),
        rate_limit=settings.rate_limit,
        retries=settings.retries,
        retry_seconds=settings.retry_seconds,
    )
