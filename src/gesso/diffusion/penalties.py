"""Makes tokens less likely that stand before a place already, as OpenAI's, Hugging Face's and llama.cpp's penalties do.

Left to right, what stands before a place is known. On a canvas it is what is committed, and of the canvas itself what
the step before found likeliest further left; at its first step that is pins alone. A canvas that has settled is so
penalised for its own text, place by place, as the same text would be token by token.

Special tokens (the end of an answer, the marks of turns and calls) are not counted: a text is to end, however often it
has ended before.

    P prompt length   R rows   C canvas length   K tokens that are counted somewhere   V vocabulary
"""

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True, slots=True)
class Penalties:
    """Holds what a request subtracts from logits. The options (`gesso.generation`) declare and check the ranges."""

    frequency: float = 0.0
    """Subtracted for each time that a token stands in the answer."""
    presence: float = 0.0
    """Subtracted once where it does."""
    repetition: float = 1.0
    """Divides a positive logit, and multiplies a negative one, where a token stands in the prompt or the answer (CTRL,
    arXiv 1909.05858)."""
    window: int | None = None
    """How many tokens before a place are looked at; None looks at all."""

    @property
    def neutral(self) -> bool:
        """Says whether they change nothing."""
        return (not self.frequency and not self.presence and self.repetition == 1) or self.window == 0


class Penalty:
    """Changes the logits of one canvas, row by row."""

    def __init__(self, tokens_K: Tensor, subtracted_CK: Tensor, repeated_CK: Tensor, repetition: float) -> None:
        """
        Args:
            tokens_K: token ids, int64.
            subtracted_CK: what is taken from their logits, fp32.
            repeated_CK: whether `repetition` holds for them, bool.
        """
        self._tokens_K = tokens_K
        self._subtracted_CK = subtracted_CK
        self._repeated_CK = repeated_CK
        self._repetition = repetition

    def apply(self, logits_RV: Tensor, rows: slice) -> None:
        """Penalises the logits of some rows of the canvas, in place."""
        tokens_K = self._tokens_K.to(logits_RV.device)
        logits_RK = logits_RV[:, tokens_K]
        if self._repetition != 1:
            scaled_RK = torch.where(logits_RK > 0, logits_RK / self._repetition, logits_RK * self._repetition)
            logits_RK = torch.where(self._repeated_CK[rows].to(logits_RV.device), scaled_RK, logits_RK)
        logits_RV[:, tokens_K] = logits_RK - self._subtracted_CK[rows].to(logits_RK)


class PrecedingText:
    """Holds what is committed before a canvas, and counts it together with what stands on the canvas."""

    def __init__(self, prompt_P: Tensor, answer: Sequence[int], uncounted: Collection[int]) -> None:
        """
        Args:
            prompt_P: token ids, int64 on the CPU.
            answer: tokens of the answer before the canvas; it may grow, and is read now.
            uncounted: token ids that are no text.
        """
        self._text = torch.cat((prompt_P, torch.tensor(answer, dtype=torch.int64)))
        self._answered = len(prompt_P)
        self._uncounted = torch.tensor(sorted(uncounted), dtype=torch.int64)

    def penalty(self, penalties: Penalties, draft_C: Tensor, said_C: Tensor) -> Penalty:
        """Returns what a step changes.

        Args:
            draft_C: the likeliest token of each position, int64 on the CPU.
            said_C: the positions of which one is known, bool.
        """
        width, window = len(draft_C), penalties.window or sys.maxsize
        first = max(0, len(self._text) - window)
        if penalties.repetition == 1:  # of the prompt nothing is asked
            first = max(first, self._answered)
        before = self._text[first:]
        text, counted = torch.cat((before, draft_C)), torch.cat((torch.ones_like(before, dtype=torch.bool), said_C))
        counted &= ~torch.isin(text, self._uncounted)
        tokens_K, kinds = torch.unique(text[counted], return_inverse=True)
        kind = torch.full_like(text, len(tokens_K)).masked_scatter_(counted, kinds)
        in_answer = torch.arange(first, first + len(text)) >= self._answered
        # Position i of the canvas sees the `window` tokens before it: of those in `text`, [left_i, len(before) + i).
        left_C = (len(self._text) - first + torch.arange(width) - window).clamp_(min=0)
        both_CK, answer_CK = (
            _counts(kind.masked_fill(~part, len(tokens_K)), len(tokens_K), len(before), left_C)
            for part in (torch.ones_like(in_answer), in_answer)
        )
        subtracted_CK = penalties.frequency * answer_CK + penalties.presence * (answer_CK > 0)
        return Penalty(tokens_K, subtracted_CK, both_CK > 0, penalties.repetition)


def _counts(kind: Tensor, kinds: int, before: int, left_C: Tensor) -> Tensor:
    """Counts the kinds of tokens in a stretch before each position of the canvas, fp32 [C, K].

    Args:
        kind: of each token, from 0 on, int64; `kinds` where it does not count.
        before: the number of tokens before the canvas.
        left_C: where each position's stretch begins.
    """
    whole_K = torch.bincount(kind[:before], minlength=kinds + 1)[:kinds]
    # What the stretch gains at its end, and loses at its beginning, from one position to the next.
    gained_CK = _running(kind[before:], kinds)
    lost_CK = _running(kind[: int(left_C[-1]) + 1], kinds)[left_C]
    return (whole_K + gained_CK - lost_CK).to(torch.float32)


def _running(kind_N: Tensor, kinds: int) -> Tensor:
    """Counts the kinds among the tokens before each one, [N, K]."""
    one_hot_NK = F.one_hot(kind_N, kinds + 1)[:, :kinds]
    return one_hot_NK.cumsum(dim=0) - one_hot_NK
