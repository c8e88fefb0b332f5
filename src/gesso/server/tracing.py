"""Makes the spans of what the model does for a request, from what its choices noted on the way.

    POST /v1/chat/completions          the request, as HTTP (`gesso.server.http_span`)
      chat mini                        what the model did: `gen_ai.*`
        tokenize                       checks, the chat template, the tokenizer
        compile constraint
        queue                          from the queue's end to its front
        prefill                        the prompt's passes
        canvas                         one for each; `decode`, one for all, where tokens are written one by one

Names are those of OpenTelemetry's conventions where there are some. Nothing of a prompt or an answer is in them. With
several choices `gesso.choice` tells them apart.
"""

import time
from collections.abc import Mapping, Sequence

from gesso.engine.engine import Request
from gesso.engine.events import BlockCommitted, Event, Failed, Finished
from gesso.engine.request_handle import RequestHandle
from gesso.engine.result import GenerationResult
from gesso.telemetry.traces import Attributes, Span, Value

_CHATS = frozenset(("/v1/chat/completions", "/v1/messages", "/v1/responses", "/api/chat"))
_SETTINGS = {
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "top_k": "gen_ai.request.top_k",
    "seed": "gen_ai.request.seed",
    "max_new_tokens": "gen_ai.request.max_tokens",
}
"""Options of a request, and what the conventions call them."""


class InferenceTrace:
    """Notes what the choices of one submission did, and makes spans of it when the request is over.

    The engine's thread calls `event`, which takes a note and no more; all else is of the event loop.

    Args:
        parent: the span of the HTTP request.
        path: of the HTTP request.
        model: the id that clients know it by.
    """

    def __init__(self, parent: Span, path: str, model: str, requests: Sequence[Request]) -> None:
        self._parent, self._requests = parent, requests
        self._operation = "chat" if path in _CHATS else "text_completion"
        self._model = model
        self._began = time.monotonic()
        self._tokenized = self._queued = 0.0
        self._compiled: tuple[float, bool] | None = None
        self._events: list[tuple[int, float, Event]] = []
        self._failed: tuple[float, str] | None = None

    def tokenized(self) -> None:
        """Notes that all requests are checked and tokenized."""
        self._tokenized = time.monotonic()

    def compiled(self, waited: bool) -> None:
        """Notes that the constraint is there, and whether it was waited for."""
        self._compiled = time.monotonic(), waited

    def queued(self) -> None:
        """Notes that the requests stand in the queue."""
        self._queued = time.monotonic()

    def failed(self, error: str) -> None:
        """Notes that the submission failed, and with what kind of error."""
        self._failed = time.monotonic(), error

    def event(self, choice: int, event: Event) -> None:
        """Notes an event of a choice. Of any thread."""
        if not isinstance(event, Finished | Failed | BlockCommitted):
            return
        self._events.append((choice, time.monotonic(), event))

    def emit(self, handles: Sequence[RequestHandle]) -> None:
        """Makes the spans.

        Args:
            handles: of the choices that were queued.
        """
        now, error = self._failed or (time.monotonic(), "")
        ends = {choice: (at, event) for choice, at, event in self._events if isinstance(event, Finished | Failed)}
        last = max((at for at, _ in ends.values()), default=now) if len(ends) == len(handles) > 0 else now
        failed = next((event.kind for _, event in ends.values() if isinstance(event, Failed)), error)
        results = {choice: event.result for choice, (_, event) in ends.items() if isinstance(event, Finished)}
        name = f"{self._operation} {self._model}"
        span = self._parent.note(name, self._began, last, self._attributes(results), failed)
        if self._tokenized:
            span.note("tokenize", self._began, self._tokenized)
        if self._compiled is not None:
            at, waited = self._compiled
            span.note("compile constraint", self._tokenized, at, {"gesso.constraint.cached": not waited})
        for choice, handle in enumerate(handles):
            which: dict[str, Value] = {"gesso.choice": choice} if len(handles) > 1 else {}
            self._choice(span, choice, handle, which, ends.get(choice, (now, None))[0])

    def _choice(self, span: Span, choice: int, handle: RequestHandle, which: Attributes, end: float) -> None:
        """Makes the spans of one choice."""
        started, encoded = handle.started, handle.prompt_encoded
        blocks = [
            (at, event) for number, at, event in self._events if number == choice and isinstance(event, BlockCommitted)
        ]
        span.note("queue", self._queued, started or end, which)
        if not started:
            return
        encoded = encoded or (started if blocks else end)  # a prompt that is stored whole has no pass of its own
        span.note("prefill", started, encoded, which)
        if handle.mode == "ar":
            if blocks:
                tokens = sum(len(event.tokens) for _, event in blocks)
                span.note("decode", encoded, blocks[-1][0], {**which, "gesso.decode.tokens": tokens})
            return
        before = encoded
        for at, event in blocks:
            span.note("canvas", before, at, {**which, **_canvas(event)})
            before = at

    def _attributes(self, finished: Mapping[int, GenerationResult]) -> Attributes:
        options: Mapping[str, object] = self._requests[0].options
        found: dict[str, Value] = {
            "gen_ai.operation.name": self._operation,
            "gen_ai.provider.name": "gesso",
            "gen_ai.request.model": self._model,
            "gen_ai.request.choice.count": len(self._requests),
        }
        for name, convention in _SETTINGS.items():
            if isinstance(value := options.get(name), int | float):
                found[convention] = value
        if finished:
            results = [finished[choice] for choice in sorted(finished)]
            # Choices of one prompt hold the same one, which is counted once, as in the answer.
            prompts = {id(self._requests[choice].prompt): result for choice, result in finished.items()}.values()
            found |= {
                "gen_ai.response.model": self._model,
                "gen_ai.response.finish_reasons": tuple(result.finish_reason for result in results),
                "gen_ai.usage.input_tokens": sum(result.prompt_tokens for result in prompts),
                "gen_ai.usage.cache_read.input_tokens": sum(result.cached_tokens for result in prompts),
                "gen_ai.usage.output_tokens": sum(result.completion_tokens for result in results),
                "gesso.denoising_steps": sum(sum(result.denoising_steps) for result in results),
                "gesso.canvases": sum(result.canvases for result in results),
                "gesso.mode": results[0].mode,
            }
            if rounds := sum(sum(result.verify_rounds) for result in results):
                found["gesso.verify.rounds"] = rounds
                found["gesso.verify.rejected_tokens"] = sum(result.rejected_tokens for result in results)
        return found


def _canvas(event: BlockCommitted) -> Attributes:
    return {
        "gesso.canvas": event.canvas,
        "gesso.canvas.denoising_steps": event.denoising_steps,
        "gesso.canvas.accepted_tokens": len(event.tokens),
        "gesso.canvas.converged": event.converged,
    }
