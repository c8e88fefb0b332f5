"""Implements Gemma 4's grouped-query attention: normed q, k and v, no 1/sqrt(d), no soft-cap.

The layer projects, norms and turns; *what a query may see* is not its business: it hands q, k and v
to an `Attend` that its caller chose (cached causal, canvas over cache, or the training masks).
"""

from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gesso.config import LayerConfig
from gesso.kernels import usable
from gesso.nn.fused_norms import fuses, norm_heads
from gesso.nn.linear import Linear, apply_together
from gesso.nn.norm import RMSNorm
from gesso.nn.pass_threads import all_threads, in_host_pass

MANY_KEYS = 1 << 22
"""Numbers of a row's keys from which on all threads attend, even in a pass of few rows."""

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(q [N, H, K], k [N, G, K], v [N, G, K]) -> [N, H, K]."""


class Attention(nn.Module):
    """Projects, norms and turns q, k and v of one layer. A full layer has no `v_proj`: V is the K projection before
    norm and RoPE."""

    def __init__(self, hidden_size: int, num_heads: int, layer: LayerConfig, bias: bool, eps: float) -> None:
        super().__init__()
        self.head_dim = layer.head_dim
        self.eps = eps
        kv_size = layer.num_key_value_heads * layer.head_dim
        self.q_proj = Linear(hidden_size, num_heads * layer.head_dim, bias=bias)
        self.k_proj = Linear(hidden_size, kv_size, bias=bias)
        self.v_proj = Linear(hidden_size, kv_size, bias=bias) if layer.is_sliding else None
        self.o_proj = Linear(num_heads * layer.head_dim, hidden_size, bias=bias)
        self.q_norm = RMSNorm(layer.head_dim, eps)
        self.k_norm = RMSNorm(layer.head_dim, eps)

    def forward(self, x_ND: Tensor, rope: tuple[Tensor, Tensor], attend: Attend) -> Tensor:
        """Returns attention's output, [N, D], over what `attend` lets each query see."""
        heads = (x_ND.shape[0], -1, self.head_dim)
        layers = (self.q_proj, self.k_proj) if self.v_proj is None else (self.q_proj, self.k_proj, self.v_proj)
        q_NHK, k_NGK, *own = (out.view(heads) for out in apply_together(x_ND, *layers))
        v_NGK = own[0] if own else k_NGK
        of_q, of_k = self.q_norm.weight, self.k_norm.weight
        fused = fuses(self.q_proj, x_ND, of_q, of_k, *rope)
        q_NHK = norm_heads(q_NHK, of_q, rope, self.eps, fused=fused)
        k_turned_NGK = norm_heads(k_NGK, of_k, rope, self.eps, fused=fused)
        out_NHK = attend(q_NHK, k_turned_NGK, norm_heads(v_NGK, None, None, self.eps, fused=fused))
        out: Tensor = self.o_proj(out_NHK.reshape(x_ND.shape[0], -1))
        return out


def attend_all(q_THK: Tensor, k_GSK: Tensor, v_GSK: Tensor, mask_1S: Tensor | None = None) -> Tensor:
    """Attends from every query to every key, or to those of a mask, [T, H, K]: no head is repeated.

    The query heads that share a key head become further queries of it.
    """
    tokens, num_heads, head_dim = q_THK.shape
    groups = k_GSK.shape[0]
    if tokens == 1 and mask_1S is None and in_host_pass():
        from gesso.kernels.host import normed

        if normed.attends(q_THK[0], k_GSK, v_GSK):
            return normed.attend(q_THK[0], k_GSK, v_GSK)[None]
    if tokens == 1:  # heads lie as they should already
        q = q_THK.reshape(1, groups, -1, head_dim)
    else:
        q = q_THK.view(tokens, groups, -1, head_dim).permute(1, 2, 0, 3).reshape(1, groups, -1, head_dim)
    with all_threads() if k_GSK.numel() > MANY_KEYS else nullcontext():
        out = F.scaled_dot_product_attention(q, k_GSK[None], v_GSK[None], attn_mask=mask_1S, scale=1.0)
    if tokens == 1:
        return out.reshape(q_THK.shape)
    return out.view(groups, -1, tokens, head_dim).permute(2, 0, 1, 3).reshape(tokens, num_heads, head_dim)


def attend_causal(q_THK: Tensor, k_GSK: Tensor, v_GSK: Tensor, window: int | None) -> Tensor:
    """Attends causally, [T, H, K]: the T queries are the last T of S positions; each sees itself and what came before.

    Args:
        window: positions a query sees at most, itself included; None sees all.
    """
    tokens, num_heads, _ = q_THK.shape
    groups, keys, _ = k_GSK.shape
    narrow = window is not None and keys > window
    if tokens == 1 and not narrow:
        return attend_all(q_THK, k_GSK, v_GSK)
    if usable(q_THK.device) and not torch.is_grad_enabled():
        from gesso.kernels.attention import attend_between

        ends_2 = torch.tensor([0, keys], device=q_THK.device)
        return attend_between(q_THK, k_GSK, v_GSK, ends_2, causal=True, window=window)
    mask = None
    if tokens != keys or narrow:
        query = torch.arange(keys - tokens, keys, device=q_THK.device)[:, None]
        key = torch.arange(keys, device=q_THK.device)
        mask = key <= query
        if window is not None:
            mask &= key > query - window
    repeat = num_heads // groups
    q = q_THK.transpose(0, 1)[None]
    if q.is_cpu and not torch.is_grad_enabled():
        # A key head at a time, which its query heads share as it is: with many keys copies would be most of a pass's
        # memory. Heads do not know of each other, so this changes no bit.
        shared = (1, repeat, keys, -1)
        with all_threads() if k_GSK.numel() > MANY_KEYS else nullcontext():
            heads = [
                F.scaled_dot_product_attention(
                    own, k.expand(shared), v.expand(shared), attn_mask=mask, is_causal=mask is None, scale=1.0
                )
                for own, k, v in zip(q.split(repeat, dim=1), k_GSK, v_GSK, strict=True)
            ]
        return torch.cat(heads, dim=1)[0].transpose(0, 1)
    k = k_GSK[:, None].expand(-1, repeat, -1, -1).reshape(1, num_heads, keys, -1)
    v = v_GSK[:, None].expand(-1, repeat, -1, -1).reshape(1, num_heads, keys, -1)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None, scale=1.0)
    return out[0].transpose(0, 1)
