"""Lets a thread that submitted a request to an engine follow and cancel it."""

from collections.abc import Callable

from gesso.engine.request_state import RequestState


class RequestHandle:
    """Lets whoever submitted a request follow and cancel it."""

    def __init__(self, request: RequestState, position: Callable[[], int], wake: Callable[[], None]) -> None:
        """
        Args:
            position: counts the requests before it in the queue.
            wake: has the engine look at what has changed.
        """
        self._request = request
        self._position, self._wake = position, wake
        self.prompt_tokens = request.prompt_tokens

    @property
    def position(self) -> int:
        """Returns the number of requests before it in the queue; 0 when it runs or is done."""
        return self._position()

    @property
    def started(self) -> float:
        """Returns the second of the monotonic clock at which it left the queue; 0 while it waits."""
        return self._request.output.started

    @property
    def prompt_encoded(self) -> float:
        """Returns the second of the monotonic clock at which its prompt's last pass was made; 0 before."""
        return self._request.prompt_encoded

    @property
    def mode(self) -> str:
        """Returns how it is written: `canvas` or `ar`."""
        return self._request.config.mode

    @property
    def error(self) -> Exception | None:
        """Returns what it failed by, where it has failed and that was caught."""
        return self._request.error

    def cancel(self) -> None:
        """Ends the request before the next pass; `Finished` with reason `cancelled` follows unless it was finished
        already."""
        self._request.cancelled = True
        self._wake()
