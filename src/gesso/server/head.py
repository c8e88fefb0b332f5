"""Answers `HEAD` as `GET`, without the body (RFC 9110, section 9.3.2)."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadAsGet:
    """Has every path that takes `GET` take `HEAD`: the innermost layer of the application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_without_body(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        asked = {**scope, "method": "GET"}
        try:
            await self._app(asked, receive, send_without_body)
        finally:
            scope.update(asked, method="HEAD")  # the log finds the route in it
