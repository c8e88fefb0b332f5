"""What each process of a test of expert parallelism does."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from gesso.models.loading import load_folder
from gesso.nn.experts import Experts
from gesso.train import step
from gesso.train.distributed import join_process_group, local_shard, process_mesh, shard
from gesso.train.expert_parallel import lay_out_experts, own_experts
from gesso.train.optimizer import make_optimizer
from gesso.train.recipe import Recipe
from gesso.train.token_exchange import ParallelExperts
from train import runs

SHAPE = replace(runs.SHAPE, experts=7, top_k=2)
"""Two processes hold 4 and 3 of the experts, four of them 2, 2, 2 and 1."""


def make(start: str | None, **changes: Any) -> Recipe:
    """A recipe over `SHAPE`; with a `start`, of deltas over that checkpoint."""
    before, runs.SHAPE = runs.SHAPE, SHAPE
    try:
        made: Recipe = runs.recipe(**changes) if start is None else runs.adapter_recipe(Path(start), **changes)
    finally:
        runs.SHAPE = before  # other tests of this process have that one
    return made


def train(out: str, start: str | None, changes: dict[str, Any], stop_at: int | None = None) -> None:
    """A run, or some steps of it."""
    processes = dist.get_world_size() if dist.is_initialized() else 1
    runs.train(make(start, expert_parallel=processes, **changes), Path(out), device="cpu", stop_at=stop_at)


def mixture(choices: list[list[int]]) -> tuple[Experts, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Five experts of a layer, and tokens with weights for the experts that they choose."""
    torch.manual_seed(0)
    experts = Experts(16, 8, 5)
    for parameter in experts.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    experts_Nk = torch.tensor(choices)
    return experts, torch.randn(len(choices), 16), torch.rand(experts_Nk.shape), experts_Nk


def exchange(out: str, choices: list[list[int]], shares: list[int]) -> None:
    """Output and gradients of a process's share of the tokens, and of its experts."""
    rank, size = dist.get_rank(), dist.get_world_size()
    whole, x_ND, weights_Nk, experts_Nk = mixture(choices)
    own = own_experts(5, rank, size)
    held = Experts(16, 8, len(own))
    for part, parameter in zip(held.parameters(), whole.parameters(), strict=True):
        part.data = parameter.detach()[own.start : own.stop].clone()
    x, weights, chosen = (tensor.split(shares)[rank] for tensor in (x_ND, weights_Nk, experts_Nk))
    x, weights = x.clone().requires_grad_(), weights.clone().requires_grad_()
    assert dist.group.WORLD is not None
    mixed = ParallelExperts(held, own, 5, dist.group.WORLD)(x, weights, chosen)
    mixed.square().sum().backward()
    found = {"mixed": mixed.detach(), "x": x.grad, "weights": weights.grad}
    torch.save(found | {name: p.grad for name, p in held.named_parameters()}, Path(out) / f"{rank}.pt")


def hold(out: str, start: str | None, changes: dict[str, Any]) -> None:
    """Bytes that each process holds of weights, and of what it trains, when a run begins; how many numbers of experts
    it read from a file."""
    group = join_process_group("cpu")
    read = torch.zeros(1, dtype=torch.int64)

    def load(*arguments: Any, **options: Any) -> Any:
        model = load_folder(*arguments, **options)
        read.add_(sum(t.nbytes for name, t in model.state_dict().items() if ".experts." in name))
        return model

    setattr(step, load_folder.__name__, load)
    recipe, mesh = make(start, expert_parallel=group.size, **changes), process_mesh(group)
    model = step.start_model(recipe, group.device, mesh)
    shard(model, model, mesh, lay_out_experts(model, mesh))
    optimizer = make_optimizer(model, recipe.train)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    trained = [local_shard(p) for p in model.parameters() if p.requires_grad]
    frozen = [local_shard(p) for p in model.parameters() if not p.requires_grad]
    moments = [local_shard(t) for state in optimizer.state.values() for key, t in state.items() if key != "step"]
    sizes = {
        "trained": trained,
        "frozen": [*frozen, *model.buffers()],
        "moments": moments,
        "gradients": [local_shard(p.grad) for p in model.parameters() if p.grad is not None],
    }
    found = {name: sum(t.nbytes for t in tensors) for name, tensors in sizes.items()} | {"read": int(read)}
    torch.save(found, Path(out) / f"{group.rank}.pt")
