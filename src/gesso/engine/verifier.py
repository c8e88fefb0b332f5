"""What the causal pass over a canvas says of it, and self-verification, which acts on that before it is committed.

Life cycle of a draft: a finished canvas is encoded behind what is committed, as for a commit. The pass that does so
also tells how likely it finds each token, given all before it. Where it disputes none, it was the commit. Otherwise the
draft leaves the cache, its disputed positions are re-noised, the others pinned, and the canvas is denoised once more: a
round. If nothing changed, the draft goes back into the cache as it was; else the new one is read, and so on.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gesso.diffusion.denoise import CanvasState, Pins
from gesso.engine.logprobs import token_logprobs
from gesso.engine.result import TokenLogprob
from gesso.generation import VERIFY_THRESHOLD, GenerationConfig
from gesso.models.cache import SequenceCache
from gesso.nn.vocabulary import Vocabulary
from gesso.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Draft:
    """A block as the causal pass over it left it."""

    tokens: list[int]
    logprobs: list[TokenLogprob]
    before_D: Tensor
    """Hidden state of the token before it."""
    last_D: Tensor
    """Of its last token."""


class Verifier:
    """Reads and judges the canvases of one request, one after the other."""

    def __init__(self, config: GenerationConfig, tokenizer: Tokenizer) -> None:
        self._config = config
        self._tokenizer = tokenizer
        self._threshold = VERIFY_THRESHOLD if config.verify_threshold is None else config.verify_threshold
        self._ends = () if config.ignore_eos else config.eos_token_ids
        given = config.canvas or config.start_canvas or config.probe
        self._auto = config.verify == "auto"
        self._most = config.verify if isinstance(config.verify, int) else 0 if given or config.mode == "ar" else 1
        """Rounds of a canvas."""
        self._hidden_D: Tensor | None = None
        self.disputed = 0
        """Tokens re-noised so far."""
        self.all_rounds: list[int] = []
        """Of the canvases that are closed."""
        self._begin()

    def _begin(self) -> None:
        """The next canvas."""
        self.rounds = 0
        self.steps = 0
        """Denoising steps of earlier rounds."""
        self._draft: Draft | None = None
        self._taken: list[Tensor] = []
        self._passes = 0
        self._stands = False

    def _judges(self, block: Sequence[int]) -> bool:
        over = len(block) >= self._config.max_new_tokens or not set(self._ends).isdisjoint(block)
        if self._auto and not self.all_rounds and over:
            return False
        return self.rounds < self._most

    def waits(self, block: Sequence[int]) -> bool:
        """Whether the next block is shown only when it has been read."""
        return self._judges(block) or self._config.logprobs is not None

    def read(self, hidden_TD: Tensor, block: list[int] | None, vocabulary: Vocabulary) -> list[TokenLogprob]:
        """Follow the causal pass: tokens are in the cache. Log-probabilities, where they are a block that waited."""
        if self._config.logprobs is None and not self._most:
            return []
        before_D, self._hidden_D = self._hidden_D, hidden_TD[-1]
        if block is None:
            return []
        assert before_D is not None
        hidden_CD = torch.cat((before_D[None], hidden_TD[:-1]))
        top = max(self._config.logprobs or 0, 1 if self._judges(block) else 0)
        found = token_logprobs(vocabulary, hidden_CD, block, top, self._tokenizer)
        self._draft = Draft(block, found, before_D, self._hidden_D)
        return found

    def asked(self, found: Sequence[TokenLogprob]) -> list[TokenLogprob]:
        """Of what was read, what the request wants to be told."""
        top = self._config.logprobs
        return [] if top is None else [replace(entry, top=entry.top[:top]) for entry in found]

    def judge(self, canvas: CanvasState, left: int) -> Pins | None:
        """What a round over the `canvas` that was read holds fast; None where it stands.

        Args:
            left: tokens that may still be written.
        """
        assert self._draft is not None
        if not self._judges(self._draft.tokens):
            return None
        self._passes += 1
        block, own = self._draft.tokens, canvas.pins
        argmax = canvas.argmax_C.tolist()
        end = next((place for place, token in enumerate(block) if token in self._ends), len(block))
        free_C = torch.zeros(canvas.width, dtype=torch.bool)
        for place, found in enumerate(self._draft.logprobs[: min(end + 1, left)]):
            # The token that closes a thought when its budget is used up is nobody's choice.
            free_C[place] = block[place] == argmax[place] and found.top[0][2] - found.logprob > self._threshold
        fixed_C = torch.zeros_like(free_C) if own is None else own.held_C
        free_C &= ~fixed_C
        self.disputed += int(free_C.sum())
        self._stands = not free_C.any()
        if self._stands:
            return None
        if end < len(block) and free_C[end]:  # what is behind an end depends on it
            free_C[end:] = ~fixed_C[end:]
        return Pins(
            tokens_C=canvas.argmax_C,
            held_C=~free_C,
            never_C=torch.zeros_like(free_C) if own is None else own.never_C & free_C,
            banned=() if own is None else own.banned,
        )

    def begin_round(self, cache: SequenceCache, steps: int) -> None:
        """Take the draft out of the cache; it took `steps`."""
        assert self._draft is not None
        self._taken = cache.rollback(len(self._draft.tokens))
        self._hidden_D = self._draft.before_D
        self.rounds += 1
        self.steps += steps

    def settle(self, block: list[int], cache: SequenceCache) -> list[TokenLogprob] | None:
        """Put the draft back where a round has ended in the same tokens; what was read of it. None where none has."""
        if self._draft is None or self._draft.tokens != block:
            return None
        cache.restore(self._taken)
        self._hidden_D = self._draft.last_D
        self._stands = True
        return self._draft.logprobs

    def passes(self, last: bool) -> int:
        """Passes spent on the canvas at work, beside the steps of its last round and its commit.

        Args:
            last: without verification there would be no causal pass over it.
        """
        return self.steps + self._passes - (self._stands and not last)

    @property
    def told(self) -> tuple[int, ...]:
        """Rounds of each canvas, where there might have been some."""
        return tuple(self.all_rounds) if self._most and not (self._auto and len(self.all_rounds) == 1) else ()

    def close(self) -> None:
        """The canvas is done."""
        self.all_rounds.append(self.rounds)
        self._begin()
