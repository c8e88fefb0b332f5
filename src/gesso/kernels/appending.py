"""Writes keys and values at a place that is known on the device alone; see `gesso.kernels.attention`.

T tokens   G key heads   S positions that there is room for   K head size
"""

import triton
import triton.language as tl
from torch import Tensor

from gesso.kernels.placement import on_its_device


@on_its_device
def append_keys(k_TGK: Tensor, v_TGK: Tensor, kv_2GSK: Tensor, ends_2: Tensor) -> None:
    """Writes the keys and values of T tokens at `ends_2[1]` and behind it; each head's K numbers lie side by side."""
    tokens, groups, width = k_TGK.shape
    _append[(tokens, 2)](
        k_TGK.contiguous(),
        v_TGK.contiguous(),
        kv_2GSK,
        ends_2,
        *kv_2GSK.stride()[:3],
        GROUPS=groups,
        WIDTH=width,
        PADDED=triton.next_power_of_2(groups * width),
        num_warps=4,
        enable_fp_fusion=True,
    )


@triton.jit
def _append(
    k,
    v,
    kv,
    ends,
    of_kind,
    of_group,
    of_key,
    GROUPS: tl.constexpr,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
):
    """The keys of one token, or its values."""
    token, kind = tl.program_id(0), tl.program_id(1)
    i = tl.arange(0, PADDED)
    known = i < GROUPS * WIDTH
    place = (tl.load(ends + 1) + token) * of_key + kind * of_kind + i // WIDTH * of_group + i % WIDTH
    x = tl.load((k if kind == 0 else v) + token * GROUPS * WIDTH + i, mask=known)
    tl.store(kv + place, x, mask=known)
