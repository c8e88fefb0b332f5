"""Implements self-verification as a state machine: a causal pass judges a canvas before it is committed.

    DRAFTING ──submit──> READING ──judge──> REDENOISING ──submit──> READING | RESTORED
        └──submit──> ACCEPTED <──judge──┘          └──submit──> ACCEPTED
    any ──close──> DRAFTING, for the next canvas

A finished canvas is submitted as a candidate block. One that is to be read is encoded behind what is committed, as for
a commit; the pass that does so also tells how likely it finds each token, given all before it. Where the verifier
rejects none of them, that pass was the commit. Otherwise the candidate leaves the cache, its rejected positions are
re-noised, the others pinned, and the canvas is denoised once more: a round. If nothing changed, the candidate goes back
into the cache as it was; else the new one is read, and so on. A request that wants log-probabilities has every block
read, and none judged.

The verifier says what is to be done; passes, rollbacks and restores are done by whoever asks it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

import torch

from gesso.diffusion.canvas_state import CanvasState, Pins
from gesso.engine.result import TokenLogprob
from gesso.generation import VERIFY_THRESHOLD, GenerationConfig


class VerifierState(Enum):
    """Names the state of the canvas at work."""

    DRAFTING = auto()
    """It is denoised for the first time."""
    READING = auto()
    """It is finished, and waits for the causal pass that encodes it."""
    REDENOISING = auto()
    """Some of its tokens were rejected; it is denoised once more."""
    RESTORED = auto()
    """A round ended in the candidate that was rolled back."""
    ACCEPTED = auto()
    """It is part of the answer."""


_TRANSITIONS = {
    VerifierState.DRAFTING: {VerifierState.READING, VerifierState.ACCEPTED},
    VerifierState.READING: {VerifierState.REDENOISING, VerifierState.ACCEPTED},
    VerifierState.REDENOISING: {VerifierState.READING, VerifierState.RESTORED, VerifierState.ACCEPTED},
    VerifierState.RESTORED: set(),
    VerifierState.ACCEPTED: set(),
}
"""Where `submit` and `judge` may lead; `close` leads from everywhere to `DRAFTING`."""


@dataclass(frozen=True, slots=True)
class CandidateBlock:
    """Holds a finished canvas that a causal pass is to encode, or has encoded."""

    tokens: tuple[int, ...]
    judged: bool
    """Whether the verifier may reject its tokens."""
    logprobs: tuple[TokenLogprob, ...] = ()
    """Log-probabilities of its tokens, once it is encoded."""


class Verifier:
    """Judges the canvases of one request, one after the other."""

    def __init__(self, config: GenerationConfig) -> None:
        self._config = config
        self._threshold = VERIFY_THRESHOLD if config.verify_threshold is None else config.verify_threshold
        self._ends = () if config.ignore_eos else config.eos_token_ids
        given = config.canvas or config.start_canvas or config.probe or config.guidance_scale != 1
        self._auto = config.verify == "auto"
        self._max_rounds = config.verify if isinstance(config.verify, int) else 0 if given or config.mode == "ar" else 1
        """Bound on the rounds of each canvas."""
        self.rejected_tokens = 0
        """Tokens re-noised so far."""
        self._all_rounds: list[int] = []
        """Rounds of each closed canvas."""
        self._open()

    def _open(self) -> None:
        """Begins the next canvas."""
        self.state = VerifierState.DRAFTING
        self.candidate: CandidateBlock | None = None
        self.earlier_steps = 0
        """Denoising steps of rounds before the one at work."""
        self._rounds = 0
        self._judging_passes = 0
        self._stands = False

    @property
    def reads_hidden(self) -> bool:
        """Says whether the request needs hidden states of the causal pass at all."""
        return self._config.logprobs is not None or bool(self._max_rounds)

    @property
    def keep(self) -> int:
        """Returns how many of the last tokens of the next causal pass need their hidden states kept."""
        if not self.reads_hidden:
            return 0
        return len(self.candidate.tokens) if self.candidate and self.state is VerifierState.READING else 1

    @property
    def top(self) -> int:
        """Returns how many of the likeliest tokens the pass over the candidate must give at each place."""
        assert self.candidate is not None
        return max(self._config.logprobs or 0, 1 if self.candidate.judged else 0)

    @property
    def reported_rounds(self) -> tuple[int, ...]:
        """Returns the rounds of each canvas; empty where the request could have none."""
        hidden = not self._max_rounds or (self._auto and len(self._all_rounds) == 1)
        return () if hidden else tuple(self._all_rounds)

    def submit(self, block: Sequence[int]) -> VerifierState:
        """Takes a finished canvas as the candidate block and returns what is to be done with it.

        READING: it is to be encoded and then judged. ACCEPTED: it is to be shown and then encoded. RESTORED: it equals
        the candidate that was rolled back, and is to be restored in the cache and shown as it was read before.
        """
        tokens = tuple(block)
        if self.candidate is not None and self.candidate.tokens == tokens:
            self._stands = True
            return self._move(VerifierState.RESTORED)
        judged = self._judges(tokens)
        if not judged and self._config.logprobs is None:
            return self._move(VerifierState.ACCEPTED)
        self.candidate = CandidateBlock(tokens, judged)
        return self._move(VerifierState.READING)

    def _judges(self, tokens: Sequence[int]) -> bool:
        over = len(tokens) >= self._config.max_new_tokens or not set(self._ends).isdisjoint(tokens)
        if self._auto and not self._all_rounds and over:
            return False
        return self._rounds < self._max_rounds

    def judge(self, found: Sequence[TokenLogprob], canvas: CanvasState, left: int) -> Pins | None:
        """Judges the candidate that was encoded; returns the pins of a round over it, or None where it is accepted.

        Args:
            found: log-probabilities of its tokens.
            canvas: the canvas that it was.
            left: tokens that may still be written.
        """
        assert self.candidate is not None
        self.candidate = replace(self.candidate, logprobs=tuple(found))
        pins = self._rejections(canvas, left) if self.candidate.judged else None
        if pins is None:
            self._move(VerifierState.ACCEPTED)
            return None
        self._rounds += 1
        self.earlier_steps += canvas.steps
        self._move(VerifierState.REDENOISING)
        return pins

    def _rejections(self, canvas: CanvasState, left: int) -> Pins | None:
        assert self.candidate is not None
        self._judging_passes += 1
        block, own = self.candidate.tokens, canvas.pins
        argmax = canvas.argmax_C.tolist()
        end = next((place for place, token in enumerate(block) if token in self._ends), len(block))
        free_C = torch.zeros(canvas.width, dtype=torch.bool)
        for place, found in enumerate(self.candidate.logprobs[: min(end + 1, left)]):
            # The token that closes reasoning when its budget is used up is nobody's choice.
            free_C[place] = block[place] == argmax[place] and found.top[0][2] - found.logprob > self._threshold
        fixed_C = torch.zeros_like(free_C) if own is None else own.held_C
        free_C &= ~fixed_C
        self.rejected_tokens += int(free_C.sum())
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

    def reported(self, found: Sequence[TokenLogprob]) -> list[TokenLogprob]:
        """Returns the log-probabilities that the request asked for, of those that were read."""
        top = self._config.logprobs
        return [] if top is None else [replace(entry, top=entry.top[:top]) for entry in found]

    def extra_passes(self, last: bool) -> int:
        """Returns the passes spent on the canvas at work, beside the steps of its last round and its commit.

        Args:
            last: without verification there would be no causal pass over it.
        """
        return self.earlier_steps + self._judging_passes - (self._stands and not last)

    def close(self) -> None:
        """Ends the canvas at work and begins the next."""
        self._all_rounds.append(self._rounds)
        self._open()

    def _move(self, to: VerifierState) -> VerifierState:
        assert to in _TRANSITIONS[self.state], f"{self.state} does not lead to {to}"
        self.state = to
        return to
