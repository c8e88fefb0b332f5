"""Computes linear maps by small fp32 weights on CPUs in compiled kernels, which take rows as they are.

A matmul library keeps a row's bits only where few rows are filled up to several, lays the matrix out anew in every
call, and wakes threads for what one is sooner done with: beside a small matrix that takes longer than the products. Of
larger ones, and of many rows, it is the faster.

    M rows   N rows of a matrix, what comes out   K features
"""

import functools
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gesso.nn.host_kernels import host_kernels

LARGEST = 1 << 19
"""Numbers of the largest matrix that kernels multiply by."""
NAME = "fp32"
"""The name of these weights in `kernels.host.packed`."""


def served(x: Tensor, weight: Tensor) -> bool:
    """Says whether kernels multiply rows by a weight, [N, K], or by several, [E, N, K].

    That depends on types, the processor and the weight, never on the number of rows.
    """
    return x.dtype == weight.dtype == torch.float32 and host_kernels(x) and reads(weight)


def reads(weight: Tensor) -> bool:
    """Says whether there is a kernel for a weight; asked where kernels are available."""
    return (
        weight.dtype == torch.float32
        and type(weight) in (Tensor, nn.Parameter)  # and no other kind, whose numbers may lie elsewhere
        and weight.is_cpu
        and weight.is_contiguous()
        and _fits(weight.shape)
    )


@functools.lru_cache(1024)
def _fits(shape: tuple[int, ...]) -> bool:
    from gesso.kernels.host.packed import layout_of

    rows, width = shape[-2:]
    return rows * width <= LARGEST and layout_of(NAME, 4 * width, 0) is not None


def multiply(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Computes x @ weight.T + bias, [..., K] -> [..., N]; a row's bits do not depend on other rows."""
    from gesso.kernels.host import packed

    flat = x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
    out = packed.matmul(flat, NAME, (weight,))
    if bias is not None:
        out += bias
    return out if x.dim() == 2 else out.view(*x.shape[:-1], weight.shape[0])


def multiply_several(x_MK: Tensor, weights: Sequence[Tensor]) -> list[Tensor]:
    """Multiplies rows by several weights [N, K] in one call, [M, N] each."""
    from gesso.kernels.host import packed

    return packed.matmul_several(x_MK, NAME, [(weight,) for weight in weights])
