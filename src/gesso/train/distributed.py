"""Runs training in several processes: `torchrun --nproc-per-node N -m gesso ...` with FSDP2.

Every process builds the same global batch and takes its share; parameters, gradients and optimiser state are sharded.
Checkpoints hold full tensors, so a run goes on with any number of processes.
"""

import dataclasses
import os
from collections.abc import Iterable, Set
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from gesso.errors import OptionError
from gesso.models.device import avoid_cudnn_attention, pick_device
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.train.config import TrainConfig
from gesso.train.context_parallel import ContextGroup, context_group


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """Describes this process among those of a run; rank 0 of 1 where `torchrun` did not start it."""

    device: torch.device
    rank: int = 0
    size: int = 1
    context: ContextGroup | None = None
    """The processes that have the parts of the same sequences; None where each has whole ones."""

    @property
    def batch_parts(self) -> int:
        """Returns how many parts a batch is divided into."""
        return self.size if self.context is None else self.size // self.context.size

    @property
    def batch_part(self) -> int:
        """Returns which of them is this process's."""
        return self.rank if self.context is None else self.rank // self.context.size

    @property
    def is_main(self) -> bool:
        """Says whether this process is rank 0, the one that writes files and calls back."""
        return self.rank == 0

    def all_reduce_sum(self, values: Tensor) -> Tensor:
        """Sums `values` over the processes; all of them call this together."""
        if self.size > 1:
            values = values.to(self.device)
            dist.all_reduce(values)
        return values

    def barrier(self) -> None:
        """Waits for the other processes."""
        if self.size > 1:
            dist.barrier()


def check_processes(config: TrainConfig, processes: int) -> None:
    """Refuses settings that are of one process where several train.

    Raises:
        OptionError: answers on the way, or whole matrices made orthogonal that lie in parts.
    """
    if processes > 1 and config.sample_every:
        raise OptionError(
            "samples on the way are made by one process only: leave out sample_every", option="sample_every"
        )
    if processes > 1 and config.optimizer == "muon" and config.expert_parallel > 1:
        raise OptionError(
            "muon makes whole matrices orthogonal, and expert_parallel lays them over the processes: use adamw",
            option="optimizer",
        )


def join_process_group(device: str) -> ProcessGroup:
    """Joins the process group that `torchrun`'s environment describes.

    Raises:
        OptionError: a device that does not exist here.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    place = pick_device(device)
    avoid_cudnn_attention(place)
    if size == 1:
        return ProcessGroup(place)
    if place.type == "cuda":
        number = int(os.environ.get("LOCAL_RANK", "0"))
        if number >= torch.cuda.device_count():
            raise OptionError(f"process {number} of this machine has no GPU: there are {torch.cuda.device_count()}")
        place = torch.device("cuda", number)
        torch.cuda.set_device(place)
    elif place.type != "cpu":
        raise OptionError(f"several processes run on cuda or cpu, not on {place.type}")
    if not dist.is_initialized():
        dist.init_process_group("nccl" if place.type == "cuda" else "gloo")
    return ProcessGroup(place, dist.get_rank(), size)


def split_sequences(group: ProcessGroup, context_parallel: int) -> ProcessGroup:
    """Lets so many neighbouring processes share each sequence; all processes call this.

    Raises:
        OptionError: the run's processes are not so many, or a multiple.
    """
    context = context_group(group.device.type, group.rank, group.size, context_parallel)
    return dataclasses.replace(group, context=context)


def leave_process_group(group: ProcessGroup) -> None:
    """Destroys the process group."""
    if group.size > 1 and dist.is_initialized():
        dist.destroy_process_group()


def process_mesh(group: ProcessGroup) -> DeviceMesh:
    """Returns the mesh of one dimension that all processes form."""
    return init_device_mesh(group.device.type, (group.size,))


def shard(model: DiffusionGemma, root: nn.Module, mesh: DeviceMesh, apart: Set[nn.Parameter] = frozenset()) -> None:
    """Shards the parameters of every block, and then what is left in `root`, over the processes.

    Args:
        apart: parameters that stay as they are.
    """
    for _, _, block in model.blocks():
        fully_shard(block, mesh=mesh, ignored_params=set(apart))
    fully_shard(root, mesh=mesh, ignored_params=set(apart))


def average_gradients(parameters: Iterable[nn.Parameter], group: ProcessGroup) -> None:
    """Puts the mean over the processes in place of every gradient, as FSDP does; for parameters that all of them hold
    whole. One that only some of them met counts as zero in the others."""
    held = list(parameters)
    met = torch.tensor([float(parameter.grad is not None) for parameter in held], device=group.device)
    dist.all_reduce(met, op=dist.ReduceOp.MAX)
    for parameter, anywhere in zip(held, met.tolist(), strict=True):
        if anywhere and parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    grads = [parameter.grad for parameter in held if parameter.grad is not None]
    flat = torch.cat([grad.flatten() for grad in grads])
    dist.all_reduce(flat)
    flat /= group.size
    for grad, mean in zip(grads, flat.split([grad.numel() for grad in grads]), strict=True):
        grad.copy_(mean.view_as(grad))


def reshard(root: nn.Module) -> None:
    """Shards `root` again: after a pass without gradients it stays full, and has no optimiser state then."""
    if isinstance(root, FSDPModule):
        root.reshard()


def full_tensor(tensor: Tensor) -> Tensor:
    """Gathers a parameter or state from all shards; all processes call this together."""
    tensor = tensor.detach()
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def shard_like(full: Tensor, parameter: Tensor) -> Tensor:
    """Returns this process's shard of `full`, laid out as `parameter` is."""
    if isinstance(parameter, DTensor) and full.shape == parameter.shape:
        return distribute_tensor(full.to(parameter.device), parameter.device_mesh, parameter.placements)
    return full.to(parameter.device)


def from_local_shard(part: Tensor, pattern: DTensor) -> DTensor:
    """Makes a distributed tensor, laid out as `pattern` is, of this process's shard."""
    shape, stride = pattern.shape, pattern.stride()
    return DTensor.from_local(
        part, pattern.device_mesh, pattern.placements, run_check=False, shape=shape, stride=stride
    )


def local_shard(tensor: Tensor) -> Tensor:
    """Returns this process's shard of a tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def on_all_ranks(flag: bool, device: torch.device) -> bool:
    """Says whether `flag` holds in every process; all call this together."""
    least = torch.tensor(float(flag), device=device)
    dist.all_reduce(least, dist.ReduceOp.MIN)
    return bool(least)
