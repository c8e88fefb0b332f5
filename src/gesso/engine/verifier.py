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

An exact verifier does not ask again: the first token that the causal pass does not find the likeliest gives way to the
one that it does, what stands before is pinned with it, and what stands behind is denoised anew. Each round settles one
place at least, so the answer is what the causal pass writes greedily, for fewer passes where drafts are right for
several tokens (speculative decoding, Leviathan et al. 2023, arXiv 2211.17192, with the denoiser as the draft model).

The verifier says what is to be done; passes, rollbacks and restores are done by whoever asks it.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

import torch

from gesso.diffusion.canvas_state import CanvasState, Pins
from gesso.engine.result import TokenLogprob
from gesso.generation import VERIFY_THRESHOLD, GenerationConfig

CORRECTIONS = 20
"""Tokens that the causal pass names for a place, of which a constraint or a pin further on may forbid some."""
REDRAFT_STEPS = 3
"""Steps of a round of the exact verifier: a causal pass costs a step, and more steps find few more right tokens."""


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
        causal = config.mode == "ar"  # every token is the causal pass's own
        self._auto, self._exact = config.verify == "auto", config.verify == "exact" and not causal
        default = 0.0 if self._exact else VERIFY_THRESHOLD
        self._threshold = default if config.verify_threshold is None else config.verify_threshold
        self._ends = () if config.ignore_eos else config.eos_token_ids
        given = config.canvas or config.start_canvas or config.probe or config.guidance_scale != 1
        given = given or not config.penalties.neutral  # of which the causal pass does not know
        if isinstance(config.verify, int):
            self._max_rounds = config.verify
        elif self._exact:
            self._max_rounds = sys.maxsize
        else:
            self._max_rounds = 0 if given or causal else 1
        """Bound on the rounds of each canvas."""
        self.rejected_tokens = 0
        """Tokens re-noised or corrected so far."""
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
    def round_steps(self) -> int | None:
        """Returns how many steps a round may take at most; None where it may take as many as a canvas."""
        return REDRAFT_STEPS if self._exact else None

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
        judging = 0 if not self.candidate.judged else CORRECTIONS if self._exact else 1
        return max(self._config.logprobs or 0, judging)

    @property
    def reported_rounds(self) -> tuple[int, ...]:
        """Returns the rounds of each canvas; empty where the request could have none."""
        hidden = not self._max_rounds or (self._auto and len(self._all_rounds) == 1)
        return () if hidden else tuple(self._all_rounds)

    def submit(self, block: Sequence[int], left: int) -> VerifierState:
        """Takes a finished canvas as the candidate block, where `left` tokens may still be written, and returns what is
        to be done with it.

        READING: it is to be encoded and then judged. ACCEPTED: it is to be shown and then encoded. RESTORED: it equals
        the candidate that was rolled back, and is to be restored in the cache and shown as it was read before.
        """
        tokens = tuple(block)
        if self.candidate is not None and self.candidate.tokens == tokens:
            self._stands = True
            return self._move(VerifierState.RESTORED)
        judged = self._judges(tokens, left)
        if not judged and self._config.logprobs is None:
            return self._move(VerifierState.ACCEPTED)
        self.candidate = CandidateBlock(tokens, judged)
        return self._move(VerifierState.READING)

    def _judges(self, tokens: Sequence[int], left: int) -> bool:
        over = len(tokens) >= left or not set(self._ends).isdisjoint(tokens)
        if self._auto and not self._all_rounds and over:
            return False
        return self._rounds < self._max_rounds

    def judge(
        self,
        found: Sequence[TokenLogprob],
        canvas: CanvasState,
        left: int,
        *,
        fits: Callable[[Sequence[int]], bool] | None,
        behind_pins: int,
    ) -> Pins | None:
        """Judges the candidate that was encoded; returns the pins of a round over it, or None where it is accepted.

        Args:
            found: log-probabilities of its tokens.
            canvas: the canvas that it was.
            left: tokens that may still be written.
            fits: says whether a constraint lets the candidate begin so; None where there is none.
            behind_pins: the first place of the canvas that no pin of the request stands behind: what stands before one
                depends on it, of which the causal pass does not know.
        """
        assert self.candidate is not None
        self.candidate = replace(self.candidate, logprobs=tuple(found))
        pins = None
        if self.candidate.judged:
            self._judging_passes += 1
            pins = self._correction(canvas, left, fits, behind_pins) if self._exact else self._rejections(canvas, left)
            self._stands = pins is None
        if pins is None:
            self._move(VerifierState.ACCEPTED)
            return None
        self._rounds += 1
        self.earlier_steps += canvas.steps
        self._move(VerifierState.REDENOISING)
        return pins

    def _correction(
        self, canvas: CanvasState, left: int, fits: Callable[[Sequence[int]], bool] | None, first: int
    ) -> Pins | None:
        """The candidate up to the first token that the causal pass disputes, with that pass's own in its place."""
        assert self.candidate is not None
        block, own = self.candidate.tokens, canvas.pins
        held_C = torch.zeros(canvas.width, dtype=torch.bool) if own is None else own.held_C
        never_C = torch.zeros_like(held_C) if own is None else own.never_C
        banned = () if own is None else own.banned
        for place in range(max(0, first), min(self._judged_tokens(), left)):
            if held_C[place] or block[place] != canvas.argmax_C[place]:  # a pin, or what closes reasoning in time
                continue
            said = self.candidate.logprobs[place]
            for token, _, logprob in said.top:
                if logprob - said.logprob <= self._threshold:
                    break
                if (never_C[place] and token in banned) or (fits is not None and not fits((*block[:place], token))):
                    continue
                self.rejected_tokens += 1
                held_C = held_C | (torch.arange(canvas.width) <= place)
                tokens_C = canvas.argmax_C.clone()
                tokens_C[place] = token
                return Pins(tokens_C=tokens_C, held_C=held_C, never_C=never_C & ~held_C, banned=banned)
        return None

    def _judged_tokens(self) -> int:
        """Up to the end of the answer: what is behind it is no part of it."""
        assert self.candidate is not None
        block = self.candidate.tokens
        end = next((place for place, token in enumerate(block) if token in self._ends), len(block))
        return min(end + 1, len(block))

    def _rejections(self, canvas: CanvasState, left: int) -> Pins | None:
        assert self.candidate is not None
        block, own = self.candidate.tokens, canvas.pins
        argmax, judged = canvas.argmax_C.tolist(), self._judged_tokens()
        free_C = torch.zeros(canvas.width, dtype=torch.bool)
        for place, found in enumerate(self.candidate.logprobs[: min(judged, left)]):
            # The token that closes reasoning when its budget is used up is nobody's choice.
            free_C[place] = block[place] == argmax[place] and found.top[0][2] - found.logprob > self._threshold
        fixed_C = torch.zeros_like(free_C) if own is None else own.held_C
        free_C &= ~fixed_C
        self.rejected_tokens += int(free_C.sum())
        if not free_C.any():
            return None
        last = judged - 1
        if last >= 0 and block[last] in self._ends and free_C[last]:  # what is behind an end depends on it
            free_C[last:] = ~fixed_C[last:]
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
