"""Compiles the kernels by AMX that no packed format has (those are in `library`), once in a process."""

import functools
from dataclasses import dataclass

from llvmlite import ir

from gesso.kernels.host import amx
from gesso.kernels.host.bfloat16_columns import write_copy, write_multiply_columns
from gesso.kernels.host.bfloat16_tiles import write_multiply, write_turn
from gesso.kernels.host.compilation import compile_arrays
from gesso.kernels.host.threads import Work, work_of


@dataclass(frozen=True, slots=True)
class BFloat16Tiles:
    """Holds the compiled kernels of `bfloat16_tiles`, or those of `bfloat16_columns`."""

    lay_out: Work
    """Lays rows out as `multiply` reads them."""
    multiply: Work


@functools.cache
def bfloat16_tiles(turned: bool) -> BFloat16Tiles:
    """Compiles the kernels that multiply in tiles by a matrix that lies row by row, or column by column (`turned`)."""
    amx.available()  # asks the system for its registers
    module = ir.Module(f"gesso_bfloat16_tiles_{turned:d}")
    (write_copy if turned else write_turn)(module, "lay_out")
    (write_multiply_columns if turned else write_multiply)(module, "multiply")
    made = compile_arrays(module, {"lay_out": (1, 3, 0), "multiply": (1, 3, 0)})
    return BFloat16Tiles(**{name: work_of(kernel) for name, kernel in made.items()})
