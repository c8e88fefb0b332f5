"""Compiles the kernels of `steps`, once in a process."""

import ctypes
import functools
from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

from gesso.kernels.host.compilation import POINTER, WHOLE, callables, compile_module
from gesso.kernels.host.expert_groups import write_group_rows
from gesso.kernels.host.steps import write_call, write_keep_heads, write_list_pieces, write_run


@dataclass(frozen=True, slots=True)
class StepKernels:
    """Holds the compiled kernels of `steps`."""

    run: Callable[..., int]
    calls: dict[tuple[int, int], int]
    """Addresses of the functions that call one of so many words and floats."""
    list_pieces: Callable[..., None]
    keep: Callable[..., None]
    group_rows: Callable[..., None]


SIGNATURES = ((4, 0), (6, 1), (7, 0), (8, 0), (9, 0), (9, 1), (10, 2), (13, 0), (13, 2))
"""Words and floats of the functions that are called as steps."""


@functools.cache
def step_kernels() -> StepKernels:
    """Compiles the kernels of `steps`."""
    module = ir.Module("gesso_steps")
    write_run(module, "run")
    write_list_pieces(module, "list_pieces")
    write_keep_heads(module, "keep")
    write_group_rows(module, "group_rows")
    for wholes, floats in SIGNATURES:
        write_call(module, f"call_{wholes}_{floats}", wholes, floats)
    address = compile_module(module)
    made = callables(address, {"list_pieces": (3, 1, 0), "keep": (4, 3, 0), "group_rows": (8, 5, 0)})
    run = ctypes.CFUNCTYPE(WHOLE, POINTER, *[WHOLE] * 3, POINTER, *[WHOLE] * 3, POINTER)
    calls = {size: address("call_{}_{}".format(*size)) for size in SIGNATURES}
    return StepKernels(run(address("run")), calls, **made)
