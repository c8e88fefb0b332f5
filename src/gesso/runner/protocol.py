"""The runner: all that the engine knows of the model, and what they hand to each other.

Life cycle of a cache: `new_cache` makes one for a request; `prefill` appends tokens to it, a chunk of the prompt or a
finished canvas; `denoise` steps canvases behind what it holds and changes nothing of it; `rollback` takes the newest
tokens out and `restore` puts them back; `release` lets it go. A handle names a cache and holds nothing, so that it
means the same on every rank of a runner that spreads over several.

One thread calls a runner. A batch is of one adapter; whoever makes it decides who is in it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import torch

from gesso.config import ModelConfig
from gesso.diffusion.denoise import CanvasState
from gesso.runner.prompt_input import EmbeddingSpan
from gesso.vision.size import PatchLayout


@dataclass(frozen=True, slots=True)
class VisionInput:
    """How a model takes images, and what they cost it."""

    layout: PatchLayout
    """How they are cut."""
    longest_side: int
    """Patches that a side may have."""
    token_cost: float
    """What the tower computes for one soft token, in tokens of a prompt: it comes on top of the token itself."""


LayerKind = Literal["full", "sliding"]
"""Layers that keep every position, and those that keep a window: copies of a prefix are made of either."""


@dataclass(frozen=True, slots=True)
class CacheHandle:
    """Names one request's cache."""

    number: int


@dataclass(frozen=True, slots=True)
class PrefillItem:
    """Tokens of one request that are appended to its cache."""

    request: int
    cache: CacheHandle
    tokens: tuple[int, ...]
    spans: tuple[EmbeddingSpan, ...] = ()
    """Embeddings that take the place of some of the tokens; relative to the first of them."""
    keep: int = 0
    """Of how many of the last tokens the hidden states are kept, for `sample` and `logprobs`."""


@dataclass(frozen=True, slots=True)
class PrefillBatch:
    """What one causal pass encodes."""

    adapter: str | None
    items: tuple[PrefillItem, ...]


@dataclass(frozen=True, slots=True)
class CanvasItem:
    """A canvas that takes a step behind one request's cache; the canvas itself records the outcome."""

    request: int
    cache: CacheHandle
    canvas: CanvasState


@dataclass(frozen=True, slots=True)
class CanvasBatch:
    """What one denoising pass steps."""

    adapter: str | None
    items: tuple[CanvasItem, ...]


@dataclass(frozen=True, slots=True)
class LogprobRead:
    """Tokens whose log-probability is asked for: the newest in the cache, or one that is to follow them."""

    cache: CacheHandle
    tokens: tuple[int, ...]
    encoded: bool
    """Whether the tokens are in the cache: the last that were prefilled, with `keep` as many."""
    top: int
    """How many of the likeliest tokens at each place are told beside them."""


@dataclass(frozen=True, slots=True)
class TokenScore:
    """How likely the causal pass finds a token. Nats, of the untempered distribution."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]
    """The likeliest tokens at its place, with their log-probabilities."""


class PrefixCopy(Protocol):
    """A copy of the newest keys and values of all layers of a kind; only its runner looks into it."""

    @property
    def nbytes(self) -> int:
        """Bytes that it holds."""


@runtime_checkable
class Runner(Protocol):
    """Runs one model. Errors of the device come out of every method; after one, `check` says whether it is lost."""

    @property
    def config(self) -> ModelConfig:
        """Shape of the model."""

    @property
    def device(self) -> torch.device:
        """Where the tables of constraints are kept."""

    @property
    def max_model_len(self) -> int:
        """Positions that it has room for: prompt, answer and the last canvas."""

    @property
    def vision(self) -> VisionInput | None:
        """How spans of a prompt become embeddings of images; None where the model reads text only."""

    @property
    def images_encoded(self) -> int:
        """Images that went through the vision tower since the start."""

    @property
    def adapters(self) -> tuple[str, ...]:
        """Names of the adapters that a batch may ask for."""

    def load_adapters(self, folders: Mapping[str, Path]) -> None:
        """Read adapters, by name.

        Raises:
            CheckpointError: one is damaged or does not fit the model.
        """

    def kv_memory(self, reserved: int) -> int:
        """Bytes that caches may take where nobody says, beside `reserved` bytes that others take of the device."""

    def cache_bytes(self, max_seq_len: int, max_write_len: int) -> int:
        """Bytes of a cache that reaches `max_seq_len` tokens and gets up to `max_write_len` at once."""

    def new_cache(self, max_seq_len: int, max_write_len: int) -> CacheHandle:
        """An empty cache of that size."""

    def release(self, cache: CacheHandle) -> None:
        """Let the cache go; nothing happens where it is gone."""

    def prefill(self, batch: PrefillBatch) -> None:
        """Append tokens to caches, in one causal pass. Where it fails, no cache has changed."""

    def denoise(self, batch: CanvasBatch) -> None:
        """One denoising step of every canvas, in one pass. A canvas takes its step whole or not at all."""

    def sample(self, batch: CanvasBatch) -> None:
        """One step of canvases of one position, from the last hidden state that `prefill` kept."""

    def logprobs(self, read: LogprobRead) -> list[TokenScore]:
        """Log-probabilities of tokens, from hidden states that `prefill` kept."""

    def rollback(self, cache: CacheHandle, tokens: int) -> None:
        """Undo the last `prefill`, of so many tokens, as if it had not been; what it wrote is kept aside."""

    def restore(self, cache: CacheHandle) -> None:
        """Put back what `rollback` took; nothing was prefilled since."""

    def copy_prefix(self, cache: CacheHandle, tokens: int, kind: LayerKind) -> PrefixCopy:
        """A copy of the newest tokens in all layers of a kind; they were prefilled at once."""

    def restore_prefix(
        self, cache: CacheHandle, tokens: int, full: Sequence[PrefixCopy], sliding: Sequence[PrefixCopy]
    ) -> None:
        """Fill an empty cache with copies of a prompt's first `tokens`, in order: of full layers from the start, of
        sliding ones those in sight of the end. Where it fails, the cache is of no more use."""

    def prefix_bytes(self, tokens: int, kind: LayerKind) -> int:
        """Bytes of a copy."""

    def measure(self, work: Literal["step", "token"], item: CanvasItem) -> float:
        """Do one denoising step of the canvas, or write one token (a `prefill` and a `sample`); returns the seconds,
        until the device has finished."""

    def check(self) -> None:
        """Raise whatever error the device answers the simplest work with; return where it is well."""
