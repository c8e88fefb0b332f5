"""Makes the masks of the encoder's training pass, as biases that are added to the scores.

The rule is that of `gesso.nn.image_attention`: in a sliding layer the tokens of an image see each other both ways,
within the window; everything else is causal.

    R rows   Q queries of a row   T tokens of a row, padded
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from gesso.nn.image_attention import Span

MASKED = -1e9


def causal_bias(
    length: int,
    window: int | None,
    device: torch.device,
    images: Sequence[Sequence[Span]] = (),
    queries_RQ: Tensor | None = None,
) -> Tensor:
    """Returns 0 where a query sees a key and `MASKED` elsewhere, fp32: [1, 1, Q, T], or [R, 1, Q, T] where rows differ.

    Args:
        window: of a sliding layer; None for a full layer, which is causal within images, too.
        images: for each row where its images are.
        queries_RQ: positions of the queries, of each row or of all; without it every token is one.
    """
    position = torch.arange(length, device=device)
    query_RQ1 = (position[None] if queries_RQ is None else queries_RQ)[:, :, None]
    seen = position <= query_RQ1
    if window is None:
        return torch.where(seen, 0.0, MASKED)[:, None]
    within = position > query_RQ1 - window
    if not any(images):
        return torch.where(seen & within, 0.0, MASKED)[:, None]
    block_RT = torch.full((len(images), length), -1)
    for row, spans in enumerate(images):
        for number, (start, end) in enumerate(spans):
            block_RT[row, start:end] = number
    block_RT = block_RT.to(device)
    block_RQ = block_RT if queries_RQ is None else block_RT.gather(1, queries_RQ.expand(len(images), -1))
    together = (block_RQ[:, :, None] == block_RT[:, None]) & (block_RT[:, None] >= 0)
    within = within & (position < query_RQ1 + window)
    return torch.where((seen | together) & within, 0.0, MASKED)[:, None]
