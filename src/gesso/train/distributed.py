"""Several processes: `torchrun --nproc-per-node N -m gesso ...` with FSDP2.

Every process builds the same global batch and takes its share; parameters, gradients and optimiser state lie in parts.
Checkpoints hold whole tensors, so a run goes on with any number of processes.
"""

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from gesso.errors import OptionError
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.loading import pick_device


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """The processes of a run; one of one where `torchrun` did not start it."""

    device: torch.device
    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process is the one that writes and tells."""
        return self.rank == 0

    def total(self, values: Tensor) -> Tensor:
        """The sum of `values` over the processes."""
        if self.size > 1:
            values = values.to(self.device)
            dist.all_reduce(values)
        return values

    def barrier(self) -> None:
        """Wait for the others."""
        if self.size > 1:
            dist.barrier()


def join_process_group(device: str) -> ProcessGroup:
    """The group that `torchrun`'s environment describes.

    Raises:
        OptionError: a device that does not exist here.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    place = pick_device(device)
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


def leave_process_group(group: ProcessGroup) -> None:
    """End the process group."""
    if group.size > 1 and dist.is_initialized():
        dist.destroy_process_group()


def shard(model: DiffusionGemma, root: nn.Module, group: ProcessGroup) -> None:
    """Lay the parameters of every block, and then what is left in `root`, in parts over the processes."""
    mesh = init_device_mesh(group.device.type, (group.size,))
    for _, _, block in model.blocks():
        fully_shard(block, mesh=mesh)
    fully_shard(root, mesh=mesh)


def reshard(root: nn.Module) -> None:
    """Lay `root` in parts again: after a pass without gradients it stays whole, and has no optimiser state then."""
    if isinstance(root, FSDPModule):
        root.reshard()


def whole(tensor: Tensor) -> Tensor:
    """A parameter or state in one piece; all processes call this together."""
    tensor = tensor.detach()
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def like(full: Tensor, parameter: Tensor) -> Tensor:
    """`full` laid out as `parameter` is: this process's part of it."""
    if isinstance(parameter, DTensor) and full.shape == parameter.shape:
        return distribute_tensor(full.to(parameter.device), parameter.device_mesh, parameter.placements)
    return full.to(parameter.device)


def parted(part: Tensor, pattern: DTensor) -> DTensor:
    """This process's part of a tensor that lies in parts as `pattern` does."""
    shape, stride = pattern.shape, pattern.stride()
    return DTensor.from_local(
        part, pattern.device_mesh, pattern.placements, run_check=False, shape=shape, stride=stride
    )


def local_part(tensor: Tensor) -> Tensor:
    """What this process holds of a tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def everywhere(flag: bool, device: torch.device) -> bool:
    """Whether it holds in every process; all call this together."""
    least = torch.tensor(float(flag), device=device)
    dist.all_reduce(least, dist.ReduceOp.MIN)
    return bool(least)
