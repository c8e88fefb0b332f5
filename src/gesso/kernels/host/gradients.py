"""Compiles the kernels of training, once in a process."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

from gesso.kernels.host.block_gradients import (
    write_attended_backward,
    write_attended_forward,
    write_mixed_backward,
    write_mixed_forward,
)
from gesso.kernels.host.compilation import compile_arrays
from gesso.kernels.host.gated import write_gated_backward, write_gated_forward
from gesso.kernels.host.mixtures import write_mix_backward, write_mix_forward
from gesso.kernels.host.norm_gradients import (
    write_heads_backward,
    write_heads_forward,
    write_norm_backward,
    write_norm_forward,
)
from gesso.kernels.host.softmax import write_softmax, write_softmax_back


@dataclass(frozen=True, slots=True)
class Gradients:
    """Holds the compiled kernels of training (see `norm_gradients`, `block_gradients`, `gated`, `mixtures` and
    `softmax`)."""

    norm: Callable[..., None]
    norm_back: Callable[..., None]
    plain_norm: Callable[..., None]
    plain_norm_back: Callable[..., None]
    heads: Callable[..., None]
    heads_back: Callable[..., None]
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


@functools.cache
def gradients() -> Gradients:
    """Compiles the kernels of training."""
    module = ir.Module("gesso_gradients")
    writers: dict[str, tuple[Callable[..., None], tuple[int, int, int]]] = {
        "norm": (functools.partial(write_norm_forward, weighted=True), (4, 3, 1)),
        "norm_back": (functools.partial(write_norm_backward, weighted=True), (6, 4, 0)),
        "plain_norm": (functools.partial(write_norm_forward, weighted=False), (4, 3, 1)),
        "plain_norm_back": (functools.partial(write_norm_backward, weighted=False), (6, 4, 0)),
        "heads": (write_heads_forward, (6, 4, 1)), "heads_back": (write_heads_backward, (8, 5, 0)),
        "attended": (write_attended_forward, (11, 4, 2)), "attended_back": (write_attended_backward, (14, 4, 1)),
        "mixed": (write_mixed_forward, (8, 4, 2)), "mixed_back": (write_mixed_backward, (11, 4, 1)),
        "gated": (write_gated_forward, (3, 4, 0)), "gated_back": (write_gated_backward, (5, 4, 0)),
        "mix": (functools.partial(write_mix_forward, weighted=True), (4, 4, 0)),
        "mix_back": (write_mix_backward, (6, 4, 0)),
        "sum_rows": (functools.partial(write_mix_forward, weighted=False), (4, 4, 0)),
        "softmax": (functools.partial(write_softmax, biased=False), (2, 7, 0)),
        "biased_softmax": (functools.partial(write_softmax, biased=True), (2, 7, 0)),
        "softmax_back": (write_softmax_back, (2, 3, 0)),
    }  # fmt: skip
    for name, (write, _) in writers.items():
        write(module, name)
    return Gradients(**compile_arrays(module, {name: sizes for name, (_, sizes) in writers.items()}))
