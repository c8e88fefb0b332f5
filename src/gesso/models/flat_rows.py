"""Lays rows of several sequences flat: where their images go, and the attention of each over its own keys.

N = all rows laid flat   D hidden   n tokens of an image
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from gesso.models.cache import KVCache, SequenceCache
from gesso.nn.attention import Attend
from gesso.nn.image_attention import Span
from gesso.nn.row_alignment import align_rows

PlacedEmbeddings = tuple[int, Tensor]
"""An image: the place of its first token among a row's new ones, and the embeddings [n, D] of its n tokens."""


def longest_of(cache: KVCache, counts: Sequence[int]) -> int:
    """Returns the length that the longest row will have."""
    return max(length + count for length, count in zip(cache.lengths, counts, strict=True))


def place_images(
    x_ND: Tensor, counts: Sequence[int], images: Sequence[Sequence[PlacedEmbeddings]]
) -> list[Sequence[Span]]:
    """Puts the images' embeddings into the flat rows; returns for each row where its images are."""
    spans, first = list[Sequence[Span]](), 0
    for count, placed in zip(counts, images or [()] * len(counts), strict=True):
        for start, embeddings_nD in placed:
            x_ND[first + start : first + start + len(embeddings_nD)] = embeddings_nD.to(x_ND)
        spans.append([(start, start + len(embeddings_nD)) for start, embeddings_nD in placed])
        first += count
    return spans


def attend_by_row(
    rows: list[SequenceCache], layer: int, counts: Sequence[int], causal: bool, images: Sequence[Sequence[Span]]
) -> Attend:
    """Returns the attention of flat rows, each over its own cache; alignment rows get the last one's result."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if len(rows) == 1 and counts[0] == q.shape[0]:
            return _own(rows[0], causal, images[0])(layer, q, k, v)
        split = [*counts, q.shape[0] - sum(counts)]
        parts = zip(rows, images, q.split(split), k.split(split), v.split(split), strict=False)
        out = torch.cat([_own(row, causal, spans)(layer, *qkv) for row, spans, *qkv in parts])
        return out if out.shape[0] == q.shape[0] else align_rows(out)

    return attend


def _own(row: SequenceCache, causal: bool, images: Sequence[Span]) -> Callable[[int, Tensor, Tensor, Tensor], Tensor]:
    return partial(row.attend_causal, images=images) if causal else row.attend_canvas
