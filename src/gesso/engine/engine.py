"""Runs prompts synchronously: requests in, events out.

A request is checked and made a `RequestState` by the `RequestBuilder`; the passes are the `EngineCore`'s, on a runner.
A call of `generate`, `generate_batch` or `stream` runs a loop of its own to the end; `gesso.engine.async_engine` keeps
one going for ever.
"""

import dataclasses
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

from gesso.config import ModelShape
from gesso.engine.cost import CostModel
from gesso.engine.engine_core import EngineCore
from gesso.engine.events import Event
from gesso.engine.prepared_request import PreparedRequest
from gesso.engine.prompt import Prompt, PromptReader
from gesso.engine.request import Request, as_request
from gesso.engine.request_builder import RequestBuilder
from gesso.engine.request_state import RequestState
from gesso.engine.result import GenerationResult
from gesso.errors import OptionError, UserError
from gesso.generation import GenerationConfig
from gesso.runner.model_runner import Model, ModelRunner
from gesso.runner.protocol import Runner
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer

__all__ = ["Engine", "Request", "Stream"]

MAX_BATCH = 8
"""Requests of `generate_batch` that run at once; the rest wait."""


class Stream(Iterator[Event]):
    """Iterates over the events of one request, in order; `cancel` ends it with what is committed, and `close`, or the
    end of `with engine.stream(...) as events`, drops it where it stands."""

    def __init__(self, state: RequestState, events: Generator[tuple[RequestState, Event]]) -> None:
        self._state = state
        self._events = events

    @property
    def special_ids(self) -> frozenset[int]:
        """Returns the ids of special tokens, which a replay shows as dots."""
        return self._state.tokenizer.special_ids

    def __next__(self) -> Event:
        return next(self._events)[1]

    def cancel(self) -> None:
        """Lets no further pass begin: the events of the last one still come, then `Finished` with reason `cancelled`. A
        signal handler may call it."""
        self._state.cancelled = True

    def close(self) -> None:
        """Ends the request at once and frees what it holds: no further event comes. It may be called again."""
        self._events.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Engine:
    """Owns a runner, the tokenizer and chat template, and the defaults of a checkpoint."""

    runner: Runner
    """Computes the passes of the model."""
    tokenizer: Tokenizer
    """Turns texts into token ids and back (`encode`, `decode`, `piece`); `special_ids` are those that are no text."""
    template: ChatTemplate | None
    """Writes conversations; None takes prompts as they are only."""
    defaults: GenerationConfig
    """Settings where a request says nothing."""
    name: str
    """Name that the model was loaded by."""
    costs: CostModel
    """What a step and a token cost, as measured for `mode: auto`."""

    def __init__(
        self,
        model: Model | Runner,
        tokenizer: Tokenizer,
        template: ChatTemplate | None,
        defaults: GenerationConfig,
        name: str = "model",
    ) -> None:
        """
        Args:
            model: what is run, or a runner that runs it: with captured passes, or a tower that reads images.
            template: how a conversation is written; None takes prompts as they are only.
            defaults: settings where a request says nothing.
        """
        self.runner = model if isinstance(model, Runner) else ModelRunner(model)
        self.tokenizer = tokenizer
        self.template = template
        self.defaults = defaults
        self.name = name
        self.costs = CostModel(self.runner)

    def __repr__(self) -> str:
        return f"Engine({self.name!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the other processes of a model that is spread over several; the engine is of no more use then. One in
        this process alone has nothing to end."""
        if isinstance(self.runner, ModelRunner):
            self.runner.close()

    @property
    def model(self) -> Model:
        """Returns the model itself.

        Raises:
            OptionError: the runner runs it elsewhere.
        """
        if not isinstance(self.runner, ModelRunner):
            raise OptionError(f"the model is not at hand: {type(self.runner).__name__} runs it")
        return self.runner.model

    @property
    def config(self) -> ModelShape:
        """Returns the shape of the model."""
        return self.runner.config

    @property
    def chunk(self) -> int:
        """Returns the number of prompt tokens encoded at a time."""
        return self.runner.prefill_chunk

    @property
    def end_of_turn(self) -> int:
        """Returns the token that a finished answer ends with."""
        return self._builder.end_of_turn

    @property
    def pad_fill(self) -> int:
        """Returns the token that fills a canvas after the end of an answer."""
        return self._builder.pad_fill

    @property
    def prompts(self) -> PromptReader:
        """Returns the reader of its prompts."""
        return PromptReader(self.tokenizer, self.template, self.config, self.runner.vision)

    @property
    def _builder(self) -> RequestBuilder:
        # Made anew, because the parts of an engine may be exchanged.
        return RequestBuilder(self.runner, self.tokenizer, self.template, self.defaults)

    def generate(self, prompt: Prompt, **options: Any) -> GenerationResult:
        """Generates an answer and returns the whole result.

        Args:
            prompt: a string (a user message, or the text itself with `raw=True`), chat messages, or token ids.
            options: see `Request`.

        Raises:
            OptionError: an unknown option, an impossible value, or a prompt that does not fit.
            TextError: a prompt that cannot be used.
        """
        return self.generate_batch([Request(prompt, options)])[0]

    def generate_batch(self, requests: Sequence[Request | Mapping[str, Any] | Prompt]) -> list[GenerationResult]:
        """Generates answers to many prompts, each with its own settings; results come in the order of the requests.

        Args:
            requests: each a `Request`, a mapping such as `{"prompt": "...", "seed": 7}`, or just a prompt.

        Raises:
            OptionError, TextError: as for `generate`, with a note of which request it is, from 0, where there are
                several; nothing is generated then.
        """
        if isinstance(requests, str | bytes | Mapping) or not isinstance(requests, Iterable):
            raise OptionError("generate_batch takes a list of requests; generate takes one prompt")
        states, given = list[RequestState](), list(requests)
        for number, request in enumerate(given):
            try:
                states.append(self.start(dataclasses.replace(as_request(request), frames=False)))
            except UserError as error:
                if len(given) > 1:
                    error.add_note(f"request {number} of {len(given)}")
                raise
        for _ in self._run(states):
            pass
        return [state.result() for state in states]

    def stream(self, prompt: Prompt, *, frames: bool = True, **options: Any) -> Stream:
        """Returns the events of one request: denoising frames (unless `frames=False`), committed blocks, and the
        finish.

        Raises:
            OptionError, TextError: as for `generate`, before the first event.
        """
        state = self.start(Request(prompt, options, frames=frames))
        return Stream(state, self._run([state]))

    def start(self, request: Request, chunk: int | None = None) -> RequestState:
        """Builds the state of a request; all that can be checked before the first pass is checked.

        Args:
            chunk: prompt tokens encoded at a time; None takes the engine's.

        Raises:
            OptionError, TextError: as for `generate`.
        """
        return self.prepare(request, chunk).finish()

    def prepare(
        self, request: Request, chunk: int | None = None, max_length: int | None = None, *, measure: bool = True
    ) -> PreparedRequest:
        """Checks and tokenises a request and begins to compile its constraint; `finish` waits for that.

        Args:
            chunk: prompt tokens encoded at a time; None takes the engine's.
            max_length: tokens that prompt and answer may have, where that is less than the model's limit.
            measure: whether `mode: auto` may time the model here, in the caller's thread; else it uses the costs known.

        Raises:
            OptionError, TextError: as for `generate`.
        """
        chunk = chunk or self.chunk
        return self._builder.prepare(request, chunk=chunk, max_length=max_length, costs=self.costs, measure=measure)

    def canvases_of(self, tokens: Sequence[int], width: int) -> list[int]:
        """Returns the token ids of whole canvases of `width` that hold an answer, its end-of-turn token and the pad
        fill."""
        return self._builder.canvases_of(tokens, width)

    def _run(self, requests: Sequence[RequestState]) -> Generator[tuple[RequestState, Event]]:
        core = EngineCore(self.runner, max_running=MAX_BATCH, chunk=self.chunk)
        for request in requests:
            core.scheduler.add(request)
        try:
            while not core.idle:
                for request, events in core.step():
                    for event in events:
                        yield request, event
        finally:
            core.close()
