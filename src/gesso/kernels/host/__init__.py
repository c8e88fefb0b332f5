"""Provides kernels for CPUs, written in LLVM's language and compiled on the machine that they run on.

llvmlite brings LLVM along as a wheel, so that no compiler is asked for. (`products` has the arithmetic, `packed` what
the rest of gesso calls.)
"""

import functools
from collections.abc import Sequence
from importlib.util import find_spec

from torch import Tensor

LLVM = 22
"""The first version whose byte products take vectors of bytes."""


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

    return packed.layout(name, parts) is not None and all(part.is_contiguous() for part in parts)
