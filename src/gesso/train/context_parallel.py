"""Splits sequences over processes (context parallelism): each has a part of every row of the encoder and of every
canvas, and where a layer attends, the keys and values of all parts are gathered.

A row of L tokens is cut into 2 R pieces of ceil(L / 2 R) tokens, of which process r has the pieces r and 2 R - 1 - r:
under a causal mask all have as much to attend to (as Llama 3 was trained, arXiv 2407.21783, section 3.3.2). A canvas
is cut into R pieces. What is missing to whole pieces is the last token once more; nobody sees its keys, and nobody
asks for what comes of it. So every process has as many tokens as the others.

Everything but attention works token by token, on the tokens of its process alone. The gradients of keys and values
take the way back: summed over the processes, each receives those of its own tokens. A loss that is a sum over the
processes has the sum of their gradients then, which is what FSDP makes of it.

    B rows   L tokens of a row   T padded length   R processes of a sequence   M tokens of this process
    C canvas length   W columns of a canvas that this process has, ceil(C / R)   G key heads   K head dim
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh

from gesso.errors import OptionError


def check_context_parallel(context_parallel: int, processes: int) -> None:
    """Refuses a number of processes that sequences cannot be split over.

    Args:
        processes: of the run.

    Raises:
        OptionError: the run's processes are not so many, or a multiple.
    """
    if processes % context_parallel:
        raise OptionError(
            f"context_parallel {context_parallel} is for {context_parallel} processes or a multiple of them, "
            f"and the run has {processes}: start it with torchrun --nproc-per-node {context_parallel}",
            option="context_parallel",
        )


class _Gather(torch.autograd.Function):
    """Puts the tensors of all processes behind each other; on the way back each gets the sum of its part's
    gradients, made in fp32."""

    @staticmethod
    def forward(ctx: Any, part_M: Tensor, size: int, group: dist.ProcessGroup | None) -> Tensor:
        ctx.size, ctx.group, ctx.dtype = size, group, part_M.dtype
        return _gather(part_M, size, group)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = gradients
        gradient = gradient.contiguous() if gradient.itemsize >= 4 else gradient.float().contiguous()
        part_M = gradient.new_empty(len(gradient) // ctx.size, *gradient.shape[1:])
        dist.reduce_scatter_tensor(part_M, gradient, group=ctx.group)
        return part_M.to(ctx.dtype), None, None


def _gather(part_M: Tensor, size: int, group: dist.ProcessGroup | None) -> Tensor:
    whole = part_M.new_empty(size * len(part_M), *part_M.shape[1:])
    if not part_M.is_meta:  # of an estimate
        dist.all_gather_into_tensor(whole, part_M.contiguous(), group=group)
    return whole


@dataclass(frozen=True, slots=True)
class OwnTokens:
    """Says which tokens of a flat batch of rows are this process's."""

    lengths: tuple[int, ...]
    """How many of each row, those that fill it up included."""
    columns_M: Tensor
    """Where in its row each token is."""
    places_M: Tensor
    """Where in the flat batch."""
    real_M: Tensor
    """Whether it is one of the row, and none that fills up."""


@dataclass(frozen=True, slots=True)
class ContextGroup:
    """Describes the processes that have the parts of the same sequences; all of them call its methods together."""

    rank: int
    size: int
    group: dist.ProcessGroup | None = None
    """None is for tensors without content."""

    def own_lengths(self, lengths: Sequence[int]) -> tuple[int, ...]:
        """Returns how many tokens of each row every process has."""
        return tuple(2 * -(-length // (2 * self.size)) for length in lengths)

    def own_tokens(self, lengths: Sequence[int], device: torch.device) -> OwnTokens:
        """Returns this process's tokens of rows that are laid flat."""
        own = self.own_lengths(lengths)
        own_B, lengths_B = (torch.tensor(numbers, device=device) for numbers in (own, lengths))
        rows_M = torch.arange(len(own), device=device).repeat_interleave(own_B, output_size=sum(own))
        nth_M = torch.arange(sum(own), device=device) - (own_B.cumsum(0) - own_B)[rows_M]
        piece_M = own_B[rows_M] // 2
        second_M = nth_M >= piece_M
        number_M = torch.where(second_M, 2 * self.size - 1 - self.rank, self.rank)
        columns_M = number_M * piece_M + nth_M - piece_M * second_M
        real_M = columns_M < lengths_B[rows_M]
        columns_M = columns_M.minimum(lengths_B[rows_M] - 1)
        return OwnTokens(own, columns_M, columns_M + (lengths_B.cumsum(0) - lengths_B)[rows_M], real_M)

    def locate(self, lengths_B: Tensor, longest: int) -> tuple[Tensor, Tensor]:
        """Returns who has column t of each row, and as which of its tokens of the row, both [B, T]; of columns behind
        a row's end, those of its last token."""
        piece_B1 = -(-lengths_B // (2 * self.size))[:, None]
        columns_BT = torch.arange(longest, device=lengths_B.device).minimum(lengths_B[:, None] - 1)
        number_BT = columns_BT // piece_B1
        second_BT = number_BT >= self.size
        owner_BT = torch.where(second_BT, 2 * self.size - 1 - number_BT, number_BT)
        return owner_BT, columns_BT % piece_B1 + piece_B1 * second_BT

    def own_columns(self, width: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """Returns which columns of a canvas this process has, [W], and whether each is a column, and none that fills
        up."""
        each = -(-width // self.size)
        columns_W = torch.arange(self.rank * each, (self.rank + 1) * each, device=device)
        return columns_W.clamp(max=width - 1), columns_W < width

    def gather(self, part_M: Tensor) -> Tensor:
        """Gathers tensors of equal shape along their first dimension, [R M, ...], in the order of the processes, with
        gradients; as matmuls under autocast will take them."""
        kind = part_M.device.type
        if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
            part_M = part_M.to(torch.get_autocast_dtype(kind))
        out: Tensor = _Gather.apply(part_M, self.size, self.group)  # type: ignore[no-untyped-call]
        return out

    def whole_canvas(self, part_BW: Tensor, width: int) -> Tensor:
        """Puts the columns of all processes side by side, [B, C], without gradients."""
        whole_RBW = _gather(part_BW, self.size, self.group).view(self.size, *part_BW.shape)
        return whole_RBW.transpose(0, 1).flatten(1)[:, :width]


def context_group(device_type: str, rank: int, processes: int, context_parallel: int) -> ContextGroup | None:
    """Forms the groups of neighbouring processes that have the parts of the same sequences, the dimension `context` of
    a mesh; returns this process's, and None where each has whole ones. All processes call this.

    Raises:
        OptionError: the run's processes are not so many, or a multiple.
    """
    check_context_parallel(context_parallel, processes)
    if context_parallel == 1:
        return None
    shape, names = (processes // context_parallel, context_parallel), ("data", "context")
    mesh = init_device_mesh(device_type, shape, mesh_dim_names=names)["context"]
    return ContextGroup(rank % context_parallel, context_parallel, mesh.get_group())
