"""Computes gelu(gate) * up, what stands between the products of a gated feed-forward (arXiv 2002.05202).

In training on a CPU a compiled kernel does it in one pass over memory each way; kept are gate and up alone. Without a
gradient one kernel does it on a GPU, and beside packed weights on a CPU.

    N rows   F features
"""

from typing import Any

import torch
from torch import Tensor

from gesso import kernels
from gesso.nn import gpu_training
from gesso.nn.compiled_training import differentiate_plainly, serves, serves_narrow
from gesso.nn.elementwise import gelu
from gesso.nn.pass_threads import in_host_pass


def gated_gelu(gate_NF: Tensor, up_NF: Tensor) -> Tensor:
    """Computes gelu(gate) * up, [N, F], by GELU's tanh approximation."""
    if gate_NF.shape == up_NF.shape and serves(gate_NF, up_NF):
        out: Tensor = _Gated.apply(gate_NF, up_NF)  # type: ignore[no-untyped-call]
        return out
    if gate_NF.shape == up_NF.shape and gate_NF.dim() == 2 and gpu_training.trains_on_gpu(gate_NF, up_NF):
        return gpu_training.gated_gelu(gate_NF, up_NF)
    if kernels.serves(gate_NF, up_NF) and gate_NF.dim() == 2 and gate_NF.stride(1) == up_NF.stride(1) == 1:
        from gesso.kernels import normed

        return normed.gate(gate_NF, up_NF)
    if in_host_pass():
        from gesso.kernels.host import normed as on_host

        if on_host.gates(gate_NF, up_NF):
            return on_host.gated(gate_NF, up_NF)
    return _plain(gate_NF, up_NF)


def gated_gelu_of_halves(gate_up: Tensor) -> Tensor:
    """Computes `gated_gelu` of the halves of rows, [N, 2F] -> [N, F]."""
    if gate_up.shape[-1] % 32 == 0 and (serves(gate_up) or serves_narrow(gate_up)):
        out: Tensor = _GatedHalves.apply(gate_up)  # type: ignore[no-untyped-call]
        return out
    if gate_up.dim() == 2 and gpu_training.trains_on_gpu(gate_up):
        return gpu_training.gated_gelu_of_halves(gate_up)
    return _plain_halves(gate_up)


def _plain(gate_NF: Tensor, up_NF: Tensor) -> Tensor:
    return gelu(gate_NF) * up_NF


def _plain_halves(gate_up: Tensor) -> Tensor:
    return _plain(*gate_up.chunk(2, dim=-1))


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        from gesso.kernels.host import trained

        ctx.save_for_backward(gate, up)
        return trained.gated(_rows(gate), _rows(up)).view(gate.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        gate, up = ctx.saved_tensors
        if torch.is_grad_enabled():
            return tuple(differentiate_plainly(_plain, (gate, up), grads))
        from gesso.kernels.host import trained

        of_gate, of_up = torch.empty_like(gate), torch.empty_like(up)
        trained.gated_back(*(_rows(held) for held in (grads[0].contiguous(), gate, up, of_gate, of_up)))
        return of_gate, of_up


class _GatedHalves(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate_up: Tensor) -> Tensor:
        from gesso.kernels.host import trained

        ctx.save_for_backward(gate_up)
        out = trained.gated(*_rows(gate_up).chunk(2, dim=-1))
        return out.view(*gate_up.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor | None:
        (gate_up,) = ctx.saved_tensors
        if torch.is_grad_enabled():
            return differentiate_plainly(_plain_halves, (gate_up,), grads)[0]
        from gesso.kernels.host import trained

        change = torch.empty_like(gate_up)
        gate, up = _rows(gate_up).chunk(2, dim=-1)
        trained.gated_back(_rows(grads[0].contiguous()), gate, up, *_rows(change).chunk(2, dim=-1))
        return change


def _rows(x: Tensor) -> Tensor:
    return x.view(-1, x.shape[-1])
