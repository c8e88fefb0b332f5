"""Defines what a quantization format is, and matmuls with packed weights.

A format packs a matrix into a few tensors. A weight is dequantized to the activations' dtype inside the matmul, forward
a tile of its rows at a time, backward whole, and is never kept. `layers` has linear layers and experts over any format,
`vocabulary` the tied table.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from gesso.kernels import host, usable
from gesso.nn.grouped_products import multiply_groups
from gesso.nn.host_experts import leading_rows, repeat_last
from gesso.nn.host_kernels import host_kernels
from gesso.nn.linear import linear
from gesso.nn.quant import nf4

CPU_TILE = 1 << 19
"""Weights that are dequantized at a time on a CPU: 1 MiB of bfloat16, which stays in a core's cache."""
GPU_TILE = 1 << 24
"""The same on an accelerator, where few large kernels win: 32 MiB."""
GROUPS_TILE = 1 << 25
"""Weights of several matrices that are dequantized at a time: 64 MiB."""


class Format(Protocol):
    """Packs a matrix [out, in] into a few tensors. Rows of every part are rows of the matrix: a tile of it is a tile of
    each."""

    parts: ClassVar[tuple[str, ...]]
    """Names of the tensors that hold it."""
    kernel: ClassVar[str]
    """Its name in `kernels.packed`."""

    def empty(self, rows: int, columns: int) -> tuple[Tensor, ...]:
        """Returns the parts of a matrix of this shape, not filled in.

        Raises:
            ValueError: the format has no room for so many columns.
        """

    def quantize(self, weight: Tensor) -> tuple[Tensor, ...]:
        """Returns the parts of `weight` [out, in]."""

    def unpack(self, parts: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
        """Returns the matrix in `dtype`, in memory of its own, and the factor that its rows have still to be multiplied
        by, [out], None where it is one."""


def dequantize(parts: tuple[Tensor, ...], form: Format, dtype: torch.dtype) -> Tensor:
    """Dequantizes `parts`: returns the matrix [out, in] in `dtype`."""
    weight, factor = form.unpack(parts, dtype)
    return weight if factor is None else weight.mul_(factor[:, None])


def multiply_dequantized(x: Tensor, parts: tuple[Tensor, ...], form: Format) -> Tensor:
    """Computes x @ W.T, a tile of W's rows at a time. Tiles do not depend on the number of rows of x, so that a row's
    result does not depend on how many stand beside it."""
    rows = max(1, (CPU_TILE if x.device.type == "cpu" else GPU_TILE) // x.shape[-1])
    pieces = []
    for tiles in zip(*(part.split(rows) for part in parts), strict=True):
        if x.dtype == torch.float16:  # which a sum over whole codes could overflow
            pieces.append(linear(x, dequantize(tiles, form, x.dtype)))
            continue
        weight, factor = form.unpack(tiles, x.dtype)
        out = linear(x, weight)
        pieces.append(out if factor is None else (out * factor).to(x.dtype))
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=-1)


def in_kernel(x: Tensor) -> bool:
    """Says whether one kernel dequantizes and multiplies: on CUDA with Triton, without gradient."""
    return usable(x.device) and not torch.is_grad_enabled() and not torch.is_autocast_enabled(x.device.type)


def multiply_in_kernel(x_MD: Tensor, ends_E: Tensor | None, parts: tuple[Tensor, ...], form: Format) -> Tensor:
    """Multiplies by packed weights as `kernels.packed.matmul` does, [M, D] -> [M, F]."""
    return multiply_placed(place_in_kernel(x_MD, parts, form), ends_E, parts, form)


def multiply_several_in_kernel(x_MD: Tensor, matrices: Sequence[tuple[Tensor, ...]], form: Format) -> list[Tensor]:
    """Multiplies the same rows by several matrices, [M, D] -> [M, F] each."""
    placed_MD = place_in_kernel(x_MD, matrices[0], form)
    return [multiply_placed(placed_MD, None, parts, form) for parts in matrices]


def place_in_kernel(x_MD: Tensor, parts: tuple[Tensor, ...], form: Format) -> Tensor:
    """Lays rows out as the kernel reads them, [M, D]."""
    from gesso.kernels import packed

    return packed.by_place(x_MD, form.kernel, parts)


def multiply_placed(x_MD: Tensor, ends_E: Tensor | None, parts: tuple[Tensor, ...], form: Format) -> Tensor:
    """Computes `multiply_in_kernel` of rows that are laid out so."""
    from gesso.kernels import packed

    return packed.matmul_placed(x_MD, form.kernel, parts, ends_E, nf4.levels_on(x_MD.device, x_MD.dtype))


def on_host(x: Tensor, parts: tuple[Tensor, ...], form: Format) -> bool:
    """Says whether a compiled kernel multiplies `x` by these parts on the CPU: a format that it reads, no gradient."""
    return host_kernels(x) and host.reads(form.kernel, parts)


def multiply_on_host(x_MD: Tensor, ends_E: Tensor | None, parts: tuple[Tensor, ...], form: Format) -> Tensor:
    """Multiplies by packed weights as `kernels.host.packed.matmul` does, [M, D] -> [M, F]."""
    from gesso.kernels.host import packed

    count = x_MD.shape[0]
    if ends_E is not None or (rows := leading_rows(x_MD)) == count:
        return packed.matmul(x_MD, form.kernel, parts, ends_E)
    return repeat_last(packed.matmul(x_MD[:rows], form.kernel, parts), count)


def multiply_several_on_host(x_MD: Tensor, matrices: Sequence[tuple[Tensor, ...]], form: Format) -> list[Tensor]:
    """Multiplies by several matrices as `kernels.host.packed.matmul_several` does, [M, D] -> [M, F] each."""
    from gesso.kernels.host import packed

    rows, count = leading_rows(x_MD), x_MD.shape[0]
    if rows == count:
        return packed.matmul_several(x_MD, form.kernel, matrices)
    return [repeat_last(out, count) for out in packed.matmul_several(x_MD[:rows], form.kernel, matrices)]


class _Matmul(torch.autograd.Function):
    """Computes x @ W.T with W packed: the backward pass keeps the parts only."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, form: Format, *parts: Tensor) -> Tensor:
        ctx.save_for_backward(*parts)
        ctx.form = form
        return multiply_dequantized(x, parts, form)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), parts = grads, ctx.saved_tensors  # which may be asked for once
        return grad @ dequantize(parts, ctx.form, grad.dtype), None, *(None for _ in parts)


def dequantize_all(parts: tuple[Tensor, ...], form: Format, width: int, dtype: torch.dtype) -> Tensor:
    """Dequantizes `parts` of several matrices with `width` columns, [E, F, D], some rows at a time."""
    count, rows = parts[0].shape[:2]
    out = torch.empty(count * rows, width, dtype=dtype, device=parts[0].device)
    tile = max(1, GROUPS_TILE // width)
    pieces = zip(*(part.flatten(0, 1).split(tile) for part in parts), strict=True)
    for own, piece in zip(out.split(tile), pieces, strict=True):
        own.copy_(dequantize(piece, form, dtype))
    return out.view(count, rows, width)


class _GroupedMatmul(torch.autograd.Function):
    """Computes the rows of every group @ W.T of its packed W: the backward pass keeps the parts only."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, ends: Tensor, form: Format, *parts: Tensor) -> Tensor:
        ctx.save_for_backward(ends, *parts)
        ctx.form, ctx.width = form, x.shape[1]
        if usable(x.device):
            return multiply_in_kernel(x, ends, parts, form)
        return multiply_groups(x, ends, dequantize_all(parts, form, x.shape[1], x.dtype))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), (ends, *parts) = grads, ctx.saved_tensors
        weight = dequantize_all(tuple(parts), ctx.form, ctx.width, grad.dtype)
        return multiply_groups(grad.contiguous(), ends, weight.mT), None, None, *(None for _ in parts)


