"""A service that plays prepared events, for tests of the protocol alone."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

from gesso.engine.async_engine import Limits, Stats
from gesso.engine.engine import Request
from gesso.engine.events import BlockCommitted, DenoisingFrame, Event, Failed, Finished
from gesso.engine.limits import Counters
from gesso.engine.prompt import PromptReader
from gesso.engine.result import GenerationResult, TokenLogprob
from gesso.errors import ClosingError
from gesso.generation import GenerationConfig
from gesso.models.hub import resolve
from gesso.text.chat_template import ChatTemplate
from gesso.text.output import ToolCall
from gesso.text.tokenizer import Tokenizer

STATS = Stats(
    counters=Counters(
        steps=40,
        canvas_steps=50,
        token_steps=25,
        prompt_tokens=200,
        cached_tokens=50,
        prefix_failures=2,
        crashed_passes=1,
    ),
    waiting=3,
    running=2,
    canvases=10,
    completion_tokens=300,
    requests={"stop": 7, "crash": 1},
    cache_bytes=1000,
    prefix_bytes=500,
    kv_memory=4096,
    expected_seconds=1.5,
)

RESULT = GenerationResult(
    text="Hello there",
    reasoning="",
    token_ids=(5, 6, 7),
    finish_reason="stop",
    prompt_tokens=11,
    completion_tokens=3,
    denoising_steps=(2, 4),
    converged=(True, False),
    seed=9,
    seconds_to_first_block=0.1,
    seconds=0.2,
    cached_tokens=4,
)


def result(**changes: Any) -> GenerationResult:
    return replace(RESULT, **changes)


def block(text: str = "", reasoning: str = "", calls: Sequence[ToolCall] = (), **changes: Any) -> BlockCommitted:
    fields: dict[str, Any] = {"canvas": 0, "tokens": (5,), "denoising_steps": 2, "converged": True}
    return BlockCommitted(text=text, reasoning=reasoning, tool_calls=tuple(calls), **{**fields, **changes})


def frame(step: int = 1, width: int = 2) -> DenoisingFrame:
    return DenoisingFrame(
        canvas=0,
        step=step,
        max_denoising_steps=48,
        temperature=0.8,
        tokens=(5, 6) * (width // 2),
        accepted=(True, False) * (width // 2),
        entropy=(0.0005, 1.2346) * (width // 2),
        pieces=("a", "\u2028") * (width // 2),
    )


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer.from_folder(resolve("mini", offline=True))


def logprob(token: str | int = "fig") -> TokenLogprob:
    """A token by its text or its id, and the token `b` beside it."""
    (first,) = tokenizer().encode(token) if isinstance(token, str) else (token,)
    (other,) = tokenizer().encode("b")
    text = tokenizer().piece(first)
    return TokenLogprob(token=first, text=text, logprob=-0.5, top=((first, text, -0.5), (other, "b", -1.5)))


def logprobs(text: str) -> tuple[TokenLogprob, ...]:
    """Of every token of a text."""
    return tuple(logprob(token) for token in tokenizer().encode(text))


class FakeTicket:
    def __init__(self, service: "FakeService", listener: Callable[[Event], None]) -> None:
        self.prompt_tokens = 11
        self.position = 2
        self.started = self.prompt_encoded = time.monotonic()
        self.mode = "canvas"
        self.cancelled = threading.Event()
        self.done = False
        self._service = service
        self.listener = listener

    def send(self, event: Event) -> None:
        self.done = self.done or isinstance(event, Finished | Failed)
        self.listener(event)

    def cancel(self) -> None:
        self.cancelled.set()
        if not self.done:
            self.send(Finished(result(finish_reason="cancelled")))


class FakePrepared:
    """A request whose constraint is ready when the test says so."""

    compilation = None

    def __init__(self, request: Request) -> None:
        self.request = request
        self.since = time.monotonic()
        self.ready = False
        self.cancelled = threading.Event()
        self._listeners: list[Callable[[], None]] = []

    def on_ready(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def release(self) -> None:
        self.ready = True
        for listener in self._listeners:
            listener()

    def cancel(self) -> None:
        self.cancelled.set()


class FakeService:
    """Plays `events` to every request as it is submitted, or `error` to refuse it."""

    def __init__(self, limits: Limits | None = None, adapters: tuple[str, ...] = ("sudoku",)) -> None:
        folder = resolve("mini", offline=True)
        shape = SimpleNamespace(
            vocab_size=1811,
            max_position_embeddings=4096,
            canvas_length=32,
            image_token_ids=(17, 18, 19),
            family="diffusion_gemma",
            mask_token_id=None,
        )
        tokenizer, template = Tokenizer.from_folder(folder), ChatTemplate.from_folder(folder)
        self.engine = SimpleNamespace(
            tokenizer=tokenizer,
            template=template,
            prompts=PromptReader(tokenizer, template, shape),
            defaults=GenerationConfig(),
            name="mini",
            model=SimpleNamespace(config=shape),
            config=shape,
            runner=SimpleNamespace(config=shape, max_model_len=shape.max_position_embeddings, vision=None),
        )
        self.limits = limits or Limits()
        self.adapters = adapters
        self.ready = True
        self.failure: str | None = None
        self.hung, self.busy_seconds = False, 0.0
        self.error: Exception | None = None
        self.events: list[Event] = [block("Hello"), block(" there"), Finished(RESULT)]
        self.scripts: list[list[Event]] = []
        """Events of the next requests, one by one, in the place of `events`."""
        self.requests: list[Request] = []
        self.tickets: list[FakeTicket] = []
        self.prepared: list[FakePrepared] = []
        self.compiles = False
        """Whether requests have a constraint that is compiled until it is told to be ready."""
        self.submitted = threading.Event()

    def finish_after(self, seconds: float) -> threading.Thread:
        """Ends the first request so long after it was submitted; the caller joins the thread."""

        def finish() -> None:
            self.submitted.wait()
            threading.Event().wait(seconds)
            self.tickets[0].send(Finished(result()))

        thread = threading.Thread(target=finish)
        thread.start()
        return thread

    def start(self) -> None:
        self.ready = True

    def check_room(self) -> None:
        """There always is."""

    def prepare(self, request: Request) -> "FakePrepared":
        if not self.ready:
            raise ClosingError("the server is shutting down")
        if self.error is not None:
            raise self.error
        made = FakePrepared(request)
        if not self.compiles:
            made.release()
        self.prepared.append(made)
        return made

    def submit(self, prepared: "FakePrepared", listener: Callable[[Event], None]) -> FakeTicket:
        request = prepared.request
        ticket = FakeTicket(self, listener)
        self.requests.append(request)
        self.tickets.append(ticket)
        for event in self.scripts.pop(0) if self.scripts else self.events:
            ticket.send(event)
        self.submitted.set()
        return ticket

    def stats(self) -> Stats:
        return STATS

    def close(self, drain_seconds: float = 0.0) -> None:
        self.ready = False
        for ticket in self.tickets:
            ticket.cancel()
