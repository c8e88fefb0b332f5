"""Defines the runner: all that the engine knows of the model, and the batches they exchange.

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

from gesso.config import ModelShape
from gesso.diffusion.canvas_state import CanvasState
from gesso.runner.prompt_input import EmbeddingSpan
from gesso.vision.size import DEFAULT_BUDGET, PatchLayout


@dataclass(frozen=True, slots=True)
class VisionInput:
    """Tells how a model takes images, and what they cost it."""

    layout: PatchLayout
    """How they are cut."""
    longest_side: int
    """Patches that a side may have."""
    token_cost: float
    """What the tower computes for one soft token, in tokens of a prompt: it comes on top of the token itself."""
    budget: int = DEFAULT_BUDGET
    """Soft tokens that an image takes at most where nobody says how many."""


LayerKind = Literal["full", "sliding"]
"""Layers that keep every position, and those that keep a window: copies of a prefix are made of either."""


@dataclass(frozen=True, slots=True)
class CacheHandle:
    """Names one request's cache."""

    number: int


@dataclass(frozen=True, slots=True)
class PrefillItem:
    """Holds tokens of one request that are appended to its cache."""

    request: int
    cache: CacheHandle
    tokens: tuple[int, ...]
    spans: tuple[EmbeddingSpan, ...] = ()
    """Embeddings that take the place of some of the tokens; relative to the first of them."""
    keep: int = 0
    """How many of the last tokens' hidden states are kept, for `sample` and `logprobs`."""


@dataclass(frozen=True, slots=True)
class PrefillBatch:
    """Holds what one causal pass encodes."""

    adapter: str | None
    items: tuple[PrefillItem, ...]


@dataclass(frozen=True, slots=True)
class CanvasItem:
    """Pairs a canvas that takes a step with the cache it stands behind; the canvas itself records the outcome."""

    request: int
    cache: CacheHandle
    canvas: CanvasState
    second_cache: CacheHandle | None = None
    """Stands before the canvas too, where its next step is guided."""


@dataclass(frozen=True, slots=True)
class CanvasBatch:
    """Holds what one denoising pass steps."""

    adapter: str | None
    items: tuple[CanvasItem, ...]


@dataclass(frozen=True, slots=True)
class LogprobRead:
    """Asks for the log-probabilities of tokens: the newest in the cache, or one that would follow them."""

    cache: CacheHandle
    tokens: tuple[int, ...]
    encoded: bool
    """Whether the tokens are in the cache: the last that were prefilled, with `keep` as many; of a prompt's first chunk
    all but its first token, which nothing stands before."""
    top: int
    """How many of the likeliest tokens to give at each place."""


@dataclass(frozen=True, slots=True)
class TokenScore:
    """Holds a token's log-probability under the causal pass, in nats, of the untempered distribution."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]
    """The likeliest tokens at its place, with their log-probabilities."""


class PrefixCopy(Protocol):
    """Holds a copy of the newest keys and values of all layers of a kind; only its runner looks into it."""

    @property
    def nbytes(self) -> int:
        """Returns its bytes."""


@runtime_checkable
class Runner(Protocol):
    """Runs one model.

    Every method may raise the errors of the device; after one, `check` says whether the device is lost.
    """

    @property
    def config(self) -> ModelShape:
        """Returns the shape of the model."""

    @property
    def device(self) -> torch.device:
        """Returns the device that the tables of constraints are kept on."""

    @property
    def max_model_len(self) -> int:
        """Returns the positions that it has room for: prompt, answer and the last canvas."""

    @property
    def prefill_chunk(self) -> int:
        """Returns the number of prompt tokens encoded at a time where no option says."""

    @property
    def vision(self) -> VisionInput | None:
        """Tells how spans of a prompt become embeddings of images; None where the model reads text only."""

    @property
    def images_encoded(self) -> int:
        """Counts the images that went through the vision tower since the start."""

    @property
    def adapters(self) -> tuple[str, ...]:
        """Returns the names of the adapters that a batch may ask for."""

    @property
    def adapter_loads(self) -> int:
        """Counts how often adapters were loaded: what a name means does not change in between."""

    def load_adapters(self, folders: Mapping[str, Path]) -> None:
        """Loads adapters from folders, by name.

        Raises:
            CheckpointError: one is damaged or does not fit the model.
        """

    def kv_memory(self, reserved: int) -> int:
        """Returns the bytes that caches may take where no option says, beside `reserved` bytes that others take of the
        device."""

    def cache_bytes(self, max_seq_len: int, max_write_len: int) -> int:
        """Returns the bytes of a cache that reaches `max_seq_len` tokens and gets up to `max_write_len` at once."""

    def new_cache(self, max_seq_len: int, max_write_len: int) -> CacheHandle:
        """Makes an empty cache of that size and returns its handle."""

    def release(self, cache: CacheHandle) -> None:
        """Frees the cache; does nothing where it is freed already."""

    def prefill(self, batch: PrefillBatch) -> None:
        """Appends tokens to caches, in one causal pass. Where it fails, no cache has changed."""

    def denoise(self, batch: CanvasBatch) -> None:
        """Takes one denoising step of every canvas, in one pass. A canvas takes its step whole or not at all."""

    def sample(self, batch: CanvasBatch) -> None:
        """Takes one step of canvases of one position, from the last hidden state that `prefill` kept."""

    def logprobs(self, read: LogprobRead) -> list[TokenScore]:
        """Returns log-probabilities of tokens, from hidden states that `prefill` kept."""

    def rollback(self, cache: CacheHandle, tokens: int) -> None:
        """Undoes the last `prefill`, of so many tokens; what it wrote is kept aside for `restore`."""

    def restore(self, cache: CacheHandle) -> None:
        """Undoes the last `rollback`; nothing may have been prefilled since."""

    def copy_prefix(self, cache: CacheHandle, tokens: int, kind: LayerKind) -> PrefixCopy:
        """Copies the newest tokens in all layers of a kind; they must have been prefilled at once."""

    def restore_prefix(
        self, cache: CacheHandle, tokens: int, full: Sequence[PrefixCopy], sliding: Sequence[PrefixCopy]
    ) -> None:
        """Fills an empty cache with copies of a prompt's first `tokens`, in order.

        Args:
            full: of full layers, from the prompt's beginning.
            sliding: of sliding layers, those in sight of the end.

        Where it fails, the cache is of no more use.
        """

    def prefix_bytes(self, tokens: int, kind: LayerKind) -> int:
        """Returns the bytes of a copy of so many tokens in all layers of a kind."""

    def measure(self, work: Literal["step", "token"], item: CanvasItem) -> float:
        """Times one denoising step of the canvas, or one token (a `prefill` and a `sample`), in seconds until the
        device has finished."""

    @property
    def lost(self) -> str | None:
        """Says why nothing can be computed any more, as far as that is known without computing; None where all is
        well."""

    def check(self) -> None:
        """Raises the error that the device answers the simplest work with; returns where it is well."""
