"""Provides kernels written in Triton for CUDA, each beside the plain computation that it must equal.

Triton comes with PyTorch's CUDA builds and is no dependency: its modules import it, so whoever calls them asks
`usable` first and imports them then.

`vocabulary`, `grouped` (experts), `packed` (weights), `attention` (between two places) and `appending`, `normed` (what
stands between products), `routing`; `trained`, `trained_blocks`, `trained_branches` and `trained_experts` in training;
`placement` says where they are launched. Torch and Triton only. `host/` has those for CPUs.
"""

import functools
from importlib.util import find_spec
from typing import NamedTuple

import torch
from torch import Tensor

BLOCK = 64
"""Tokens of one partial sum; a sample is looked up block by block. Chunks are filled up to whole ones: functions
such as the sigmoid round otherwise at the ends of what a thread gets, which depend on the number of rows."""


class SoftmaxPass(NamedTuple):
    """Holds what one fused online-softmax pass over the tempered logits z of N positions yields, all fp32 but the
    argmax."""

    mass_NB: Tensor
    """Sum of exp(z - maximum) over every block of tokens."""
    maximum_N1: Tensor
    total_N1: Tensor
    """Sum of exp(z - maximum)."""
    weighted_N1: Tensor
    """Sum of (z - maximum) exp(z - maximum)."""
    argmax_N1: Tensor
    """The lowest index of equals, int64."""
    mixed_ND: Tensor
    """Sum of exp(z - maximum) times the table's rows."""


def usable(device: torch.device) -> bool:
    """Says whether kernels run on the device: one of NVIDIA's, as some have lines of PTX in them."""
    return device.type == "cuda" and torch.version.hip is None and _has_triton()


def serves(x: Tensor, *others: Tensor | None) -> bool:
    """Says whether kernels compute with these: where they run, of one type, and without gradient or autocast."""
    if not usable(x.device) or torch.is_grad_enabled() or torch.is_autocast_enabled(x.device.type):
        return False
    return all(other is None or other.dtype == x.dtype for other in others)


@functools.cache
def _has_triton() -> bool:
    return find_spec("triton") is not None
