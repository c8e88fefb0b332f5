"""Reads the lines of a batch file, and writes the lines of its answers, as OpenAI has them.

A line of the input is `{"custom_id", "method": "POST", "url", "body"}`; a line of the output is `{"id", "custom_id",
"response": {"status_code", "request_id", "body"}, "error"}`, where one of `response` and `error` is null. The id of an
answer is made from the input's digest and the line's number, so that a run that is taken up again knows its lines.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from gesso.errors import DataError
from gesso.json_files import RepeatedKeyError, unique_members

MAX_LINE_BYTES = 64 * 2**20
MAX_CUSTOM_ID = 512
MAX_PATH = 2048
_PATH = re.compile("[!-~]+")
_KEYS = ("custom_id", "method", "url", "body")
_OWN = ("/v1/batches", "/v1/files")
"""What a line cannot ask for."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Tells why a line is not asked."""

    code: str
    message: str
    param: str | None = None


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """Holds one line of the input."""

    number: int
    """Number of the line in its file, from 1."""
    custom_id: str | None
    """None where the line has none that can be read."""
    url: str = ""
    body: dict[str, Any] = field(default_factory=dict)
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Holds what the server said to one line."""

    status: int
    request_id: str
    body: Any

    @property
    def ok(self) -> bool:
        """Says whether it is no error."""
        return self.status < 400


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Names a custom_id that several lines have."""

    custom_id: str
    first: int
    again: int


@dataclass(frozen=True, slots=True)
class Scan:
    """Holds what one pass over an input tells."""

    sha256: str
    lines: int
    """Lines that are not blank."""
    bad: int
    """Lines that cannot be asked."""
    problem: Problem | None
    """What is wrong with the first of them."""
    duplicate: Duplicate | None

    def identity(self, number: int) -> str:
        """Makes the id of the answer to line `number`."""
        return f"batch_req_{hashlib.sha256(f'{self.sha256}:{number}'.encode()).hexdigest()[:24]}"


def scan(path: Path, endpoint: str | None = None) -> Scan:
    """Reads an input once, and keeps nothing of it but its digest, its faults and its ids.

    Args:
        endpoint: the only `url` that lines may have, where there is one.

    Raises:
        OSError: the file cannot be read.
    """
    digest, lines, bad = hashlib.sha256(), 0, 0
    seen: dict[str, int] = {}
    problem: Problem | None = None
    duplicate: Duplicate | None = None
    with path.open("rb") as file:
        for number, raw in _raw_lines(file):
            digest.update(b"%d:" % len(raw) + raw)
            if not raw.strip():
                continue
            lines += 1
            request = read_line(number, raw, endpoint)
            bad += request.problem is not None
            problem = problem or request.problem
            if request.custom_id is not None:
                if request.custom_id in seen and duplicate is None:
                    duplicate = Duplicate(request.custom_id, seen[request.custom_id], number)
                seen.setdefault(request.custom_id, number)
    return Scan(digest.hexdigest(), lines, bad, problem, duplicate)


def requests_of(
    path: Path, endpoint: str | None = None, done: Callable[[int], bool] = lambda number: False
) -> Iterator[BatchRequest]:
    """Yields the requests of an input one after the other; the bad ones too, with what is wrong with them.

    Args:
        done: says of a line's number that it is to be passed over.
    """
    with path.open("rb") as file:
        for number, raw in _raw_lines(file):
            if raw.strip() and not done(number):
                yield read_line(number, raw, endpoint)


def refuse_duplicates(scanned: Scan, name: str) -> None:
    """Checks that an id stands for one line.

    Raises:
        DataError: naming the id and both lines.
    """
    if (twice := scanned.duplicate) is not None:
        raise DataError(
            f"{name}: custom_id {twice.custom_id!r} stands on line {twice.first} and on line {twice.again}; "
            "answers are told apart by it",
            option="input",
        )


def _raw_lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers; of one that is too long, only so much that its length shows."""
    number = 0
    while raw := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(raw) > MAX_LINE_BYTES and not raw.endswith(b"\n"):
            while (rest := file.readline(2**20)) and not rest.endswith(b"\n"):
                pass
        yield number, raw


def read_line(number: int, raw: bytes, endpoint: str | None = None) -> BatchRequest:
    """Reads one line; what is wrong with it stands in its `problem`."""

    def bad(code: str, message: str, param: str | None = None, custom_id: str | None = None) -> BatchRequest:
        return BatchRequest(number, custom_id, problem=Problem(code, f"line {number}: {message}", param))

    if len(raw.removesuffix(b"\n")) > MAX_LINE_BYTES:
        return bad("line_too_long", f"has more than {MAX_LINE_BYTES} bytes")
    try:
        line = json.loads(raw.decode("utf-8-sig"), parse_constant=_refuse, object_pairs_hook=unique_members)
    except RepeatedKeyError as error:
        return bad("invalid_json_line", str(error))
    except (ValueError, RecursionError) as error:
        return bad("invalid_json_line", _why(error))
    if not isinstance(line, dict):
        return bad("invalid_json_line", "is no JSON object")
    given = line.get("custom_id")
    if not isinstance(given, str) or not 0 < len(given) <= MAX_CUSTOM_ID:
        return bad("invalid_custom_id", f"custom_id must be a text of 1 to {MAX_CUSTOM_ID} characters", "custom_id")
    for key in line:
        if key not in _KEYS:
            return bad("unknown_field", f"unknown field {key}; a line has {', '.join(_KEYS)}", key, given)
    if line.get("method") != "POST":
        return bad("invalid_method", "method must be POST", "method", given)
    url, body = line.get("url"), line.get("body")
    if not isinstance(url, str) or not _is_path(url):
        return bad("invalid_url", "url must be the path of an endpoint, such as /v1/chat/completions", "url", given)
    if endpoint is not None and url != endpoint:
        return bad("mismatched_url", f"url must be the batch's endpoint {endpoint}, got {url}", "url", given)
    if not isinstance(body, dict):
        return bad("invalid_body", "body must be a JSON object", "body", given)
    if body.get("stream"):
        return bad("stream_not_supported", "stream must be false: an answer is one line", "body.stream", given)
    return BatchRequest(number, given, url, body)


def _why(error: ValueError | RecursionError) -> str:
    """Says why a line is no JSON, with the place in the line."""
    match error:
        case UnicodeDecodeError():
            return f"is no UTF-8 (byte {error.start + 1})"
        case json.JSONDecodeError():
            return f"is no JSON: {error.msg}, column {error.colno}"
        case RecursionError():
            return "is nested too deeply to be read"
    return f"is no JSON: {error}"


def _is_path(url: str) -> bool:
    return url.startswith("/") and not url.startswith(_OWN) and len(url) <= MAX_PATH and bool(_PATH.fullmatch(url))


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def answer_line(identity: str, request: BatchRequest, answer: Answer) -> str:
    """Writes the line of an answer, without its end."""
    response = {"status_code": answer.status, "request_id": answer.request_id, "body": answer.body}
    return _line(identity, request.custom_id, response, None)


def error_line(identity: str, request: BatchRequest, code: str, message: str) -> str:
    """Writes the line of a request that was not asked, without its end."""
    return _line(identity, request.custom_id, None, {"code": code, "message": message})


def _line(identity: str, custom_id: str | None, response: object, error: object) -> str:
    # ASCII: some readers break lines at characters that are no line ends here.
    return json.dumps({"id": identity, "custom_id": custom_id, "response": response, "error": error})
