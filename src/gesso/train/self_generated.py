"""Corrupts canvases for training with the model's own samples (self-generated corruption).

Noise is drawn from the whole vocabulary, so what is wrong in a corrupted canvas hardly ever looks right: the model
learns to trust every token that could belong where it stands, and at generation it trusts its own mistakes. So some
of the canvases that get the first pass's self-conditioning go on from it as a sampler would, for one round or several:
the surest positions take the tokens that are sampled for them, all others fresh noise. The trained pass gets the last
canvas with the self-conditioning that goes with it, and has to tell what is right.

    B canvases   C canvas length   R rounds
"""

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class SelfGenerated:
    """Holds for how many rounds each canvas goes on, and the draws that decide how."""

    rounds_B: Tensor
    """0 where the canvas stays as it was corrupted, int64."""
    accepted_RB: Tensor
    """The share of the positions that keep what is sampled for them, the surest first; it grows from round to round."""
    uniform_RBC: Tensor
    """Numbers in [0, 1) that decide the samples."""
    noise_RBC: Tensor
    """Tokens of the positions that are not accepted."""

    @classmethod
    def draw(
        cls, shape: torch.Size, probability: float, most: int, vocab_size: int, generator: torch.Generator
    ) -> "SelfGenerated":
        """Draws for canvases of `shape` [B, C]: each goes on with `probability`, for 1 to `most` rounds."""
        chosen_B = torch.rand(shape[0], generator=generator) < probability
        return cls(
            rounds_B=chosen_B * torch.randint(1, most + 1, shape[:1], generator=generator),
            accepted_RB=torch.rand(most, shape[0], generator=generator).sort(dim=0).values,
            uniform_RBC=torch.rand(most, *shape, generator=generator),
            noise_RBC=torch.randint(vocab_size, (most, *shape), generator=generator),
        )

    @property
    def most(self) -> int:
        """Returns R, the most rounds of any canvas."""
        return len(self.accepted_RB)

    def rows(self, rows_B: Tensor) -> "SelfGenerated":
        """Returns those of some canvases: their numbers, or a mask."""
        parts = (self.accepted_RB, self.uniform_RBC, self.noise_RBC)
        return SelfGenerated(self.rounds_B[rows_B], *(part[:, rows_B] for part in parts))

    def to(self, device: torch.device) -> "SelfGenerated":
        """Returns the same on `device`."""
        return SelfGenerated(*(getattr(self, field.name).to(device) for field in dataclasses.fields(self)))

    def canvas(self, round_: int, noisy_BC: Tensor, sample_BC: Tensor, entropy_BC: Tensor) -> Tensor:
        """Returns what the next pass reads: the canvas of round `round_` (from 0), or `noisy_BC` where there is no such
        round.

        Args:
            noisy_BC: what the last pass read.
            sample_BC: tokens that it samples.
            entropy_BC: entropies of its distributions.
        """
        rank_BC = entropy_BC.argsort(dim=1, stable=True).argsort(dim=1)
        accepted_BC = rank_BC < self.accepted_RB[round_][:, None] * (noisy_BC.shape[1] + 1)
        draft_BC = torch.where(accepted_BC, sample_BC, self.noise_RBC[round_])
        return torch.where(self.rounds_B[:, None] > round_, draft_BC, noisy_BC)
