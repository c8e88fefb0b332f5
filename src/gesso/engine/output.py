"""Assembles a request's output: blocks of tokens become text, events and the result."""

import time
from collections.abc import Mapping, Sequence
from copy import copy

from gesso.engine.constraint import OutputConstraint
from gesso.engine.events import BlockCommitted
from gesso.engine.reasoning import within_budget
from gesso.engine.result import FinishReason, TokenLogprob
from gesso.generation import GenerationConfig
from gesso.text.graded import graded_text
from gesso.text.output import Delta, OutputParser
from gesso.text.tokenizer import Tokenizer


class OutputAssembler:
    """Collects the output of one request: tokens, text, reasoning, calls, log-probabilities and finish reason.

    Life cycle: `add` takes the block of a finished canvas, as far as the answer goes; `close_canvas` notes what the
    canvas took; `finish` ends the answer from outside. What it holds then is the request's result.
    """

    def __init__(
        self,
        config: GenerationConfig,
        tokenizer: Tokenizer,
        response_prefix: Sequence[int],
        last_pin: int,
        constraint: OutputConstraint | None,
        begun: Sequence[int] = (),
    ) -> None:
        """
        Args:
            response_prefix: tokens that the answer is made to begin with; they are part of the output.
            last_pin: position of the answer before which stop strings do not count; -1 where all count. They never
                count in `response_prefix` nor before `min_new_tokens`.
            constraint: what the output has to satisfy.
            begun: tokens of the answer before the output.
        """
        self._config = config
        self._special: Mapping[str, int] = tokenizer.special
        self.parser = OutputParser(tokenizer, config.stop, include_stop=config.include_stop)
        """Makes the tokens text, reasoning and calls."""
        self.parser.pass_over(begun)
        self._response_prefix = tuple(response_prefix)
        self._last_pin = last_pin
        self._constraint = constraint
        self.tokens: list[int] = []
        self.finish_reason: FinishReason | None = None
        self.steps: list[int] = []
        """Passes of the canvases that are closed."""
        self.converged: list[bool] = []
        """Whether they did before their last step."""
        self.logprobs: list[TokenLogprob] = []
        self.started = self.seconds_to_first_block = self.seconds = 0.0
        """When the clock was started, and what it measured."""

    def start_clock(self) -> None:
        """Starts the clock that the result's times are measured by."""
        self.started = time.monotonic()

    @property
    def finished(self) -> bool:
        """Says whether the output is complete."""
        return self.finish_reason is not None

    @property
    def canvases(self) -> int:
        """Returns the number of closed canvases, which is the number of the one at work."""
        return len(self.steps)

    @property
    def before(self) -> Sequence[int]:
        """Returns the tokens of the answer before the canvas at work, the response prefix included."""
        return self.tokens or self._response_prefix

    @property
    def written(self) -> int:
        """Returns the number of tokens of the answer before the canvas at work."""
        return len(self.before)

    @property
    def drawn(self) -> int:
        """Returns how many of them canvases wrote: those behind the response prefix."""
        return self.written - len(self._response_prefix)

    def cut_to_budget(self, block: list[int]) -> list[int]:
        """Cuts the next block where the reasoning exceeds its budget."""
        prefix = () if self.canvases else self._response_prefix
        return within_budget(block, self.parser, self._config, self._special, self._constraint, prefix)

    def text_with(self, block: Sequence[int]) -> str:
        """Returns what a grader would get of the answer with one more block, which is not added."""
        trial = copy(self)
        trial.tokens, trial.parser = [*self.tokens], self.parser.fork()
        for token in (*(() if self.tokens else self._response_prefix), *self.cut_to_budget([*block])):
            if not trial.finished:
                trial._take(token)
        trial.finish("cancelled")
        return graded_text(trial.parser)

    def add(self, block: Sequence[int]) -> tuple[Delta, int]:
        """Appends a block up to the end of the answer; returns what it adds, and how many of its tokens count."""
        delta, count = Delta(), 0
        if not self.canvases:
            self.seconds_to_first_block = time.monotonic() - self.started
            for token in self._response_prefix:
                delta += self._take(token)
        for token in block:
            if self.finished:
                break
            delta += self._take(token)
            count += 1
        return delta, count

    def _take(self, token: int) -> Delta:
        self.tokens.append(token)
        if token in self._config.eos_token_ids and not self._config.ignore_eos:
            self.parser.watches_stops = False
            kept = self.parser.feed(token) if self._config.include_stop else Delta()
            return kept + self.finish("stop")
        place = len(self.tokens) - len(self._response_prefix) - 1
        self.parser.watches_stops = place > self._last_pin and len(self.tokens) > self._config.min_new_tokens
        delta = self.parser.feed(token)
        if self.parser.stopped:
            return delta + self.finish("stop")
        if len(self.tokens) >= self._config.max_new_tokens:
            # What satisfies a constraint is complete, with its last token or without an end token.
            return delta + self.finish("length" if self._constraint is None else "stop")
        return delta

    def finish(self, reason: FinishReason) -> Delta:
        """Ends the answer and stops the clock; returns the text that was held back."""
        delta = self.parser.flush()
        # A call that the answer ends in becomes text, and a stop string may stand in it.
        self.finish_reason = "stop" if reason == "length" and self.parser.stopped else reason
        self.seconds = time.monotonic() - self.started if self.started else 0.0
        return delta

    def close_canvas(
        self, delta: Delta, tokens: Sequence[int], logprobs: Sequence[TokenLogprob], passes: int, converged: bool
    ) -> BlockCommitted:
        """Records the passes and convergence of a canvas, and returns the event of its block.

        Args:
            tokens: of the block, those that count.
            passes: passes of the model spent on the canvas.
        """
        event = self.block(delta, tokens, logprobs, passes, converged)
        self.logprobs += logprobs
        self.steps.append(passes)
        self.converged.append(converged)
        return event

    def block(
        self, delta: Delta, tokens: Sequence[int], logprobs: Sequence[TokenLogprob], passes: int, converged: bool
    ) -> BlockCommitted:
        """Returns the event of the block of the canvas at work; see `close_canvas`."""
        return BlockCommitted(
            canvas=self.canvases,
            tokens=tuple(tokens),
            text=delta.text,
            reasoning=delta.reasoning,
            denoising_steps=passes,
            converged=converged,
            tool_calls=delta.tool_calls,
            logprobs=tuple(logprobs),
            mode="ar" if self._config.mode == "ar" else "canvas",
        )
