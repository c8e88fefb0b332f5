"""Computes the released two-pass loss: a pass that makes the self-conditioning, then the pass that is trained.

Where sequences lie over several processes (`gesso.train.context_parallel`), each makes its part of the losses, whose
sum over these processes is the mean over all tokens.

B canvases   C canvas length   N encoder tokens, or rows of hidden states   D hidden
W columns of a canvas that this process has, C where it has whole ones
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from gesso.config import ModelConfig
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.nn.compiled_training import also_without_gradient
from gesso.train.batch import IGNORED, Batch
from gesso.train.context_parallel import ContextGroup
from gesso.train.forward import Encoded, denoise, encode

LOGIT_BYTES = 256 * 2**20
"""Bytes of fp32 logits that are held at a time where the first pass's self-conditioning is made."""


CanvasLoss = Callable[[Encoded], Tensor]
"""Computes a loss of a batch's canvases from what each of them attends to."""


@dataclass(frozen=True, slots=True)
class Losses:
    """Holds mean cross-entropies in nats a token, or a process's parts of them."""

    denoiser: Tensor
    encoder: Tensor


def losses(
    model: DiffusionGemma,
    batch: Batch,
    images: Sequence[Tensor] = (),
    *,
    checkpointing: bool = False,
    denoiser: bool = True,
    encoder: bool = True,
    uniform: bool = False,
    context: ContextGroup | None = None,
    of_canvases: CanvasLoss | None = None,
) -> Losses:
    """Computes the released two-pass loss, or the next-token loss beside another one of the canvases.

    A pass without self-conditioning and without gradient is run for the canvases that drew it; its self-conditioning
    embedding, or exact zeros, goes into the pass that is trained, over all tokens of the canvas, corrupted and clean
    alike. Where the batch says so that pass reads the canvas that the first one makes (`self_generated`), not in the
    released loss.

    Args:
        images: embeddings [n, D] of the batch's images, in order; their gradient goes on to what made them.
        denoiser: False leaves out the canvases, whose loss is then zero.
        encoder: False leaves out the next-token loss, which is then zero.
        uniform: go through the layers equally often whatever was drawn: processes that share them must.
        context: the processes that have the parts of each sequence; None where this one has whole ones.
        of_canvases: what the canvases' loss is instead of `canvas_loss`.
    """
    encoded = encode(model, batch, images, checkpointing=checkpointing, context=context, for_canvases=denoiser)
    hidden_ND, targets_N = encoded.hidden_ND, batch.targets_N
    denoising = torch.zeros((), device=model.device)
    if denoiser:
        if of_canvases is None:
            of_canvases = partial(canvas_loss, model, batch, checkpointing=checkpointing, uniform=uniform)
        denoising = of_canvases(encoded.repeat(batch.canvases_per_example))
    if context is not None:
        own = context.own_tokens(batch.lengths, targets_N.device)
        targets_N = targets_N[own.places_M].masked_fill(~own.real_M, IGNORED)
    loss = next_token_loss(model, hidden_ND, targets_N) if encoder else None
    if loss is not None:
        share = 1.0 if context is None else (targets_N != IGNORED).sum() / batch.target_tokens
        return Losses(denoising, loss * share)
    if uniform or not denoiser:
        # A pass that leads nowhere would be skipped on the way back, where the processes meet as well.
        denoising = denoising + 0.0 * hidden_ND.sum()
    return Losses(denoising, torch.zeros((), device=model.device))


def next_token_loss(model: DiffusionGemma, hidden_ND: Tensor, targets_N: Tensor) -> Tensor | None:
    """Returns the encoder's mean cross-entropy, nats a token, over the positions that have a target; None where none
    has."""
    inside_N = targets_N != IGNORED
    return model.vocabulary.cross_entropy(hidden_ND[inside_N], targets_N[inside_N]) if inside_N.any() else None


