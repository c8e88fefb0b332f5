"""Shares the rows that a compiled kernel goes through among threads."""

import struct
import sys
from array import array
from collections.abc import Callable, Sequence

from gesso.kernels.host.openmp import take_units
from gesso.kernels.host.threads import address_of, fixed_threads, product_threads, share_units

ALONE = 1 << 17
"""Numbers that one thread is done with sooner than others could be asked to help."""


def share_rows(
    kernel: Callable[..., None],
    places: Sequence[int],
    rows: int,
    sizes: Sequence[int],
    *floats: float,
    numbers: int,
) -> None:
    """Calls a kernel (places, begin, end, sizes, floats) for all rows, by several threads where there are many
    numbers: each from one row to before another.

    Args:
        places: addresses, or numbers of 64 bits, before the rows, as `sizes` are behind them.
        numbers: that there are, in all rows.
    """
    threads = product_threads()
    if not is_shared(numbers, threads):
        kernel(*places, 0, rows, *sizes, *floats)
        return
    from gesso.kernels.host.library import row_caller

    words = array("q", (address_of(kernel), *places, *sizes, *map(float_bits, floats)))
    share = share_units if fixed_threads() else take_units
    share(row_caller(len(places), len(sizes), len(floats)), words.buffer_info()[0], rows, threads)


def is_shared(numbers: int, threads: int) -> bool:
    """Says whether threads share rows of so many numbers in all."""
    return numbers > ALONE and threads > 1


def float_bits(number: float) -> int:
    """Returns the bits of a number in fp32."""
    return int.from_bytes(struct.pack("=f", number), sys.byteorder)
