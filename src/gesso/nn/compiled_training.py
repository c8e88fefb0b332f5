"""Decides where compiled kernels (`kernels.host.trained`) compute what stands between a training step's products.

They serve fp32 on a CPU, where elementwise work by array operations is bound by memory and nearly half of a step.
Everywhere else, and where a pass is traced or watched rather than computed, array operations stay.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from gesso.kernels import host

LEAST = 1 << 16
"""Numbers of a tensor from which on kernels serve: fewer stay in a near cache between array operations, and nothing
need be compiled for them."""
_PLAIN = (Tensor, nn.Parameter)
"""Not a subclass: what is shared out over processes, or has no numbers, is no memory to read."""


_ALSO_WITHOUT_GRADIENT = ContextVar("also_without_gradient", default=False)


@contextmanager
def also_without_gradient() -> Iterator[None]:
    """Lets kernels serve passes without gradients, too: those of training, whose bits need not be inference's."""
    before = _ALSO_WITHOUT_GRADIENT.set(True)
    try:
        yield
    finally:
        _ALSO_WITHOUT_GRADIENT.reset(before)


def serves(x: Tensor, *others: Tensor | None) -> bool:
    """Says whether kernels take these tensors in a pass of training; `x` is the rows that there is work for."""
    if not _learns() or not takes(x, *others):
        return False
    from gesso.kernels.host import trained

    return trained.serves(x, *others)


def takes(x: Tensor, *others: Tensor | None) -> bool:
    """Says whether kernels may read these tensors, with gradients or without: enough numbers on a CPU, in fp32 all but
    `x`, which may be bfloat16."""
    if x.numel() < LEAST or not _computes() or not host.available():
        return False
    return x.dtype in (torch.float32, torch.bfloat16) and all(
        tensor is None or (type(tensor) in _PLAIN and tensor.is_cpu and (tensor is x or tensor.dtype == torch.float32))
        for tensor in (x, *others)
    )


def serves_narrow(x: Tensor) -> bool:
    """Says whether kernels take these rows in bfloat16 in a pass of training."""
    return (
        _learns()
        and x.dtype == torch.bfloat16
        and type(x) in _PLAIN
        and x.is_contiguous()
        and x.shape[-1] % 16 == 0
        and takes(x)
    )


def copies(x: Tensor) -> bool:
    """Says whether kernels move these rows in a pass of training: enough numbers, in parts of 64 bytes."""
    return _learns() and type(x) in _PLAIN and takes(x) and x.is_contiguous() and x.shape[-1] * x.itemsize % 64 == 0


def in_training() -> bool:
    """Says whether this is a pass of training that computes numbers."""
    return _learns() and _computes()


def _learns() -> bool:
    return torch.is_grad_enabled() or _ALSO_WITHOUT_GRADIENT.get()


def _computes() -> bool:
    """Says whether this pass computes numbers: it is not traced."""
    return not (
        torch.compiler.is_compiling()
        or is_in_torch_dispatch_mode()
        or torch._C._functorch.maybe_current_level() is not None
    )


def narrows(x: Tensor) -> bool:
    """Says whether this pass multiplies in bfloat16 what kernels take and leave in fp32: one of training on a CPU under
    autocast."""
    return x.is_cpu and torch.is_autocast_enabled("cpu") and in_training() and host.available()


def differentiate_plainly(
    function: Callable[..., Any], inputs: Sequence[Tensor | None], grads: Sequence[Tensor]
) -> list[Tensor | None]:
    """Returns gradients that can be differentiated once more, by array operations: kernels' own cannot.

    Args:
        function: computes what a kernel did, of `inputs`, by array operations.
        grads: of its results.
    """
    # By other names: one input may come of another, whose gradient through it is not this function's to find.
    inputs = [None if tensor is None else tensor.view_as(tensor) for tensor in inputs]
    outputs = function(*inputs)
    wanted = [tensor for tensor in inputs if tensor is not None and tensor.requires_grad]
    found = iter(torch.autograd.grad(outputs, wanted, grads, create_graph=True, allow_unused=True))
    return [next(found) if tensor is not None and tensor.requires_grad else None for tensor in inputs]
