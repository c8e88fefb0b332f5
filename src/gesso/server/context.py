"""Holds what the endpoints of one application share."""

import hashlib
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from anyio import to_thread
from starlette.requests import Request as HttpRequest

from gesso import __version__
from gesso.control.job import Job
from gesso.engine.async_engine import AsyncEngine
from gesso.engine.engine import Request
from gesso.engine.media import MediaOptions
from gesso.engine.result import GenerationResult
from gesso.models.card import ModelCard
from gesso.server.access_log import Record
from gesso.server.attended import attended
from gesso.server.body import BodyRoom
from gesso.server.choices import Choices
from gesso.server.errors import ApiError
from gesso.server.fetch import Fetcher
from gesso.server.media import MediaReader
from gesso.server.messages import with_one_system_message
from gesso.server.metrics import Metrics
from gesso.server.settings import Settings
from gesso.server.tracing import InferenceTrace
from gesso.text.untrained import untrained

T = TypeVar("T")


class _DoneError(Exception):
    """A job has its result: a `StopIteration` would not leave a thread."""


def _advance(job: Job[Any], results: list[GenerationResult] | None) -> Sequence[Request]:
    try:
        return next(job) if results is None else job.send(results)
    except StopIteration as done:
        raise _DoneError(done.value) from None


@dataclass(frozen=True, slots=True)
class Context:
    """Holds the service with its settings and metrics."""

    service: AsyncEngine
    settings: Settings
    metrics: Metrics
    created: int = field(default_factory=lambda: int(time.time()))
    bodies: BodyRoom = field(default_factory=BodyRoom)
    media: MediaReader = field(init=False)

    def __post_init__(self) -> None:
        fetcher = Fetcher(self.settings.media_hosts, self.settings.media_folder)
        media = MediaReader(self.service.engine.runner.vision, fetcher, self.settings.max_images)
        object.__setattr__(self, "media", media)

    @property
    def models(self) -> dict[str, str | None]:
        """Lists the ids of what can be asked for, with the adapter that each means."""
        name = self.settings.served_model_name
        return {name: None, **{f"{name}:{adapter}": adapter for adapter in self.service.adapters}}

    def adapter(self, model: str) -> str | None:
        """Finds the adapter that a model's id means; None is the model itself.

        Raises:
            ApiError: there is no such model.
        """
        models = self.models
        if model not in models:
            message = f"there is no model {model!r} here; there is {', '.join(models)}"
            raise ApiError(404, message, param="model", code="model_not_found")
        return models[model]

    def begin(self, http: HttpRequest, model: str, max_tokens: int | None, prompt: Callable[[], Any]) -> str | None:
        """Begins a request: returns the adapter that its model's id means, and notes its prompt where prompts are
        logged.

        Args:
            prompt: makes what the log has of it.

        Raises:
            ApiError: there is no such model, or the answer is longer than anything this server holds.
        """
        adapter = self.adapter(model)
        self.check_length(max_tokens, "max_tokens")
        if self.settings.log_prompts:
            http.state.record.prompt = prompt()
        return adapter

    def card(self, model: str) -> ModelCard:
        """Returns what a model was measured to do; nothing of an adapter's."""
        return self.settings.card if model == self.settings.served_model_name else ModelCard()

    def untold(self, model: str, prompt: str, *, alone: bool, thinking: bool, named: bool) -> tuple[str, ...]:
        """Returns a sentence on each thing that a model was not trained on: of a prompt, `alone` or behind other
        messages, and to think; and on names of participants that it is not told."""
        card, tokenizer = self.card(model), self.service.engine.tokenizer
        warnings = []
        if what := untrained(prompt, card.wordings, tokenizer) if card.wordings and prompt else "":
            warnings.append(f"{model} {what}, so its answer is a guess: /v1/models has examples")
        elif what := untrained(prompt, card.wordings, tokenizer, alone=alone) if card.wordings and prompt else "":
            warnings.append(f"{model} {what}, so its answer is a guess: begin a new conversation")
        if thinking and not card.thinks:
            warnings.append(f"{model} was not trained to think, so its answer may be empty")
        template = self.service.engine.template
        if named and not (template is not None and template.tells_names):
            warnings.append(f"{model} is not told the names of participants: its chat template has no place for them")
        return tuple(warnings)

    @property
    def max_model_len(self) -> int:
        """Counts the tokens that a prompt and its answer may have together."""
        longest = self.service.engine.runner.max_model_len
        return min(longest, self.service.limits.max_model_len or longest)

    @property
    def fingerprint(self) -> str:
        """Changes with whatever changes the answer to a seed: the version, the model's name, the defaults."""
        engine = self.service.engine
        state = f"{__version__} {engine.name} {engine.defaults}"
        return f"fp_{hashlib.sha256(state.encode()).hexdigest()[:12]}"

    def head(self, kind: str, model: str) -> dict[str, Any]:
        """Makes the fields that an answer and all chunks of its stream begin with; `kind` begins the id."""
        return {
            "id": f"{kind}-{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": model,
            "system_fingerprint": self.fingerprint,
        }

    async def submit(
        self, requests: Sequence[Request], http: HttpRequest, of_prompt: int = 1, copies: str = "n"
    ) -> Choices:
        """Queues the choices of an HTTP request, `of_prompt` of each prompt; see `Choices.submit`."""
        record: Record = http.state.record
        trace = None
        if record.span is not None and record.span.recording and requests:
            adapter = "" if requests[0].adapter is None else f":{requests[0].adapter}"
            name = f"{self.settings.served_model_name}{adapter}"
            trace = InferenceTrace(record.span, http.url.path, name, requests)
        receive = http.receive
        return await Choices.submit(self.service, self.metrics, record, requests, receive, trace, of_prompt, copies)

    async def run(self, job: Job[T], http: HttpRequest) -> T:
        """Runs a job to its end among all other requests.

        Raises:
            UserError, ApiError: see `Choices.submit` and `Choices.wait`.
        """
        try:
            requests = await to_thread.run_sync(_advance, job, None)
            while True:
                results: list[GenerationResult] = []
                # Never more at once than run at once, so that a job needs no place in the queue for the rest.
                for start in range(0, len(requests), self.service.limits.max_num_seqs):
                    part = requests[start : start + self.service.limits.max_num_seqs]
                    results += await (await self.submit(part, http)).wait(http.receive)
                requests = await to_thread.run_sync(_advance, job, results)
        except _DoneError as done:
            result: T = done.args[0]
        return result

    async def read_media(
        self,
        messages: Sequence[Mapping[str, Any]],
        http: HttpRequest,
        options: MediaOptions | None = None,
        places: Sequence[str] = (),
        since: float | None = None,
    ) -> list[Mapping[str, Any]]:
        """Reads the images and clips of a request's messages, see `MediaReader.read`, and makes one of the system
        messages that begin them.

        Args:
            since: when the request's time began, by the monotonic clock; None for now.

        Raises:
            ApiError: as there, or the client has gone, or the request has taken too long.
            QueueFullError: there is no room for the request, or for more pictures.
            ClosingError: the server is shutting down.
        """
        if any(isinstance(message.get("content"), list) for message in messages):
            self.service.check_room()
        reading = self.media.read(messages, options or MediaOptions(), self.max_model_len, places)
        begun, timeout = time.monotonic() if since is None else since, self.service.limits.request_timeout
        return with_one_system_message(await attended(reading, http, begun, timeout, "its images were not read"))

    def close(self, drain_seconds: float) -> None:
        """Closes the service, which takes no request whose images are still being read."""
        self.media.close()
        self.service.close(drain_seconds)

    def check_length(self, max_tokens: int | None, param: str) -> None:
        """Refuses an answer that is longer than anything this server holds."""
        if max_tokens is not None and max_tokens > self.max_model_len:
            message = f"{param}: {max_tokens} is past this server's {self.max_model_len} tokens"
            raise ApiError(400, message, param=param, code="context_length_exceeded")
