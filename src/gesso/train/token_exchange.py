"""Sends tokens to the processes that hold their experts, and brings the experts' answers back, with gradients.

Every process has tokens of its own and some of a layer's experts (expert parallelism). A token's rows, one for each
expert that it chose, go to the holders of these; what comes back is weighted where the token is. On the way back
gradients take the same two exchanges the other way round.

Each process calls as often as the others, forward and backward, also where no token comes to it.

    N tokens   k choices of a token   D hidden   E experts   R processes   P experts of a process, at most
    M rows, one for each (token, choice)
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional as F

from gesso.nn.experts import FusedExperts
from gesso.nn.mixtures import apply_experts, weighted


class _Exchange(torch.autograd.Function):
    """Sends `sent[r]` rows to process r, one process's rows behind another's, and receives `received[r]` from it."""

    @staticmethod
    def forward(ctx: Any, rows_MD: Tensor, sent: list[int], received: list[int], group: dist.ProcessGroup) -> Tensor:
        ctx.way_back = (received, sent, group)
        return _all_to_all(rows_MD, sent, received, group)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        (gradient_MD,) = gradients
        return _all_to_all(gradient_MD, *ctx.way_back), None, None, None


def _all_to_all(rows_MD: Tensor, sent: list[int], received: list[int], group: dist.ProcessGroup) -> Tensor:
    arrived_MD = rows_MD.new_empty(sum(received), rows_MD.shape[1])
    dist.all_to_all_single(arrived_MD, rows_MD.contiguous(), received, sent, group=group)
    return arrived_MD


def exchange_rows(rows_MD: Tensor, sent: list[int], received: list[int], group: dist.ProcessGroup) -> Tensor:
    """Exchanges rows between all processes of a group, differentiably; all of them call this together.

    Args:
        rows_MD: the rows for process 0, those for process 1 behind them, and so on.
        sent: how many of them go to each process.
        received: how many rows each process sends to this one.

    Returns:
        The rows received, [sum(received), D], in the order of the processes.
    """
    out: Tensor = _Exchange.apply(rows_MD, sent, received, group)  # type: ignore[no-untyped-call]
    return out


class ParallelExperts:
    """Computes a layer's mixture with experts that lie over the processes of a group, in parts as `torch.chunk` makes
    them; each process holds one at least."""

    def __init__(self, experts: FusedExperts, own: range, num_experts: int, group: dist.ProcessGroup) -> None:
        """
        Args:
            experts: holds this process's experts; its `projections` yields these alone.
            own: which ones these are.
            num_experts: of all processes.
        """
        self.experts = experts
        self.own = own
        self.num_experts = num_experts
        self.group = group
        self.size = dist.get_world_size(group)
        self.most = -(-num_experts // self.size)

    def __call__(self, x_ND: Tensor, weights_Nk: Tensor, experts_Nk: Tensor) -> Tensor:
        """Sums weight times expert(x) over the chosen experts of this process's tokens, [N, D]."""
        tokens, top_k = experts_Nk.shape
        flat = experts_Nk.flatten()
        order = flat.argsort(stable=True)
        slots = torch.empty_like(order)
        slots[order] = torch.arange(len(order), device=order.device)
        rows_MD = x_ND.index_select(0, order // top_k)
        if torch.is_autocast_enabled(x_ND.device.type):
            rows_MD = rows_MD.to(torch.get_autocast_dtype(x_ND.device.type))  # what the experts would make of it

        sent_RP = F.pad(flat.bincount(minlength=self.num_experts), (0, self.size * self.most - self.num_experts))
        received_RP = torch.empty_like(sent_RP)
        dist.all_to_all_single(received_RP, sent_RP, group=self.group)
        counts = torch.stack((sent_RP, received_RP)).view(2, self.size, self.most)
        sent, received = counts.sum(dim=2).tolist()

        arrived_MD = exchange_rows(rows_MD, sent, received, self.group)
        places_M = torch.arange(self.most, device=flat.device).repeat(self.size)
        places_M = places_M.repeat_interleave(received_RP, output_size=sum(received))
        answers_MD = exchange_rows(self._answers(arrived_MD, places_M), received, sent, self.group)
        return weighted(answers_MD, slots.view(tokens, top_k), weights_Nk)

    def _answers(self, arrived_MD: Tensor, places_M: Tensor) -> Tensor:
        """Applies to each row its expert, the number `places_M` of those of this process."""
        projections = self.experts.projections()
        if len(arrived_MD):
            out_MD, slots_M1 = apply_experts(arrived_MD, places_M[:, None], len(self.own), projections)
            return out_MD.index_select(0, slots_M1.flatten())
        # Without a row, too, the exchange has its way back, and the weights have gradients, which are zero.
        gate_up, down = next(projections)
        gate, up = gate_up(arrived_MD).chunk(2, dim=-1)
        return down(gate * up)
