"""`GET /health`, `/ready` and `/metrics`, for what watches the server."""

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from gesso.server.context import Context
from gesso.server.errors import ApiError
from gesso.server.responses import Status


def health_routes(context: Context) -> APIRouter:
    """The endpoints over this service."""
    router = APIRouter(tags=["health"])

    @router.get("/health")
    async def health() -> Status:
        """Whether the server answers."""
        return Status(status="ok")

    @router.get("/ready")
    async def ready() -> Status:
        """Whether it takes requests: 503 before the model runs and from the signal to stop."""
        if not context.service.ready:
            raise ApiError(503, "the server takes no requests", code="not_ready")
        return Status(status="ready")

    @router.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Prometheus's text format."""
        return Response(context.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return router
