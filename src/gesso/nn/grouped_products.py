"""Decides where one call multiplies the rows of all experts, and makes that call: PyTorch's grouped matmul, or our own
(`kernels.grouped`) on GPUs and in types that it has no kernel for, for few rows a group without gradients, and for the
gradients of few matrices, which it adds up in parts.

How many rows each group has stays on the device: nobody waits for it. With a gradient every group has a multiple of
rows that the kernel of its weights' gradient takes, see `padded_layout`.

    N tokens   k experts of each   M rows, sorted by expert   D in   F out   E experts
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from gesso import kernels
from gesso.nn.compiled_training import in_training
from gesso.nn.norm import autocast_dtype

GROUPED_MAJORS = (9, 10)
"""Compute capabilities, by their first number, that PyTorch's grouped matmul has a kernel for: elsewhere it goes from
expert to expert itself, and asks the device how many tokens each got."""
GROUPED_DTYPES = {"cuda": (torch.bfloat16,), "mps": (torch.float32, torch.bfloat16, torch.float16)}
"""What PyTorch's grouped matmul of a kind of device multiplies."""
OWN_LEAST_MAJOR = 8
"""Compute capability, by its first number, from which on GPUs multiply bfloat16 in our kernel."""
OWN_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
"""What our kernel multiplies."""
ALIGNMENT = 16
"""Bytes that the rows of its operands must be multiples of."""
GROUP_ROWS = 16
"""Rows that a group has a multiple of where its weights have a gradient, whose sum goes over these rows."""


def can_group(x_ND: Tensor, *matrices_EFD: Tensor) -> bool:
    """Says whether `multiply_groups` serves a pass without gradients: a GPU with a kernel for the dtype."""
    return (
        not torch.is_grad_enabled()
        and (_by_own_kernel(x_ND) or _by_torch(x_ND, *matrices_EFD))
        and not torch.is_autocast_enabled(x_ND.device.type)  # which not every kind of device has
        and all(matrix.dtype == x_ND.dtype for matrix in matrices_EFD)
    )


def _by_own_kernel(x_ND: Tensor) -> bool:
    return x_ND.dtype in OWN_DTYPES and kernels.usable(x_ND.device)


def _by_torch(x_ND: Tensor, *matrices_EFD: Tensor) -> bool:
    """Says whether PyTorch has a kernel for rows of the dtype, which are aligned."""
    return (
        x_ND.dtype in GROUPED_DTYPES.get(x_ND.device.type, ())
        and aligned(_widths(matrices_EFD), x_ND.dtype)
        and _torch_groups(x_ND.device)
    )


def groups_in_training(x_ND: Tensor, *matrices_EFD: Tensor, columns: Iterable[int] = ()) -> bool:
    """Says whether one grouped matmul serves a pass of training: under autocast to bfloat16, on a GPU that has it.

    Args:
        columns: of matrices that are packed, and whole only while they are multiplied.
    """
    widths = (*_widths(matrices_EFD), *columns)
    if x_ND.device.type == "meta":
        return _COUNTED.get() and aligned(widths, torch.bfloat16)
    return (
        x_ND.device.type == "cuda"
        and autocast_dtype("cuda") == torch.bfloat16
        and all(type(matrix) in (Tensor, torch.nn.Parameter) for matrix in matrices_EFD)
        and aligned(widths, torch.bfloat16)
        and device_groups(x_ND.device)
    )


_COUNTED = ContextVar("counted", default=False)


@contextmanager
def counted_in_groups() -> Iterator[None]:
    """Has passes of training without numbers, which are made to count memory, go the way of a GPU that groups."""
    before = _COUNTED.set(True)
    try:
        yield
    finally:
        _COUNTED.reset(before)


def _widths(matrices_EFD: tuple[Tensor, ...]) -> Iterator[int]:
    return (matrix.shape[-1] for matrix in matrices_EFD)


