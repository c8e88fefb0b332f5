"""Implements causal attention of text that holds images: within an image, sliding layers look both ways.

The rule, for a query q, a key k and a window w, where an image is a run of soft tokens without the markers around it:

    full layer      k <= q
    sliding layer   (k <= q or both in one image) and q - w < k < q + w

So an image longer than the window is bounded by it on both sides, and different images never see each other's future.
(google-deepmind/gemma has the window on both sides; `transformers` 5.23 has other rules for this model.) An image must
be encoded in one go: what its tokens see of what follows stands in the same chunk.

    T queries, the last of S positions   H heads   G key heads   K head size
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from gesso.nn.attention import attend_causal

Span = tuple[int, int]
"""Where an image begins and ends, relative to the first query: `[start, end)`."""


def image_mask(tokens: int, keys: int, window: int, spans: Sequence[Span], device: torch.device) -> Tensor:
    """Returns which keys each of the last `tokens` of `keys` positions sees in a sliding layer, bool [T, S].

    Args:
        window: positions a query sees on either side, itself included.
        spans: images among the queries, in order.

    Raises:
        ValueError: spans that overlap, are out of order, or do not lie within the queries.
    """
    block = torch.full((tokens,), -1, device=device)
    last = 0
    for number, (start, end) in enumerate(spans):
        if not last <= start < end <= tokens:
            raise ValueError(f"images at {list(spans)} do not lie within {tokens} tokens, one behind the other")
        block[start:end] = number
        last = end
    query = torch.arange(keys - tokens, keys, device=device)[:, None]
    key = torch.arange(keys, device=device)
    mask = key <= query
    mask[:, keys - tokens :] |= (block[:, None] == block) & (block >= 0)
    return mask & (key > query - window) & (key < query + window)


def attend_with_images(
    q_THK: Tensor, k_GSK: Tensor, v_GSK: Tensor, window: int | None, spans: Sequence[Span] = ()
) -> Tensor:
    """Computes `attend_causal` of tokens among which there are images, [T, H, K]; without any it is equal, bit for bit.

    Args:
        window: of a sliding layer; None for a full layer, which is causal within images, too.
        spans: images among the queries, in order.
    """
    if window is None or not spans:
        return attend_causal(q_THK, k_GSK, v_GSK, window)
    tokens, num_heads, _ = q_THK.shape
    groups, keys, _ = k_GSK.shape
    mask = image_mask(tokens, keys, window, spans, q_THK.device)
    repeat = num_heads // groups
    k = k_GSK[:, None].expand(-1, repeat, -1, -1).reshape(1, num_heads, keys, -1)
    v = v_GSK[:, None].expand(-1, repeat, -1, -1).reshape(1, num_heads, keys, -1)
    out = F.scaled_dot_product_attention(q_THK.transpose(0, 1)[None], k, v, attn_mask=mask, scale=1.0)
    return out[0].transpose(0, 1)
