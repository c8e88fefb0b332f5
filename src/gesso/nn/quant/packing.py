"""Packs a weight and measures what is lost: by a compiled kernel where there is one, else by array operations."""

import torch
from torch import Tensor

from gesso.kernels import host
from gesso.nn.quant.base import Format, dequantize
from gesso.nn.quant.integer import Int4, Int8


def pack(weight: Tensor, form: Format) -> tuple[tuple[Tensor, ...], float, float]:
    """Packs `weight` [out, in] as `form.quantize` does.

    Returns:
        The parts, the sum of (packed - weight)², and that of weight²; neither sum is finite where a weight is not.
    """
    if host.available() and isinstance(form, Int4 | Int8):
        from gesso.kernels.host.pack import pack_int4, pack_int8, packs

        if packs(weight):
            return pack_int4(weight, form.group_size) if isinstance(form, Int4) else pack_int8(weight)
    parts, whole = form.quantize(weight), weight.double()
    lost = (dequantize(parts, form, torch.float32).double() - whole).square().sum().item()
    return parts, lost, whole.square().sum().item()
