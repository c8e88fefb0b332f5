"""Packs matrices on a CPU's cores, as `nn.quant.integer` defines it, and measures what is lost on the way."""

import torch
from torch import Tensor

from gesso.kernels.host.activations import LANES
from gesso.kernels.host.library import packer
from gesso.kernels.host.threads import share_out


def packs(weight: Tensor) -> bool:
    """Says whether a kernel packs this matrix: on the CPU, in bfloat16 or float32, of a multiple of 16 features."""
    return weight.is_cpu and weight.dtype in (torch.bfloat16, torch.float32) and weight.shape[-1] % LANES == 0


def pack_int4(weight: Tensor, group_size: int) -> tuple[tuple[Tensor, ...], float, float]:
    """Packs [out, in] as `Int4` does: codes, scales and offsets; the squared error, and the squared weights, summed.

    Raises:
        ValueError: features are no whole groups.
    """
    rows, features = weight.shape
    if features % group_size:
        raise ValueError(f"{features} input features are no multiple of the group size {group_size}")
    shape = (rows, features // group_size)
    codes = torch.empty(rows, features // 2, dtype=torch.uint8, device=weight.device)
    scales, offsets = (torch.empty(shape, dtype=torch.bfloat16, device=weight.device) for _ in range(2))
    lost, size = _share(weight, 4, group_size, rows * shape[1], (codes, scales, offsets))
    return (codes, scales, offsets), lost, size


def pack_int8(weight: Tensor) -> tuple[tuple[Tensor, ...], float, float]:
    """Packs [out, in] as `Int8` does: codes and scales; the squared error, and the squared weights, summed."""
    codes = torch.empty(weight.shape, dtype=torch.int8, device=weight.device)
    scales = torch.empty(len(weight), dtype=torch.float32, device=weight.device)
    lost, size = _share(weight, 8, 0, len(weight), (codes, scales, scales))
    return (codes, scales), lost, size


def _share(weight: Tensor, bits: int, group_size: int, count: int, parts: tuple[Tensor, ...]) -> tuple[float, float]:
    weight, threads = weight.contiguous(), torch.get_num_threads()
    kernel = packer(bits, group_size, weight.dtype == torch.bfloat16)
    errors = torch.zeros(threads, 2, dtype=torch.float64, device=weight.device)

    def work(thread: int, begin: int, end: int) -> None:
        places = (*(part.data_ptr() for part in parts), errors[thread].data_ptr())
        kernel(weight.data_ptr(), weight.shape[1], begin, end, *places)

    share_out(work, count, threads)
    lost, size = errors.sum(dim=0).tolist()
    return lost, size
