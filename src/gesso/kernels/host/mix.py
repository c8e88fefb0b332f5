"""Mixes rows of a table of bytes on a CPU (see `mixing_writer`).

N mixtures   V rows of the table   D its columns
"""

import functools
from array import array
from dataclasses import dataclass

import torch
from llvmlite import ir
from torch import Tensor
from torch.nn import functional as F

from gesso.kernels.host import amx
from gesso.kernels.host.compilation import compile_arrays
from gesso.kernels.host.dots import Dot
from gesso.kernels.host.library import best_dot
from gesso.kernels.host.mixing_rows import MixRows
from gesso.kernels.host.mixing_tiles import MixTiles
from gesso.kernels.host.mixing_weights import PARTS, ROWS, STEP, write_split_weights
from gesso.kernels.host.mixing_writer import COLUMNS
from gesso.kernels.host.openmp import take_units
from gesso.kernels.host.threads import Work, fixed_threads, product_threads, share_units, work_of

TOGETHER = 1024
"""Rows of the table that are mixed at a time: weights of 256 mixtures are 512 KiB then, and stay in a core's cache."""
SPLIT_ALONE, MIXED_ALONE = 1 << 16, 1 << 22
"""Weights, and products, that one thread is done with sooner than others could be asked to help."""


@dataclass(frozen=True, slots=True)
class Mixing:
    """Holds the compiled kernels."""

    split: Work
    mix: Work


@functools.cache
def mixing(kind: Dot) -> Mixing:
    """Compiles the kernels."""
    if kind == "amx":
        amx.available()  # asks the system for its registers
    module = ir.Module(f"gesso_mixing_{kind}")
    write_split_weights(module, "split", kind)
    if kind == "amx":
        MixTiles(module, "mix")
    else:
        MixRows(module, "mix", kind)
    made = compile_arrays(module, {"split": (1, 3, 0), "mix": (1, 3, 0)})
    return Mixing(**{name: work_of(kernel) for name, kernel in made.items()})


def mixes(codes_VD: Tensor) -> bool:
    """Says whether a `ByteMixture` takes rows of such a table."""
    return (
        codes_VD.dtype == torch.int8
        and codes_VD.is_contiguous()
        and codes_VD.shape[1] % COLUMNS == 0
        and codes_VD.is_cpu
        and best_dot() != "plain"  # a library's products of floats may be faster there
    )


class ByteMixture:
    """Adds up rows of a table, each times its factor and a weight, in fp32; of the product of these 16 bits count,
    relative to the largest one of `ROWS` rows."""

    def __init__(self, count: int, width: int, kind: Dot | None = None) -> None:
        self._count, self._kind = count, kind or best_dot()
        padded, blocks = -(-count // amx.SIDE) * amx.SIDE, TOGETHER // ROWS
        self._sums = torch.zeros(width // COLUMNS, padded, COLUMNS, dtype=torch.float32, device="cpu")
        # Mixtures that fill up the last group have no weights.
        self._parts = torch.zeros(padded // amx.SIDE * TOGETHER // STEP * PARTS, dtype=torch.int8, device="cpu")
        self._scales = torch.zeros(padded * blocks, dtype=torch.float32, device="cpu")
        self._starts = torch.zeros(padded * blocks, dtype=torch.int32, device="cpu")

    def shrink(self, factors_N1: Tensor) -> None:
        """Multiplies what there is by a factor of each mixture."""
        if not (factors_N1 == 1).all():
            self._sums[:, : self._count].mul_(factors_N1)

    def add(self, weights_NV: Tensor, factors_V: Tensor, codes_VD: Tensor) -> None:
        """Adds rows of the table; weights are fp32 and lie side by side in a row."""
        for begin in range(0, len(codes_VD), TOGETHER):
            part = slice(begin, begin + TOGETHER)
            self._add(weights_NV[:, part], factors_V[part], codes_VD[part])

    def _add(self, weights_NV: Tensor, factors_V: Tensor, codes_VD: Tensor) -> None:
        (table, width), kernels = codes_VD.shape, mixing(self._kind)
        share, size = share_units if fixed_threads() else take_units, self._count * table
        if gap := -table % ROWS:
            weights_NV, factors_V = F.pad(weights_NV, (0, gap)), F.pad(factors_V, (0, gap))
        places = [tensor.data_ptr() for tensor in (weights_NV, factors_V, self._parts, self._scales, self._starts)]
        split = array("q", [*places, table + gap, weights_NV.stride(0)])
        share(kernels.split, split.buffer_info()[0], self._count, product_threads() if size > SPLIT_ALONE else 1)
        places = [*places[2:], codes_VD.data_ptr(), self._sums.data_ptr()]
        mix = array("q", [*places, self._count, table, width])
        threads = product_threads() if size * width > MIXED_ALONE else 1
        share(kernels.mix, mix.buffer_info()[0], width // COLUMNS, threads)

    def take(self) -> Tensor:
        """Returns the mixtures, [N, D]."""
        return self._sums.permute(1, 0, 2).flatten(1)[: self._count]
