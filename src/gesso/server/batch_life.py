"""Gives an application its batches for as long as it runs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from fastapi import FastAPI

from gesso.batch.ask import in_process
from gesso.server.batch_store import BatchStore, open_store
from gesso.server.batch_worker import BatchWorker
from gesso.server.batches import batch_routes
from gesso.server.files import file_routes
from gesso.server.settings import Settings


@contextlib.asynccontextmanager
async def with_batches(settings: Settings, opened: BatchStore | None, app: FastAPI) -> AsyncIterator[None]:
    """Works off the batches of a store until the application ends.

    Args:
        opened: the store, which stays open; the settings' folder is opened where there is none.
    """
    assert settings.batch_folder is not None
    with open_store(settings.batch_folder) if opened is None else contextlib.nullcontext(opened) as store:
        async with _worked_off(settings, store, app):
            yield


@contextlib.asynccontextmanager
async def _worked_off(settings: Settings, store: BatchStore, app: FastAPI) -> AsyncIterator[None]:
    key = settings.api_keys[0] if settings.api_keys else None
    host = settings.allowed_hosts[0] if settings.allowed_hosts else "localhost"
    async with in_process(app, key, host) as ask:
        worker = BatchWorker(store, ask, app.state.endpoints, settings.batch_workers)
        app.include_router(file_routes(store, settings.cors_origins))
        app.include_router(batch_routes(worker))
        app.openapi_schema = None
        work = asyncio.create_task(worker.run())
        try:
            yield
        finally:
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await work
