"""Chooses experts on a GPU, and lays their tokens side by side: two kernels instead of some twenty.

    N tokens   E experts   k of them for each token   M = N k rows, sorted by expert

A program of the first kernel goes through one token's scores; of the second through all choices, once to count and
once to place those of its own expert. So nothing is sorted, and nobody waits for how many tokens an expert got.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from gesso.kernels.placement import on_its_device

BLOCK = 1024
"""Choices that a program reads at a time."""


@on_its_device
def choose(scores_NE: Tensor, scale_E: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    """Returns weights, fp32, and expert numbers, int64, of the k highest scores of every token, [N, k] each.

    Weights are shares of the softmax that sum to 1, times the experts' own scales. Of equal scores the lower number
    comes first. Where a softmax is no number, weights are none either, and experts are any that there are.
    """
    rows, experts = scores_NE.shape
    weights = torch.empty(rows, top_k, dtype=torch.float32, device=scores_NE.device)
    numbers = torch.empty(rows, top_k, dtype=torch.int64, device=scores_NE.device)
    _choose[(rows,)](
        scores_NE.contiguous(),
        scale_E,
        weights,
        numbers,
        EXPERTS=experts,
        PADDED=triton.next_power_of_2(experts),
        CHOSEN=top_k,
        PLACES=triton.next_power_of_2(top_k),
        num_warps=1,
        enable_fp_fusion=False,
    )
    return weights, numbers


@on_its_device
def lay_out(experts_Nk: Tensor, num_experts: int) -> tuple[Tensor, Tensor, Tensor]:
    """Lays tokens side by side by expert, in their own order; those of a number from `num_experts` on, which are some
    other process's, behind all others.

    Returns:
        The token of every row [M] and the row of every choice [M], int64, and where each expert's rows end [E], int32.
    """
    count, device = experts_Nk.numel(), experts_Nk.device
    sources, slots = torch.empty(2, count, dtype=torch.int64, device=device).unbind()
    ends = torch.empty(num_experts + 1, dtype=torch.int32, device=device)
    _lay_out[(num_experts + 1,)](
        experts_Nk.contiguous(),
        sources,
        slots,
        ends,
        count,
        CHOSEN=experts_Nk.shape[1],
        BLOCK=min(BLOCK, max(16, triton.next_power_of_2(count))),
        num_warps=4,
        enable_fp_fusion=False,
    )
    return sources, slots, ends[:-1]


@triton.jit
def _choose(
    scores,
    scale,
    weights,
    numbers,
    EXPERTS: tl.constexpr,
    PADDED: tl.constexpr,
    CHOSEN: tl.constexpr,
    PLACES: tl.constexpr,
):
    """One token of `choose`."""
    row = tl.program_id(0).to(tl.int64)
    e, places = tl.arange(0, PADDED), tl.arange(0, PLACES)
    left = tl.load(scores + row * EXPERTS + e, mask=e < EXPERTS, other=-float("inf")).to(tl.float32)
    shares = tl.exp(left - tl.max(left, axis=0))
    shares = shares / tl.sum(shares, axis=0)
    left = tl.where(e < EXPERTS, shares, -1.0)
    found, which = tl.zeros((PLACES,), tl.float32), tl.zeros((PLACES,), tl.int32)
    for i in range(CHOSEN):
        # Of shares that are no numbers none is equal to the largest; what is chosen is an expert all the same.
        number = tl.min(tl.where(left == tl.max(left, axis=0), e, EXPERTS - 1), axis=0)
        share = tl.sum(tl.where(e == number, shares, 0.0), axis=0)
        found = tl.where(places == i, share, found)
        which = tl.where(places == i, number, which)
        left = tl.where(e == number, -1.0, left)
    known = places < CHOSEN
    found = found / tl.sum(found, axis=0) * tl.load(scale + which, mask=known, other=0.0).to(tl.float32)
    tl.store(weights + row * CHOSEN + places, found, mask=known)
    tl.store(numbers + row * CHOSEN + places, which.to(tl.int64), mask=known)


@triton.jit
def _lay_out(chosen, sources, slots, ends, count, CHOSEN: tl.constexpr, BLOCK: tl.constexpr):
    """The rows of one expert; of the last program those of all that are not here."""
    own, elsewhere, places = tl.program_id(0), tl.num_programs(0) - 1, tl.arange(0, BLOCK)
    before, mine = tl.zeros((BLOCK,), tl.int32), tl.zeros((BLOCK,), tl.int32)
    for start in range(0, count, BLOCK):
        i = start + places
        expert = tl.minimum(tl.load(chosen + i, mask=i < count, other=elsewhere), elsewhere)
        before += (expert < own).to(tl.int32)
        mine += (expert == own).to(tl.int32)
    first = tl.sum(before, axis=0)
    tl.store(ends + own, first + tl.sum(mine, axis=0))
    for start in range(0, count, BLOCK):
        i = start + places
        expert = tl.minimum(tl.load(chosen + i, mask=i < count, other=elsewhere), elsewhere)
        here = (expert == own) & (i < count)
        slot = first + tl.cumsum(here.to(tl.int32), axis=0) - 1
        tl.store(slots + i, slot.to(tl.int64), mask=here)
        tl.store(sources + slot, (i // CHOSEN).to(tl.int64), mask=here)
        first += tl.sum(here.to(tl.int32), axis=0)
