"""Asks a server for the answer to one line: over the network, or an application in this process."""

import asyncio
import json
import math
import time
from typing import Any
from urllib.request import getproxies

import httpx

from gesso.batch.lines import Answer, BatchRequest
from gesso.errors import GessoError, OptionError

LONGEST_PAUSE = 30.0
"""Seconds between two tries, at most."""
PATIENCE = 300.0
"""Seconds for which a server that fails is asked again."""
JSON = {"Content-Type": "application/json"}
_AGAIN = (429, 502, 503)
"""Answers that say nothing of the request: the server is full, or not there."""
_STRANGER = (401, 403)
"""Answers that every line would get: whoever asks is refused, or the name that the server is called by."""

UNUSABLE = (ImportError, OSError, ValueError, httpx.InvalidURL)
"""What httpx raises about a proxy or certificates of the environment, before anything is sent."""
ENVIRONMENT = "ALL_PROXY, HTTP_PROXY, NO_PROXY, SSL_CERT_FILE and the like in the environment count"


class ServerGoneError(GessoError):
    """Reports a server that does not come back; the lines that are left can be asked later."""


class Asker:
    """Asks one server, and asks again where it is full or away.

    Args:
        client: with the server's address and headers.
        patience: seconds from the first of several failures in a row after which the server is given up; 0 gives up at
            the first failure. A full queue is none.
    """

    def __init__(self, client: httpx.AsyncClient, patience: float) -> None:
        self._client = client
        self._patience = patience
        self._reached = False
        """Whether anything ever answered."""

    async def __call__(self, request: BatchRequest) -> Answer:
        """Returns the answer to a line, which may be an error.

        Raises:
            ServerGoneError: the server refuses everything, or cannot be reached any more.
            OptionError: nothing takes connections at its address, and never did; it refuses whoever asks, or is at
                another address.
        """
        pause, since = 0.25, math.inf
        while True:
            wanted: float | None = None
            try:
                response = await self._client.post(request.url, content=json.dumps(request.body).encode())
            except httpx.TransportError as error:
                if isinstance(error, httpx.ConnectError) and not self._reached:
                    address = str(self._client.base_url).rstrip("/")
                    # A proxy that refuses looks like the server that does.
                    hint = ENVIRONMENT if getproxies() else None
                    raise OptionError(f"no server answers at {address}: {error}", option="server", hint=hint) from None
                reason, full = f"the server cannot be reached: {type(error).__name__} {error}".strip(), False
            else:
                self._reached = True
                if response.status_code not in _AGAIN:
                    _refuse_for_all(response)
                    return _answer(response)
                reason, full = f"the server refuses requests: {_message(response)}", response.status_code == 429
                wanted = _seconds(response.headers.get("retry-after"))
            # A full queue empties by itself, however long that takes.
            since = math.inf if full else min(since, time.monotonic())
            if time.monotonic() - since >= self._patience:
                raise ServerGoneError(reason)
            await asyncio.sleep(min(LONGEST_PAUSE, pause if wanted is None else wanted))
            pause = min(LONGEST_PAUSE, pause * 2)

    async def __aenter__(self) -> "Asker":
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, at: object) -> None:
        await self._client.aclose()


def over_http(url: str, key: str | None = None) -> Asker:
    """Makes an asker of a server, or of a router before several.

    Raises:
        OptionError: it is no address, the key none that a header can have, or the environment names a proxy or
            certificates that cannot be used.
    """
    headers = {**JSON, **authorization(key)}
    try:
        if httpx.URL(url).scheme not in ("http", "https") or not httpx.URL(url).host:
            raise httpx.InvalidURL("it begins with http:// or https://")
    except httpx.InvalidURL as error:
        raise OptionError(f"--server {url} is no address: {error}", option="server") from None
    base = url.rstrip("/").removesuffix("/v1")
    try:
        client = httpx.AsyncClient(base_url=base, headers=headers, timeout=httpx.Timeout(None, connect=10.0))
    except UNUSABLE as error:
        raise OptionError(f"--server {url} cannot be asked: {error}", option="server", hint=ENVIRONMENT) from None
    return Asker(client, PATIENCE)


def authorization(key: str | None) -> dict[str, str]:
    """Returns the header that shows a key, where there is one.

    Raises:
        OptionError: it is none that a header can have.
    """
    if key is not None and not (key.isascii() and key.isprintable()):
        raise OptionError("an API key must be printable ASCII", option="api_key")
    return {} if key is None else {"Authorization": f"Bearer {key}"}


def in_process(app: Any, key: str | None = None, host: str = "localhost") -> Asker:
    """Makes an asker of an ASGI application in this process, which is not waited for once it refuses."""
    headers = {**JSON, **authorization(key)}
    transport = httpx.ASGITransport(app)
    return Asker(httpx.AsyncClient(transport=transport, base_url=f"http://{host}", headers=headers, timeout=None), 0.0)


def _refuse_for_all(response: httpx.Response) -> None:
    """Refuses to go on where every line would get this answer, and be done with it.

    Raises:
        OptionError: the key or the address is wrong.
    """
    if response.status_code in _STRANGER:
        message = f"the server refuses whoever asks so (HTTP {response.status_code}): {_message(response)}"
        raise OptionError(message, option="api_key" if response.status_code == 401 else "server")
    if response.next_request is not None:
        here, there = response.url, response.next_request.url
        if (here.scheme, here.netloc) != (there.scheme, there.netloc):
            raise OptionError(f"--server leads on to {there}: name that address", option="server")


def _answer(response: httpx.Response) -> Answer:
    identity = response.headers.get("x-request-id", "")
    kind = response.headers.get("content-type", "").partition(";")[0]
    try:
        body = response.json() if kind == "application/json" else None
    except ValueError:
        body = None
    if body is None:
        message = (
            f"the answer is {kind or 'nothing'}, no JSON; set stream to false where the endpoint streams by itself"
        )
        error = {"message": message, "type": "invalid_request_error", "param": None, "code": "no_json"}
        return Answer(max(400, response.status_code), identity, {"error": error})
    return Answer(response.status_code, identity, body)


def _message(response: httpx.Response) -> str:
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {response.status_code} {json.dumps(response.text[:100])}"


def _seconds(text: str | None) -> float | None:
    """Reads a `Retry-After` in seconds."""
    try:
        return None if text is None else max(0.0, float(text))
    except ValueError:
        return None
