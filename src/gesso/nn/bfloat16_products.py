"""Computes linear maps of bfloat16 numbers on CPUs by compiled kernels, where the libraries' are slow or let a row's
bits depend on other rows.

Without instructions for bfloat16 PyTorch reaches a fifth of its rate in fp32: kernels widen weights on their way into
the second-level cache (`gesso.kernels.host.bfloat16`). With AMX oneDNN adds up in another order from some number of
rows on, and again from another: kernels multiply in tiles (`gesso.kernels.host.bfloat16_amx`), and are faster where
rows are few, as oneDNN lays a matrix out anew in every call. Both add up in fp32 and round once at the end.
"""

from types import ModuleType

import torch
from torch import Tensor, nn

from gesso.nn.host_kernels import host_kernels
from gesso.nn.matmul_rates import bfloat16_speed


def served(x: Tensor, weight: Tensor) -> bool:
    """Says whether `multiply` is for these: bfloat16 on a CPU for which there is a kernel, no gradient.

    That depends on types, the processor and the weight, never on the number of rows.
    """
    return (
        x.dtype == weight.dtype == torch.bfloat16
        and weight.is_cpu
        and host_kernels(x)
        and type(weight) in (Tensor, nn.Parameter)  # and no other kind, whose numbers may lie elsewhere
        and _kernels(weight) is not None
    )


def _kernels(weight: Tensor) -> ModuleType | None:
    """Returns the module that multiplies by a weight, if one does."""
    from gesso.kernels.host import bfloat16, bfloat16_amx

    if bfloat16_amx.reads(weight):
        return bfloat16_amx
    return bfloat16 if multiplies_in_float32() and bfloat16.reads(weight) else None


def multiplies_in_float32() -> bool:
    """Says whether this CPU's matmuls in bfloat16 are measured to be slower than in fp32, and kernels serve it."""
    from gesso.kernels import host

    if not host.available():
        return False
    from gesso.kernels.host.bfloat16 import serves_processor

    return serves_processor() and bfloat16_speed() < 1


def multiply(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Computes x @ weight.T + bias, [..., K] -> [..., N]; a row's bits do not depend on other rows."""
    kernels = _kernels(weight)
    assert kernels is not None
    out: Tensor = kernels.matmul(x.reshape(-1, x.shape[-1]), weight, bias)
    return out.view(*x.shape[:-1], weight.shape[0])


def multiply_groups(x_MK: Tensor, ends_E: Tensor, weight_ENK: Tensor) -> Tensor:
    """Multiplies rows that are sorted by group by the transposed matrices of their groups, [M, N].

    Args:
        ends_E: where each group's rows end.
    """
    kernels = _kernels(weight_ENK)
    assert kernels is not None
    out: Tensor = kernels.matmul(x_MK, weight_ENK, ends_E=ends_E.tolist())
    return out
