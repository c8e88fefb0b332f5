"""Runs one model on one device: owns its caches, passes, adapters, CUDA graphs and tables of positions."""

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path
from threading import RLock
from typing import Literal

import torch

from gesso.config import LayerConfig, ModelShape
from gesso.diffusion.denoise import denoise_step, take_step
from gesso.errors import OptionError
from gesso.models.adapter_switch import AdapterSwitch
from gesso.models.cache import KVCache, SequenceCache, cache_bytes
from gesso.models.family import BlockDiffusionModel, only_diffusion_gemma
from gesso.models.flat_rows import PlacedEmbeddings
from gesso.models.vision_tower import VisionModel
from gesso.runner.cuda_graphs import CudaGraphRunner, cuda_graph_runner
from gesso.runner.image_embeddings import KEPT_BYTES, ImageEmbeddings, vision_input
from gesso.runner.logprobs import token_scores
from gesso.runner.memory import cache_memory, prefill_chunk
from gesso.runner.protocol import (
    CacheHandle,
    CanvasBatch,
    CanvasItem,
    LayerKind,
    LogprobRead,
    PrefillBatch,
    PrefillItem,
    PrefixCopy,
    TokenScore,
)
from gesso.runner.rows import Row, TensorCopy, whole_sizes
from gesso.vision import NO_VISION

Model = BlockDiffusionModel
"""What this runner runs."""
SPARE_BYTES = 1 << 30
"""Bytes of a cache that is kept for the next request where passes are captured, at most."""


