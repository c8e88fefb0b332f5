"""Denoising passes that are recorded once and played back: CUDA graphs.

Within a canvas every step's pass is the same kernels over the same memory, behind a cache that does not change; what
differs is the canvas's tokens and the self-conditioning. Telling a GPU of some thousand kernels takes the host longer
than the kernels take, playing a recording of them does not.

Life cycle of a recording: the first step of a canvas has no self-conditioning and runs as ever, which also puts the
cache's buffers in place; the second is recorded; those after it are played. It serves as long as the cache's memory and
lengths are what they were, so committing a canvas ends it. One recording is held, of one canvas: a batch runs as ever.

Nothing in a pass may wait for the device while it is recorded. What would is the routing of experts, where it goes from
expert to expert: `cuda_replays` refuses models whose experts are not multiplied in one call. Nor may anything be set up
that is set up when it is first asked for, a kernel for so many rows say: the first pass of every width runs as ever.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from gesso.errors import OptionError
from gesso.models.cache import KVCache
from gesso.nn.experts import Experts, grouped
from gesso.nn.quantized import QuantizedExperts, in_kernel

if TYPE_CHECKING:
    from gesso.models.diffusion_gemma import DiffusionGemma

Pass = Callable[[Tensor, Tensor], Tensor]
"""(canvas [N], self-conditioning [N, D]) -> hidden states [N, D]."""
Recorder = Callable[[Pass, Tensor, Tensor], tuple[Callable[[], None], Tensor]]
"""A pass and the memory of its inputs -> what plays it, and the memory of its output, which is filled by playing."""


class Replays:
    """The recording of one model's pass."""

    def __init__(self, record: Recorder) -> None:
        self._record = record
        self._key: Hashable = None
        self._inputs: tuple[Tensor, Tensor] | None = None
        self._play: Callable[[], None] | None = None
        self._out: Tensor | None = None
        self._warm: set[int] = set()

    def run(
        self,
        work: Pass,
        canvas_N: Tensor,
        widths: Sequence[int],
        cache: KVCache,
        self_conditioning_ND: Tensor,
        weights: Hashable,
    ) -> Tensor:
        """`work(canvas, soft)`, played where it is recorded.

        Args:
            weights: says whether the weights lie where they lay.
        """
        if len(widths) != 1 or widths[0] not in self._warm:
            if len(widths) == 1:
                self._warm.add(widths[0])
            return work(canvas_N, self_conditioning_ND)
        key = (*widths, _memory_of(cache), self_conditioning_ND.dtype, torch.is_inference_mode_enabled(), weights)
        if key != self._key:
            inputs = canvas_N.clone(), self_conditioning_ND.clone()
            # The last recording is let go of when this one stands: they share their memory.
            self._play, self._out = self._record(work, *inputs)
            self._inputs, self._key = inputs, key
        assert self._inputs is not None
        assert self._play is not None
        assert self._out is not None
        for own, given in zip(self._inputs, (canvas_N, self_conditioning_ND), strict=True):
            own.copy_(given)
        self._play()
        return self._out.clone()

    def forget(self) -> None:
        """Other weights compute from here on."""
        self._key = None


def _memory_of(cache: KVCache) -> Hashable:
    """Where keys and values lie, and how many there are: all that a pass knows of a cache."""
    return tuple(
        (row.length, tuple((part.kv.data_ptr(), part.kv.shape, part.start, part.end) for part in row.layers))
        for row in cache.rows
    )


def cuda_replays(model: "DiffusionGemma") -> Replays:
    """Recordings as CUDA graphs.

    Raises:
        OptionError: the model is not on a CUDA device, or its experts need the host.
    """
    if model.device.type != "cuda":
        raise OptionError(f"cuda_graphs needs a CUDA device, the model is on {model.device.type}", option="cuda_graphs")
    for _, _, block in model.blocks():
        with torch.no_grad():
            if not _in_one_call(block.experts, model.reference_parameter):
                raise OptionError(
                    "cuda_graphs needs experts in bfloat16 and a GPU of compute capability 9 or 10, or quantized ones "
                    "and Triton",
                    option="cuda_graphs",
                )
    return Replays(_CudaRecorder(model.device))


def _in_one_call(experts: nn.Module, x: Tensor) -> bool:
    """Whether all experts are multiplied at once, for rows of x's device and dtype."""
    if type(experts) is QuantizedExperts:
        return in_kernel(x)
    return type(experts) is Experts and grouped(x, *experts.parameters())


class _CudaRecorder:
    """Records on a stream of its own; all recordings share one pool of memory."""

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device)
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, work: Pass, canvas_N: Tensor, self_conditioning_ND: Tensor) -> tuple[Callable[[], None], Tensor]:
        graph, now = torch.cuda.CUDAGraph(), torch.cuda.current_stream(canvas_N.device)
        self._stream.wait_stream(now)
        with torch.cuda.stream(self._stream):
            # Other threads, a server's say, may go on using the device.
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                out = work(canvas_N, self_conditioning_ND)
            finally:
                graph.capture_end()
        now.wait_stream(self._stream)
        return graph.replay, out
