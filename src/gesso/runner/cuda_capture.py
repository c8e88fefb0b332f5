"""Captures one pass as a CUDA graph; `gesso.runner.cuda_graphs` says which, and when."""

from collections.abc import Callable
from contextlib import suppress

import torch
from torch import Tensor

Pass = Callable[..., Tensor]
"""(tokens [N], and where there is one the self-conditioning [N, D]) -> hidden states [N, D]."""
Capture = Callable[[Pass, tuple[Tensor, ...]], tuple[Callable[[], None], Tensor]]
"""A pass and the memory of its inputs -> what replays it, and the memory of its output, which replaying fills."""


class CudaCapture:
    """Captures on a stream of its own; all graphs share one memory pool."""

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device)
        self._pool = torch.cuda.graph_pool_handle()
        self._newest: torch.cuda.CUDAGraph | None = None
        """Keeps the pool: PyTorch captures into none whose graphs are all gone."""

    def __call__(self, work: Pass, inputs: tuple[Tensor, ...]) -> tuple[Callable[[], None], Tensor]:
        try:
            return self._captured(work, inputs)
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()  # which PyTorch does by itself, but not during a capture
        return self._captured(work, inputs)

    def _captured(self, work: Pass, inputs: tuple[Tensor, ...]) -> tuple[Callable[[], None], Tensor]:
        graph, now = torch.cuda.CUDAGraph(), torch.cuda.current_stream(inputs[0].device)
        self._stream.wait_stream(now)
        with torch.cuda.stream(self._stream):
            # Other threads, a server's say, may go on using the device.
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                out = work(*inputs)
            except BaseException:
                with suppress(RuntimeError):  # the first error says more than that the capture came to nothing
                    graph.capture_end()
                    self._newest = graph
                raise
            graph.capture_end()
        self._newest = graph
        now.wait_stream(self._stream)
        return graph.replay, out
