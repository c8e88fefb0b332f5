"""Names the instructions of AMX, by which a processor multiplies tiles of bytes, and asks the system for its registers.

A tile is a register of up to 16 rows of 64 bytes; how many rows and bytes each has is configured before it is used.
`multiply` takes tiles [16, 64], 64 bytes of each of 16 rows, and [16, 16, 4], four bytes of each of 16 other rows,
sixteen times, and adds 16 x 16 sums of 64 products to a third, of whole numbers of 32 bits.
"""

import ctypes
import functools
import platform
import sys

from llvmlite import ir

from gesso.kernels.host.compilation import features
from gesso.kernels.host.llvm_ir import I8, VOID, Value, Writer, constant

SIDE, WIDTH = 16, 64
"""Most rows of a tile, and most bytes of each."""
_CONFIGURATION, _PALETTE, _BYTES_OF, _ROWS_OF = 64, 1, 16, 48
"""Bytes of a configuration, its first one, and where the bytes of each tile's rows (16 bits), and the rows, stand."""
_SYSTEM_CALL, _ASK, _TILES = 158, 0x1023, 18
"""Linux's `arch_prctl`, its request for registers that it does not give by itself, and the tiles among these."""


@functools.cache
def available() -> bool:
    """Says whether the processor has AMX, for bytes and for bfloat16, and the system lets this process use it."""
    known, wanted = features(), ("amx-tile", "amx-int8", "amx-bf16", "avx512vnni")
    return all(known.get(name) for name in wanted) and _permitted()


def _permitted() -> bool:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    try:
        return bool(ctypes.CDLL(None).syscall(_SYSTEM_CALL, _ASK, _TILES) == 0)
    except (AttributeError, OSError, TypeError):
        return False


def configuration(shapes: dict[int, tuple[int, int]]) -> bytearray:
    """Returns what the processor reads of tiles' shapes.

    Args:
        shapes: rows, and bytes of each, of the tiles that are used, by their numbers.
    """
    held = bytearray(_CONFIGURATION)
    held[0] = _PALETTE
    for tile, (rows, width) in shapes.items():
        held[_BYTES_OF + 2 * tile] = width
        held[_ROWS_OF + tile] = rows
    return held


def write_configuration(module: ir.Module, name: str, shapes: dict[int, tuple[int, int]]) -> Value:
    """Writes a `configuration` as a constant of the module."""
    kind = ir.ArrayType(I8, _CONFIGURATION)
    made = ir.GlobalVariable(module, kind, name)
    made.global_constant, made.linkage, made.align = True, "internal", _CONFIGURATION
    made.initializer = ir.Constant(kind, configuration(shapes))
    return made


def configure(build: Writer, configuration: Value) -> None:
    """Gives the tiles their shapes; all are zero then."""
    build.own("llvm.x86.ldtilecfg", VOID, configuration)


def release(build: Writer) -> None:
    """Gives the registers up: the system need not keep them any longer."""
    build.own("llvm.x86.tilerelease", VOID)


def zero(build: Writer, tile: int) -> None:
    """Fills a tile with zeros."""
    build.own("llvm.x86.tilezero", VOID, constant(tile, I8))


def load(build: Writer, tile: int, address: Value, stride: Value) -> None:
    """Reads a tile whose rows stand `stride` bytes apart."""
    build.own("llvm.x86.tileloadd64", VOID, constant(tile, I8), address, stride)


def store(build: Writer, tile: int, address: Value, stride: Value) -> None:
    """Writes a tile, rows `stride` bytes apart."""
    build.own("llvm.x86.tilestored64", VOID, constant(tile, I8), address, stride)


def multiply(build: Writer, total: int, first: int, second: int) -> None:
    """Adds the products of signed bytes of two tiles to those of a third."""
    build.own("llvm.x86.tdpbssd", VOID, *(constant(tile, I8) for tile in (total, first, second)))


def multiply_floats(build: Writer, total: int, first: int, second: int) -> None:
    """Adds the products of bfloat16 numbers of two tiles to those of a third, of fp32; the tiles are [16, 32], and
    [16, 16, 2]: two numbers of each of sixteen rows, sixteen times."""
    build.own("llvm.x86.tdpbf16ps", VOID, *(constant(tile, I8) for tile in (total, first, second)))
