"""Computes linear maps of bfloat16 numbers in fp32, on CPUs whose matmuls in bfloat16 are slower than in fp32.

Without instructions for bfloat16 PyTorch reaches a fifth of its rate in fp32. Compiled kernels widen weights
on their way into the second-level cache (`gesso.kernels.host.bfloat16`), add up in fp32 and round once at the end.
"""

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from gesso.nn.matmul_rates import bfloat16_speed


def widens(x: Tensor, weight: Tensor) -> bool:
    """Says whether `multiply_widened` is for these: bfloat16 on a CPU without instructions for it, no gradient.

    That depends on types, the processor and the weight, never on the number of rows.
    """
    if not (
        x.dtype == weight.dtype == torch.bfloat16
        and x.is_cpu
        and weight.is_cpu
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and not is_in_torch_dispatch_mode()  # a pass that is traced: there are no numbers
        and type(weight) in (Tensor, nn.Parameter)  # and no other kind, whose numbers may lie elsewhere
    ):
        return False
    if not multiplies_in_float32():
        return False
    from gesso.kernels.host.bfloat16 import reads

    return reads(weight)


def multiplies_in_float32() -> bool:
    """Says whether this CPU's matmuls in bfloat16 are measured to be slower than in fp32, and kernels serve it."""
    from gesso.kernels import host

    if not host.available():
        return False
    from gesso.kernels.host.bfloat16 import serves_processor

    return serves_processor() and bfloat16_speed() < 1


def multiply_widened(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Computes x @ weight.T + bias, [..., K] -> [..., N]; a row's bits do not depend on other rows."""
    from gesso.kernels.host.bfloat16 import matmul

    return matmul(x.reshape(-1, x.shape[-1]), weight, bias).view(*x.shape[:-1], weight.shape[0])


def multiply_widened_groups(x_MK: Tensor, ends_E: Tensor, weight_ENK: Tensor) -> Tensor:
    """Multiplies rows that are sorted by group by the transposed matrices of their groups, [M, N].

    Args:
        ends_E: where each group's rows end.
    """
    from gesso.kernels.host.bfloat16 import matmul

    return matmul(x_MK, weight_ENK, ends_E=ends_E.tolist())
