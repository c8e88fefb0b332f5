"""Captures passes once and replays them, as CUDA graphs: denoising passes, or those of a single token of each sequence.

Telling a GPU of some thousand kernels takes the host longer than the kernels take, replaying a capture of them does
not. What differs from pass to pass is the tokens, the self-conditioning, and how much is committed; the first two are
copied into memory of the graph's own, and the last stands in memory, too (`gesso.models.places`), so that a graph goes
on serving when a canvas or a token is committed.

Life cycle of a graph: the first pass of a kind (a canvas's first step, its further ones, a token, each of some width)
runs, the second is captured, and all after it are replayed, for as long as the cache's memory and the weights lie where
they lay. Caches of a size mostly get the memory of the one before. `KEPT` graphs are held. A prompt runs as ever.

A batch is captured where the same sequences come together for the second time: who takes part changes, and a capture
that is replayed once costs more than the pass. Passes that run read places as captured ones do, so that what a sequence
is answered does not depend on which of them it was in.

A graph keeps the addresses of all that it reads, so nothing that a pass reads may be made anew while it lives: the
runner fixes the tables of positions at their full size before the first pass.

Nothing in a pass may wait for the device while it is captured. What would is the routing of experts, where it goes from
expert to expert: models whose experts are not multiplied in one call are not captured, nor is a pass with an adapter on
experts. Nor may anything be set up that is set up when it is first asked for, a kernel for so many rows say: that is
why the first pass of a kind, with every adapter, runs. Where a capture fails all the same, for want of memory say,
passes run from there on, but for who asked for captures.
"""

import logging
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gesso.errors import OptionError
from gesso.models.cache import KVCache
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.family import BlockDiffusionModel
from gesso.models.flat_rows import PlacedEmbeddings, longest_of
from gesso.models.places import Places
from gesso.nn.experts import Experts
from gesso.nn.grouped_products import can_group
from gesso.nn.quant.base import in_kernel
from gesso.nn.quant.layers import QuantizedExperts
from gesso.nn.vocabulary import Vocabulary
from gesso.runner.cuda_capture import Capture, CudaCapture, Pass

LOG = logging.getLogger(__name__)
KEPT = 16
"""Graphs that are held at once."""
SEEN = 64
"""Batches that are remembered as having run."""
WARM = 4096
"""Kinds of passes that are."""


@dataclass(frozen=True, slots=True)
class _Graph:
    """Holds one captured pass."""

    inputs: tuple[Tensor, ...]
    replay: Callable[[], None]
    out: Tensor

    def run(self, inputs: tuple[Tensor, ...]) -> Tensor:
        for own, given in zip(self.inputs, inputs, strict=True):
            own.copy_(given)
        self.replay()
        return self.out.clone()


