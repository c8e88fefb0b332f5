"""Mixes rows of a table of bytes on a CPU, by AMX (see `tile_mixing`).

N mixtures   V rows of the table   D its columns
"""

from array import array

import torch
from torch import Tensor

from gesso.kernels.host import amx
from gesso.kernels.host.openmp import take_units
from gesso.kernels.host.tile_mixing import COLUMNS, ROWS, TILE

TOGETHER = 1024
"""Rows of the table that are mixed at a time: weights of 256 mixtures are 1 MiB then, and stay in a core's cache."""


def mixes(codes_VD: Tensor) -> bool:
    """Says whether a `ByteMixture` takes rows of such a table."""
    return (
        codes_VD.dtype == torch.int8
        and codes_VD.is_contiguous()
        and codes_VD.shape[1] % COLUMNS == 0
        and codes_VD.is_cpu
        and amx.available()
    )


class ByteMixture:
    """Adds up rows of a table, each times its factor and a weight, in fp32; of the product of these 16 bits count."""

    def __init__(self, count: int, width: int) -> None:
        groups = -(-count // amx.SIDE)
        self._count = count
        self._sums = torch.zeros(width // COLUMNS, groups, 4, amx.SIDE, amx.SIDE, dtype=torch.float32, device="cpu")

    def shrink(self, factors_N1: Tensor) -> None:
        """Multiplies what there is by a factor of each mixture."""
        if (factors_N1 == 1).all():
            return
        padded = torch.ones(self._sums.shape[1] * amx.SIDE, dtype=torch.float32, device="cpu")
        padded[: self._count] = factors_N1[:, 0]
        self._sums.mul_(padded.view(-1, 1, amx.SIDE, 1))

    def add(self, weights_NV: Tensor, factors_V: Tensor, codes_VD: Tensor) -> None:
        """Adds rows of the table; weights are fp32 and lie side by side in a row."""
        for begin in range(0, len(codes_VD), TOGETHER):
            part = slice(begin, begin + TOGETHER)
            self._add(weights_NV[:, part], factors_V[part], codes_VD[part])

    def _add(self, weights_NV: Tensor, factors_V: Tensor, codes_VD: Tensor) -> None:
        from gesso.kernels.host.amx_library import tile_mixing

        (table, width), groups, kernels = codes_VD.shape, self._sums.shape[1], tile_mixing()
        parts = torch.empty(groups * -(-table // ROWS) * 2 * TILE, dtype=torch.int8, device="cpu")
        held, threads = [tensor.data_ptr() for tensor in (weights_NV, factors_V, parts)], torch.get_num_threads()
        split = array("q", [*held, table, weights_NV.stride(0)])
        take_units(kernels.split, split.buffer_info()[0], self._count, threads)
        held = [tensor.data_ptr() for tensor in (parts, codes_VD, self._sums)]
        mix = array("q", [*held, groups, table, width])
        take_units(kernels.mix, mix.buffer_info()[0], width // COLUMNS, threads)

    def take(self) -> Tensor:
        """Returns the mixtures, [N, D]."""
        return self._sums.permute(1, 3, 0, 2, 4).flatten(0, 1).flatten(1)[: self._count]
