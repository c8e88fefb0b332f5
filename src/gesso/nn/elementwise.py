"""Computes elementwise functions whose rounding does not depend on how many rows stand beside a row.

PyTorch gives each thread of a CPU an equal share of a tensor's numbers. Some of its functions (GELU, the sigmoid) are
computed by vectors, and by another formula for what is left over at the end of a share or, in a tensor with gaps, of a
row. Where shares end inside a row, which they do with three, five or six threads, a row's last bits depend on where it
stands. Here rows are cut into calls whose shares are whole rows, and rows whose length is no multiple of a vector are
laid out with a gap.
"""

import functools

import torch
from torch import Tensor
from torch.nn import functional as F

LOWEST = -1e30
"""Exponent of what weighs exactly nothing; finite, so that nothing becomes of its product with that."""
_FAINT, _FAINTEST = -69.0, 1e-30
"""An exponent and its power of e, which beside a 1 is nothing in fp32."""
_SHARE = 1 << 15
"""Numbers that a thread gets at least: PyTorch's `GRAIN_SIZE`."""
_GELU_ALONE = 1 << 14
"""Numbers that GELU gives to one thread; from there on every thread gets as many."""
_VECTOR = 64
"""Numbers that a vectorised loop takes at a time, at most: two vectors of 32 bfloat16 numbers."""


def gelu(x_ND: Tensor) -> Tensor:
    """Computes GELU in its tanh approximation, [N, D]."""
    if x_ND.device.type != "cpu" or torch.is_grad_enabled() or not x_ND.numel():
        return F.gelu(x_ND, approximate="tanh")
    if (gap := -x_ND.shape[-1] % _VECTOR) and x_ND.is_contiguous():
        x_ND = F.pad(x_ND, (0, gap))[..., : x_ND.shape[-1]]
    if x_ND.numel() <= _GELU_ALONE:
        return F.gelu(x_ND, approximate="tanh")
    pieces = _pieces(*x_ND.shape, torch.get_num_threads(), gelu_shares=True)
    if len(pieces) == 1:
        return F.gelu(x_ND, approximate="tanh")
    return torch.cat([F.gelu(part, approximate="tanh") for part in x_ND.split(pieces)])


def silu(x_ND: Tensor) -> Tensor:
    """Computes x * sigmoid(x), [N, D]."""
    if x_ND.device.type != "cpu" or torch.is_grad_enabled() or not x_ND.numel():
        return F.silu(x_ND)
    if gap := -x_ND.shape[-1] % _VECTOR:
        return silu(F.pad(x_ND, (0, gap)))[..., : x_ND.shape[-1]]
    return sigmoid_(x_ND.clone()).mul_(x_ND)


def sigmoid_(x_ND: Tensor) -> Tensor:
    """Computes the sigmoid in place, [N, D] with D a multiple of 64."""
    if x_ND.device.type != "cpu" or x_ND.dim() != 2 or not x_ND.numel():
        return x_ND.sigmoid_()
    pieces = _pieces(*x_ND.shape, torch.get_num_threads(), gelu_shares=False)
    if len(pieces) == 1:
        return x_ND.sigmoid_()
    for part in x_ND.split(pieces):
        part.sigmoid_()
    return x_ND


def drop_faint_(exponents: Tensor) -> Tensor:
    """Makes `LOWEST` of exponents below -69, in place: their powers of e are to be added up with a 1.

    From -87 on these are denormal numbers, and a product or a sum with one takes an x86 processor a hundred times as
    long. At low temperatures most of a trained model's vocabulary is there.
    """
    return torch.threshold_(exponents, _FAINT, LOWEST) if exponents.device.type == "cpu" else exponents


def softmax(logits: Tensor) -> Tensor:
    """Computes softmax over the last dimension in fp32; on a CPU what is below 1e-30 is zero, as in `drop_faint_`."""
    shares = logits.softmax(dim=-1, dtype=torch.float32)
    return F.threshold(shares, _FAINTEST, 0.0, inplace=not shares.requires_grad) if shares.is_cpu else shares


@functools.lru_cache(maxsize=4096)
def _pieces(rows: int, width: int, threads: int, *, gelu_shares: bool) -> list[int]:
    """Returns the rows of every call, so that each thread's share is whole rows (or one row alone is shared)."""

    def shares(count: int) -> int:
        numbers = count * width
        if gelu_shares:
            return threads if numbers > _GELU_ALONE else 1
        return max(1, min(threads, -(-numbers // _SHARE)))

    pieces = []
    while rows:
        piece = next(
            (
                count
                for used in range(threads, 0, -1)
                for count in range(rows // used * used, max(0, rows // used * used - 64 * used), -used)
                if shares(count) == used
            ),
            1,
        )
        pieces.append(piece)
        rows -= piece
    return pieces
