"""Serves `GET /` and `/studio/...`: the files of the studio, which is a client like any other.

They are the same for everyone and hold no secret, so no key opens them; what the page then asks of the API needs one.
"""

import hashlib

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gesso.server.errors import ApiError
from gesso.studio import PAGE, page_files

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""No script or style but the page's own files, no address but this server's."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def is_studio(method: str, path: str) -> bool:
    """Tells whether a request asks for a file of the studio."""
    return method in ("GET", "HEAD") and (path == "/" or path.startswith("/studio/"))


def studio_routes() -> APIRouter:
    """Makes the routes of the page and its files."""
    router = APIRouter(include_in_schema=False)
    files = page_files()
    tags = {name: f'"{hashlib.sha256(file.content).hexdigest()[:32]}"' for name, file in files.items()}

    def answer(name: str, request: Request) -> Response:
        if name not in files:
            raise ApiError(404, f"the studio has no file {name}")
        headers = {**HEADERS, "ETag": tags[name]}
        if request.headers.get("if-none-match") == tags[name]:
            return Response(status_code=304, headers=headers)
        return Response(files[name].content, media_type=files[name].media_type, headers=headers)

    @router.api_route("/", methods=["GET", "HEAD"])
    async def page(request: Request) -> Response:
        """Gives the page."""
        return answer(PAGE, request)

    @router.api_route("/studio/{name:path}", methods=["GET", "HEAD"])
    async def file(name: str, request: Request) -> Response:
        """Gives a file of the page."""
        return answer(name, request)

    return router