class CudaGraphRunner:
    """Runs the passes of one model, from a graph where there is one; a `Denoiser` in the model's place."""

    def __init__(self, model: DiffusionGemma, capture: Capture, *, needed: bool = True) -> None:
        """
        Args:
            needed: whether a capture that fails is an error; else passes run from there on.
        """
        self._model = model
        self._capture: Capture | None = capture
        self._needed = needed
        self._places: list[Places] = []
        """Those of a batch's first sequence, its second, and so on."""
        self._graphs: dict[Hashable, _Graph] = {}
        """The one that served longest ago comes first."""
        self._weights: Hashable = None
        self._warm: dict[Hashable, None] = {}
        """Kinds of passes that ran, that of longest ago first."""
        self._seen: dict[Hashable, None] = {}
        """Batches that ran, that of longest ago first."""

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

        def work(tokens_N: Tensor, soft_ND: Tensor | None = None) -> Tensor:
            return self._model.denoise_flat(tokens_N, widths, cache, soft_ND)

        soft = () if self_conditioning_ND is None else (self_conditioning_ND,)
        return self._run("canvas", work, cache, widths, (canvas_N.to(self.device), *soft))

    def encode_flat(
        self,
        tokens_N: Tensor,
        counts: Sequence[int],
        cache: KVCache,
        images: Sequence[Sequence[PlacedEmbeddings]] = (),
    ) -> Tensor:
        """Runs `DiffusionGemma.encode_flat`; a pass over one token of each row is replayed where it is captured."""
        if set(counts) != {1} or any(images):
            return self._model.encode_flat(tokens_N, counts, cache, images)

        def work(tokens_N: Tensor) -> Tensor:
            return self._model.pass_causal(tokens_N, counts, cache)

        found = self._run("token", work, cache, counts, (tokens_N.to(self.device),))
        for row in cache.rows:
            row.commit(1)
        return found

    def invalidate(self, weights: Hashable = None) -> None:
        """Drops the graphs, because other weights compute from here on; `weights` names them, such as an adapter."""
        self._graphs.clear()
        self._seen.clear()
        self._weights = weights

    def _run(self, kind: str, work: Pass, cache: KVCache, counts: Sequence[int], inputs: tuple[Tensor, ...]) -> Tensor:
        """Runs a pass over a cache's sequences, so many tokens of each, which reads from the device where they are.

        Raises:
            OptionError: tokens past the model's positions.
        """
        self._model.check_length(longest_of(cache, counts))
        try:
            for places, row, count in zip(self._places_of(cache), cache.rows, counts, strict=True):
                row.make_room(count)
                places.update(row.length, [(layer.start, layer.end) for layer in row.layers])
                row.places = places
            same = kind, tuple(counts), *((given.shape, given.dtype) for given in inputs), self._weights
            key = (
                same,
                tuple((layer.kv.data_ptr(), layer.kv.shape) for row in cache.rows for layer in row.layers),
                torch.is_inference_mode_enabled(),
                self._model.reference_parameter.data_ptr(),  # says whether the weights lie where they lay
            )
            if not self._is_known(same, key, alone=len(counts) == 1):
                return work(*inputs)
            graph = self._graphs.pop(key, None) or self._new_graph(work, inputs)
            if graph is None:
                return work(*inputs)
            self._graphs[key] = graph
            return graph.run(inputs)
        finally:
            for row in cache.rows:
                row.places = None

    def _new_graph(self, work: Pass, inputs: tuple[Tensor, ...]) -> _Graph | None:
        """Captures a pass; returns None where passes are not captured any more, or not with these weights."""
        if self._capture is None or not _groups_experts(self._model):
            return None
        if len(self._graphs) == KEPT:
            del self._graphs[next(iter(self._graphs))]
        try:
            own = tuple(given.clone() for given in inputs)
            return _Graph(own, *self._capture(work, own))
        except RuntimeError as error:  # CUDA's, want of memory among them
            if self._needed:
                raise
            LOG.warning("passes run one by one from here on, as this one cannot be captured: %s", error)
            self._graphs.clear()
            self._capture = None
            return None

    def _places_of(self, cache: KVCache) -> list[Places]:
        for _ in range(len(self._places), cache.batch_size):
            self._places.append(Places(len(self._model.config.layers), self._model.reference_parameter.device))
        return self._places[: cache.batch_size]

    def _is_known(self, same: Hashable, key: Hashable, *, alone: bool) -> bool:
        """Says whether a pass ran before: one of its kind, of a batch the very same sequences."""
        known = same in self._warm
        _remember(self._warm, same, WARM)
        if alone or key in self._graphs:
            return known
        known = known and key in self._seen
        _remember(self._seen, key, SEEN)
        return known


def _remember(known: dict[Hashable, None], key: Hashable, most: int) -> None:
    """Puts a key behind the others, of which the first go."""
    known.pop(key, None)
    known[key] = None
    if len(known) > most:
        del known[next(iter(known))]


def cuda_graph_runner(model: BlockDiffusionModel, *, needed: bool = True) -> CudaGraphRunner | None:
    """Returns what captures the passes of a model; None where they cannot be captured.

    Args:
        needed: whether that they cannot be captured is an error, now or when a capture fails.

    Raises:
        OptionError: they cannot be captured, and are `needed` to be.
    """
    if why := _what_prevents(model):
        if needed:
            raise OptionError(f"cuda_graphs needs {why}", option="cuda_graphs")
        return None
    assert isinstance(model, DiffusionGemma)
    return CudaGraphRunner(model, CudaCapture(model.device), needed=needed)


def _what_prevents(model: BlockDiffusionModel) -> str:
    """Says what passes would need to be captured and do not have; empty where they can be."""
    if not isinstance(model, DiffusionGemma):
        return "a model of the DiffusionGemma family"
    if model.device.type != "cuda":
        return f"a CUDA device, the model is on {model.device.type}"
    if model.offload is not None:
        return "all weights on the device"
    if not _groups_experts(model):
        return "experts without an adapter that stays beside them"
    with torch.no_grad():
        alike = all(_in_one_call(block.experts, model.reference_parameter) for _, _, block in model.blocks())
    return "" if alike else "Triton, or experts in bfloat16 and a GPU of compute capability 9 or 10"


def _groups_experts(model: DiffusionGemma) -> bool:
    """Says whether experts are of kinds that can be multiplied at once: an adapter's go from expert to expert."""
    return all(type(block.experts) in (Experts, QuantizedExperts) for _, _, block in model.blocks())


def _in_one_call(experts: nn.Module, x: Tensor) -> bool:
    """Says whether all experts are multiplied at once, for rows of x's device and dtype."""
    return in_kernel(x) if type(experts) is QuantizedExperts else can_group(x, *experts.parameters())
