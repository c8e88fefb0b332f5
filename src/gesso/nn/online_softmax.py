"""Adds up a softmax over the vocabulary chunk by chunk, with a running maximum: by array operations, or by a kernel.

    N positions   n tokens of a part   C tokens of a chunk   B blocks of 64 tokens

With tempered scores z and their maximum so far m: S = sum exp(z - m), and U = sum (z - m) exp(z - m); a new maximum
m' = m - d turns them into S exp(d) and (U + d S) exp(d).
"""

import math
from array import array
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from gesso.kernels import BLOCK, SoftmaxPass
from gesso.nn.elementwise import LOWEST, drop_faint_, sigmoid_
from gesso.nn.host_kernels import host_kernels

FIRST = torch.finfo(torch.float32).min / 2
"""A maximum below all scores."""
ALONE = 1 << 16
"""Scores that one thread is done with sooner than others could be asked to help."""


class OnlineSoftmax(Protocol):
    """Is told the scores of one part of the vocabulary after another, in order."""

    def add(self, scores_Nn: Tensor) -> tuple[Tensor, Tensor]:
        """Adds scores before the soft-cap, fp32, in whose place others may come.

        Returns what sums before are to be multiplied by, [N, 1], and powers relative to the maximum, [N, n].
        """

    def take(self, mixed_ND: Tensor) -> SoftmaxPass:
        """Returns the sums, beside the mixture."""


def cap_(scores: Tensor, softcap: float) -> Tensor:
    """Applies the soft-cap cap * tanh(x / cap), in place, by way of the sigmoid, which a CPU computes five times as
    fast; an infinite one changes nothing."""
    if math.isinf(softcap):
        return scores
    return sigmoid_(scores.mul_(2 / softcap)).mul_(2 * softcap).sub_(softcap)


def online_softmax(size: int, chunk: int, softcap: float, inverse_N1: Tensor) -> OnlineSoftmax:
    """Begins a softmax.

    Args:
        size: of the vocabulary.
        chunk: tokens of a chunk: of a part at most, but for kernels, which take parts of many.
        softcap: infinite where there is none.
        inverse_N1: one over the temperatures.
    """
    if host_kernels(inverse_N1):
        return KernelSoftmax(size, chunk, softcap, inverse_N1)
    return _ArraySoftmax(softcap, inverse_N1)


class _ArraySoftmax:
    """Adds up by array operations."""

    def __init__(self, softcap: float, inverse_N1: Tensor) -> None:
        self._softcap, self._inverse_N1, self._first = softcap, inverse_N1, 0
        rows, device = len(inverse_N1), inverse_N1.device
        self._maximum_N1 = torch.full((rows, 1), FIRST, dtype=torch.float32, device=device)
        self._total_N1 = torch.zeros(rows, 1, dtype=torch.float32, device=device)
        self._weighted_N1 = torch.zeros(rows, 1, dtype=torch.float32, device=device)
        self._argmax_N1 = torch.zeros(rows, 1, dtype=torch.int64, device=device)
        self._sums, self._references = list[Tensor](), list[Tensor]()

    def add(self, scores_Nn: Tensor) -> tuple[Tensor, Tensor]:
        count = scores_Nn.shape[1]
        z = cap_(filled(scores_Nn), self._softcap).mul_(self._inverse_N1)
        z[:, count:] = LOWEST
        top_N1, index_N1 = z.max(dim=-1, keepdim=True)
        self._argmax_N1 = torch.where(top_N1 > self._maximum_N1, index_N1 + self._first, self._argmax_N1)
        maximum_N1 = torch.maximum(top_N1, self._maximum_N1)
        shift_N1 = self._maximum_N1 - maximum_N1
        shrink_N1 = shift_N1.exp()
        p = drop_faint_(z.sub_(maximum_N1)).exp()
        sums = p.unflatten(1, (-1, BLOCK)).sum(dim=-1)
        moved_N1 = (self._weighted_N1 + shift_N1 * self._total_N1) * shrink_N1
        self._weighted_N1 = moved_N1 + z.mul_(p).sum(dim=-1, keepdim=True)
        self._total_N1 = self._total_N1 * shrink_N1 + sums.sum(dim=-1, keepdim=True)
        self._maximum_N1, self._first = maximum_N1, self._first + count
        self._sums.append(sums)
        self._references.append(maximum_N1.expand_as(sums))
        return shrink_N1, p[:, :count]

    def take(self, mixed_ND: Tensor) -> SoftmaxPass:
        mass_NB = torch.cat(self._sums, dim=1) * (torch.cat(self._references, dim=1) - self._maximum_N1).exp_()
        return SoftmaxPass(mass_NB, self._maximum_N1, self._total_N1, self._weighted_N1, self._argmax_N1, mixed_ND)


class KernelSoftmax:
    """Adds up by a kernel, which takes parts of many chunks to the same bits."""

    def __init__(self, size: int, chunk: int, softcap: float, inverse_N1: Tensor) -> None:
        from gesso.kernels.host.library import online_softmax_kernel

        rows = len(inverse_N1)
        self._chunk, self._first, self._inverse_N1 = chunk, 0, inverse_N1.contiguous()
        self._work, self._softcap = (
            online_softmax_kernel(capped=math.isfinite(softcap)),
            torch.tensor(softcap, dtype=torch.float32, device="cpu"),
        )
        self._maximum_N1 = torch.full((rows, 1), FIRST, dtype=torch.float32, device="cpu")
        self._total_N1, self._weighted_N1, self._shrink_N1 = torch.zeros(3, rows, 1, dtype=torch.float32, device="cpu")
        self._argmax_N1 = torch.zeros(rows, 1, dtype=torch.int64, device="cpu")
        self._sums_NB = torch.empty(rows, -(-size // BLOCK), dtype=torch.float32, device="cpu")
        self._references_NK = torch.empty(rows, -(-size // chunk), dtype=torch.float32, device="cpu")

    def add(self, scores_Nn: Tensor) -> tuple[Tensor, Tensor]:
        from gesso.kernels.host.openmp import take_units
        from gesso.kernels.host.threads import fixed_threads, product_threads, share_units

        z, (rows, count) = filled(scores_Nn).contiguous(), scores_Nn.shape
        sums, references = (
            self._sums_NB[:, self._first // BLOCK :],
            self._references_NK[:, self._first // self._chunk :],
        )
        tensors = (z, self._inverse_N1, self._maximum_N1, self._total_N1, self._weighted_N1, self._argmax_N1)
        places = [tensor.data_ptr() for tensor in (*tensors, sums, references, self._shrink_N1, self._softcap)]
        numbers = (count, z.shape[1], self._chunk, self._first, sums.stride(0), references.stride(0))
        words = array("q", (*places, *numbers))
        share = share_units if fixed_threads() else take_units
        share(self._work, words.buffer_info()[0], rows, product_threads() if rows * count > ALONE else 1)
        self._first += count
        return self._shrink_N1, z[:, :count]

    def take(self, mixed_ND: Tensor) -> SoftmaxPass:
        references_NB = self._references_NK.repeat_interleave(self._chunk // BLOCK, dim=1)[:, : self._sums_NB.shape[1]]
        mass_NB = self._sums_NB * (references_NB - self._maximum_N1).exp_()
        return SoftmaxPass(mass_NB, self._maximum_N1, self._total_N1, self._weighted_N1, self._argmax_N1, mixed_ND)


def filled(scores_Nn: Tensor) -> Tensor:
    """Fills scores up to whole blocks."""
    gap = -scores_Nn.shape[1] % BLOCK
    return F.pad(scores_Nn, (0, gap)) if gap else scores_Nn
