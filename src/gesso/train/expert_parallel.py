"""Lays the experts of every layer over the processes of a run, whole ones: expert parallelism.

What a process does not hold it never sees: tokens go to their experts (`gesso.train.token_exchange`), where FSDP would
gather a layer's experts for every pass. To everyone else, clipping, optimisers and checkpoints, they are tensors that
lie in parts along their first dimension, as those of FSDP do.
"""

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard

from gesso.errors import OptionError
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.nn.quant.layers import QuantizedExperts
from gesso.train.token_exchange import ParallelExperts


def check_expert_parallel(expert_parallel: int, num_experts: int, processes: int | None = None) -> None:
    """Refuses a number of processes that experts cannot be laid over.

    Args:
        processes: of the run; None where none is started.

    Raises:
        OptionError: the run has another number of processes, or one of them would hold no expert.
    """
    if expert_parallel == 1:
        return
    if processes is not None and processes != expert_parallel:
        raise OptionError(
            f"expert_parallel {expert_parallel} is for {expert_parallel} processes, and the run has {processes}: start "
            f"it with torchrun --nproc-per-node {expert_parallel}",
            option="expert_parallel",
        )
    if len(own_experts(num_experts, expert_parallel - 1, expert_parallel)) == 0:
        raise OptionError(
            f"{num_experts} experts leave one of {expert_parallel} processes without any: take fewer",
            option="expert_parallel",
        )


def own_experts(num_experts: int, rank: int, size: int) -> range:
    """Returns the experts that a process holds: parts of equal size, as `torch.chunk` makes them, the last one less."""
    most = -(-num_experts // size)
    return range(min(num_experts, most * rank), min(num_experts, most * (rank + 1)))


@torch.no_grad()
def hold_experts(model: DiffusionGemma, mesh: DeviceMesh) -> None:
    """Makes the experts that this process has loaded, its own ones alone, parts of what all processes hold: who asks
    for shapes is told those of all experts."""
    count = model.config.num_experts
    for _, _, block in model.blocks():
        for name, parameter in list(block.experts.named_parameters(recurse=False)):
            whole = _from_part(parameter.detach(), count, mesh)
            block.experts.register_parameter(name, nn.Parameter(whole, requires_grad=parameter.requires_grad))
        if isinstance(block.experts, QuantizedExperts):
            block.experts.num_experts = count


def experts_held(model: DiffusionGemma) -> range | None:
    """Returns the experts of this process where they lie over several; None where it has all."""
    _, _, block = next(model.blocks())
    return block.mix.own if isinstance(block.mix, ParallelExperts) else None


@torch.no_grad()
def lay_out_experts(model: DiffusionGemma, mesh: DeviceMesh) -> set[nn.Parameter]:
    """Leaves each process its experts, with their deltas, and lets the layers compute by exchanging tokens.

    Gradients of a loss that is summed over the processes, and multiplied by their number as FSDP's average wants it,
    come out as those of FSDP: the sum.

    Returns:
        The experts' parameters, which FSDP is to leave alone.
    """
    count, group = model.config.num_experts, mesh.get_group()
    own = own_experts(count, mesh.get_local_rank(), mesh.size())
    apart: set[nn.Parameter] = set()
    for _, _, block in model.blocks():
        for module in block.experts.modules():
            for name, parameter in list(module.named_parameters(recurse=False)):
                part = nn.Parameter(_part(parameter, count, mesh), requires_grad=parameter.requires_grad)
                if part.requires_grad:
                    part.register_hook(lambda gradient: gradient / mesh.size())
                module.register_parameter(name, part)
                apart.add(part)
            if isinstance(module, QuantizedExperts):
                for name, buffer in list(module.named_buffers(recurse=False)):
                    if len(buffer) == count:  # and not read as a part already
                        module.register_buffer(name, buffer[own.start : own.stop].clone())
        block.mix = ParallelExperts(block.experts, own, count, group)
    return apart


def _part(parameter: Tensor, count: int, mesh: DeviceMesh) -> DTensor:
    """Cuts this process's experts out of a tensor of all of them; one that lies in parts already stays as it is."""
    if isinstance(parameter, DTensor):
        return parameter
    own = own_experts(count, mesh.get_local_rank(), mesh.size())
    return _from_part(parameter.detach()[own.start : own.stop].clone(), count, mesh)


def _from_part(local: Tensor, count: int, mesh: DeviceMesh) -> DTensor:
    """Makes a tensor of all experts of this process's part."""
    shape, stride = torch.Size((count, *local.shape[1:])), local.stride()
    return DTensor.from_local(local, mesh, [Shard(0)], run_check=False, shape=shape, stride=stride)
