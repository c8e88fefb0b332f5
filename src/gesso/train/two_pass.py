"""Computes the released two-pass loss: a pass that makes the self-conditioning, then the pass that is trained.

B canvases   C canvas length   N encoder tokens, or rows of hidden states   D hidden
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.train.batch import IGNORED, Batch
from gesso.train.forward import Encoded, denoise, encode

LOGIT_BYTES = 256 * 2**20
"""Bytes of fp32 logits that are held at a time where the first pass's self-conditioning is made."""


@dataclass(frozen=True, slots=True)
class Losses:
    """Holds mean cross-entropies in nats a token."""

    denoiser: Tensor
    encoder: Tensor


def losses(
    model: DiffusionGemma,
    batch: Batch,
    images: Sequence[Tensor] = (),
    *,
    checkpointing: bool = False,
    encoder: bool = True,
    uniform: bool = False,
) -> Losses:
    """Computes the released two-pass loss.

    A pass without self-conditioning and without gradient is run for the canvases that drew it; its self-conditioning
    embedding, or exact zeros, goes into the pass that is trained, over all tokens of the canvas, corrupted and clean
    alike. Where the batch says so that pass reads the canvas that the first one makes (`self_generated`), not in the
    released loss.

    Args:
        images: embeddings [n, D] of the batch's images, in order; their gradient goes on to what made them.
        encoder: False leaves out the next-token loss, which is then zero.
        uniform: go through the layers equally often whatever was drawn: processes that share them must.
    """
    encoded = encode(model, batch, images, checkpointing=checkpointing)
    hidden_ND = encoded.hidden_ND
    encoded = encoded.repeat(batch.canvases_per_example)
    noisy_BC, self_conditioning_BCD = first_passes(model, batch, encoded, uniform=uniform)
    hidden = denoise(
        model, noisy_BC, batch.starts_B, encoded, self_conditioning_BCD.flatten(0, 1), checkpointing=checkpointing
    )
    denoiser = model.vocabulary.cross_entropy(hidden, batch.canvas_BC.flatten())
    inside = batch.targets_N != IGNORED
    if encoder and inside.any():
        return Losses(denoiser, model.vocabulary.cross_entropy(hidden_ND[inside], batch.targets_N[inside]))
    if uniform:
        # A pass that leads nowhere would be skipped on the way back, where the processes meet as well.
        denoiser = denoiser + 0.0 * hidden_ND.sum()
    return Losses(denoiser, torch.zeros((), device=model.device))


@torch.no_grad()
def first_passes(model: DiffusionGemma, batch: Batch, encoded: Encoded, *, uniform: bool) -> tuple[Tensor, Tensor]:
    """Returns what the trained pass reads, [B, C], and its self-conditioning, [B, C, D], zeros where it has none."""
    noisy_BC, generated = batch.noisy_BC, batch.self_generated
    count, width = noisy_BC.shape
    self_conditioning_BCD = torch.zeros(count, width, model.config.hidden_size, device=model.device, dtype=model.dtype)
    for round_ in range(1 if generated is None else generated.most):
        going = batch.self_conditioned_B
        if round_ and generated is not None:
            going = going & (generated.rounds_B > round_)
        if not going.any():
            if uniform:
                denoise(model, noisy_BC, batch.starts_B, encoded, None)
            continue
        self_conditioning_ND = self_conditioning_BCD[going].flatten(0, 1) if round_ else None
        hidden = denoise(model, noisy_BC[going], batch.starts_B[going], encoded.take(going), self_conditioning_ND)
        if generated is None:
            embedding = mixed_embeddings(model, hidden)
        else:
            own = generated.rows(going)
            seen = model.vocabulary.predict(hidden, torch.ones_like(hidden[:, 0]), own.uniform_RBC[round_].flatten())
            sample, entropy = (part.view(-1, width) for part in (seen.sample_N, seen.entropy_N))
            noisy_BC = noisy_BC.index_put((going,), own.canvas(round_, noisy_BC[going], sample, entropy))
            embedding = seen.embedding_ND
        self_conditioning_BCD[going] = embedding.view(-1, width, self_conditioning_BCD.shape[2]).to(
            self_conditioning_BCD.dtype
        )
    # Copies of weights that autocast made without a gradient must not serve the pass that has one.
    torch.clear_autocast_cache()
    return noisy_BC, self_conditioning_BCD


def rows_at_a_time(model: DiffusionGemma) -> int:
    """Returns how many rows have their logits in memory at a time."""
    return max(1, LOGIT_BYTES // (4 * model.config.vocab_size))


def mixed_embeddings(model: DiffusionGemma, hidden_ND: Tensor) -> Tensor:
    """Returns the mixed embeddings that the next pass is conditioned on, [N, D]."""
    chunks = hidden_ND.split(rows_at_a_time(model))
    return torch.cat([model.vocabulary.mix(model.vocabulary.logits(chunk)) for chunk in chunks])
