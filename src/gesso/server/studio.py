"""Serves `GET /` and `/studio/...`: the files of the studio, which is a client like any other.

They are the same for everyone and hold no secret, so no key opens them; what the page then asks of the API needs one.
The page names its files below a folder that is called by their digest, so that browsers keep them until they change:
one script and one style sheet, which `gesso.studio.bundle` makes. The sources have their plain names, and are asked for
anew each time.
"""

import gzip
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gesso.server.errors import ApiError
from gesso.studio import PAGE, PREVIEW, PageFile, page_files
from gesso.studio.bundle import bundled_page

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "frame-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""No script or style but the page's own files, no address but this server's."""
PREVIEW_POLICY = "; ".join(
    (
        "sandbox allow-scripts",
        "default-src 'none'",
        "script-src 'unsafe-inline'",
        "style-src 'unsafe-inline'",
        "img-src data:",
        "font-src data:",
        "media-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'self'",
    )
)
"""Policy of the frame that shows HTML which a model wrote: it has no origin, and may request nothing of anybody."""
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
ASKED_EACH_TIME = "no-cache"
KEPT = "public, max-age=31536000, immutable"


def is_studio(method: str, path: str) -> bool:
    """Tells whether a request asks for a file of the studio."""
    return method in ("GET", "HEAD") and (path == "/" or path.startswith("/studio/"))


def is_file_of_studio(method: str, path: str) -> bool:
    """Tells whether a request asks for one of the files that the page is made of, but not for the page itself."""
    return is_studio(method, path) and path != "/"


@dataclass(frozen=True, slots=True)
class Representation:
    """Holds the bytes of a file as they are sent, packed or not, and the tag by which a browser knows them again."""

    content: bytes
    encoding: str | None
    tag: str

    @classmethod
    def of(cls, content: bytes, encoding: str | None = None) -> "Representation":
        """Makes one with the tag of its bytes."""
        return cls(content, encoding, f'"{hashlib.sha256(content).hexdigest()[:32]}"')


@dataclass(frozen=True, slots=True)
class ServedFile:
    """Holds a file in both representations, of which the client's request chooses."""

    name: str
    media_type: str
    plain: Representation
    packed: Representation

    @classmethod
    def of(cls, name: str, file: PageFile) -> "ServedFile":
        """Packs a file, to the same bytes each time."""
        packed = gzip.compress(file.content, mtime=0)
        return cls(name, file.media_type, Representation.of(file.content), Representation.of(packed, "gzip"))

    def answer(self, request: Request, keep: str) -> Response:
        """Answers with the file, or with 304 where the client has it."""
        given = self.packed if takes_gzip(request.headers.getlist("accept-encoding")) else self.plain
        headers = {
            **HEADERS,
            "Content-Security-Policy": PREVIEW_POLICY if self.name == PREVIEW else POLICY,
            "Cache-Control": keep,
            "ETag": given.tag,
            "Vary": "Accept-Encoding",
        }
        if has_tag(request.headers.getlist("if-none-match"), given.tag):
            return Response(status_code=304, headers=headers)
        if given.encoding is not None:
            headers["Content-Encoding"] = given.encoding
        return Response(given.content, media_type=self.media_type, headers=headers)


def takes_gzip(accepted: list[str]) -> bool:
    """Tells whether `Accept-Encoding` names gzip, with a weight that is not zero."""
    codings = (coding.strip().lower() for header in accepted for coding in header.split(","))
    return any(re.fullmatch(r"(?:x-)?gzip(?:\s*;\s*q=(?!0(?:\.0*)?$).*)?", coding) for coding in codings)


def has_tag(known: list[str], tag: str) -> bool:
    """Tells whether `If-None-Match` names a tag, weak or not, or any (RFC 9110, section 13.1.2)."""
    tags = [given.strip().removeprefix("W/") for header in known for given in header.split(",")]
    return tag in tags or tags == ["*"]


@dataclass(frozen=True, slots=True)
class ServedStudio:
    """Holds all files of the studio as they are served."""

    version: str
    page: ServedFile
    kept: Mapping[str, ServedFile]
    """What the page names, below the folder of the version."""
    sources: Mapping[str, ServedFile]


@cache
def served_studio() -> ServedStudio:
    """Reads and packs the files, once in a process."""
    bundled, sources = bundled_page(), page_files()
    version = hashlib.sha256(b"".join(name.encode() + file.content for name, file in bundled.items())).hexdigest()[:16]
    page = bundled.pop(PAGE)
    of_version = replace(page, content=page.content.replace(b'"studio/', f'"studio/{version}/'.encode()))
    return ServedStudio(
        version,
        ServedFile.of(PAGE, of_version),
        {name: ServedFile.of(name, file) for name, file in bundled.items()},
        {name: ServedFile.of(name, file) for name, file in sources.items()},
    )


def studio_routes() -> APIRouter:
    """Makes the routes of the page and its files."""
    router = APIRouter(include_in_schema=False)
    studio = served_studio()

    def found(files: Mapping[str, ServedFile], name: str) -> ServedFile:
        if name not in files:
            raise ApiError(404, f"the studio has no file {name}")
        return files[name]

    @router.get("/")
    async def page(request: Request) -> Response:
        """Gives the page."""
        return studio.page.answer(request, ASKED_EACH_TIME)

    @router.get("/studio/{name:path}")
    async def file(name: str, request: Request) -> Response:
        """Gives a file of the page: below the version's folder it never changes."""
        if (kept_name := name.removeprefix(f"{studio.version}/")) != name:
            return found(studio.kept, kept_name).answer(request, KEPT)
        return found(studio.sources, name).answer(request, ASKED_EACH_TIME)

    return router
