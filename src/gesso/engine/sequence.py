"""One running request: its prompt, its cache, the canvas at work, and what it has said so far."""

import secrets
import time
from collections.abc import Sequence

import torch

from gesso.config import GenerationConfig
from gesso.diffusion.denoise import CanvasState, DenoisingRules
from gesso.diffusion.sampler import EntropyBoundSampler
from gesso.diffusion.schedule import LinearSchedule
from gesso.diffusion.stopping import StableAndConfident
from gesso.engine.events import BlockCommitted, DraftFrame, Event, Finished
from gesso.engine.result import FinishReason, GenerationResult
from gesso.models.cache import KVCache
from gesso.text.output import Delta, OutputParser
from gesso.text.tokenizer import Tokenizer


def denoising_rules(config: GenerationConfig) -> DenoisingRules:
    """The published sampler, with a request's settings."""
    return DenoisingRules(
        schedule=LinearSchedule(config.t_min, config.t_max, config.max_denoising_steps),
        sampler=EntropyBoundSampler(config.entropy_bound),
        stopping=StableAndConfident(config.stability_threshold, config.confidence_threshold),
        max_denoising_steps=config.max_denoising_steps,
    )


class RunningSequence:
    """State of a request from its start to its result."""

    def __init__(
        self,
        prompt_ids: Sequence[int],
        config: GenerationConfig,
        cache: KVCache,
        tokenizer: Tokenizer,
        vocab_size: int,
        canvas_length: int,
    ) -> None:
        self.prompt_ids = prompt_ids
        self.config = config
        self.cache = cache
        self.cancelled = False
        """Set from outside: the next `advance` ends the request with what is committed."""
        self.to_encode: list[int] = []
        """Tokens to append to the cache before the next step."""
        self._finish_reason: FinishReason | None = None
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._canvas_length = canvas_length
        self._rules = denoising_rules(config)
        self._seed = secrets.randbits(31) if config.seed is None else config.seed
        self._generator = torch.Generator().manual_seed(self._seed)
        self._parser = OutputParser(tokenizer, config.stop)
        self._tokens: list[int] = []
        self._steps: list[int] = []
        self._converged: list[bool] = []
        self._started = self._first_block = self._seconds = 0.0
        self.canvas = self._new_canvas(config.start_canvas)

    def _new_canvas(self, start: Sequence[int] | None = None) -> CanvasState:
        return CanvasState(self._rules, self._vocab_size, self._canvas_length, self._generator, start)

    def begin(self) -> None:
        """The request leaves the queue: its clock runs from here."""
        self._started = time.monotonic()
        self.to_encode = list(self.prompt_ids)

    @property
    def finished(self) -> bool:
        return self._finish_reason is not None

    def advance(self, drafts: bool) -> list[Event]:
        """What the last denoising step means for the request, as events."""
        events: list[Event] = [self._frame()] if drafts and not self.cancelled else []
        if self.canvas.finished:
            events.append(self._take_block())
        if self.cancelled and not self.finished:
            self._finish("cancelled")
            if self.canvas.steps:
                self._close_canvas()
        if self.finished:
            events.append(Finished(self.result()))
        return events

    def _frame(self) -> DraftFrame:
        """The canvas as the last step left it."""
        canvas = self.canvas
        tokens = canvas.argmax_C.tolist()
        return DraftFrame(
            canvas=len(self._steps),
            step=canvas.steps,
            max_denoising_steps=self._rules.max_denoising_steps,
            temperature=self._rules.schedule.temperature(self._rules.max_denoising_steps - canvas.steps + 1),
            tokens=tuple(tokens),
            accepted=tuple(canvas.accepted_C.tolist()),
            entropy=tuple(round(e, 4) for e in canvas.entropy_C.tolist()),
            pieces=tuple(self._tokenizer.piece(token) for token in tokens),
        )

    def _take_block(self) -> BlockCommitted:
        """Put the finished canvas into the output; go on to the next one unless the request is finished."""
        block = self.canvas.argmax_C.tolist()
        text, reasoning, count = "", "", 0
        if not self._steps:
            self._first_block = time.monotonic() - self._started
        for token in block:
            self._tokens.append(token)
            count += 1
            delta = self._take_token(token)
            text, reasoning = text + delta.text, reasoning + delta.reasoning
            if self.finished:
                break
        event = BlockCommitted(
            canvas=len(self._steps),
            tokens=tuple(block[:count]),
            text=text,
            reasoning=reasoning,
            denoising_steps=self.canvas.steps,
            converged=self.canvas.converged,
        )
        self._close_canvas()
        if not self.finished:
            self.to_encode = block
            self.canvas = self._new_canvas()
        return event

    def _take_token(self, token: int) -> Delta:
        if token in self.config.eos_token_ids and not self.config.ignore_eos:
            return self._finish("stop")
        delta = self._parser.feed(token)
        if self._parser.stopped:
            tail = self._finish("stop")
        elif len(self._tokens) >= self.config.max_new_tokens:
            tail = self._finish("length")
        else:
            return delta
        return Delta(delta.text + tail.text, delta.reasoning + tail.reasoning)

    def _finish(self, reason: FinishReason) -> Delta:
        """Set the reason, stop the clock, let the cache go; returns the text that was held back."""
        self._finish_reason = reason
        self._seconds = time.monotonic() - self._started
        self.cache.rows.clear()
        return self._parser.flush()

    def _close_canvas(self) -> None:
        self._steps.append(self.canvas.steps)
        self._converged.append(self.canvas.converged)

    def result(self) -> GenerationResult:
        """The record of a finished request."""
        assert self._finish_reason is not None
        return GenerationResult(
            text=self._parser.text,
            reasoning=self._parser.reasoning,
            token_ids=tuple(self._tokens),
            finish_reason=self._finish_reason,
            prompt_tokens=len(self.prompt_ids),
            completion_tokens=len(self._tokens),
            denoising_steps=tuple(self._steps),
            converged=tuple(self._converged),
            seed=self._seed,
            seconds_to_first_block=self._first_block,
            seconds=self._seconds,
        )
