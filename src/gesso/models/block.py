"""Defines a layer of DiffusionGemma: attention, then the dense MLP and the experts side by side, each between norms.

N = all rows laid flat   D hidden
"""

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gesso.config import LayerConfig, ModelConfig
from gesso.nn import fused_norms, gpu_blocks
from gesso.nn.attention import Attend, Attention
from gesso.nn.compiled_training import serves
from gesso.nn.experts import Experts, Router
from gesso.nn.mlp import MLP
from gesso.nn.narrow_training import narrow_heads, narrow_mlp, narrow_norm, trains_narrow
from gesso.nn.norm import RMSNorm
from gesso.nn.separate_lora import PassSide
from gesso.nn.training_norms import add_attended, add_branches

_NORMS = (
    "input_norm", "post_attention_norm", "pre_mlp_norm", "pre_experts_norm", "post_mlp_norm", "post_experts_norm",
    "post_norm",
)  # fmt: skip
"""Norms in the order in which a pass comes to them, but for those that share a kernel."""


class Block(nn.Module):
    """Applies attention, then the dense MLP and the experts side by side, each between norms of its own."""

    encoder_scalar: Tensor
    decoder_scalar: Tensor

    def __init__(self, config: ModelConfig, layer: LayerConfig) -> None:
        super().__init__()
        size, eps = config.hidden_size, config.rms_norm_eps
        self.attention = Attention(size, config.num_attention_heads, layer, config.attention_bias, eps)
        self.mlp = MLP(size, config.intermediate_size)
        self.router = Router(size, config.num_experts, config.top_k_experts, eps)
        self.experts = Experts(size, config.moe_intermediate_size, config.num_experts)
        self.input_norm = RMSNorm(size, eps)
        self.post_attention_norm = RMSNorm(size, eps)
        self.pre_mlp_norm = RMSNorm(size, eps)
        self.post_mlp_norm = RMSNorm(size, eps)
        self.pre_experts_norm = RMSNorm(size, eps)
        self.post_experts_norm = RMSNorm(size, eps)
        self.post_norm = RMSNorm(size, eps)
        self.mix: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None
        """Computes the mixture in the place of `experts`, where these lie over several processes."""
        self.side = PassSide()
        """Whose pass is under way; for adapters with a delta for each."""
        self.register_buffer("encoder_scalar", torch.ones(1))
        self.register_buffer("decoder_scalar", torch.ones(1))

    def forward(self, x_ND: Tensor, rope: tuple[Tensor, Tensor], attend: Attend, scalar: Tensor) -> Tensor:
        if self._fuses(x_ND):
            return self._forward_fused(x_ND, rope, attend, scalar)
        if self._trains_compiled(x_ND, scalar):
            if trains_narrow(self.attention, self.mlp, self.experts, x_ND, rope) and self.mix is None:
                return self._forward_narrow(x_ND, rope, attend, scalar)
            return self._forward_training(x_ND, rope, attend, scalar)
        x_ND = x_ND + self.post_attention_norm(self.attention(self.input_norm(x_ND), rope, attend))
        dense = self.post_mlp_norm(self.mlp(self.pre_mlp_norm(x_ND)))
        weights, experts = self.router(x_ND)
        mix = self.experts if self.mix is None else self.mix
        routed = self.post_experts_norm(mix(self.pre_experts_norm(x_ND), weights, experts))
        out: Tensor = (x_ND + self.post_norm(dense + routed)) * scalar
        return out

    def _fuses(self, x_ND: Tensor) -> bool:
        """Says whether kernels compute what stands between products; a norm that somebody observes is called itself."""
        return not self._observed() and fused_norms.fuses(self.mlp.down_proj, x_ND, *self._scales())

    def _trains_compiled(self, x_ND: Tensor, scalar: Tensor) -> bool:
        """Says whether kernels compute the same with gradients."""
        if self._observed() or scalar.requires_grad:
            return False
        scales = self._scales()
        return serves(x_ND, *scales) or gpu_blocks.serves(x_ND, scalar, *scales)

    def _observed(self) -> bool:
        """Says whether somebody observes a norm or the router."""
        return any(
            module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
            for module in (*self.norms(), self.router)
        )

    def _scales(self) -> tuple[Tensor | None, ...]:
        return self.router.scale, *(norm.weight for norm in self.norms())

    def _forward_fused(self, x_ND: Tensor, rope: tuple[Tensor, Tensor], attend: Attend, scalar: Tensor) -> Tensor:
        """Computes `forward` with the norms of a row in one kernel; on a CPU to the same bits."""
        eps, router = self.input_norm.eps, self.router
        weights_D = [cast("Tensor", norm.weight) for norm in self.norms()]
        before, after, to_mlp, to_experts, of_mlp, of_experts, last = weights_D
        attended = self.attention(fused_norms.norm(x_ND, before, eps), rope, attend)
        weights_of = (to_mlp, to_experts, router.scale)
        x_ND, for_mlp, for_experts, for_router = fused_norms.add_norm(
            x_ND, attended, after, weights_of, eps, router.root
        )
        dense = self.mlp(for_mlp)
        weights, experts = router.choose(router.proj(for_router))
        routed = (self.experts if self.mix is None else self.mix)(for_experts, weights, experts)
        return fused_norms.add_branches(x_ND, (dense, routed), (of_mlp, of_experts, last), eps, scalar)

    def _forward_training(self, x_ND: Tensor, rope: tuple[Tensor, Tensor], attend: Attend, scalar: Tensor) -> Tensor:
        """Computes `forward` with gradients, up to rounding, with the norms of a row in one kernel each way."""
        eps, router = self.input_norm.eps, self.router
        _, after, to_mlp, to_experts, of_mlp, of_experts, last = (cast("Tensor", n.weight) for n in self.norms())
        attended = self.attention(self.input_norm(x_ND), rope, attend)
        x_ND, for_mlp, for_experts, for_router = add_attended(
            x_ND, attended, (after, to_mlp, to_experts, router.scale), eps, router.root
        )
        dense = self.mlp(for_mlp)
        weights, experts = router.choose(router.proj(for_router))
        routed = (self.experts if self.mix is None else self.mix)(for_experts, weights, experts)
        return add_branches(x_ND, dense, routed, (of_mlp, of_experts, last), eps, scalar)

    def _forward_narrow(self, x_ND: Tensor, rope: tuple[Tensor, Tensor], attend: Attend, scalar: Tensor) -> Tensor:
        """Computes `_forward_training` with all in bfloat16 that products read and make, but for the residual sum."""
        eps, router = self.input_norm.eps, self.router
        before, after, to_mlp, to_experts, *weights_D = (cast("Tensor", n.weight) for n in self.norms())
        of_mlp, of_experts, last = weights_D
        q_NHK, k_NGK, v_NGK = narrow_heads(self.attention, narrow_norm(x_ND, before, eps), rope)
        attended = F.linear(attend(q_NHK, k_NGK, v_NGK).flatten(1), self.attention.o_proj.weight)
        x_ND, for_mlp, for_experts, for_router = add_attended(
            x_ND, attended, (after, to_mlp, to_experts, router.scale), eps, router.root
        )
        dense = narrow_mlp(self.mlp, for_mlp)
        weights, experts = router.choose(router.proj(for_router))
        routed = self.experts(for_experts, weights, experts)
        return add_branches(x_ND, dense, routed, (of_mlp, of_experts, last), eps, scalar)

    def norms(self) -> tuple[RMSNorm, ...]:
        """Returns the norms: of what comes in, behind attention, before MLP and experts, behind these, and the last."""
        held = self._modules  # where attributes of a module are looked up last
        return tuple(cast("RMSNorm", held[name]) for name in _NORMS)
