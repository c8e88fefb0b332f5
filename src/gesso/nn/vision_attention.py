"""Implements attention of the vision tower: every patch of an image sees every other, without 1/sqrt(d).

B pictures of one size   P patches   H heads   G key heads   K head size
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gesso.nn.axial_rope import apply_axial_rope
from gesso.nn.clipped_linear import ClippedLinear
from gesso.nn.linear import Linear
from gesso.nn.norm import RMSNorm, rms_norm

SCORE_BYTES = 1 << 28
"""Scores [H, queries, P] that may be held at once where no fused kernel does without them: 256 MiB."""
_FUSED = {"cpu": (torch.float32, torch.bfloat16, torch.float16), "cuda": (torch.float32, torch.bfloat16, torch.float16)}
"""Where PyTorch's attention never holds all scores, whatever the head size."""


def vision_linear(in_features: int, out_features: int, clipped: bool) -> Linear:
    """Makes a projection of the tower, without bias."""
    return ClippedLinear(in_features, out_features) if clipped else Linear(in_features, out_features, bias=False)


class VisionAttention(nn.Module):
    """Projects one layer's q, k and v: q and k are normed with a scale and turned, v is normed without."""

    def __init__(
        self, hidden_size: int, num_heads: int, num_key_value_heads: int, head_dim: int, eps: float, clipped: bool
    ) -> None:
        super().__init__()
        self.head_dim, self.eps = head_dim, eps
        self.q_proj = vision_linear(hidden_size, num_heads * head_dim, clipped)
        self.k_proj = vision_linear(hidden_size, num_key_value_heads * head_dim, clipped)
        self.v_proj = vision_linear(hidden_size, num_key_value_heads * head_dim, clipped)
        self.o_proj = vision_linear(num_heads * head_dim, hidden_size, clipped)
        self.q_norm = RMSNorm(head_dim, eps)
        self.k_norm = RMSNorm(head_dim, eps)

    def forward(self, x_BPD: Tensor, rope: tuple[Tensor, Tensor]) -> Tensor:
        heads = (*x_BPD.shape[:2], -1, self.head_dim)
        q = apply_axial_rope(self.q_norm(self.q_proj(x_BPD).view(heads)), *rope)
        k = apply_axial_rope(self.k_norm(self.k_proj(x_BPD).view(heads)), *rope)
        v = rms_norm(self.v_proj(x_BPD).view(heads), None, self.eps)
        out: Tensor = self.o_proj(attend_patches(q, k, v).flatten(2))
        return out


def attend_patches(q_BPHK: Tensor, k_BPGK: Tensor, v_BPGK: Tensor, score_bytes: int | None = None) -> Tensor:
    """Attends from every query to every key of its image, [B, P, H, K].

    Args:
        score_bytes: scores in fp32 held at once; queries are taken in slices of so many. None leaves it to the device:
            all queries at once where a fused kernel holds no scores, else `SCORE_BYTES`.
    """
    batch, patches, heads, _ = q_BPHK.shape
    repeat = heads // k_BPGK.shape[2]
    q, k, v = (x.transpose(1, 2) for x in (q_BPHK, k_BPGK, v_BPGK))
    if repeat > 1:
        k, v = k.repeat_interleave(repeat, dim=1), v.repeat_interleave(repeat, dim=1)
    if score_bytes is None:
        fused = q.dtype in _FUSED.get(q.device.type, ())
        score_bytes = 4 * batch * heads * patches * patches if fused else SCORE_BYTES
    rows = max(1, score_bytes // (4 * batch * heads * patches))
    slices = [F.scaled_dot_product_attention(part, k, v, scale=1.0) for part in q.split(rows, dim=2)]
    return (slices[0] if len(slices) == 1 else torch.cat(slices, dim=2)).transpose(1, 2)
