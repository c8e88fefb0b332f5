"""The engine: prompts in, events out.

Every iteration of the loop gives each running request one denoising step, all of them in one pass of the model, and
commits the canvases that are finished. Requests have their own caches, settings and random generators, so a
request's result does not depend on what runs beside it.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gesso.config import GenerationConfig
from gesso.diffusion.denoise import denoise_step
from gesso.engine.events import Event
from gesso.engine.prompt import Prompt, prompt_ids
from gesso.engine.result import GenerationResult
from gesso.engine.sequence import RunningSequence
from gesso.errors import OptionError
from gesso.models.cache import KVCache
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer

MAX_BATCH = 8
"""Requests of `generate_batch` that run at once; the rest wait."""

_PROMPT_OPTIONS = ("raw", "thinking")


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt with its settings; see `GenerationConfig` for the options."""

    prompt: Prompt
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class Stream:
    """The events of one request, in order; `cancel` ends it with what is committed."""

    def __init__(self, sequence: RunningSequence, events: Iterator[tuple[int, Event]]) -> None:
        self._sequence = sequence
        self._events = events

    def __iter__(self) -> Iterator[Event]:
        return (event for _, event in self._events)

    def cancel(self) -> None:
        """No further pass of the model begins: what the last one made is still told, then `Finished` with reason
        `cancelled`. May be called from a signal handler."""
        self._sequence.cancelled = True


class Engine:
    """A model with its text side and the defaults of its checkpoint."""

    def __init__(
        self,
        model: DiffusionGemma,
        tokenizer: Tokenizer,
        template: ChatTemplate | None,
        defaults: GenerationConfig,
        name: str = "model",
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.template = template
        self.defaults = defaults
        self.name = name

    def generate(self, prompt: Prompt, **options: Any) -> GenerationResult:
        """Generate and return the whole result.

        Args:
            prompt: a string (a user message, or the text itself with `raw=True`), chat messages, or token ids.
            options: fields of `GenerationConfig`, and `raw`, `thinking`.

        Raises:
            OptionError: an unknown option, an impossible value, or a prompt that does not fit.
            TextError: a prompt that cannot be used.
        """
        return self.generate_batch([Request(prompt, options)])[0]

    def generate_batch(self, requests: Sequence[Request | Mapping[str, Any] | Prompt]) -> list[GenerationResult]:
        """Generate many prompts, each with its own settings; results come in the order of the requests.

        A request is a `Request`, a mapping such as `{"prompt": "...", "seed": 7}`, or just a prompt.
        """
        if isinstance(requests, str | bytes | Mapping):
            raise OptionError("generate_batch takes a list of requests; generate takes one prompt")
        sequences = [self._start(_as_request(request)) for request in requests]
        for _ in self._run(sequences, drafts=False):
            pass
        return [sequence.result() for sequence in sequences]

    def stream(self, prompt: Prompt, *, drafts: bool = True, **options: Any) -> Stream:
        """The events of one request: draft frames (unless `drafts=False`), committed blocks, and the finish."""
        sequence = self._start(Request(prompt, options))
        return Stream(sequence, self._run([sequence], drafts))

    def _start(self, request: Request) -> RunningSequence:
        """Check everything that can be checked before the first pass."""
        options = dict(request.options)
        text = {name: options.pop(name) for name in _PROMPT_OPTIONS if name in options}
        for name, value in text.items():
            if not isinstance(value, bool):
                raise OptionError(f"{name} must be true or false, got {value!r}")
        config = self.defaults.override(**options)
        shape = self.model.config
        ids = prompt_ids(
            request.prompt,
            self.tokenizer,
            self.template,
            vocab_size=shape.vocab_size,
            image_token_ids=shape.image_token_ids,
            **text,
        )
        width = shape.canvas_length
        start = config.start_canvas
        if start is not None and len(start) != width:
            raise OptionError(f"start_canvas has {len(start)} tokens, the canvas {width}")
        if start is not None and not all(0 <= token < shape.vocab_size for token in start):
            raise OptionError(f"start_canvas has a token id outside the vocabulary of {shape.vocab_size}")
        reserve = len(ids) + -(-config.max_new_tokens // width) * width
        if reserve > shape.max_position_embeddings:
            raise OptionError(
                f"{len(ids)} prompt tokens and max_new_tokens {config.max_new_tokens} (in canvases of {width}) are "
                f"past the model's {shape.max_position_embeddings}"
            )
        cache = self.model.new_cache(1, reserve)
        return RunningSequence(ids, config, cache, self.tokenizer, shape.vocab_size, width)

    @torch.inference_mode()
    def _step(self, running: Sequence[RunningSequence]) -> None:
        for sequence in running:
            if sequence.to_encode:
                self.model.encode(torch.tensor([sequence.to_encode]), sequence.cache)
                sequence.to_encode = []
        cache = KVCache.join([sequence.cache for sequence in running])
        denoise_step(self.model, [sequence.canvas for sequence in running], cache)

    def _run(self, sequences: Sequence[RunningSequence], drafts: bool) -> Iterator[tuple[int, Event]]:
        waiting = list(enumerate(sequences))[::-1]
        running: list[tuple[int, RunningSequence]] = []
        while waiting or running:
            while waiting and len(running) < MAX_BATCH:
                running.append(waiting.pop())
                running[-1][1].begin()
            if going := [sequence for _, sequence in running if not sequence.cancelled]:
                self._step(going)
            remaining = []
            for number, sequence in running:
                for event in sequence.advance(drafts):
                    yield number, event
                if not sequence.finished:
                    remaining.append((number, sequence))
            running = remaining


def _as_request(request: Request | Mapping[str, Any] | Prompt) -> Request:
    if isinstance(request, Request):
        return request
    if isinstance(request, Mapping):
        options = dict(request)
        if "prompt" not in options:
            raise OptionError("a request that is a mapping needs a prompt")
        return Request(options.pop("prompt"), options)
    return Request(request)
