"""Rounds numbers inside of kernels."""

import triton
import triton.language as tl


@triton.jit
def rounded(x, dtype: tl.constexpr):
    """Rounds fp32 x to what `dtype` holds.

    bfloat16 by hand: a conversion that reads a matmul's registers keeps Hopper's matmuls from overlapping (ptxas warns
    of it, C7514), and the interpreter cuts off where it should round.
    """
    if dtype == tl.bfloat16:
        bits = x.to(tl.int32, bitcast=True)
        x = ((bits + 0x7FFF + ((bits >> 16) & 1)) & -0x10000).to(tl.float32, bitcast=True)
    else:
        x = x.to(dtype).to(tl.float32)
    return x


@triton.jit
def store_rounded(place, x, mask):
    """Stores fp32 x in the type of where it goes."""
    kind = place.dtype.element_ty
    tl.store(place, rounded(x, kind).to(kind), mask=mask)
