"""Counts what stands before each place of a canvas, and penalises its logits by that.

Left to right, what stands before a place is known. On a canvas it is what is committed, and of the canvas itself what
the step before found likeliest further left; at its first step that is pins alone. A canvas that has settled is so
penalised for its own text, place by place, as the same text would be token by token.

Special tokens (the end of an answer, the marks of turns and calls) are not counted: a text is to end, however often it
has ended before.

    R rows   C canvas length   V vocabulary   D tokens of which positions count differently many   K other tokens
    N tokens of a text
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gesso.diffusion.penalties import Penalties


@dataclass(frozen=True, slots=True)
class Penalty:
    """Changes the logits of one canvas, row by row."""

    repetition: float
    tokens_K: Tensor
    """Tokens that all positions count alike, int64."""
    subtracted_K: Tensor
    """What is taken from their logits, fp32; `repetition` holds for all of them."""
    tokens_D: Tensor
    """Tokens of which positions count differently many."""
    subtracted_CD: Tensor
    repeated_CD: Tensor
    """Where `repetition` holds for them, bool."""

    def apply(self, logits_RV: Tensor, rows: slice) -> None:
        """Penalises the logits of some rows of the canvas, in place."""
        for tokens, subtracted, repeated in (
            (self.tokens_K, self.subtracted_K, None),
            (self.tokens_D, self.subtracted_CD[rows], self.repeated_CD[rows]),
        ):
            places = tokens.to(logits_RV.device)
            logits = logits_RV[:, places]
            if self.repetition != 1:
                scaled = torch.where(logits > 0, logits / self.repetition, logits * self.repetition)
                logits = scaled if repeated is None else torch.where(repeated.to(logits.device), scaled, logits)
            logits_RV[:, places] = logits - subtracted.to(logits)


class PrecedingText:
    """Counts the text of one request, as far as it is committed, and what stands on the canvas behind it.

    Life cycle: it begins with the prompt, and `grow` takes what is committed since; `penalty` is asked in every step.
    """

    def __init__(
        self, penalties: Penalties, prompt: Sequence[int], uncounted: Collection[int], vocab_size: int
    ) -> None:
        """
        Args:
            uncounted: token ids that are no text.
        """
        self._penalties = penalties
        self._text = torch.tensor(prompt, dtype=torch.int64)
        self._answered = len(prompt)
        self._start = 0
        """Number of the first token that the window reaches."""
        self._countable_V = torch.ones(vocab_size, dtype=torch.bool)
        self._countable_V[[token for token in uncounted if token < vocab_size]] = False
        self._answer_V = torch.zeros(vocab_size, dtype=torch.int32)
        """How often each token stands in the answer, as far as the window reaches."""
        self._whole_V = torch.zeros(vocab_size, dtype=torch.int32)
        """The same in prompt and answer; of the prompt nothing is asked where nothing but the answer counts."""
        if penalties.repetition != 1:
            self._count(self._whole_V, self._text, 1)
        self._slide()

    def grow(self, answer: Sequence[int]) -> None:
        """Takes the answer so far, of which it has counted the beginning."""
        new_N = torch.tensor(answer[len(self._text) - self._answered :], dtype=torch.int64)
        self._text = torch.cat((self._text, new_N))
        for counts_V in (self._whole_V, self._answer_V):
            self._count(counts_V, new_N, 1)
        self._slide()

    def penalty(self, draft_C: Tensor, said_C: Tensor) -> Penalty:
        """Returns what a step changes.

        Args:
            draft_C: the likeliest token of each position, int64 on the CPU.
            said_C: the positions of which one is known, bool.
        """
        penalties, width = self._penalties, len(draft_C)
        known_C = said_C & self._countable_V[draft_C]
        # Position i no longer sees the first `left_C[i]` of the tokens from `_start` on.
        left_C = torch.zeros(width, dtype=torch.int64)
        if penalties.window is not None:
            left_C = (len(self._text) + torch.arange(width) - penalties.window - self._start).clamp_(min=0)
        last = int(left_C[-1])
        left_N = torch.cat((self._text[self._start :][:last], draft_C))[:last]
        seen_N = torch.cat((self._countable_V[self._text[self._start :][:last]], known_C))[:last]
        answer_N = torch.arange(self._start, self._start + last) >= self._answered
        tokens_D = torch.cat((draft_C[known_C], left_N[seen_N])).unique()
        gained_CD = _running(draft_C, known_C, tokens_D)[:-1]
        whole_CD, answer_CD = (
            counts_V[tokens_D] + gained_CD - _running(left_N, seen_N & counted_N, tokens_D)[left_C]
            for counts_V, counted_N in (
                (self._whole_V, answer_N | (penalties.repetition != 1)),
                (self._answer_V, answer_N),
            )
        )
        tokens_K = self._whole_V.nonzero()[:, 0]
        tokens_K = tokens_K[~torch.isin(tokens_K, tokens_D)]
        return Penalty(
            penalties.repetition,
            tokens_K,
            self._subtracted(self._answer_V[tokens_K]),
            tokens_D,
            self._subtracted(answer_CD),
            whole_CD > 0,
        )

    def _subtracted(self, counts: Tensor) -> Tensor:
        return self._penalties.frequency * counts + self._penalties.presence * (counts > 0)

    def _slide(self) -> None:
        """Leaves out what the window no longer reaches."""
        start = self._start
        if self._penalties.window is not None:
            self._start = max(start, len(self._text) - self._penalties.window)
        gone_N, kept = self._text[start : self._start], max(0, self._answered - start)
        self._count(self._answer_V, gone_N[kept:], -1)
        self._count(self._whole_V, gone_N if self._penalties.repetition != 1 else gone_N[kept:], -1)

    def _count(self, counts_V: Tensor, tokens_N: Tensor, by: int) -> None:
        counted_N = tokens_N[self._countable_V[tokens_N]]
        counts_V.index_add_(0, counted_N, torch.full_like(counted_N, by, dtype=torch.int32))


def _running(tokens_N: Tensor, counted_N: Tensor, tokens_D: Tensor) -> Tensor:
    """Counts tokens among the first 0, 1, ... of some, int32 [N + 1, D]."""
    found_ND = (tokens_N[:, None] == tokens_D) & counted_N[:, None]
    return torch.cat((found_ND.new_zeros(1, len(tokens_D)), found_ND)).cumsum(dim=0, dtype=torch.int32)
