"""Declares what `/v1/files` and `/v1/batches` take and answer, as OpenAI has it."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from gesso.server.schema import Strict

Status = Literal["validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"]


SHORTEST_EXPIRY, LONGEST_EXPIRY = 3600, 30 * 24 * 3600
"""Seconds after which a file may be let go."""


class ExpiresAfter(Strict):
    """Says when files are let go: so many seconds after each is made."""

    anchor: Literal["created_at"]
    seconds: Annotated[int, Field(ge=SHORTEST_EXPIRY, le=LONGEST_EXPIRY)]


class FileObject(BaseModel):
    """Describes a stored file."""

    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    expires_at: int | None = None
    filename: str
    purpose: str
    status: Literal["processed"] = "processed"


class Deleted(BaseModel):
    """Tells that a file is gone."""

    id: str
    object: Literal["file"] = "file"
    deleted: bool = True


class FileList(BaseModel):
    """Holds one page of files."""

    object: Literal["list"] = "list"
    data: list[FileObject]
    first_id: str | None
    last_id: str | None
    has_more: bool


class RequestCounts(BaseModel):
    """Counts the lines of a batch."""

    total: int = 0
    completed: int = 0
    failed: int = 0


class BatchError(BaseModel):
    """Tells why a batch did not begin."""

    code: str
    message: str
    param: str | None = None
    line: int | None = None


class BatchErrors(BaseModel):
    """Holds what was wrong with an input."""

    object: Literal["list"] = "list"
    data: list[BatchError]


class Batch(BaseModel):
    """Describes a batch. Times are Unix seconds."""

    id: str
    object: Literal["batch"] = "batch"
    endpoint: str
    errors: BatchErrors | None = None
    input_file_id: str
    completion_window: str
    status: Status = "validating"
    output_file_id: str | None = None
    error_file_id: str | None = None
    created_at: int
    in_progress_at: int | None = None
    expires_at: int
    finalizing_at: int | None = None
    completed_at: int | None = None
    failed_at: int | None = None
    expired_at: int | None = None
    cancelling_at: int | None = None
    cancelled_at: int | None = None
    request_counts: RequestCounts = Field(default_factory=RequestCounts)
    metadata: dict[str, str] | None = None
    output_expires_after: ExpiresAfter | None = None

    @property
    def over(self) -> bool:
        """Says whether nothing will change any more."""
        return self.status in ("failed", "completed", "expired", "cancelled")


class BatchList(BaseModel):
    """Holds one page of batches."""

    object: Literal["list"] = "list"
    data: list[Batch]
    first_id: str | None
    last_id: str | None
    has_more: bool


def _hours(window: str) -> str:
    if re.fullmatch("[1-9][0-9]{0,2}h", window) is None or int(window[:-1]) > 168:
        raise ValueError("is a whole number of hours from 1h to 168h, such as 24h")
    return window


class CreateBatch(Strict):
    """Asks for the answers to all lines of a file."""

    input_file_id: str
    endpoint: str
    completion_window: Annotated[str, AfterValidator(_hours)] = "24h"
    """Hours, 1 to 168, after which lines without an answer expire."""
    metadata: (
        Annotated[
            dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]], Field(max_length=16)
        ]
        | None
    ) = None
    output_expires_after: ExpiresAfter | None = None
    """When the files of answers and errors are let go; without it after as long as the store keeps them."""


def page(items: list[Any]) -> dict[str, Any]:
    """Returns the ends of a page."""
    return {"first_id": items[0].id if items else None, "last_id": items[-1].id if items else None}
