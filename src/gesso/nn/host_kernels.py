"""Says where kernels of our own may compute on a CPU."""

from typing import Protocol, cast

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from gesso.kernels import host
from gesso.nn.pass_threads import in_few_rows


def host_kernels(x: Tensor) -> bool:
    """Says whether compiled kernels may compute with `x` on the CPU at all: without a gradient, autocast or a trace."""
    if in_few_rows():  # which begins with the same question
        return x.is_cpu
    return (
        x.is_cpu
        and not torch.is_grad_enabled()
        and host.available()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and not is_in_torch_dispatch_mode()  # a pass that is traced: there are no numbers
    )


class _Read(Protocol):
    packed: tuple[Tensor, ...]

    def read_by_kernels(self) -> bool: ...


def keeps_rows_apart(block: nn.Module) -> bool:
    """Says whether a layer's matmuls are kernels whose rows depend on nothing beside them: rows need no alignment.

    What else a layer does to rows keeps them apart at any number, and other matmuls align their own.
    """
    first = next((module for module in block.modules() if hasattr(module, "read_by_kernels")), None)
    if first is None:
        return False
    layer = cast("_Read", first)
    return host_kernels(layer.packed[0]) and layer.read_by_kernels()