def aligned(widths: Iterable[int], dtype: torch.dtype) -> bool:
    """Says whether rows of these widths begin where grouped products want them to."""
    return all(width * dtype.itemsize % ALIGNMENT == 0 for width in widths)


def device_groups(device: torch.device) -> bool:
    """Says whether a device has a kernel that multiplies groups of rows in bfloat16."""
    if device.type == "cuda" and kernels.usable(device) and _capability(device) >= OWN_LEAST_MAJOR:
        return True
    return _torch_groups(device)


def _torch_groups(device: torch.device) -> bool:
    if _GROUPED_MM is None:
        return False
    if device.type == "cuda":
        return _capability(device) in GROUPED_MAJORS
    return has_grouped_kernel("MPS")


@functools.cache
def _capability(device: torch.device) -> int:
    return torch.cuda.get_device_capability(device)[0]


def has_grouped_kernel(backend: str) -> bool:
    """Says whether this PyTorch multiplies groups on a backend, such as `MPS`, by a kernel, and not one by one."""
    return torch._C._dispatch_has_kernel_for_dispatch_key("aten::_grouped_mm", backend)


_GROUPED_MM: Callable[..., Tensor] | None = getattr(F, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)


def multiply_groups(x_MD: Tensor, ends_E: Tensor, matrix_EFD: Tensor) -> Tensor:
    """Multiplies sorted rows by their experts' matrices, [M, F]; rows behind the last end are left undefined."""
    if _by_own_kernel(x_MD):
        own = not _by_torch(x_MD, matrix_EFD) or _is_quicker(x_MD, matrix_EFD)
        if own or _splits_sums(x_MD, matrix_EFD):
            return _multiply(x_MD, ends_E, matrix_EFD, own)
    return _multiply_by_torch(x_MD, ends_E, matrix_EFD)


def _is_quicker(x_MD: Tensor, matrix_EFD: Tensor) -> bool:
    """Says whether our kernel is the quicker one where PyTorch has one, too: for few rows a group, as measured on an
    H100. Passes of training keep to PyTorch's."""
    from gesso.kernels import grouped

    learns = torch.is_grad_enabled() and (x_MD.requires_grad or matrix_EFD.requires_grad)
    return not learns and grouped.has_few(len(x_MD), len(matrix_EFD), x_MD.itemsize)


def _splits_sums(x_MD: Tensor, matrix_EFD: Tensor) -> bool:
    """Says whether our kernel makes the gradient of the matrices of rows that PyTorch multiplies: few matrices and many
    rows, which it adds up in parts."""
    from gesso.kernels import grouped

    if not (matrix_EFD.requires_grad and in_training()):
        return False
    groups, columns, width = matrix_EFD.shape
    return grouped.program_of_sums(len(x_MD), groups, columns, width, x_MD.itemsize).parts >= grouped.WORTH


def _multiply_by_torch(x_MD: Tensor, ends_E: Tensor, matrix_EFD: Tensor) -> Tensor:
    assert _GROUPED_MM is not None
    return _GROUPED_MM(x_MD, matrix_EFD.mT, offs=ends_E)


def _multiply(x_MD: Tensor, ends_E: Tensor, matrix_EFD: Tensor, own: bool) -> Tensor:
    out: Tensor = _Product.apply(x_MD, ends_E, matrix_EFD, own)  # type: ignore[no-untyped-call]
    return out