class ModelRunner:
    """Implements `Runner` over a model in this process. Calls exclude each other: a second thread waits for the
    first."""

    def __init__(self, model: Model, graphs: CudaGraphRunner | None = None, vision: VisionModel | None = None) -> None:
        """
        Args:
            graphs: captures passes; None runs every one of them.
            vision: tower and projector that make embeddings of images; None where the model reads text only.
        """
        self.model = model
        self.graphs = graphs
        self.vision = None
        if vision is not None:
            self.vision = vision_input(only_diffusion_gemma(model, "images", "a vision tower").config, vision)
        self._images = None if vision is None else ImageEmbeddings(vision)
        self._switch: AdapterSwitch | None = None
        self._adapter_loads = 0
        self._rows: dict[int, Row] = {}
        self._numbers = count()
        self._lock: AbstractContextManager[object] = RLock()
        self._spare: SequenceCache | None = None
        """The cache that was let go of last, whose memory a graph knows; None where passes are not captured."""
        if graphs is not None:
            model.fix_positions(self.max_model_len)

    @classmethod
    def of(cls, model: Model, *, cuda_graphs: bool | None = None, vision: VisionModel | None = None) -> "ModelRunner":
        """Makes a runner of a model.

        Args:
            cuda_graphs: whether passes are captured; None where they can be.

        Raises:
            OptionError: `cuda_graphs` where passes cannot be captured.
        """
        graphs = None if cuda_graphs is False else cuda_graph_runner(model, needed=bool(cuda_graphs))
        return cls(model, graphs, vision)

    def close(self) -> None:
        """Ends other processes that compute the model; there are none here."""

    @property
    def config(self) -> ModelShape:
        return self.model.config

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def max_model_len(self) -> int:
        return self.model.config.max_position_embeddings

    @property
    def prefill_chunk(self) -> int:
        return prefill_chunk(self.device, holds_all=self.model.offload is None)

    @property
    def tower(self) -> VisionModel | None:
        """Returns the vision tower with its projector, for a benchmark; None where the model reads text only."""
        return None if self._images is None else self._images.vision

    @property
    def images_encoded(self) -> int:
        return 0 if self._images is None else self._images.encoded

    @property
    def adapters(self) -> tuple[str, ...]:
        return () if self._switch is None else self._switch.names

    @property
    def adapter_loads(self) -> int:
        return self._adapter_loads

    def load_adapters(self, folders: Mapping[str, Path]) -> None:
        if self.model.offload is not None:
            raise OptionError("adapters need all weights on the device, and experts stream to it: merge one first")
        with self._lock:
            self._switch = self._switch or self._new_switch()
            try:
                self._switch.load(folders)
                self._adapter_loads += 1
            finally:  # none is active now, even where one of them cannot be loaded
                self._forget_graphs(None)

    def kv_memory(self, reserved: int) -> int:
        if self.model.offload is not None:
            return self.model.offload.cache
        images = 0 if self._images is None else KEPT_BYTES
        spare = 0 if self.graphs is None else SPARE_BYTES
        return cache_memory(self.device, reserved + images + spare)

    def cache_bytes(self, max_seq_len: int, max_write_len: int) -> int:
        return cache_bytes(self.config, self.model.dtype, *self._sizes(max_seq_len, max_write_len))

    def new_cache(self, max_seq_len: int, max_write_len: int) -> CacheHandle:
        with self._lock:
            sizes = self._sizes(max_seq_len, max_write_len)
            cache, self._spare = self._spare, None
            if cache is not None and (cache.max_seq_len, cache.max_write_len) == sizes:
                cache.clear()
            else:
                del cache  # whose memory may be needed
                (cache,) = self.model.new_cache(1, *sizes).rows
            handle = CacheHandle(next(self._numbers))
            self._rows[handle.number] = Row(cache)
            return handle

    def release(self, cache: CacheHandle) -> None:
        row = self._rows.pop(cache.number, None)
        # A graph replays where its cache lay.
        if row is not None and self.graphs is not None:
            sizes = row.cache.max_seq_len, row.cache.max_write_len
            self._spare = row.cache if self.cache_bytes(*sizes) <= SPARE_BYTES else None

    def _sizes(self, max_seq_len: int, max_write_len: int) -> tuple[int, int]:
        if self.graphs is None:
            return max_seq_len, max_write_len
        return whole_sizes(max_seq_len, max_write_len, self.max_model_len)

    def cache(self, handle: CacheHandle) -> SequenceCache:
        """Returns the cache that a handle names."""
        return self._row(handle).cache

    @torch.inference_mode()
    def prefill(self, batch: PrefillBatch) -> None:
        with self._lock:
            self._activate(batch.adapter)
            rows = [self._row(item.cache) for item in batch.items]
            sizes = [len(item.tokens) for item in batch.items]
            images = [self._embeddings(item) for item in batch.items]
            flat = torch.tensor([token for item in batch.items for token in item.tokens])
            passes = self.graphs or self.model
            hidden = passes.encode_flat(flat, sizes, KVCache([row.cache for row in rows]), images).split(sizes)
            for row, item, hidden_TD in zip(rows, batch.items, hidden, strict=True):
                row.note_pass(hidden_TD, item.keep)

    @torch.inference_mode()
    def denoise(self, batch: CanvasBatch) -> None:
        with self._lock:
            self._activate(batch.adapter)
            cache = self._denoised(batch.items)
            denoise_step(self.graphs or self.model, [item.canvas for item in batch.items], cache)

    @torch.inference_mode()
    def sample(self, batch: CanvasBatch) -> None:
        with self._lock:
            hidden = [self._row(item.cache).newest(1) for item in batch.items]
            take_step(self.model.vocabulary, [item.canvas for item in batch.items], hidden)

    @torch.inference_mode()
    def logprobs(self, read: LogprobRead) -> list[TokenScore]:
        with self._lock:
            row, count = self._row(read.cache), len(read.tokens)
            hidden_TD = row.before_newest(count) if read.encoded else row.newest(count)
            return token_scores(self.model.vocabulary, hidden_TD, read.tokens, read.top)

    @torch.inference_mode()
    def rollback(self, cache: CacheHandle, tokens: int) -> None:
        with self._lock:
            self._row(cache).rollback(tokens)

    @torch.inference_mode()
    def restore(self, cache: CacheHandle) -> None:
        with self._lock:
            self._row(cache).restore()

    @torch.inference_mode()
    def copy_prefix(self, cache: CacheHandle, tokens: int, kind: LayerKind) -> PrefixCopy:
        with self._lock:
            return TensorCopy(self.cache(cache).copy_newest(tokens, sliding=kind == "sliding"))

    @torch.inference_mode()
    def restore_prefix(
        self, cache: CacheHandle, tokens: int, full: Sequence[PrefixCopy], sliding: Sequence[PrefixCopy]
    ) -> None:
        with self._lock:
            parts = ([copy.layers for copy in copies if isinstance(copy, TensorCopy)] for copies in (full, sliding))
            self.cache(cache).refill(tokens, *parts)

    def prefix_bytes(self, tokens: int, kind: LayerKind) -> int:
        return self._prefix_bytes(self.config.layers, tokens, kind)

    def _prefix_bytes(self, layers: Sequence[LayerConfig], tokens: int, kind: LayerKind) -> int:
        own = [layer for layer in layers if layer.is_sliding == (kind == "sliding")]
        return sum(2 * layer.num_key_value_heads * layer.head_dim for layer in own) * tokens * self._itemsize

    def measure(self, work: Literal["step", "token"], item: CanvasItem) -> float:
        with self._lock:
            self._synchronise()
            started = time.perf_counter()
            if work == "token":
                self.prefill(PrefillBatch(None, (PrefillItem(item.request, item.cache, (0,), keep=1),)))
                self.sample(CanvasBatch(None, (item,)))
            else:
                self.denoise(CanvasBatch(None, (item,)))
            self._synchronise()
            return time.perf_counter() - started

    @property
    def lost(self) -> str | None:
        return None

    def check(self) -> None:
        with self._lock:
            torch.zeros(1, device=self.device).add_(1).item()

    def _embeddings(self, item: PrefillItem) -> list[PlacedEmbeddings]:
        """What takes the place of an item's soft tokens."""
        if item.spans and self._images is None:
            raise OptionError(NO_VISION, option="images")
        return [(span.start, self._images.of(span)) for span in item.spans if self._images is not None]

    @property
    def _itemsize(self) -> int:
        return self.model.dtype.itemsize

    def _synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _row(self, cache: CacheHandle) -> Row:
        return self._rows[cache.number]

    def _denoised(self, items: Sequence[CanvasItem]) -> KVCache:
        """The caches that canvases stand behind, and behind these those of the second prompts."""
        guided = [item.second_cache for item in items if item.canvas.guided]
        handles = [*(item.cache for item in items), *(handle for handle in guided if handle is not None)]
        return KVCache([self.cache(handle) for handle in handles])

    def _new_switch(self) -> AdapterSwitch:
        return AdapterSwitch(only_diffusion_gemma(self.model, "adapter", "adapters"))

    def _activate(self, adapter: str | None) -> None:
        """Computes with an adapter, or with none; a graph is bound to the weights it was captured with."""
        if self._switch is None:
            if adapter is not None:
                raise OptionError.no_adapter(adapter, ())
        elif self._switch.activate(adapter):
            self._forget_graphs(adapter)

    def _forget_graphs(self, adapter: str | None) -> None:
        if self.graphs is not None:
            self.graphs.invalidate((self._adapter_loads, adapter))  # a name may mean another one from a load on