def canvas_loss(model: DiffusionGemma, batch: Batch, encoded: Encoded, *, checkpointing: bool, uniform: bool) -> Tensor:
    """Returns the denoiser's mean cross-entropy, nats a token, or a process's part of it.

    Args:
        encoded: what each canvas attends to.
    """
    noisy_BC, self_conditioning_BWD = first_passes(model, batch, encoded, uniform=uniform)
    hidden = denoise(
        model, noisy_BC, batch.starts_B, encoded, self_conditioning_BWD.flatten(0, 1), checkpointing=checkpointing
    )
    canvas_BC, context = batch.canvas_BC, encoded.context
    if context is None:
        return model.vocabulary.cross_entropy(hidden, canvas_BC.flatten())
    columns_W, real_W = context.own_columns(canvas_BC.shape[1], canvas_BC.device)
    hidden = hidden.unflatten(0, (-1, len(columns_W)))[:, real_W].flatten(0, 1)
    canvas_BC = canvas_BC[:, columns_W[real_W]]
    loss = model.vocabulary.cross_entropy(hidden, canvas_BC.flatten())
    return loss * (canvas_BC.numel() / batch.canvas_tokens)


@torch.no_grad()
@also_without_gradient()
def first_passes(model: DiffusionGemma, batch: Batch, encoded: Encoded, *, uniform: bool) -> tuple[Tensor, Tensor]:
    """Returns what the trained pass reads, [B, C], and its self-conditioning, [B, W, D], zeros where it has none."""
    noisy_BC, generated, context = batch.noisy_BC, batch.self_generated, encoded.context
    width = noisy_BC.shape[1]
    columns = slice(None) if context is None else context.own_columns(width, noisy_BC.device)[0]
    shape = noisy_BC[:, columns].shape
    self_conditioning_BWD = torch.zeros(*shape, model.config.hidden_size, device=model.device, dtype=model.dtype)
    for round_ in range(1 if generated is None else generated.most):
        going = batch.self_conditioned_B
        if round_ and generated is not None:
            going = going & (generated.rounds_B > round_)
        if not going.any():
            if uniform:
                denoise(model, noisy_BC, batch.starts_B, encoded, None)
            continue
        self_conditioning_ND = self_conditioning_BWD[going].flatten(0, 1) if round_ else None
        hidden = denoise(model, noisy_BC[going], batch.starts_B[going], encoded.take(going), self_conditioning_ND)
        if generated is None:
            embedding = mixed_embeddings(model, hidden)
        else:
            own = generated.rows(going)
            uniform_N = own.uniform_RBC[round_][:, columns].flatten()
            seen = model.vocabulary.predict(hidden, torch.ones_like(hidden[:, 0]), uniform_N)
            sample, entropy = (part.view(-1, shape[1]) for part in (seen.sample_N, seen.entropy_N))
            if context is not None:
                sample, entropy = (context.whole_canvas(part, width) for part in (sample, entropy))
            noisy_BC = noisy_BC.index_put((going,), own.canvas(round_, noisy_BC[going], sample, entropy))
            embedding = seen.embedding_ND
        self_conditioning_BWD[going] = embedding.view(-1, *self_conditioning_BWD.shape[1:]).to(
            self_conditioning_BWD.dtype
        )
    # Copies of weights that autocast made without a gradient must not serve the pass that has one.
    torch.clear_autocast_cache()
    return noisy_BC, self_conditioning_BWD


def logit_rows(config: ModelConfig) -> int:
    """Returns how many rows have their logits in memory at a time."""
    return max(1, LOGIT_BYTES // (4 * config.vocab_size))


def mixed_embeddings(model: DiffusionGemma, hidden_ND: Tensor) -> Tensor:
    """Returns the mixed embeddings that the next pass is conditioned on, [N, D]."""
    chunks = hidden_ND.split(logit_rows(model.config))
    return torch.cat([model.vocabulary.mix(model.vocabulary.logits(chunk)) for chunk in chunks])
