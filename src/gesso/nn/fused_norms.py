"""Decides where kernels compute norms, residual sums and turns of heads: on a GPU, and on a CPU beside weights that
kernels read.

There they take the place of some eighty operations a layer, which cost a token more than what they compute. On a CPU
bits are the same: in which order PyTorch adds squares up is compared once in a process (`agree`). On a GPU they differ
by that order.
"""

import functools

import torch
from torch import Tensor, nn

from gesso import kernels
from gesso.nn import gpu_training
from gesso.nn.mixtures import weighted
from gesso.nn.norm import rms_norm
from gesso.nn.rope import apply_rope
from gesso.nn.training_norms import turn_heads, turns_in_training


def fuses(layer: nn.Module, x_ND: Tensor, *weights: Tensor | None) -> bool:
    """Says whether kernels compute what stands beside `layer`: on a GPU, or beside its own kernel on this CPU."""
    if kernels.serves(x_ND, *weights):
        return True
    on_host = getattr(layer, "on_host", None)
    if on_host is None or not on_host(x_ND):
        return False
    from gesso.kernels.host import normed

    return normed.serves(x_ND, *weights) and agree()


@functools.cache
def agree() -> bool:
    """Says whether the kernels give PyTorch's bits, which a build for another processor may make in another order."""
    from gesso.kernels.host import normed

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(24, 272, generator=generator, dtype=torch.float32, device="cpu")
    weight = torch.rand(272, generator=generator, dtype=torch.float32, device="cpu")
    cos, sin = torch.rand(2, 24, 1, 272, generator=generator, dtype=torch.float32, device="cpu").unbind()
    turn = (cos, sin)
    with torch.inference_mode():
        heads = apply_rope(rms_norm(x[:, None], weight, 1e-6), *turn)
        same = torch.equal(normed.norm(x, weight, 1e-6), rms_norm(x, weight, 1e-6))
        same = same and torch.equal(normed.norm_heads(x[:, None], weight, turn, 1e-6), heads)
        shares = x[:3, :8].contiguous()
        mixed = weighted(x, torch.arange(24, device="cpu").view(3, 8), shares)
        return same and torch.equal(normed.mix_rows(x, shares), mixed)


def mix_neighbours(x_MD: Tensor, weights_Nk: Tensor) -> Tensor:
    """Sums each token's k neighbouring rows times their weights, [N, D], on a CPU where kernels serve products."""
    from gesso.kernels.host import normed

    if normed.serves(x_MD) and weights_Nk.dtype == torch.float32 and weights_Nk.is_contiguous() and agree():
        return normed.mix_rows(x_MD, weights_Nk)
    return weighted(x_MD, torch.arange(len(x_MD), device=x_MD.device).view(weights_Nk.shape), weights_Nk)


def norm(x_ND: Tensor, weight_D: Tensor, eps: float) -> Tensor:
    """Computes RMSNorm of rows, times their weights, [N, D], where kernels serve."""
    if kernels.usable(x_ND.device):
        return rms_norm(x_ND, weight_D, eps)  # PyTorch has that
    from gesso.kernels.host import normed

    return normed.norm(x_ND, weight_D, eps)


def add_norm(
    x_ND: Tensor, branch_ND: Tensor, weight_D: Tensor, weights: tuple[Tensor, Tensor, Tensor], eps: float, factor: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Computes x + norm(branch), and its norms by three weights, the third times `factor`, [N, D] each, where kernels
    serve."""
    if kernels.usable(x_ND.device):
        from gesso.kernels import normed

        return normed.add_norm(x_ND, branch_ND, weight_D, weights, eps, factor)
    from gesso.kernels.host import normed as on_host

    return on_host.add_norm(x_ND, branch_ND, weight_D, weights, eps, factor)


def add_branches(
    x_ND: Tensor, branches: tuple[Tensor, Tensor], weights: tuple[Tensor, Tensor, Tensor], eps: float, factor_1: Tensor
) -> Tensor:
    """Computes (x + norm(norm(one) + norm(other))) * factor, [N, D], where kernels serve; weights are those of one, of
    other, and of the sum."""
    if kernels.usable(x_ND.device):
        from gesso.kernels import normed

        return normed.add_branches(x_ND, branches, weights, eps, factor_1)
    from gesso.kernels.host import normed as on_host

    return on_host.add_branches(x_ND, branches, weights, eps, float(factor_1))


def norm_heads(
    x_NHK: Tensor, weight_K: Tensor | None, turn: tuple[Tensor, Tensor] | None, eps: float, *, fused: bool
) -> Tensor:
    """Norms every head, [N, H, K]; with weights it is turned by cos and sin, too."""
    if fused:
        if kernels.usable(x_NHK.device):
            from gesso.kernels import normed

            return normed.norm_heads(x_NHK, weight_K, turn, eps)
        from gesso.kernels.host import normed as on_host

        return on_host.norm_heads(x_NHK, weight_K, turn, eps)
    if gpu_training.trains_on_gpu(x_NHK, weight_K, *(turn or ())):
        return gpu_training.norm(x_NHK, weight_K, eps, gpu_training.product_dtype(x_NHK), turn)
    if weight_K is not None and turn is not None and turns_in_training(x_NHK, weight_K, *turn):
        return turn_heads(x_NHK, weight_K, *turn, eps)
    out = rms_norm(x_NHK, weight_K, eps)
    return out if turn is None else apply_rope(out, *turn)
