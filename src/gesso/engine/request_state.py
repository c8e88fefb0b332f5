"""Holds the state of one request: what was asked, how far it is, and its parts.

It is plain data; the rules of how it moves on are in `gesso.engine.progress`.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from itertools import count

from gesso.diffusion.canvas_state import CanvasState
from gesso.engine.canvases import Canvases
from gesso.engine.constraint import OutputConstraint
from gesso.engine.cost import CostModel
from gesso.engine.output import OutputAssembler
from gesso.engine.result import GenerationResult, TokenLogprob
from gesso.engine.verifier import Verifier
from gesso.generation import GenerationConfig
from gesso.runner.prompt_input import PromptChunk, PromptInput
from gesso.runner.protocol import CacheHandle, PrefillItem
from gesso.text.tokenizer import Tokenizer

_numbers = count()


@dataclass(eq=False, slots=True)
class RequestState:
    """Holds a request from its start to its result."""

    prompt: PromptInput
    """All that is encoded before the first canvas: the prompt and the response prefix."""
    prompt_tokens: int
    """Tokens of the prompt without the response prefix."""
    config: GenerationConfig
    canvas_length: int
    limit: int
    """Positions of the context that the prompt and the answer may take."""
    max_seq_len: int
    """Tokens that its cache reaches at most, the last canvas included."""
    chunks: tuple[PromptChunk, ...]
    """The stretches that the prompt is encoded in."""
    seed: int
    tokenizer: Tokenizer
    canvases: Canvases
    verifier: Verifier
    output: OutputAssembler
    canvas: CanvasState
    """The canvas at work."""
    constraint: OutputConstraint | None = None
    second: PromptInput | None = None
    """The prompt that guidance leads away from, and the response prefix; None without guidance."""
    adapter: str | None = None
    part_of: Hashable = None
    """What it and other requests are parts of; None where it is by itself."""
    frames: bool = False
    """Whether the events tell of every denoising step."""
    prompt_logprobs: int | None = None
    """How many of the likeliest tokens are told beside each of the prompt; None where nothing is told of them."""
    prompt_scores: list[TokenLogprob] = field(default_factory=list)
    """Scores of the tokens read so far, but for the first of all; those of the response prefix are among them."""
    ignored: tuple[str, ...] = ()
    """What the constraint's schema says and means nothing to it."""
    decision: str = ""
    """Why `config.mode` is what it is, where that was left to the engine."""
    costs: CostModel | None = None
    """Learns what the answer took."""
    image_cost: float = 0.0
    """What the vision tower computes for a soft token, in tokens of text."""

    number: int = field(default_factory=lambda: next(_numbers))
    cache: CacheHandle | None = None
    """Set while the request runs."""
    second_cache: CacheHandle | None = None
    """Cache of the second prompt; set while a guided request runs."""
    guidance_passes: int = 0
    """Passes of closed canvases behind the second prompt."""
    reserved: int = 0
    """Bytes that are accounted for its cache."""
    length: int = 0
    """Tokens in its cache."""
    next_chunk: int = 0
    """Index of the first of `chunks` that is not in the cache."""
    cached_tokens: int = 0
    """Prompt tokens restored from the prefix store."""
    prompt_encoded: float = 0.0
    """Seconds of the monotonic clock at which the last of the prompt's passes was made; 0 before."""
    block: tuple[int, ...] = ()
    """A finished canvas that waits to be encoded."""
    cancelled: bool = False
    """Set from outside: the next iteration ends the request with what is committed."""
    failed: bool = False
    error: Exception | None = None
    """What it failed by, where that was caught."""

    @property
    def group(self) -> Hashable:
        """Returns what it is a part of; its number where it is by itself."""
        return self.number if self.part_of is None else self.part_of

    @property
    def finished(self) -> bool:
        """Says whether its last event was produced."""
        return self.failed or self.output.finished

    @property
    def pending(self) -> int:
        """Returns the number of tokens to encode before the next denoising step."""
        if self.finished:
            return 0
        return len(self.prompt) - self.length if self.reads_prompt else len(self.block)

    @property
    def reads_prompt(self) -> bool:
        """Says whether the pending tokens are the prompt's; else they are a canvas's."""
        return self.next_chunk < len(self.chunks)

    @property
    def draws_token(self) -> bool:
        """Says whether the pass over what is encoded next is one that a token of mode `ar` is drawn from."""
        return self.config.mode == "ar" and 0 < self.pending == self.chunk

    @property
    def chunk(self) -> int:
        """Returns how many of the pending tokens are encoded at once: a canvas whole, a prompt chunk by chunk."""
        if not self.reads_prompt:
            return len(self.block)
        chunk = self.chunks[self.next_chunk]
        return chunk.end - chunk.start

    @property
    def chunk_cost(self) -> int:
        """Returns what that costs, in tokens of text: the vision tower's work on its images comes on top."""
        if not self.reads_prompt:
            return self.chunk
        chunk = self.chunks[self.next_chunk]
        soft = sum(span.length for span in chunk.key.spans)
        second = len(self.second or ()) if chunk.end == len(self.prompt) else 0
        return self.chunk + round(self.image_cost * soft) + second

    @property
    def max_write_len(self) -> int:
        """Returns the most tokens that are written into its cache at once."""
        return max(self.canvas_length, *(chunk.end - chunk.start for chunk in self.chunks))

    @property
    def left(self) -> int:
        """Returns the number of tokens that may still be written."""
        return self.config.max_new_tokens - self.output.written

    def prefill_item(self) -> PrefillItem:
        """Returns the next tokens to encode, as a runner takes them."""
        assert self.cache is not None
        if not self.reads_prompt:
            keep = 1 if self.config.mode == "ar" else self.verifier.keep
            return PrefillItem(self.number, self.cache, self.block, keep=keep)
        chunk = self.chunks[self.next_chunk]
        ends = chunk.end == len(self.prompt)
        keep = 1 if ends and (self.config.mode == "ar" or self.verifier.reads_hidden) else 0
        if self.prompt_logprobs is not None:
            keep = len(chunk.key.ids)
        return PrefillItem(self.number, self.cache, chunk.key.ids, chunk.key.spans, keep)

    def prefill_items(self) -> list[PrefillItem]:
        """Returns what one pass encodes: the next tokens, and for the second prompt what stands before the same canvas.

        It is encoded whole with the last chunk of the prompt; it is short as a rule.
        """
        items = [self.prefill_item()]
        if self.second is not None:
            assert self.second_cache is not None
            if not self.reads_prompt:
                items.append(PrefillItem(self.number, self.second_cache, self.block))
            elif self.chunks[self.next_chunk].end == len(self.prompt):
                items.append(PrefillItem(self.number, self.second_cache, self.second.ids, self.second.spans))
        return items

    @property
    def second_lengths(self) -> tuple[int, int] | None:
        """Returns the lengths of the second cache, in all and written at once; None without guidance."""
        if self.second is None:
            return None
        behind = self.max_seq_len - len(self.prompt)
        return len(self.second) + behind, max(self.canvas_length, len(self.second))

    def next_canvas(self) -> CanvasState:
        """Returns a new canvas, the one after those that are closed."""
        output = self.output
        return self.canvases.make(output.canvases, output.before, self.limit - self.prompt_tokens - output.written)

    def result(self) -> GenerationResult:
        """Returns the result of a finished request."""
        output, probe = self.output, self.canvases.probe
        assert output.finish_reason is not None
        return GenerationResult(
            text=output.parser.text,
            reasoning=output.parser.reasoning,
            token_ids=tuple(output.tokens),
            finish_reason=output.finish_reason,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=len(output.tokens),
            denoising_steps=tuple(output.steps),
            converged=tuple(output.converged),
            seed=self.seed,
            seconds_to_first_block=output.seconds_to_first_block,
            seconds=output.seconds,
            seconds_to_prompt=min(output.seconds, max(0.0, self.prompt_encoded - output.started)),
            tool_calls=output.parser.tool_calls,
            warnings=output.parser.warnings,
            logprobs=tuple(output.logprobs),
            cached_tokens=self.cached_tokens,
            mode="ar" if self.config.mode == "ar" else "canvas",
            decision=self.decision,
            ignored=self.ignored,
            # The response prefix was read with the prompt; the first token of all has no score.
            prompt_logprobs=tuple(self.prompt_scores[: max(0, self.prompt_tokens - 1)]),
            probe_logprobs=probe.logprobs if probe else (),
            reasoning_tokens=output.parser.reasoning_tokens,
            verify_rounds=self.verifier.reported_rounds,
            rejected_tokens=self.verifier.rejected_tokens,
            guidance_passes=self.guidance_passes,
            stop_string=output.parser.stop_string,
        )