def multiply_packed_groups(x_MD: Tensor, ends_E: Tensor, parts: tuple[Tensor, ...], form: Format) -> Tensor:
    """Multiplies sorted rows, all of them in a group, by their experts' packed matrices, [M, F]; gradients reach the
    rows only."""
    out: Tensor = _GroupedMatmul.apply(x_MD, ends_E, form, *parts)  # type: ignore[no-untyped-call]
    return out


def matmul(x: Tensor, parts: tuple[Tensor, ...], form: Format) -> Tensor:
    """Multiplies x [..., in] by the transposed weight, [..., out]; gradients reach x only."""
    if not x.is_meta and torch.is_autocast_enabled(x.device.type):
        x = x.to(torch.get_autocast_dtype(x.device.type))
    if in_kernel(x):
        return multiply_in_kernel(x.reshape(-1, x.shape[-1]), None, parts, form).view(*x.shape[:-1], len(parts[0]))
    if on_host(x, parts, form):
        if x.dim() == 2:
            return multiply_on_host(x, None, parts, form)
        return multiply_on_host(x.reshape(-1, x.shape[-1]), None, parts, form).view(*x.shape[:-1], len(parts[0]))
    if not torch.is_grad_enabled():
        return multiply_dequantized(x, parts, form)
    out: Tensor = _Matmul.apply(x, form, *parts)  # type: ignore[no-untyped-call]
    return out
