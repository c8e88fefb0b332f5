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
    weight, block = layer.weight, None
    if x_MD.dtype == torch.float32 and _may_serve(weight):
        block = _block(tuple(weight.shape), product_threads())
    return linear(x_MD, weight) if block is None else _multiply(x_MD.contiguous(), weight, block)


def multiplies_few(layer: nn.Module) -> bool:
    """Says whether the kernel gives the bits of a layer."""
    if type(layer) is not Linear or layer.bias is not None or not _may_serve(layer.weight):
        return False
    return _block(tuple(layer.weight.shape), product_threads()) is not None


def _may_serve(weight: Tensor) -> bool:
    return weight.is_cpu and weight.dtype == torch.float32 and weight.is_contiguous()


def small_job(x_MD: Tensor, weight: Tensor, out: Tensor) -> "tuple[array[int], int, bool]":
    """Returns the words of the kernel by which rows are multiplied by the weight of a layer that `multiplies_few`, how
    many units that has, and whether threads share them."""
    block = _block(tuple(weight.shape), product_threads())
    assert block is not None
    return _job(x_MD, weight, out, block)


def _job(x_MD: Tensor, weight: Tensor, out: Tensor, block: int) -> "tuple[array[int], int, bool]":
    from gesso.kernels.host.small_products import SIDE

    sizes = (x_MD.shape[0], *weight.shape, block)
    words = array("q", (x_MD.data_ptr(), weight.data_ptr(), out.data_ptr(), *sizes))
    return words, weight.shape[0] // SIDE, fixed_threads() and weight.numel() > ALONE


def _multiply(x_MD: Tensor, weight: Tensor, block: int) -> Tensor:
    from gesso.kernels.host.library import norms
    from gesso.kernels.host.threads import share_units

    out = torch.empty(x_MD.shape[0], weight.shape[0], dtype=torch.float32, device=x_MD.device)
    words, units, shared = _job(x_MD, weight, out, block)
    share_units(norms().small_product, words.buffer_info()[0], units, product_threads() if shared else 1)
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
