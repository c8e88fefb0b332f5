"""Makes the masks of the encoder's training pass, as biases that are added to the scores.

The rule is that of `gesso.nn.image_attention`: in a sliding layer the tokens of an image see each other both ways,
within the window; everything else is causal.

    R rows   T tokens of a row, padded
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from gesso.nn.image_attention import Span

MASKED = -1e9


def causal_bias(length: int, window: int | None, device: torch.device, images: Sequence[Sequence[Span]] = ()) -> Tensor:
    """Returns 0 where a query sees a key and `MASKED` elsewhere, fp32: [1, 1, T, T], or [R, 1, T, T] where rows differ.

    Args:
        window: of a sliding layer; None for a full layer, which is causal within images, too.
        images: for each row where its images are.
    """
    position = torch.arange(length, device=device)
    seen = position <= position[:, None]
    if window is None:
        return torch.where(seen, 0.0, MASKED)[None, None]
    within = position > position[:, None] - window
    if not any(images):
        return torch.where(seen & within, 0.0, MASKED)[None, None]
    block_RT = torch.full((len(images), length), -1)
    for row, spans in enumerate(images):
        for number, (start, end) in enumerate(spans):
            block_RT[row, start:end] = number
    block_RT = block_RT.to(device)
    together = (block_RT[:, :, None] == block_RT[:, None]) & (block_RT[:, None] >= 0)
    within = within & (position < position[:, None] + window)
    return torch.where((seen | together) & within, 0.0, MASKED)[:, None]
