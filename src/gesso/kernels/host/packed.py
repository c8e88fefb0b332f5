"""Multiplies by packed weights on a CPU, and by small whole ones: all experts of a layer in one call, or a linear
layer, which is one group.

Weights are read as they lie in memory, or in a file that is mapped to it, and never turned back. Activations are
rounded to 8 bits on the way, 64 features to a scale (`activations`): against weights of 4 bits, whose own error is 15
times as large, about half a percent of a result; docs/quantize.md has what it does to answers. Against FP8 and fp32,
whose weights are no whole numbers, they stay in fp32 (`float_products`).

    M rows, sorted by group   E groups   N what comes out   D what goes in
"""

import functools
import threading
from array import array
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gesso.kernels.host.activations import BLOCK, GROUP
from gesso.kernels.host.calls import units, words
from gesso.kernels.host.compilation import features
from gesso.kernels.host.dots import Dot
from gesso.kernels.host.layouts import LAYOUTS
from gesso.kernels.host.library import best_dot, kernels, team
from gesso.kernels.host.openmp import take_units
from gesso.kernels.host.pieces import is_tiled, sizes_of
from gesso.kernels.host.row_jobs import share_rows
from gesso.kernels.host.threads import fixed_threads, product_threads, share_units
from gesso.kernels.host.tile_writer import tile_scratch_size

IN_TWO, LEAST_TILED = (3, 4), 5
"""So many rows beyond sixteen take longer by themselves, without tiles, than a second tile, of five rows, by AMX."""
MULTIPLIED_ALONE, PLAIN_ALONE = 1 << 21, 1 << 19
"""Products, and those by weights that are no whole numbers, that one thread is done with sooner than others could be
asked to help."""


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
    return layout_of(name, _row_bytes(parts), parts[1].shape[-1] if len(parts) > 1 else 0)


def _row_bytes(parts: Sequence[Tensor]) -> int:
    return parts[0].shape[-1] * parts[0].element_size()


def _layout_for(x_MD: Tensor, name: str, parts: Sequence[Tensor]) -> str:
    """Returns the layout of parts that rows are multiplied by.

    Raises:
        ValueError: rows are not as wide as the matrices.
    """
    found = layout(name, parts)
    assert found is not None
    width = _row_bytes(parts) * 8 // LAYOUTS[found].bits
    if x_MD.shape[1] != width:
        raise ValueError(f"rows have {x_MD.shape[1]} features, the {name} matrices {width}")
    return found


class RoundedRows(NamedTuple):
    """Holds rows of activations as a format's kernel reads them, for any number of matrices: in 8 bits, or in fp32."""

    held: Tensor
    """Codes side by side and turned, then scales and sums, as `activations` has them, all as bytes; or numbers
    [M, D]."""
    rows: int
    width: int
    found: str
    """The layout of the weights that they are rounded for."""
    dot: Dot
    places: tuple[int, int, int]
    """The addresses of codes, scales and sums."""


def way_to_multiply(found: str, dot: Dot | None = None) -> Dot:
    """Returns how bytes are multiplied for the layout `found`, where a way is asked for or none is."""
    way = dot or best_dot()
    return "vnni512" if way == "amx" and LAYOUTS[found].floats is not None else way  # tiles are of whole numbers


