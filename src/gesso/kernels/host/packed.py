"""Multiplies by packed weights on a CPU: all experts of a layer in one call, or a linear layer, which is one group.

Weights are read as they lie in memory, or in a file that is mapped to it, and never turned back. Activations are
rounded to 8 bits on the way, 64 features to a scale (`activations`): against weights of 4 bits, whose own error is 15
times as large, about half a percent of a result; docs/quantize.md has what it does to answers.

    M rows, sorted by group   E groups   N what comes out   D what goes in
"""

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from gesso.kernels.host.activations import BLOCK
from gesso.kernels.host.dots import Dot
from gesso.kernels.host.layouts import LAYOUTS
from gesso.kernels.host.library import best_dot, features, kernels
from gesso.kernels.host.products import TILES, scratch_size
from gesso.kernels.host.threads import share_out

MULTIPLIED_ALONE, ROUNDED_ALONE = 1 << 21, 1 << 18
"""Products, and activations, that one thread is done with sooner than others could be asked to help."""


@functools.lru_cache(1024)
def layout_of(name: str, codes: int, scales: int) -> str | None:
    """Returns the layout of `LAYOUTS` that a format's rows of so many bytes of codes, and so many scales, have.

    None where no kernel reads them.
    """
    if name == "int4":
        name = {16: "int4-32", 32: "int4", 64: "int4-128"}.get(codes // scales, "")
    layout = LAYOUTS.get(name)
    if layout is None or codes * 8 // layout.bits % (BLOCK * layout.blocks_per_scale):
        return None
    return None if layout.tables and not features().get("avx2") else name


def layout(name: str, parts: Sequence[Tensor]) -> str | None:
    """Returns the layout that parts of a format have, as `layout_of` does."""
    return layout_of(name, parts[0].shape[-1], parts[1].shape[-1])


def matmul(
    x_MD: Tensor, name: str, parts: Sequence[Tensor], ends_E: Tensor | None = None, *, dot: Dot | None = None
) -> Tensor:
    """Multiplies the rows of every group by its transposed matrix, [M, N], in the dtype of `x_MD`.

    Args:
        name: of the format: int8, int4 or nvfp4; `layout` says whether there is a kernel for its parts.
        parts: of all matrices, [E, N, ...], or of one, [N, ...].
        ends_E: where each group's rows end; None for one matrix.
        dot: how bytes are multiplied; what suits the processor where none is given.
    """
    rows, width = x_MD.shape
    columns, blocks = parts[0].shape[-2], width // BLOCK
    assert all(part.is_contiguous() for part in parts)
    out = torch.empty(rows, columns)
    if not rows:
        return out.to(x_MD.dtype)
    dot = dot or best_dot()
    found = layout(name, parts)
    assert found is not None
    compiled = kernels(found, dot)
    x = x_MD.float().contiguous()
    codes = torch.empty(rows, width, dtype=torch.int8)
    scales, sums = torch.empty(2, rows, blocks)
    pieces = _pieces(tuple([rows] if ends_E is None else ends_E.tolist()), tuple(TILES[dot]))
    threads = torch.get_num_threads()
    scratch = torch.empty(threads, scratch_size(dot, blocks))
    third = parts[2] if len(parts) > 2 else parts[1]
    rounded = tuple(part.data_ptr() for part in (codes, scales, sums))
    packed = tuple(part.data_ptr() for part in (parts[0], parts[1], third, out))

    def round_rows(thread: int, begin: int, end: int) -> None:  # noqa: ARG001 - needs no memory of its own
        compiled.round_rows(x.data_ptr(), blocks, begin, end, *rounded)

    def multiply(thread: int, begin: int, end: int) -> None:
        own = scratch[thread].data_ptr()
        compiled.multiply(*rounded, *packed, own, pieces.data_ptr(), len(pieces), columns, blocks, begin, end)

    share_out(round_rows, rows, threads if rows * width > ROUNDED_ALONE else 1)
    share_out(multiply, columns, threads if rows * columns * width > MULTIPLIED_ALONE else 1)
    return out if x_MD.dtype == torch.float32 else out.to(x_MD.dtype)


@functools.lru_cache(64)
def _pieces(ends: tuple[int, ...], sizes: tuple[int, ...]) -> Tensor:
    """Cuts every group's rows into pieces of the sizes that there are kernels for: (first row, rows, group)."""
    pieces: list[tuple[int, int, int]] = []
    row = 0
    for group, end in enumerate(ends):
        while row < end:
            size = next(size for size in sizes if size <= end - row)
            pieces.append((row, size, group))
            row += size
    return torch.tensor(pieces)
