"""Puts errors into OpenAI's shape: `{"error": {"message", "type", "param", "code"}}`."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, HTTPException
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import Request

from gesso.errors import ClosingError, EngineDeadError, QueueFullError, TextError, UserError
from gesso.server.option_fields import in_fields, request_field

_TYPES = {401: "authentication_error", 429: "rate_limit_error"}

_ABSENT = object()
_NO_OBJECT = dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "input should be an object")
"""What to say instead of what pydantic does, by the type of an error: it names classes of ours."""


class ApiError(HTTPException):
    """Is raised for an answer that is an error.

    Args:
        status: HTTP status.
        message: one line for the client.
        param: path of the field in the request, where there is one.
        code: OpenAI's short name of the error, where it has one.
        details: what Anthropic's clients read of the error, where they do.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, dict(headers) if headers else None)
        self.param = param
        self.code = code
        self.details = details

    @property
    def body(self) -> dict[str, Any]:
        """Writes the JSON of the answer."""
        kind = _TYPES.get(self.status_code, "server_error" if self.status_code >= 500 else "invalid_request_error")
        return {"error": {"message": self.detail, "type": kind, "param": self.param, "code": self.code}}

    def response(self, path: str = "") -> JSONResponse:
        """Makes the answer to a request for `path`, in the shape of the interface that the path belongs to."""
        return JSONResponse(error_body(self, path), self.status_code, self.headers)


_ANTHROPIC = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


_PROMPTS = {"/chat/completions": "messages", "/responses": "input"}
"""The field that holds a prompt, by the end of the path, where it is not `prompt`."""


def error_body(error: ApiError, path: str) -> dict[str, Any]:
    """Writes an error as Anthropic's clients read it under `/v1/messages`, as Ollama's under `/api/`, else OpenAI's."""
    if path.startswith("/v1/messages"):
        kind = _ANTHROPIC.get(error.status_code, "api_error" if error.status_code >= 500 else "invalid_request_error")
        details = {} if error.details is None else {"details": dict(error.details)}
        return {"type": "error", "error": {"type": kind, "message": error.detail, **details}}
    if path.startswith("/api/"):
        return {"error": error.detail}
    return error.body


def internal_error(request_id: str) -> ApiError:
    """Makes the answer to what was not foreseen: the log has the rest under the same id."""
    return ApiError(500, f"internal error; the server's log has it under {request_id}", code="internal_error")


def from_gesso(error: UserError | QueueFullError | ClosingError, path: str) -> ApiError:
    """Makes the answer to a request for `path` that the service refused."""
    if isinstance(error, QueueFullError):
        headers = {"Retry-After": str(max(1, math.ceil(error.retry_after)))}
        return ApiError(429, str(error), code="queue_full", headers=headers)
    if isinstance(error, EngineDeadError):
        return ApiError(503, str(error), code="engine_failed")
    if isinstance(error, ClosingError):
        return ApiError(503, str(error), code="shutting_down", headers={"Retry-After": "10"})
    if isinstance(error, TextError):
        prompt = next((field for end, field in _PROMPTS.items() if path.endswith(end)), "prompt")
        return ApiError(400, said(error), param=request_field(error.option) or prompt, code=error.code)
    return ApiError(400, said(error), param=request_field(error.option), code=error.code)


def said(error: UserError) -> str:
    """Returns the message of an error with its hint, options by the names of a request's fields."""
    return in_fields(str(error) if error.hint is None else f"{error}; {error.hint}")


def from_validation(errors: Sequence[Mapping[str, Any]], body: object) -> ApiError:
    """Makes the answer to a body that does not fit the schema: the most telling error, with its field's path."""
    if not errors:
        return ApiError(400, "the request does not fit the schema")
    placed = [(error, _path(error, body)) for error in errors]
    rank = {"refused": 0, "extra_forbidden": 1}
    # Of the branches of a union the one of the value's own kind says what is wrong with it.
    error, path = min(
        placed, key=lambda item: (rank.get(item[0]["type"], 2), -len(item[1]), str(item[0]["type"]).endswith("_type"))
    )
    param = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".") or None
    param = error.get("ctx", {}).get("field", param)
    if error["type"] == "extra_forbidden":
        message, code = f"unknown field {param}", "unknown_field"
    elif error["type"] == "refused":
        message, code = f"{param or 'the request'}: {error['msg']}", "unsupported_value"
    elif error["type"] == "missing":
        message, code = f"{param} is missing", "missing_field"
    elif error["type"] in ("union_tag_invalid", "union_tag_not_found"):
        field = str(error["ctx"]["discriminator"]).strip("'")
        param = f"{param}.{field if field.isidentifier() else 'type'}"
        message, code = f"{param} is missing", "missing_field"
        if error["type"] == "union_tag_invalid":
            message = f"{param}: {error['ctx']['tag']!r} is none of {error['ctx']['expected_tags']}"
            code = "invalid_value"
    else:
        what = _NO_OBJECT.get(error["type"]) or str(error["msg"]).removeprefix("Value error, ")
        message, code = f"{param or 'the body'}: {what[:1].lower()}{what[1:]}", "invalid_value"
    return ApiError(400, message, param=param, code=code, details=error.get("ctx", {}).get("details"))


def _path(error: Mapping[str, Any], body: object) -> list[str | int]:
    """Where in the body the error is: `loc` without the names of union branches, which no client has sent."""
    if error["loc"][:1] == ("query",) and not (isinstance(body, dict) and "query" in body):
        return list(error["loc"][1:])
    path: list[str | int] = []
    place: Any = body
    parts = [part for part in error["loc"] if part != "body"]
    for number, part in enumerate(parts):
        inner = _ABSENT
        if isinstance(place, dict):
            inner = place.get(part, _ABSENT)
        elif isinstance(place, list) and isinstance(part, int) and part < len(place):
            inner = place[part]
        if inner is not _ABSENT:
            path.append(part)
            place = inner
        elif error["type"] == "missing" and number == len(parts) - 1:
            path.append(part)
    return path


def _nothing_at(path: str, request: Request) -> str:
    """Says that there is nothing at a path, and what is meant where `/v1` stands twice or not at all, or a slash ends
    it."""
    if path.startswith(("/v1/files", "/v1/batches")) and request.app.state.context.settings.batch_folder is None:
        return f"there is nothing at {path}: the server was started without --batch-folder"
    meant = (f"/v1{path}", path.removeprefix("/v1"), path.rstrip("/"))
    near = [other for other in meant if other in request.app.state.paths]
    return f"there is nothing at {path}" + "".join(f"; see {other}" for other in near)


def add_error_handlers(app: FastAPI) -> None:
    """Gives every error of the application its shape."""

    async def http(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, StarletteHTTPException)
        if isinstance(error, ApiError):
            return error.response(request.url.path)
        path = f"{request.url.path:.80}"
        messages = {404: _nothing_at(path, request), 405: f"{path} does not take {request.method}"}
        message = messages.get(error.status_code, str(error.detail))
        return ApiError(error.status_code, message, headers=error.headers).response(request.url.path)

    async def validation(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        return from_validation(error.errors(), error.body).response(request.url.path)

    async def gesso(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, UserError | QueueFullError | ClosingError)
        return from_gesso(error, request.url.path).response(request.url.path)

    app.add_exception_handler(StarletteHTTPException, http)
    app.add_exception_handler(RequestValidationError, validation)
    for kind in (UserError, QueueFullError, ClosingError):
        app.add_exception_handler(kind, gesso)