class _Product(torch.autograd.Function):
    """Multiplies rows, and back, by our `own` kernel or PyTorch's; the gradient of matrices is always made by ours."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, ends: Tensor, matrix: Tensor, own: bool) -> Tensor:
        from gesso.kernels import grouped

        of_x, _, of_matrix, _ = ctx.needs_input_grad
        ctx.own = own
        ctx.save_for_backward(x if of_matrix else None, ends, matrix if of_x else None)
        return grouped.matmul(x, ends, matrix) if own else _multiply_by_torch(x, ends, matrix)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        from gesso.kernels import grouped

        (x, ends, matrix), grad = ctx.saved_tensors, grads[0].contiguous()
        add_up = grouped.weight_gradient
        if torch.is_grad_enabled():  # what is found here is differentiated once more
            add_up = _sums_of_products if ctx.own else _sums_by_torch
        to_x = None if matrix is None else _multiply(grad, ends, matrix.mT, ctx.own)
        return to_x, None, None if x is None else add_up(grad, x, ends), None


def _sums_by_torch(grad_MF: Tensor, x_MD: Tensor, ends_E: Tensor) -> Tensor:
    assert _GROUPED_MM is not None
    return _GROUPED_MM(grad_MF.mT, x_MD, offs=ends_E)


def _sums_of_products(grad_MF: Tensor, x_MD: Tensor, ends_E: Tensor) -> Tensor:
    """Computes `grouped.weight_gradient` of rows that all have a group, by array operations."""
    counts = ends_E.diff(prepend=ends_E.new_zeros(1)).tolist()
    pairs = zip(grad_MF.split(counts), x_MD.split(counts), strict=True)
    return torch.stack([left.T @ right for left, right in pairs])


def sorted_layout(experts_Nk: Tensor, num_experts: int) -> tuple[Tensor, Tensor, Tensor]:
    """Lays tokens side by side by expert, without waiting for the device.

    Returns:
        The token of every row [M], the row of every (token, choice) [M], and where each expert's rows end [E].
    """
    order, _, ends_E = _sort(experts_Nk, num_experts)
    slots_M = torch.empty_like(order)
    slots_M[order] = torch.arange(len(order), device=order.device)
    return order // experts_Nk.shape[1], slots_M, ends_E


def padded_layout(experts_Nk: Tensor, num_experts: int) -> tuple[Tensor, Tensor, Tensor]:
    """Lays tokens side by side by expert, in groups of multiples of `GROUP_ROWS`, without waiting for the device.

    There are as many rows as any choice may need. Those that no token has, all in a group, are token 0 once more. No
    group is without rows: what the kernel makes of its gradient differs by GPU (pytorch/pytorch#172439), while rows
    whose own gradients are zero make it zero.

    Returns:
        The token of every row [M], the row of every (token, choice) [N * k], and where each expert's rows end [E].
    """
    tokens, top_k = experts_Nk.shape
    order, chosen, ends_E = _sort(experts_Nk, num_experts)
    counts_E = ends_E.diff(prepend=ends_E.new_zeros(1))
    padded_E = ((counts_E + GROUP_ROWS - 1) // GROUP_ROWS).clamp(min=1) * GROUP_ROWS
    padded_ends_E = padded_E.cumsum(0)
    places = torch.arange(len(order), device=order.device)
    slots = torch.empty_like(order)
    slots[order] = places + (padded_ends_E - padded_E - (ends_E - counts_E))[chosen.long()]
    rows = padded_rows(tokens * top_k, num_experts)
    source_M = torch.zeros(rows, dtype=order.dtype, device=order.device)
    source_M[slots] = places // top_k
    padded_ends_E[-1:].fill_(rows)  # an assignment would wait for the device
    return source_M, slots, padded_ends_E.to(torch.int32)


def padded_rows(choices: int, num_experts: int) -> int:
    """Returns the rows of `padded_layout` for so many choices of experts by tokens."""
    return (-(-choices // GROUP_ROWS) + num_experts) * GROUP_ROWS


def _sort(experts_Nk: Tensor, num_experts: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sorts all choices by expert: their places, their experts, and where each expert's end."""
    # Short keys: a GPU sorts them bit by bit.
    chosen, order = experts_Nk.flatten().to(torch.int16).sort(stable=True)
    # Where each expert's rows end. (bincount would wait for the device.)
    numbers_E = torch.arange(num_experts, device=experts_Nk.device, dtype=torch.int16)
    return order, chosen, torch.searchsorted(chosen, numbers_E, right=True, out_int32=True)
