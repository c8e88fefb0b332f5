"""Says how a replica failed at a request, by what it said instead."""

from gesso.router.chunks import fault_code
from gesso.router.client import Answer
from gesso.router.events import StreamEvent, read_data

_LEAVING = {"shutting_down", "not_ready"}
"""Codes with which a replica says that it takes nothing for now."""
_CRASHES = {"internal_error", "api_error"}
_WITHOUT_CODES = ("/v1/messages", "/v1/messages/count_tokens", "/api/chat", "/api/generate")
"""Paths whose errors have no code: what is not found there is a model."""


class FailedError(Exception):
    """Reports a replica that did not do its part."""

    def __init__(
        self, reason: str, answer: Answer | None = None, body: bytes = b"", event: StreamEvent | None = None
    ) -> None:
        super().__init__(reason)
        self.answer, self.body = answer, body
        """What it said instead."""
        self.event = event
        """The event by which it broke a stream off."""

    @property
    def is_full(self) -> bool:
        """Says whether its queue was full, which is no fault."""
        return self.answer is not None and self.answer.status == 429

    @property
    def is_elsewhere(self) -> bool:
        """Says whether it lacks what was asked for, which another one may have."""
        return self.answer is not None and self.answer.status == 404

    def lacks_model(self, path: str) -> bool:
        """Says whether what it lacks is the model that a request to this path names."""
        coded = fault_code(read_data(self.body)) == "model_not_found"
        return self.is_elsewhere and (coded or path in _WITHOUT_CODES)

    @property
    def is_leaving(self) -> bool:
        """Says whether it takes nothing for now, which is no fault either."""
        if self.answer is not None:
            return self.answer.status == 503
        return self.event is not None and fault_code(self.event.data) in _LEAVING

    @property
    def is_crash(self) -> bool:
        """Says whether it failed at this request, which may be the request's fault."""
        if self.answer is not None:
            return self.answer.status == 500
        return self.event is not None and fault_code(self.event.data) in _CRASHES
