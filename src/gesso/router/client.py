"""States what the router asks of a connection to a server; `gesso.router.http` has the one over the network."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

Headers = Sequence[tuple[bytes, bytes]]


class ReplicaLostError(Exception):
    """Reports a connection that broke, or speaks no HTTP."""


class NotListeningError(ReplicaLostError):
    """Reports that nobody accepted the connection: the server knows nothing of the request."""


class NoHttpError(ReplicaLostError):
    """Reports bytes that are no HTTP: something else listens there."""


class Answer(Protocol):
    """Holds one answer of a server: its head is here, its body may be on its way."""

    @property
    def status(self) -> int:
        """Tells the HTTP status."""

    @property
    def headers(self) -> Headers:
        """Lists the headers, their names in lower case."""

    def chunks(self) -> AsyncIterator[bytes]:
        """Yields the body as it comes, cut anywhere.

        Raises:
            ReplicaLostError: it broke off.
        """

    async def read(self) -> bytes:
        """Returns the whole body, once.

        Raises:
            ReplicaLostError: it broke off.
        """

    async def close(self) -> None:
        """Ends the answer: its connection is free for another request if the body was read, and is cut if not."""


class Client(Protocol):
    """Sends requests to one server."""

    async def send(self, method: str, target: str, headers: Headers = (), body: bytes = b"") -> Answer:
        """Sends a request and returns when the head of the answer is here.

        Args:
            target: path and query.
            headers: without `host` and `content-length`.

        Raises:
            ReplicaLostError: there is no answer.
        """

    async def close(self) -> None:
        """Cuts all connections: whoever waits for something gets `ReplicaLostError`."""


def header(answer: Answer, name: bytes) -> str:
    """Reads one header of an answer; empty where it is not there."""
    return next((value.decode("latin-1") for key, value in answer.headers if key == name), "")
