"""Computes a block's parts for training under autocast on a CPU, in bfloat16 all that products read and make.

So nothing is converted between a product and the kernel beside it, and layers that read the same rows are one product.
Kernels compute in fp32 and round once; the residual sum, whose norms they take, stays fp32.

    N rows   D hidden   H query heads   G key heads   K features of a head   F all features that a product makes
"""

from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gesso.nn.attention import Attention
from gesso.nn.compiled_training import differentiate_plainly, narrows, serves
from gesso.nn.experts import Experts
from gesso.nn.gated_gelu import gated_gelu_of_halves
from gesso.nn.linear import Linear
from gesso.nn.mlp import MLP
from gesso.nn.norm import autocast_dtype, rms_norm
from gesso.nn.rope import apply_rope

Turn = tuple[Tensor, Tensor]
"""The cosines and sines of positions, [N, 1, K]."""


def trains_narrow(attention: Attention, mlp: MLP, experts: nn.Module, x_ND: Tensor, rope: Turn) -> bool:
    """Says whether a block of these layers is computed here: none of them has a bias or an adapter, or is observed."""
    layers = (attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj)
    return (
        narrows(x_ND)
        and autocast_dtype("cpu") == torch.bfloat16
        and attention.head_dim % 32 == 0
        and all(layer is None or _is_plain(layer) for layer in (*layers, mlp.gate_proj, mlp.up_proj, mlp.down_proj))
        and type(experts) is Experts
        and not any(_observed(module) for module in (attention, attention.q_norm, attention.k_norm, mlp, experts))
        and len(rope[0]) == len(x_ND)
        and serves(x_ND, attention.q_norm.weight, attention.k_norm.weight, *rope)
        and not any(angles.requires_grad for angles in rope)
    )


def _is_plain(layer: nn.Module) -> bool:
    if type(layer) is not Linear or layer.bias is not None or _observed(layer):
        return False
    return type(layer.weight) in (Tensor, nn.Parameter) and layer.weight.dtype == torch.float32


def _observed(module: nn.Module) -> bool:
    hooks = module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks
    return any(hooks)


def narrow_norm(x_ND: Tensor, weight_D: Tensor, eps: float) -> Tensor:
    """Computes RMSNorm of rows in fp32, rounded to bfloat16, [N, D]."""
    out: Tensor = _Norm.apply(x_ND, weight_D, eps)  # type: ignore[no-untyped-call]
    return out


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        from gesso.kernels.host import trained

        out, inverses = trained.norm(x, weight, eps, torch.bfloat16)
        ctx.eps = eps
        ctx.save_for_backward(x, weight, inverses)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, inverses = ctx.saved_tensors
        if torch.is_grad_enabled():
            return *differentiate_plainly(partial(rms_norm, eps=ctx.eps), (x, weight), grads), None
        from gesso.kernels.host import trained

        return *trained.norm_back(grads[0].contiguous(), x, weight, inverses), None


def narrow_heads(attention: Attention, x_ND: Tensor, rope: Turn) -> tuple[Tensor, Tensor, Tensor]:
    """Projects, norms and turns rows in bfloat16 as `Attention` does; q [N, H, K], k and v [N, G, K]."""
    layers = [layer for layer in (attention.q_proj, attention.k_proj, attention.v_proj) if layer is not None]
    made_NF = _multiply_together(x_ND, *(layer.weight for layer in layers))
    heads = [layer.out_features // attention.head_dim for layer in layers]
    weights = attention.q_norm.weight, attention.k_norm.weight
    found: tuple[Tensor, Tensor, Tensor] = _Heads.apply(  # type: ignore[no-untyped-call]
        made_NF, *weights, *rope, heads, attention.eps
    )
    return found


def narrow_mlp(mlp: MLP, x_ND: Tensor) -> Tensor:
    """Computes `MLP` of rows in bfloat16, [N, D]."""
    made_NF = _multiply_together(x_ND, mlp.gate_proj.weight, mlp.up_proj.weight)
    return F.linear(gated_gelu_of_halves(made_NF), mlp.down_proj.weight)


def _multiply_together(x_ND: Tensor, *weights_FD: Tensor) -> Tensor:
    """Multiplies rows by several matrices at once, [N, F]: they are read once, and so is what comes back."""
    return F.linear(x_ND, torch.cat(weights_FD))


def _split(made_NF: Tensor, heads: list[int]) -> list[Tensor]:
    """Splits what was projected into q, k and v, [N, heads, K] each; v is k where it has no projection."""
    ends = [sum(heads[:count]) for count in range(len(heads) + 1)]
    rows = made_NF.unflatten(1, (ends[-1], -1))
    found = [rows[:, begin:end] for begin, end in pairwise(ends)]
    return found if len(found) == 3 else [*found, found[-1]]


class _Heads(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, made: Tensor, *inputs: Any) -> tuple[Tensor, ...]:
        from gesso.kernels.host import trained

        of_q, of_k, cos, sin, heads, eps = inputs
        q, k, v = _split(made, heads)
        turned_q, inverses_q = trained.heads(q, of_q, cos, sin, eps)
        turned_k, inverses_k = trained.heads(k, of_k, cos, sin, eps)
        normed_v, inverses_v = trained.values(v, eps)
        ctx.heads, ctx.eps = heads, eps
        ctx.save_for_backward(made, of_q, of_k, cos, sin, inverses_q, inverses_k, inverses_v)
        return turned_q, turned_k, normed_v

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        made, of_q, of_k, cos, sin, *inverses = ctx.saved_tensors
        if torch.is_grad_enabled():
            plain = partial(_plain_heads, cos=cos, sin=sin, heads=ctx.heads, eps=ctx.eps)
            return *differentiate_plainly(plain, (made, of_q, of_k), grads), None, None, None, None
        from gesso.kernels.host import trained

        to_made = torch.empty_like(made)
        (q, k, v), (to_q, to_k, to_v) = _split(made, ctx.heads), _split(to_made, ctx.heads)
        above = [grad.contiguous() for grad in grads]
        _, to_of_q = trained.heads_back(above[0], q, of_q, cos, sin, inverses[0], to_q)
        _, to_of_k = trained.heads_back(above[1], k, of_k, cos, sin, inverses[1], to_k)
        trained.values_back(above[2], v, inverses[2], to_v, added=len(ctx.heads) == 2)
        return to_made, to_of_q, to_of_k, None, None, None, None


def _plain_heads(
    made: Tensor, of_q: Tensor, of_k: Tensor, *, cos: Tensor, sin: Tensor, heads: list[int], eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (x.float() for x in _split(made, heads))
    q, k = (apply_rope(rms_norm(x, weight, eps), cos, sin) for x, weight in ((q, of_q), (k, of_k)))
    return q, k, rms_norm(v, None, eps)
