"""Provides kernels for CPUs, written in LLVM's language and compiled on the machine that they run on.

llvmlite brings LLVM along as a wheel, so that no compiler is asked for. (`tile_products` has the arithmetic, `packed`
what the rest of gesso calls.)

`llvm_ir` -> `words`, `activations`, `dots`, `layouts`, `pieces`, `amx` -> `tile_writer` -> `tile_scales`,
`tile_unpacking`, `tile_sums` (`tile_amx`, `tile_dots`) and `row_chunks`, `tile_rows` -> `tile_products`,
`float_products` (activations that are not rounded), `scans`, `packing` -> `library` and `gradients` (training:
`norm_gradients`, `block_gradients`, `gated`, `mixtures`, `softmax`, `narrow_softmax`, `head_layouts`), which compile by
`compilation` and keep what was compiled in an `object_cache`; `threads`, `team` (helpers), `openmp` (PyTorch's
threads), `calls` (several products as one job) and `row_jobs` (rows of one kernel). `packed` (multiply) and `pack` call
them. `compositions`, `pair_lists` and `refinements` compute what automata are made of; `norms`, `normed`, `gated`,
`choices` (of experts), `expert_groups` (rows by expert) and `one_query` (attention) what stands between products,
`online_softmax` what is made of the vocabulary's scores, by `exponential`; `mix` mixes rows of a table of bytes
(`mixing_weights`, `mixing_writer` -> `mixing_rows`, `mixing_tiles`); `steps` and `step_kernels` a list of calls and
jobs, one after the other. `bfloat16` multiplies numbers that are not packed, by `bfloat16_products` over
`bfloat16_slabs` (what each thread computes), and `bfloat16_amx` by `bfloat16_tiles` and `bfloat16_columns`, which
`amx_library` compiles.
"""

import functools
from collections.abc import Sequence
from importlib.util import find_spec

import torch
from torch import Tensor

LLVM = 22
"""The first version whose byte products take vectors of bytes."""
TYPES = {
    "fp32": (torch.float32,),
    "int8": (torch.int8, torch.float32),
    "int4": (torch.uint8, torch.bfloat16, torch.bfloat16),
    "nf4": (torch.uint8, torch.bfloat16),
    "nvfp4": (torch.uint8, torch.float8_e4m3fn, torch.float32),
    "fp8": (torch.float8_e4m3fn, torch.float32),
}
"""What kernels read the parts of a format as. A module that was cast (`model.float()`) has others."""


@functools.cache
def available() -> bool:
    """Says whether LLVM is installed, in a version whose instructions these kernels name."""
    if find_spec("llvmlite") is None:
        return False
    from llvmlite import binding

    return bool(binding.llvm_version_info[0] >= LLVM)


def reads(name: str, parts: Sequence[Tensor]) -> bool:
    """Says whether there is a kernel for parts of a format; asked where kernels are `available`."""
    from gesso.kernels.host import packed

    return (
        tuple(part.dtype for part in parts) == TYPES.get(name)
        and all(part.is_cpu and part.is_contiguous() for part in parts)
        and packed.layout(name, parts) is not None
    )
