"""Represents a prompt: token ids, and spans of them whose embeddings come from elsewhere.

A span holds as many placeholder ids as it is long, so that positions, lengths and bytes are counted as for text. Two
prompts that differ in the content of a span alone have the same ids: whoever compares prompts compares `ChunkKey`s.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class EmbeddingSpan:
    """Marks positions `[start, start + length)` of a prompt whose embeddings come from elsewhere, such as an image."""

    start: int
    length: int
    content_hash: str
    """Equal where the content is equal, and unlike any other content's."""
    source: object = field(default=None, compare=False, repr=False)
    """What the runner makes the embeddings from; opaque to everybody else."""

    @property
    def end(self) -> int:
        """Returns the position behind it."""
        return self.start + self.length

    def shifted(self, offset: int) -> "EmbeddingSpan":
        """Returns the same span, `offset` positions later."""
        return EmbeddingSpan(self.start + offset, self.length, self.content_hash, self.source)


@dataclass(frozen=True, slots=True)
class ChunkKey:
    """Identifies the content of a chunk: equal keys behind equal prefixes have equal keys and values."""

    ids: tuple[int, ...]
    spans: tuple[EmbeddingSpan, ...] = ()
    """Relative to the chunk's beginning."""

    def without_sources(self) -> "ChunkKey":
        """Returns an equal key that may be kept for long: it holds no pixels."""
        bare = tuple(EmbeddingSpan(span.start, span.length, span.content_hash) for span in self.spans)
        return ChunkKey(self.ids, bare)


@dataclass(frozen=True, slots=True)
class PromptChunk:
    """Bounds a stretch of a prompt that is encoded at once."""

    start: int
    end: int
    key: ChunkKey
    whole: bool
    """Whether every prompt with the same beginning is cut at its end, so that it may be stored for others."""


@dataclass(frozen=True, slots=True)
class PromptInput:
    """Holds the token ids of a prompt and its spans of embeddings, in order.

    Raises:
        ValueError: spans that overlap, are out of order, or reach past the ids.
    """

    ids: tuple[int, ...]
    spans: tuple[EmbeddingSpan, ...] = ()

    def __post_init__(self) -> None:
        if any(span.length < 1 or span.start < 0 or span.end > len(self.ids) for span in self.spans):
            raise ValueError(f"a span reaches past the {len(self.ids)} tokens of its prompt, or is empty")
        if any(one.end > other.start for one, other in pairwise(self.spans)):
            raise ValueError("the spans of a prompt overlap, or are out of order")

    def __len__(self) -> int:
        return len(self.ids)

    def followed_by(self, ids: tuple[int, ...]) -> "PromptInput":
        """Returns the prompt with more tokens behind it."""
        return PromptInput((*self.ids, *ids), self.spans)

    def chunks(self, size: int) -> tuple[PromptChunk, ...]:
        """Returns the chunks that the prompt is encoded in.

        Borders lie at multiples of `size`, but never within a span: there the chunk ends before the span, or with it
        where the span begins the chunk. So they depend on what stands before them alone, and prompts that begin alike
        are cut alike. A chunk is longer than `size` only to hold a span.
        """
        return tuple(self._cut(size))

    def _cut(self, size: int) -> Iterator[PromptChunk]:
        start = 0
        while start < len(self.ids):
            border = start - start % size + size
            across = next((span for span in self.spans if span.start < border < span.end), None)
            if across is not None:
                border = across.start if across.start > start else across.end
            end = min(border, len(self.ids))
            inside = tuple(span.shifted(-start) for span in self.spans if start <= span.start < end)
            yield PromptChunk(start, end, ChunkKey(self.ids[start:end], inside), whole=end == border)
            start = end
