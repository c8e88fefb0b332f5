"""What each process of a test of expert parallelism does."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from gesso.nn.experts import Experts
from gesso.train.expert_parallel import lay_out_experts, own_experts
from gesso.train.token_exchange import ParallelExperts
from train import runs

SHAPE = replace(runs.SHAPE, experts=7, top_k=2)
"""Two processes hold 4 and 3 of the experts, four of them 2, 2, 2 and 1."""


def make(start: Path | None, **changes: Any) -> Any:
    """A recipe over `SHAPE`; with a `start`, of deltas over that checkpoint."""
    runs.SHAPE = SHAPE
    return runs.recipe(**changes) if start is None else runs.adapter_recipe(start, **changes)


def train(out: str, start: str | None, changes: dict[str, Any], stop_at: int | None) -> None:
    """A run, or some steps of it."""
    processes = dist.get_world_size() if dist.is_initialized() else 1
    recipe = make(None if start is None else Path(start), expert_parallel=processes, **changes)
    runs.train(recipe, Path(out), device="cpu", stop_at=stop_at)


def mixture(seed: int, choices: list[list[int]]) -> tuple[Experts, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Five experts of a layer, and tokens with weights for the experts that they choose."""
    torch.manual_seed(seed)
    experts = Experts(16, 8, 5)
    for parameter in experts.parameters():
        torch.nn.init.normal_(parameter)
    experts_Nk = torch.tensor(choices)
    return experts, torch.randn(len(choices), 16), torch.rand(experts_Nk.shape), experts_Nk


def exchange(out: str, choices: list[list[int]], shares: list[int]) -> None:
    """Output and gradients of a process's share of the tokens, and of its experts."""
    rank, size = dist.get_rank(), dist.get_world_size()
    whole, x_ND, weights_Nk, experts_Nk = mixture(0, choices)
    own = own_experts(5, rank, size)
    held = Experts(16, 8, len(own))
    for part, parameter in zip(held.parameters(), whole.parameters(), strict=True):
        part.data = parameter.detach()[own.start : own.stop].clone()
    x, weights, chosen = (tensor.split(shares)[rank] for tensor in (x_ND, weights_Nk, experts_Nk))
    x, weights = x.clone().requires_grad_(), weights.clone().requires_grad_()
    mixed = ParallelExperts(held, 5, init_device_mesh("cpu", (size,)).get_group())(x, weights, chosen)
    mixed.square().sum().backward()
    found = {"mixed": mixed.detach(), "x": x.grad, "weights": weights.grad}
    torch.save(found | {name: p.grad for name, p in held.named_parameters()}, Path(out) / f"{rank}.pt")
