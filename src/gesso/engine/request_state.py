"""One running request: its prompt, its cache, the canvas at work, and what it has said so far.

Life cycle: `pending` tokens (first the prompt) are encoded chunk by chunk (`take_encoded`); then the canvas is
denoised (`advance` after every step) until it is finished, its block goes to the output and becomes pending in its
turn. A request that wants log-probabilities shows a block only when it has been encoded: they are read from that pass.
With verification the same pass judges the block (see `gesso.engine.verifier`), which may have to be denoised again.
"""

import secrets
import time
from collections.abc import Sequence

from torch import Tensor

from gesso.diffusion.denoise import CanvasState, take_step
from gesso.engine.canvases import Canvases
from gesso.engine.constraint import OutputConstraint
from gesso.engine.cost import CostModel
from gesso.engine.events import BlockCommitted, Event, Failed, Finished
from gesso.engine.logprobs import token_logprobs
from gesso.engine.reasoning import within_budget
from gesso.engine.result import FinishReason, GenerationResult, TokenLogprob
from gesso.engine.verifier import Verifier
from gesso.generation import GenerationConfig
from gesso.models.cache import SequenceCache
from gesso.nn.vocabulary import Vocabulary
from gesso.text.output import Delta, OutputParser
from gesso.text.tokenizer import Tokenizer


