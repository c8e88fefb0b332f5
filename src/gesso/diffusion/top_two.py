"""Finds the two likeliest tokens of every position, for who weighs the first against the second."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from gesso.diffusion.prediction import Prediction

ROWS = 64
"""Positions whose distributions are held at a time."""


def top_two(prediction: "Prediction", *, cut: bool = True) -> "Tensor":
    """Returns the tempered log-probabilities of the likeliest and the second token of each position, in nats, fp32
    [C, 2] on the CPU; the second is -inf where there is but one token.

    Args:
        cut: whether tokens that `top_k`, `top_p` and `min_p` leave out are impossible.
    """
    import torch
    from torch.nn import functional as F

    log_probs, width = prediction.log_probs, len(prediction.argmax_C)
    assert log_probs is not None
    parts = []
    for start in range(0, width, ROWS):
        log_probs_RV = log_probs(slice(start, min(start + ROWS, width)), cut=cut)
        if log_probs_RV.shape[1] == 1:
            log_probs_RV = F.pad(log_probs_RV, (0, 1), value=-torch.inf)
        parts.append(log_probs_RV.topk(2, dim=-1).values.cpu())
    return torch.cat(parts)
