"""Serves `/v1/batches`, whose lines are answered by this same application."""

import secrets
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Query

from gesso.server.batch_models import Batch, BatchList, CreateBatch, page
from gesso.server.batch_worker import BatchWorker
from gesso.server.body import JsonRoute
from gesso.server.errors import ApiError


def batch_routes(worker: BatchWorker) -> APIRouter:
    """Makes the routes that begin, show and cancel batches."""
    router, store = APIRouter(tags=["batches"]), worker.store
    posts = APIRouter(tags=["batches"], route_class=JsonRoute)

    @posts.post("/v1/batches")
    async def create(body: CreateBatch) -> Batch:
        """Begins to answer all lines of a file."""
        if body.endpoint not in worker.endpoints:
            known = ", ".join(sorted(worker.endpoints))
            raise ApiError(400, f"endpoint must be one of {known}", param="endpoint", code="unsupported_value")
        file = await to_thread.run_sync(store.file, body.input_file_id)
        if file.purpose != "batch":
            raise ApiError(400, f"{file.id} is no input of a batch", param="input_file_id", code="invalid_value")
        batch = Batch(
            id=f"batch_{secrets.token_hex(12)}",
            endpoint=body.endpoint,
            input_file_id=file.id,
            completion_window=body.completion_window,
            created_at=store.now(),
            expires_at=store.now() + 3600 * int(body.completion_window[:-1]),
            metadata=body.metadata,
            output_expires_after=body.output_expires_after,
        )
        await to_thread.run_sync(store.add_batch, batch)
        worker.wake()
        return batch

    @router.get("/v1/batches")
    def batches(after: str | None = None, limit: Annotated[int, Query(ge=1, le=100)] = 20) -> BatchList:
        """Lists batches, the newest first."""
        found, more = store.batches(after, limit)
        shown = [worker.shown(batch) for batch in found]
        return BatchList(data=shown, has_more=more, **page(shown))

    @router.get("/v1/batches/{identity}")
    def batch(identity: str) -> Batch:
        """Describes a batch, and how far it is."""
        return worker.shown(store.batch(identity))

    @router.post("/v1/batches/{identity}/cancel")
    async def cancel(identity: str) -> Batch:
        """Ends a batch; what is answered by then is kept."""
        return await worker.cancel(identity)

    router.include_router(posts)
    return router
