"""Serves `/v1/files`: the inputs of batches, and their answers."""

import contextlib
import os
from pathlib import Path
from typing import Annotated, Literal

from anyio import to_thread
from fastapi import APIRouter, Query
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import FileResponse
from starlette.types import Message, Receive

from gesso.server.batch_models import LONGEST_EXPIRY, SHORTEST_EXPIRY, Deleted, FileList, FileObject, page
from gesso.server.batch_store import BatchStore
from gesso.server.body import BROWSERS
from gesso.server.errors import ApiError

HEAD_BYTES = 64 * 2**10
"""Bytes of an upload beside the file itself."""
_FIELDS = ("file", "purpose", "expires_after[anchor]", "expires_after[seconds]")


def file_routes(store: BatchStore, cors_origins: tuple[str, ...]) -> APIRouter:
    """Makes the routes of files over this store."""
    router = APIRouter(tags=["batches"])

    @router.post("/v1/files")
    async def upload(http: HttpRequest) -> FileObject:
        """Stores a file; the body is `multipart/form-data` with `file` and `purpose=batch`."""
        _refuse_strangers(http, cors_origins)
        if http.headers.get("content-type", "").partition(";")[0].strip().lower() != "multipart/form-data":
            raise ApiError(400, "the body must be multipart/form-data", code="wrong_content_type")
        await to_thread.run_sync(store.check_room, int(http.headers.get("content-length", 0)) - HEAD_BYTES)
        return await _store(store, HttpRequest(http.scope, _bounded(http, store.limits.file_bytes + HEAD_BYTES)))

    @router.get("/v1/files")
    def files(
        after: str | None = None,
        limit: Annotated[int, Query(ge=1, le=10_000)] = 10_000,
        purpose: str | None = None,
        order: Literal["asc", "desc"] = "desc",
    ) -> FileList:
        """Lists files: all of them in one page, where no limit is given."""
        found, more = store.files(after, limit, purpose, order)
        return FileList(data=found, has_more=more, **page(found))

    @router.get("/v1/files/{identity}")
    def file(identity: str) -> FileObject:
        """Describes a file."""
        return store.file(identity)

    @router.get("/v1/files/{identity}/content", response_class=FileResponse)
    def content(identity: str) -> FileResponse:
        """Sends what a file holds."""
        return FileResponse(store.path(store.file(identity)), media_type="application/octet-stream")

    @router.delete("/v1/files/{identity}")
    def delete(identity: str) -> Deleted:
        """Lets a file go; 409 while a batch needs it."""
        store.delete_file(identity)
        return Deleted(id=identity)

    return router


def _refuse_strangers(http: HttpRequest, cors_origins: tuple[str, ...]) -> None:
    """A form is what any page may have a browser send unasked; see `body`."""
    if any(name in http.headers for name in BROWSERS):
        origin = http.headers.get("origin")
        if "*" not in cors_origins and origin not in cors_origins:
            raise ApiError(403, "files are not taken from pages of other origins", code="origin_not_allowed")


def _bounded(http: HttpRequest, limit: int) -> Receive:
    """Receives as the request does, up to so many bytes."""
    size = 0

    async def receive() -> Message:
        nonlocal size
        message = await http.receive()
        size += len(message.get("body", b""))
        if size > limit:
            raise ApiError(413, f"a file may have {limit - HEAD_BYTES} bytes", param="file", code="file_too_large")
        return message

    return receive


async def _store(store: BatchStore, http: HttpRequest) -> FileObject:
    try:
        form = await http.form(max_files=1, max_fields=len(_FIELDS), max_part_size=1024)
    except ApiError:
        raise
    except ClientDisconnect:
        raise http.state.record.disconnected() from None
    except (HTTPException, UnicodeError) as error:  # the latter where the form names a charset like `punycode`
        reason = error.detail if isinstance(error, HTTPException) else "its charset does not fit"
        raise ApiError(400, f"the form cannot be read: {reason}", code="invalid_form") from None
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(form.close)
        for name in form:
            if name not in _FIELDS:
                raise ApiError(400, f"unknown field {name[:80]}", param=name[:80], code="unknown_field")
        if form.get("purpose") != "batch":
            raise ApiError(400, "purpose must be batch", param="purpose", code="unsupported_value")
        given = form.get("file")
        if not isinstance(given, UploadFile) or not given.filename:
            raise ApiError(400, "file is missing", param="file", code="missing_field")
        seconds = _expiry(form.get("expires_after[anchor]"), form.get("expires_after[seconds]"))
        await to_thread.run_sync(store.check_room, given.size or 0)
        path = store.new_path()
        try:
            await to_thread.run_sync(_copy, given, path)
            return await to_thread.run_sync(store.add_file, path, given.filename[:255], "batch", seconds)
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def _copy(given: UploadFile, path: Path) -> None:
    with path.open("wb") as file:
        while part := given.file.read(2**20):
            file.write(part)
        file.flush()
        os.fsync(file.fileno())


def _expiry(anchor: object, seconds: object) -> int | None:
    if anchor is None and seconds is None:
        return None
    if anchor != "created_at":
        raise ApiError(400, "expires_after.anchor must be created_at", param="expires_after.anchor")
    whole = isinstance(seconds, str) and seconds.isascii() and seconds.isdecimal() and len(seconds) < 10
    if not whole or not SHORTEST_EXPIRY <= int(str(seconds)) <= LONGEST_EXPIRY:
        message = f"expires_after.seconds must be {SHORTEST_EXPIRY} to {LONGEST_EXPIRY}"
        raise ApiError(400, message, param="expires_after.seconds")
    return int(str(seconds))
