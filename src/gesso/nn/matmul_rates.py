"""Measures how a CPU's matmuls in bfloat16 compare with those in fp32, by which `dtype: auto` is decided.

With instructions for bfloat16 they are twice as fast and more; without, each number is widened first, and they take up
to three times as long.
"""

import functools
import time

import torch
from torch.nn import functional as F

ROWS, SIZE, TRIALS = 256, 1024, 4
"""Rows of a canvas and a matrix of a middling model: 0.5 GFLOP."""


@functools.cache
def bfloat16_speed() -> float:
    """Returns how many times as fast as in fp32 a matmul of a canvas in bfloat16 is; measured once in a process, some
    0.1 s."""
    seconds = {torch.float32: float("inf"), torch.bfloat16: float("inf")}
    data = {
        dtype: (torch.ones(ROWS, SIZE, device="cpu", dtype=dtype), torch.ones(SIZE, SIZE, device="cpu", dtype=dtype))
        for dtype in seconds
    }
    with torch.inference_mode():
        for trial in range(1 + TRIALS):  # in turn, so that other work slows both down
            for dtype, (x, weight) in data.items():
                begin = time.perf_counter()
                F.linear(x, weight)
                if trial:  # the first one compiles
                    seconds[dtype] = min(seconds[dtype], time.perf_counter() - begin)
    return seconds[torch.float32] / seconds[torch.bfloat16]
