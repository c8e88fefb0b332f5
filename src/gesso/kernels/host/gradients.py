"""Compiles the kernels of training, once in a process."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from llvmlite import ir

from gesso.kernels.host.block_gradients import (
    write_attended_backward,
    write_attended_forward,
    write_mixed_backward,
    write_mixed_forward,
)
from gesso.kernels.host.compilation import compile_arrays
from gesso.kernels.host.gated import write_gated_backward, write_gated_forward
from gesso.kernels.host.head_layouts import write_collect, write_spread
from gesso.kernels.host.mixtures import write_mix_backward, write_mix_forward
from gesso.kernels.host.narrow_softmax import write_narrow_softmax
from gesso.kernels.host.norm_gradients import (
    write_heads_backward,
    write_heads_forward,
    write_norm_backward,
    write_norm_forward,
)
from gesso.kernels.host.softmax import write_softmax, write_softmax_back


@dataclass(frozen=True, slots=True)
class Gradients:
    """Holds the compiled kernels of training (see `norm_gradients`, `block_gradients`, `gated`, `mixtures`,
    `softmax`, `narrow_softmax` and `head_layouts`)."""

    norm: Callable[..., None]
    norm_back: Callable[..., None]
    plain_norm: Callable[..., None]
    plain_norm_back: Callable[..., None]
    heads: Callable[..., None]
    heads_back: Callable[..., None]
    values: Callable[..., None]
    values_back: Callable[..., None]
    values_back_added: Callable[..., None]
    attended: Callable[..., None]
    attended_back: Callable[..., None]
    mixed: Callable[..., None]
    mixed_back: Callable[..., None]
    gated: Callable[..., None]
    gated_back: Callable[..., None]
    mix: Callable[..., None]
    mix_back: Callable[..., None]
    sum_rows: Callable[..., None]
    softmax: Callable[..., None]
    biased_softmax: Callable[..., None]
    softmax_back: Callable[..., None]
    spread: Callable[..., None]
    collect: Callable[..., None]


def _write_softmax(module: ir.Module, name: str, *, biased: bool, narrow: bool) -> None:
    (write_narrow_softmax if narrow else write_softmax)(module, name, biased=biased)


@functools.cache
def gradients(dtype: torch.dtype = torch.float32) -> Gradients:
    """Compiles the kernels of training, with fp32 alone, or with bfloat16 for what products read and make."""
    module, narrow = ir.Module(f"gesso_gradients_{dtype}"), dtype == torch.bfloat16
    writers: dict[str, tuple[Callable[..., None], tuple[int, int, int]]] = {
        "norm": (partial(write_norm_forward, weighted=True), (4, 3, 1)),
        "norm_back": (partial(write_norm_backward, weighted=True), (6, 4, 0)),
        "plain_norm": (partial(write_norm_forward, weighted=False), (4, 3, 1)),
        "plain_norm_back": (partial(write_norm_backward, weighted=False), (6, 4, 0)),
        "heads": (write_heads_forward, (6, 5, 1)), "heads_back": (write_heads_backward, (8, 6, 0)),
        "values": (partial(write_heads_forward, turned=False), (6, 5, 1)),
        "values_back": (partial(write_heads_backward, turned=False), (8, 6, 0)),
        "values_back_added": (partial(write_heads_backward, turned=False, added=True), (8, 6, 0)),
        "attended": (write_attended_forward, (11, 4, 2)), "attended_back": (write_attended_backward, (14, 4, 1)),
        "mixed": (write_mixed_forward, (8, 4, 2)), "mixed_back": (write_mixed_backward, (11, 4, 1)),
        "gated": (write_gated_forward, (3, 4, 0)), "gated_back": (write_gated_backward, (5, 4, 0)),
        "mix": (partial(write_mix_forward, weighted=True), (4, 4, 0)),
        "mix_back": (write_mix_backward, (6, 4, 0)),
        "sum_rows": (partial(write_mix_forward, weighted=False), (4, 4, 0)),
        "softmax": (partial(_write_softmax, biased=False), (3, 7, 0)),
        "biased_softmax": (partial(_write_softmax, biased=True), (3, 7, 0)),
        "softmax_back": (write_softmax_back, (2, 3, 0)),
    }  # fmt: skip
    for name, (write, _) in writers.items():
        write(module, name, narrow=narrow)
    write_spread(module, "spread")
    write_collect(module, "collect")
    sizes = {name: found for name, (_, found) in writers.items()}
    return Gradients(**compile_arrays(module, sizes | {"spread": (4, 5, 0), "collect": (4, 5, 0)}))
