"""Whole grains of rows, so that a row's numbers do not depend on what stands beside it.

A CPU's matmul of a handful of rows adds up in another order than one of many. From some sixteen rows on every row's
result is the same bits, as long as the inner size stays below a thousand or so; past that it is the same but for
rounding.
"""

import torch
from torch import Tensor

GRAIN = 16
"""Rows come in multiples of this."""


def pad_rows(x: Tensor) -> Tensor:
    """Fill up to a whole grain with copies of the last row: they cost no expert that the row does not use itself."""
    fill = -x.shape[0] % GRAIN
    return x if not fill else torch.cat((x, x[-1:].expand(fill, *x.shape[1:])))