def room_to_round(x_MD: Tensor, found: str, dot: Dot | None = None, pieces: "array[int] | None" = None) -> RoundedRows:
    """Returns memory for rows of fp32 that are rounded for matrices of the layout `found`; those of some layouts stay
    as they are, and are held themselves.

    Args:
        pieces: that have groups of rows of their own.
    """
    rows, width = x_MD.shape
    blocks, dot = width // BLOCK, way_to_multiply(found, dot)
    if not is_tiled(found):
        return RoundedRows(x_MD, rows, width, found, dot, (x_MD.data_ptr(),) * 3)
    groups = -(-rows // GROUP) if pieces is None else len(pieces) // 4
    codes, scales = groups * GROUP * width, 4 * groups * GROUP * blocks
    sums = scales * LAYOUTS[found].parts
    # Codes side by side, of an even number of blocks, stand before those that are turned.
    straight = groups * GROUP * BLOCK * (blocks + blocks % 2)
    held = torch.empty(straight + codes + scales + sums, dtype=torch.int8, device=x_MD.device)
    held[straight + codes :] = 0  # places of a group that have no row
    begin = held.data_ptr() + straight
    return RoundedRows(held, rows, width, found, dot, (begin, begin + codes, begin + codes + scales))


def round_rows(
    x_MD: Tensor,
    found: str,
    dot: Dot | None = None,
    pieces: "array[int] | None" = None,
    sources_R: Tensor | None = None,
) -> RoundedRows:
    """Rounds rows for matrices of the layout `found`; those of some layouts stay as they are.

    Args:
        pieces: of several matrices.
        sources_R: the row of x of each row that comes out of the pieces; None where they are the same.
    """
    if sources_R is not None and not is_tiled(found):
        x_MD, sources_R = x_MD.index_select(0, sources_R), None
    x = x_MD if x_MD.dtype == torch.float32 and x_MD.is_contiguous() else x_MD.float().contiguous()
    rounded = room_to_round(x, found, dot, pieces)
    if rounded.held is x:
        return rounded
    (count, width), compiled = x.shape, kernels(found, rounded.dot)
    assert compiled.round_rows is not None
    assert compiled.round_pieces is not None
    source, blocks = x.data_ptr(), width // BLOCK
    if pieces is None:
        compiled.round_rows(source, blocks, 0, count, *rounded.places)
        return rounded
    beside = (*rounded.places, pieces.buffer_info()[0], 0 if sources_R is None else sources_R.data_ptr())
    numbers = width * (count if sources_R is None else len(sources_R))
    share_rows(compiled.round_pieces, (source, blocks), len(pieces) // 4, beside, numbers=numbers)
    return rounded


class _Kept(threading.local):
    scratch = torch.empty(0, dtype=torch.float32, device="cpu")


_kept = _Kept()


def _scratch(numbers: int) -> int:
    """Returns the address of memory for so many floats, which this thread's next product overwrites."""
    if _kept.scratch.numel() < numbers:
        _kept.scratch = torch.empty(numbers, dtype=torch.float32, device="cpu")
    return _kept.scratch.data_ptr()


def multiply(
    rounded: RoundedRows, matrices: Sequence[Sequence[Tensor]], pieces: "array[int]", rows: int
) -> tuple[Tensor, ...]:
    """Multiplies rounded rows by one stack of matrices after the other, [rows, N] each, fp32, in one sharing out.

    Args:
        matrices: the parts of each stack, [E, N, ...] or [N, ...], contiguous.
        pieces: (first row of x, R, matrix of the stack, first row of what comes out) of each, 64-bit numbers.
        rows: that come out.
    """
    made = [torch.empty(rows, parts[0].shape[-2], dtype=torch.float32, device="cpu") for parts in matrices]
    threads = product_threads() if shares(rounded, made) else 1
    scratch = _scratch(threads * room_of(rounded))
    job, count = job_of(rounded, matrices, made, pieces, scratch)
    # Where few rows are multiplied, helpers look on between products.
    share = share_units if fixed_threads() else take_units
    share(team().multiply_all, job.buffer_info()[0], count, threads)
    return tuple(made)


def shares(rounded: RoundedRows, made: Sequence[Tensor]) -> bool:
    """Says whether threads share a product that makes these."""
    alone = MULTIPLIED_ALONE if LAYOUTS[rounded.found].floats is None else PLAIN_ALONE
    return rounded.width * sum(out.numel() for out in made) > alone


def room_of(rounded: RoundedRows) -> int:
    """Returns how many floats of scratch memory a thread needs that multiplies by these rows."""
    return tile_scratch_size() if is_tiled(rounded.found) else 0


def job_of(
    rounded: RoundedRows,
    matrices: Sequence[Sequence[Tensor]],
    made: Sequence[Tensor],
    pieces: "array[int]",
    scratch: int,
) -> "tuple[array[int], int]":
    """Returns the words of `multiply`'s job and how many units it has; `made` is what comes out.

    Args:
        scratch: address of `room_of` floats for each thread.
    """
    own, count = [], 0
    for parts, out in zip(matrices, made, strict=True):
        columns, second, third = out.shape[1], parts[min(1, len(parts) - 1)], parts[-1]
        own.append((parts[0].data_ptr(), second.data_ptr(), third.data_ptr(), out.data_ptr(), columns))
        count += units(columns)
    listed, numbers = pieces.buffer_info()
    kernel, blocks = kernels(rounded.found, rounded.dot).multiply, rounded.width // BLOCK
    shared = (kernel, len(own), scratch, room_of(rounded), listed, numbers // 4, blocks, *rounded.places)
    return array("q", words(shared, own)), count


def matmul(
    x_MD: Tensor,
    name: str,
    parts: Sequence[Tensor],
    ends_E: Tensor | None = None,
    sources_R: Tensor | None = None,
    *,
    dot: Dot | None = None,
) -> Tensor:
    """Multiplies the rows of every group by its transposed matrix, [R, N], in the dtype of `x_MD`.

    Args:
        name: of the format: int8, int4, nf4, nvfp4, fp8 or fp32; `layout` says whether there is a kernel for its parts.
        parts: of all matrices, [E, N, ...], or of one, [N, ...].
        ends_E: where each group's rows end; None for one matrix.
        sources_R: the row of x that each row of the groups is, int64; None where they are the rows of x.
        dot: how bytes are multiplied; what suits the processor where none is given.
    """
    rows = x_MD.shape[0] if sources_R is None else sources_R.shape[0]
    if not rows:
        return x_MD.new_empty(0, parts[0].shape[-2])
    found = _layout_for(x_MD, name, parts)
    ends = (rows,) if ends_E is None else tuple(ends_E.tolist())
    pieces = pieces_of(ends, found, way_to_multiply(found, dot))
    (out,) = multiply(round_rows(x_MD, found, dot, pieces, sources_R), [parts], pieces, rows)
    return out if x_MD.dtype == torch.float32 else out.to(x_MD.dtype)


def matmul_several(x_MD: Tensor, name: str, matrices: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """Computes `matmul` by several matrices [N, ...] of one format and width; rows are rounded once."""
    found = _layout_for(x_MD, name, matrices[0])
    assert all(layout(name, parts) == found for parts in matrices)
    pieces = pieces_of((len(x_MD),), found, way_to_multiply(found))
    made = multiply(round_rows(x_MD, found, None, pieces), matrices, pieces, len(x_MD))
    return list(made) if x_MD.dtype == torch.float32 else [out.to(x_MD.dtype) for out in made]


def matmul_chosen(x_ND: Tensor, name: str, parts: Sequence[Tensor], matrices: Sequence[int]) -> Tensor:
    """Multiplies few rows by the matrices that each chose, [M, N], in the dtype of `x_ND`.

    Args:
        parts: of all matrices, [E, N, ...].
        matrices: of each row of the result; those of a row of `x_ND` stand side by side, as many for every one.
    """
    found = _layout_for(x_ND, name, parts)
    each = len(matrices) // x_ND.shape[0]
    order = sorted(range(len(matrices)), key=matrices.__getitem__)  # a matrix that several chose is still near
    pieces = array("q", [number for row in order for number in (row // each, 1, matrices[row], row)])
    (out,) = multiply(round_rows(x_ND, found), [parts], pieces, len(matrices))
    return out if x_ND.dtype == torch.float32 else out.to(x_ND.dtype)


@functools.lru_cache(64)
def pieces_of(ends: tuple[int, ...], found: str, dot: Dot) -> "array[int]":
    """Cuts every group's rows into pieces of the sizes that a layout has kernels for: (row, rows, group, row). Where
    activations are rounded each piece has a group of sixteen of its own."""
    pieces, sizes, row = array("q"), sizes_of(found, dot), 0
    for group, end in enumerate(ends):
        while row < end:
            size = next(size for size in sizes if size <= end - row)
            if dot == "amx" and size == GROUP and end - row - size in IN_TWO:
                size = end - row - LEAST_TILED
            first = len(pieces) // 4 * GROUP if is_tiled(found) else row
            pieces.extend((first, size, group, row))
            row += size
    return pieces
