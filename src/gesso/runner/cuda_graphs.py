"""Captures denoising passes once and replays them, as CUDA graphs.

Within a canvas every step's pass is the same kernels over the same memory, behind a cache that does not change; what
differs is the canvas's tokens and the self-conditioning. Telling a GPU of some thousand kernels takes the host longer
than the kernels take, replaying a capture of them does not.

Life cycle of a graph: the first step of a canvas has no self-conditioning and runs as ever, which also puts the cache's
buffers in place; the second is captured; those after it are replayed. It serves as long as the cache's memory and
lengths are what they were, so committing a canvas ends it. One graph is held, of one canvas: a batch runs as ever.

A graph keeps the addresses of all that it reads, so nothing that a pass reads may be made anew while it lives: the
runner fixes the tables of positions at their full size before the first pass.

Nothing in a pass may wait for the device while it is captured. What would is the routing of experts, where it goes from
expert to expert: `cuda_graph_runner` refuses models whose experts are not multiplied in one call. Nor may anything be
set up that is set up when it is first asked for, a kernel for so many rows say: the first pass of every width, with
every adapter, runs as ever.
"""

from collections.abc import Callable, Hashable, Sequence

import torch
from torch import Tensor, nn

from gesso.errors import OptionError
from gesso.models.cache import KVCache
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.nn.experts import Experts, can_group
from gesso.nn.quant.base import in_kernel
from gesso.nn.quant.layers import QuantizedExperts
from gesso.nn.vocabulary import Vocabulary

Pass = Callable[[Tensor, Tensor], Tensor]
"""(canvas [N], self-conditioning [N, D]) -> hidden states [N, D]."""
Capture = Callable[[Pass, Tensor, Tensor], tuple[Callable[[], None], Tensor]]
"""A pass and the memory of its inputs -> what replays it, and the memory of its output, which replaying fills."""


class CudaGraphRunner:
    """Runs the denoising passes of one model, from its graph where there is one; a `Denoiser` in the model's place."""

    def __init__(self, model: DiffusionGemma, capture: Capture) -> None:
        self._model = model
        self._capture = capture
        self._key: Hashable = None
        self._inputs: tuple[Tensor, Tensor] | None = None
        self._replay: Callable[[], None] | None = None
        self._out: Tensor | None = None
        self._weights: Hashable = None
        self._warm: set[tuple[Hashable, int]] = set()

    @property
    def device(self) -> torch.device:
        return self._model.device

    @property
    def vocabulary(self) -> Vocabulary:
        return self._model.vocabulary

    def denoise_flat(
        self, canvas_N: Tensor, widths: Sequence[int], cache: KVCache, self_conditioning_ND: Tensor | None = None
    ) -> Tensor:
        """Runs `DiffusionGemma.denoise_flat`, replayed where it is captured."""
        if self_conditioning_ND is None or len(widths) != 1 or (self._weights, widths[0]) not in self._warm:
            if self_conditioning_ND is not None and len(widths) == 1:
                self._warm.add((self._weights, widths[0]))
            return self._model.denoise_flat(canvas_N, widths, cache, self_conditioning_ND)

        def work(tokens_N: Tensor, soft_ND: Tensor) -> Tensor:
            return self._model.denoise_flat(tokens_N, widths, cache, soft_ND)

        canvas_N = canvas_N.to(self.device)
        key = (
            *widths,
            _memory_of(cache),
            self_conditioning_ND.dtype,
            torch.is_inference_mode_enabled(),
            self._model.reference_parameter.data_ptr(),  # says whether the weights lie where they lay
        )
        if key != self._key:
            inputs = canvas_N.clone(), self_conditioning_ND.clone()
            # The last graph is let go of when this one stands: they share their memory.
            self._replay, self._out = self._capture(work, *inputs)
            self._inputs, self._key = inputs, key
        assert self._inputs is not None
        assert self._replay is not None
        assert self._out is not None
        for own, given in zip(self._inputs, (canvas_N, self_conditioning_ND), strict=True):
            own.copy_(given)
        self._replay()
        return self._out.clone()

    def invalidate(self, weights: Hashable = None) -> None:
        """Drops the graph, because other weights compute from here on; `weights` names them, such as an adapter."""
        self._key = None
        self._weights = weights


def _memory_of(cache: KVCache) -> Hashable:
    """Returns where keys and values lie, and how many there are: all that a pass knows of a cache."""
    return tuple(
        (row.length, tuple((part.kv.data_ptr(), part.kv.shape, part.start, part.end) for part in row.layers))
        for row in cache.rows
    )


def cuda_graph_runner(model: DiffusionGemma) -> CudaGraphRunner:
    """Checks that the passes of a model can be captured, and returns what captures them.

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
    return CudaGraphRunner(model, _CudaCapture(model.device))


def _in_one_call(experts: nn.Module, x: Tensor) -> bool:
    """Says whether all experts are multiplied at once, for rows of x's device and dtype."""
    if type(experts) is QuantizedExperts:
        return in_kernel(x)
    return type(experts) is Experts and can_group(x, *experts.parameters())


class _CudaCapture:
    """Captures on a stream of its own; all graphs share one memory pool."""

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
