"""Serves `GET` of `/health`, `/ready` and `/metrics`, for what watches the server."""

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from gesso.server.answers import Status
from gesso.server.context import Context
from gesso.server.errors import ApiError


def health_routes(context: Context) -> APIRouter:
    """Makes the routes of those who watch the server."""
    router = APIRouter(tags=["health"])

    def check_engine() -> None:
        if (failure := context.service.failure) is not None:
            raise ApiError(503, f"the engine has failed: {failure}", code="engine_failed")
        if context.service.hung:
            seconds = context.service.busy_seconds
            raise ApiError(503, f"the engine hangs: one pass takes {seconds:.0f} seconds so far", code="engine_hangs")

    @router.get("/health")
    async def health() -> Status:
        """Tells whether the server answers: 503 once its engine has failed or hangs, and it has to be started anew."""
        check_engine()
        return Status(status="ok")

    @router.get("/ready")
    async def ready() -> Status:
        """Tells whether it takes requests: 503 before the model runs, from the signal to stop, and as `/health`."""
        check_engine()
        if not context.service.ready:
            raise ApiError(503, "the server takes no requests", code="not_ready")
        return Status(status="ready")

    @router.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Writes all metrics in Prometheus's text format."""
        return Response(context.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return router
