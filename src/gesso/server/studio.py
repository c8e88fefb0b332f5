"""Serves `GET /` and `/studio/...`: the files of the studio, which is a client like any other.

They are the same for everyone and hold no secret, so no key opens them; what the page then asks of the API needs one.
The page names its files below a folder that is called by their digest, so that browsers keep them until they change;
by their plain names they are asked for anew each time.
"""

import hashlib

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gesso.server.errors import ApiError
from gesso.studio import PAGE, PREVIEW, page_files

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


def studio_routes() -> APIRouter:
    """Makes the routes of the page and its files."""
    router = APIRouter(include_in_schema=False)
    files = page_files()
    version = hashlib.sha256(b"".join(name.encode() + file.content for name, file in files.items())).hexdigest()[:16]
    page_of_version = files[PAGE].content.replace(b'"studio/', f'"studio/{version}/'.encode())
    contents = {name: file.content for name, file in files.items()} | {PAGE: page_of_version}
    tags = {name: f'"{hashlib.sha256(content).hexdigest()[:32]}"' for name, content in contents.items()}

    def answer(name: str, request: Request, keep: str = ASKED_EACH_TIME) -> Response:
        if name not in files:
            raise ApiError(404, f"the studio has no file {name}")
        policy = PREVIEW_POLICY if name == PREVIEW else POLICY
        headers = {**HEADERS, "Content-Security-Policy": policy, "Cache-Control": keep, "ETag": tags[name]}
        if request.headers.get("if-none-match") == tags[name]:
            return Response(status_code=304, headers=headers)
        return Response(contents[name], media_type=files[name].media_type, headers=headers)

    @router.api_route("/", methods=["GET", "HEAD"])
    async def page(request: Request) -> Response:
        """Gives the page."""
        return answer(PAGE, request)

    @router.api_route("/studio/{name:path}", methods=["GET", "HEAD"])
    async def file(name: str, request: Request) -> Response:
        """Gives a file of the page: below the version's folder it never changes."""
        if (plain := name.removeprefix(f"{version}/")) != name:
            return answer(plain, request, KEPT)
        return answer(name, request)

    return router