class RequestState:
    """State of a request from its start to its result. `cache` is there while it runs."""

    cache: SequenceCache

    def __init__(
        self,
        prompt_ids: Sequence[int],
        config: GenerationConfig,
        tokenizer: Tokenizer,
        vocab_size: int,
        canvas_length: int,
        *,
        begin: Sequence[int] = (),
        prefill_chunk: int = 512,
        adapter: str | None = None,
        drafts: bool = False,
        constraint: OutputConstraint | None = None,
        decision: str = "",
        costs: CostModel | None = None,
    ) -> None:
        """
        Args:
            begin: tokens that the answer is made to begin with; they are encoded with the prompt.
            prefill_chunk: the prompt is cut at multiples of it.
            drafts: tell of every step.
            constraint: what the output has to satisfy.
            decision: why `config.mode` is what it is, where that was left to the engine.
            costs: is told what the answer took.
        """
        self.prompt_ids = prompt_ids
        self.config = config
        self.adapter = adapter
        self.drafts = drafts
        self.canvas_length = canvas_length
        self.prefill_chunk = prefill_chunk
        self._constraint = constraint
        self._decision = decision
        self._costs = costs
        self.cancelled = False
        """Set from outside: the next `advance` ends the request with what is committed."""
        self.cached_tokens = 0
        self.finished = False
        self._finish_reason: FinishReason = "cancelled"
        self._tokenizer = tokenizer
        self._seed = secrets.randbits(31) if config.seed is None else config.seed
        self._canvases = Canvases(config, vocab_size, canvas_length, self._seed, constraint)
        self._verifier = Verifier(config, tokenizer)
        self._parser = OutputParser(tokenizer, config.stop)
        self._pending = [*prompt_ids, *begin]
        self._prompt = tuple(self._pending)
        self._begin = list(begin)
        self._tokens: list[int] = []
        self._logprobs: list[TokenLogprob] = []
        self._steps: list[int] = []
        self._converged: list[bool] = []
        self._unread: list[int] | None = None
        self._started = self._first_block = self._seconds = 0.0
        self.canvas = self._next_canvas()

    def _next_canvas(self) -> CanvasState:
        return self._canvases.make(len(self._steps), self._written)

    @property
    def _written(self) -> int:
        """Tokens of the answer before the canvas at work."""
        return max(len(self._tokens), len(self._begin))

    @property
    def max_seq_len(self) -> int:
        """Tokens that its cache reaches at most, the last canvas included."""
        width = self.canvas_length
        budget = self.config.max_new_tokens
        # A thought that is cut short begins a canvas before the last one was full.
        canvases = -(-budget // width) + (self.config.thinking_budget is not None)
        return len(self._prompt) + canvases * width

    def begin(self, cache: SequenceCache) -> None:
        """The request leaves the queue: its clock runs from here."""
        self.cache = cache
        self._started = time.monotonic()

    def skip(self, tokens: int) -> None:
        """The first `tokens` of the prompt are in the cache already."""
        self.cached_tokens = min(tokens, len(self.prompt_ids))
        del self._pending[:tokens]

    @property
    def prompt(self) -> tuple[int, ...]:
        """All that is encoded before the first canvas."""
        return self._prompt

    @property
    def pending(self) -> int:
        """Tokens to encode before the next denoising step."""
        return len(self._pending)

    @property
    def reads_prompt(self) -> bool:
        """Whether they are the prompt's, or else a canvas."""
        return bool(self._pending) and self.cache.length < len(self._prompt)

    @property
    def chunk(self) -> int:
        """How many of them are encoded at a time: a canvas whole, a prompt up to the next multiple of its chunk."""
        if not self.reads_prompt:
            return len(self._pending)
        return min(len(self._pending), self.prefill_chunk - self.cache.length % self.prefill_chunk)

    def next_tokens(self, count: int) -> list[int]:
        """The next `count` of them."""
        return self._pending[:count]

    def take_encoded(self, hidden_TD: Tensor, vocabulary: Vocabulary) -> list[Event]:
        """The next tokens are in the cache; events of a block that waited for it."""
        del self._pending[: len(hidden_TD)]
        if self.config.mode == "ar":
            return [] if self._pending else self._write_token(hidden_TD[-1:], vocabulary)
        block, self._unread = self._unread, None
        found = self._verifier.read(hidden_TD, block, vocabulary)
        if block is None:
            return []
        pins = self._verifier.judge(self.canvas, self.config.max_new_tokens - self._written)
        if pins is None:
            return self._show(block, found)
        self._verifier.begin_round(self.cache, self.canvas.steps)
        self.canvas = self._canvases.again(self.canvas, pins, self._written)
        return []

    def _write_token(self, hidden_1D: Tensor, vocabulary: Vocabulary) -> list[Event]:
        """The next token as the causal pass has it: a canvas of one position, of which one step is taken."""
        take_step(vocabulary, [self.canvas], [hidden_1D])
        self.canvas.converged = True
        # The surest position of a canvas is always accepted, so what it holds is the sample.
        block = self._in_budget(self.canvas.canvas_C.tolist())
        found: list[TokenLogprob] = []
        if self.config.logprobs is not None:
            found = token_logprobs(vocabulary, hidden_1D, block, self.config.logprobs, self._tokenizer)
        self._pending = list(block)
        return self._show(block, found)

    def advance(self) -> list[Event]:
        """What the last denoising step means for the request, as events."""
        events: list[Event] = []
        if self.drafts and not self.cancelled:
            number, before = len(self._steps), self._verifier.steps
            events.append(self._canvases.frame(self.canvas, number, before, self._tokenizer))
        if self.canvas.finished:
            block = self._in_budget(self.canvas.argmax_C.tolist())
            found = self._verifier.settle(block, self.cache)
            if found is not None:
                return events + self._show(block, found)
            self._pending = list(block)
            if not self._verifier.waits(block):
                return events + self._show(block, [])
            self._unread = block
        return events

    def cancel(self) -> list[Event]:
        """End with what is committed."""
        if self._forwards:
            self._close_canvas()
        self._finish("cancelled")
        return [Finished(self.result())]

    def fail(self, event: Failed) -> list[Event]:
        """End without a result."""
        self.finished = True
        return [event]

    def _show(self, block: list[int], logprobs: list[TokenLogprob]) -> list[Event]:
        """Put a finished canvas into the output; go on to the next one unless the request is finished."""
        if not self._steps:
            self._first_block = time.monotonic() - self._started
        delta = Delta()
        if not self._steps:
            for token in self._begin:
                self._tokens.append(token)
                delta += self._take_token(token)
        logprobs = self._verifier.asked(logprobs)
        count = 0
        for token in block:
            if self.finished:
                break
            self._tokens.append(token)
            delta += self._take_token(token)
            count += 1
        self._logprobs += logprobs[:count]
        event = BlockCommitted(
            canvas=len(self._steps),
            tokens=tuple(block[:count]),
            text=delta.text,
            reasoning=delta.reasoning,
            denoising_steps=self._forwards,
            converged=self.canvas.converged,
            tool_calls=delta.tool_calls,
            logprobs=tuple(logprobs[:count]),
        )
        self._close_canvas()
        if self.finished:
            return [event, Finished(self.result())]
        if self._constraint is not None:
            self._constraint.take(block)
        self.canvas = self._next_canvas()
        return [event]

    def _in_budget(self, block: list[int]) -> list[int]:
        begin = self._begin if not self._steps else ()
        return within_budget(block, self._parser, self.config, self._tokenizer.special, self._constraint, begin)

    def _take_token(self, token: int) -> Delta:
        if token in self.config.eos_token_ids and not self.config.ignore_eos:
            return self._finish("stop")
        place = len(self._tokens) - len(self._begin) - 1
        self._parser.watches_stops = self._canvases.last_pin < 0 or place > self._canvases.last_pin
        delta = self._parser.feed(token)
        if self._parser.stopped:
            return delta + self._finish("stop")
        if len(self._tokens) >= self.config.max_new_tokens:
            # What satisfies a constraint is complete, with its last token or without an end token.
            return delta + self._finish("length" if self._constraint is None else "stop")
        return delta

    def _finish(self, reason: FinishReason) -> Delta:
        """Set the reason and stop the clock; returns the text that was held back."""
        self.finished = True
        self._finish_reason = reason
        self._seconds = time.monotonic() - self._started if self._started else 0.0
        self._pending = []
        if self._costs is not None and reason != "cancelled":
            steps = None if self.config.mode == "ar" else [*self._steps, self._forwards]
            self._costs.learn(steps, len(self._tokens))
        return self._parser.flush()

    def _close_canvas(self) -> None:
        self._steps.append(self._forwards)
        self._converged.append(self.canvas.converged)
        self._verifier.close()

    @property
    def _forwards(self) -> int:
        """Passes spent on the canvas at work."""
        return self.canvas.steps + self._verifier.passes(self.finished and self.config.logprobs is None)

    def result(self) -> GenerationResult:
        """The record of a finished request."""
        assert self.finished
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
            tool_calls=self._parser.tool_calls,
            warnings=self._parser.warnings,
            logprobs=tuple(self._logprobs),
            cached_tokens=self.cached_tokens,
            mode="ar" if self.config.mode == "ar" else "canvas",
            decision=self._decision,
            probe_logprobs=self._canvases.probe.logprobs if self._canvases.probe else (),
            reasoning_tokens=self._parser.thought_tokens,
            verify_rounds=self._verifier.told,
            disputed_tokens=self._verifier.disputed,
        )
