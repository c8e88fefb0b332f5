"""Corrupts canvases with uniform noise (D3PM, arXiv 2107.03006), which the denoiser is trained to undo."""

import torch
from torch import Tensor

T_EPSILON = 1e-4


def draw_times(batch: int, generator: torch.Generator, exponent: float = 1.0) -> Tensor:
    """Draws t ~ U(1e-4, 1 - 1e-4), one per example, [B]; an exponent below 1, of the uniform number, favours noise."""
    return T_EPSILON + (1 - 2 * T_EPSILON) * torch.rand(batch, generator=generator) ** exponent


def corrupt(canvas_BC: Tensor, times_B: Tensor, vocab_size: int, generator: torch.Generator) -> Tensor:
    """Keeps each token with probability 1 - t, else puts a uniform random token, which may be the same one.

    Args:
        canvas_BC: token ids, int64.
        times_B: noise levels t in (0, 1), fp32.

    Returns:
        The noisy canvases, int64 [B, C].
    """
    return corrupt_path(canvas_BC, times_B[None], vocab_size, generator)[0]


def corrupt_path(canvas_BC: Tensor, times_RB: Tensor, vocab_size: int, generator: torch.Generator) -> Tensor:
    """Corrupts canvases to several times each on one path: what is noise at a time is the same noise at all later ones.

    For every time alone it is `corrupt`, draw for draw. Two times together have the joint law of the arg max of
    Gaussian latents that share their noise (arXiv 2506.10892).

    Returns:
        The noisy canvases, int64 [R, B, C].
    """
    rank_BC = torch.rand(canvas_BC.shape, generator=generator)
    noise_BC = torch.randint(vocab_size, canvas_BC.shape, generator=generator)
    return torch.where(rank_BC >= times_RB[:, :, None], canvas_BC, noise_BC)
