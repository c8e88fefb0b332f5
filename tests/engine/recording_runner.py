"""A runner without a model: it says what a script says and records every batch that it is given."""

import dataclasses
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from engine.tiny import CANVAS, TEMPLATE, TOKENS, tiny_recipe
from gesso.config import ModelConfig
from gesso.diffusion.denoise import take_step
from gesso.engine.engine import Engine
from gesso.nn.vocabulary import VocabularyPass
from gesso.runner.protocol import (
    CacheHandle,
    CanvasBatch,
    CanvasItem,
    LayerKind,
    LogprobRead,
    PrefillBatch,
    PrefixCopy,
    TokenScore,
    VisionInput,
)
from gesso.tasks.vocabulary import build_tokenizer
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer
from gesso.vision.size import PatchLayout

BYTES = 100
"""Of a token, in every kind of layer."""


@dataclass(frozen=True)
class Copy:
    """Says what the tokens were that it is a copy of."""

    kind: LayerKind
    content: tuple[Any, ...]

    @property
    def nbytes(self) -> int:
        return BYTES * len(self.content)


@dataclass
class Cache:
    """The content of each position: a token id, or the hash of an embedding and the place within it."""

    content: list[Any] = field(default_factory=list)
    prompt: int | None = None
    taken: list[Any] = field(default_factory=list)


class RecordingRunner:
    """A `Runner` that knows no tensors but those of the canvases. `fail` holds errors to raise, by method."""

    adapters: tuple[str, ...] = ()
    device = torch.device("cpu")

    def __init__(self, config: ModelConfig, script: Sequence[int], fill: int) -> None:
        self.config = config
        self.script, self.fill = list(script), fill
        self.caches: dict[CacheHandle, Cache] = {}
        self.prefills: list[PrefillBatch] = []
        self.denoises: list[CanvasBatch] = []
        self.calls: Counter[str] = Counter()
        self.measured: list[str] = []
        self.threads: set[str] = set()
        self.fail: dict[str, Exception] = {}
        self.seconds = {"step": 1.0, "token": 1.0}
        self._numbers = count()

    def _call(self, name: str) -> None:
        self.calls[name] += 1
        self.threads.add(threading.current_thread().name)
        if name in self.fail:
            raise self.fail[name]

    vision = VisionInput(PatchLayout(4, 3), 256, 2.0)
    images_encoded = adapter_loads = 0
    prefill_chunk = 128

    @property
    def max_model_len(self) -> int:
        return self.config.max_position_embeddings

    def load_adapters(self, folders: Mapping[str, Path]) -> None:
        self.adapters = tuple(folders)

    def kv_memory(self, reserved: int) -> int:
        return 2**30 - reserved // 2**20

    def cache_bytes(self, max_seq_len: int, max_write_len: int) -> int:
        return BYTES * (max_seq_len + max_write_len)

    def new_cache(self, max_seq_len: int, max_write_len: int) -> CacheHandle:
        self._call("new_cache")
        handle = CacheHandle(next(self._numbers))
        self.caches[handle] = Cache()
        return handle

    def release(self, cache: CacheHandle) -> None:
        self.caches.pop(cache, None)

    def prefill(self, batch: PrefillBatch) -> None:
        self._call("prefill")
        self.prefills.append(batch)
        for item in batch.items:
            content: list[Any] = list(item.tokens)
            for span in item.spans:
                content[span.start : span.end] = [(span.content_hash, place) for place in range(span.length)]
            self.caches[item.cache].content += content

    def denoise(self, batch: CanvasBatch) -> None:
        self._call("denoise")
        self.denoises.append(batch)
        self._step(batch)

    def sample(self, batch: CanvasBatch) -> None:
        self._call("sample")
        self._step(batch)

    def _step(self, batch: CanvasBatch) -> None:
        said = [self._say(self.caches[item.cache], item.canvas.width) for item in batch.items]
        vocabulary: Any = self
        take_step(vocabulary, [item.canvas for item in batch.items], said)

    def _say(self, cache: Cache, width: int) -> Tensor:
        cache.prompt = len(cache.content) if cache.prompt is None else cache.prompt
        start = len(cache.content) - cache.prompt
        piece = self.script[start : start + width]
        return torch.tensor(piece + [self.fill] * (width - len(piece)))

    def predict(self, said_N: Tensor, *_: Tensor, mix: bool) -> VocabularyPass:
        zeros = torch.zeros(said_N.shape)
        return VocabularyPass(said_N, said_N, zeros, zeros, torch.zeros(said_N.shape[0], 1))

    def logprobs(self, read: LogprobRead) -> list[TokenScore]:
        self._call("logprobs")
        return [TokenScore(token, -0.5, ((token, -0.5),)[: read.top]) for token in read.tokens]

    def rollback(self, cache: CacheHandle, tokens: int) -> None:
        self._call("rollback")
        held = self.caches[cache]
        held.content, held.taken = held.content[:-tokens], held.content[-tokens:]

    def restore(self, cache: CacheHandle) -> None:
        self._call("restore")
        self.caches[cache].content += self.caches[cache].taken

    def copy_prefix(self, cache: CacheHandle, tokens: int, kind: LayerKind) -> PrefixCopy:
        self._call("copy_prefix")
        return Copy(kind, tuple(self.caches[cache].content[-tokens:]))

    def restore_prefix(
        self, cache: CacheHandle, tokens: int, full: Sequence[PrefixCopy], sliding: Sequence[PrefixCopy]
    ) -> None:
        self._call("restore_prefix")
        content = [part for copy in full if isinstance(copy, Copy) for part in copy.content]
        assert len(content) == tokens
        window = [part for copy in sliding if isinstance(copy, Copy) for part in copy.content]
        assert content[len(content) - len(window) :] == window
        assert len(window) >= min(tokens, self.config.sliding_window - 1)
        self.caches[cache].content += content

    def prefix_bytes(self, tokens: int, kind: LayerKind) -> int:
        return BYTES * tokens

    def measure(self, work: Literal["step", "token"], item: CanvasItem) -> float:
        self._call("measure")
        assert item.cache in self.caches
        self.measured.append(work)
        return self.seconds[work]

    @property
    def lost(self) -> str | None:
        return None

    def check(self) -> None:
        self._call("check")


def recording(script: str, *, window: int = 6) -> tuple[Engine, RecordingRunner]:
    """An engine that says `script`, and its runner."""
    recipe, tokenizer = tiny_recipe(), Tokenizer(build_tokenizer())
    config = dataclasses.replace(recipe.model, canvas_length=CANVAS, sliding_window=window)
    runner = RecordingRunner(config, tokenizer.encode(script), tokenizer.special["<eos>"])
    return Engine(runner, tokenizer, ChatTemplate(TEMPLATE, TOKENS), recipe.generation, "recording"), runner
