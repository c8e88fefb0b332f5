"""Uniform-state corruption (D3PM, arXiv 2107.03006): what the denoiser is trained to undo."""

import torch
from torch import Tensor

T_EPSILON = 1e-4


def draw_times(batch: int, generator: torch.Generator, exponent: float = 1.0) -> Tensor:
    """t ~ U(1e-4, 1 - 1e-4), one per example, [B]; an exponent below 1, of the uniform number, favours noise."""
    return T_EPSILON + (1 - 2 * T_EPSILON) * torch.rand(batch, generator=generator) ** exponent


def corrupt(canvas_BC: Tensor, times_B: Tensor, vocab_size: int, generator: torch.Generator) -> Tensor:
    """Keep each token with probability 1 - t, else put a uniform random token, which may be the same one."""
    keep = torch.rand(canvas_BC.shape, generator=generator) >= times_B[:, None]
    noise = torch.randint(vocab_size, canvas_BC.shape, generator=generator)
    return torch.where(keep, canvas_BC, noise)
