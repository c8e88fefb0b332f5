"""Multiplies few rows by a small fp32 matrix in a kernel, where that gives the bits of the matmul library.

A library that keeps rows apart wants a row filled up to several, and lays the matrix out anew in every call. In blocks
of how many features it adds up is found by comparing, once in a process for each shape of a matrix.
"""

import functools
from array import array

import torch
from torch import Tensor, nn

from gesso.kernels.host.threads import fixed_threads, product_threads
from gesso.nn.linear import Linear, linear
from gesso.nn.row_alignment import cancelling

FEW = 4
"""Rows up to which the kernel is sooner done."""
ALONE = 1 << 18
"""Numbers of a matrix that one thread is done with sooner than one that looks on could help."""
BLOCKS = (1024, 512, 768, 384, 256)
"""Features of a block that are tried, after all at once."""


def multiply_few(layer: nn.Module, x_MD: Tensor) -> Tensor:
    """Applies a linear layer to rows in fp32 on a CPU without gradient, to the bits of the layer itself."""
    if type(layer) is not Linear or layer.bias is not None or x_MD.shape[0] > FEW:
        out: Tensor = layer(x_MD)
        return out
    weight = layer.weight
    block = None
    if weight.is_cpu and weight.dtype == x_MD.dtype == torch.float32 and weight.is_contiguous():
        block = _block(tuple(weight.shape), product_threads())
    return linear(x_MD, weight) if block is None else _multiply(x_MD.contiguous(), weight, block)


def _multiply(x_MD: Tensor, weight: Tensor, block: int) -> Tensor:
    from gesso.kernels.host.library import norms
    from gesso.kernels.host.small_products import SIDE
    from gesso.kernels.host.threads import share_units

    out = torch.empty(x_MD.shape[0], weight.shape[0], dtype=torch.float32, device=x_MD.device)
    words = array("q", (x_MD.data_ptr(), weight.data_ptr(), out.data_ptr(), *out.shape, weight.shape[1], block))
    threads = product_threads() if fixed_threads() and weight.numel() > ALONE else 1
    share_units(norms().small_product, words.buffer_info()[0], weight.shape[0] // SIDE, threads)
    return out


@functools.cache
def _block(shape: tuple[int, int], threads: int) -> int | None:  # noqa: ARG001 - results depend on it
    """Finds the number of features in a block; None where none gives the library's bits."""
    from gesso.kernels.host.small_products import SIDE

    if shape[0] % SIDE or shape[1] % SIDE:
        return None
    weight, rows = cancelling(shape, torch.float32)
    x = rows[:FEW].clone()
    expected = linear(x, weight)
    return next((b for b in (shape[1], *BLOCKS) if torch.equal(_multiply(x, weight, b), expected)), None)
