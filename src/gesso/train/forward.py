"""The model's training passes: the same weights and layers as `DiffusionGemma`, with gradients.

The encoder runs once over all examples laid flat, without padding; its keys and values, still attached to the
graph, are what the canvases attend to, so the denoiser's gradient reaches the encoder. Only attention is padded.

    B examples   T longest encoder row   C canvas length   N encoder tokens   H heads   G key heads   K head dim
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.nn.attention import Attend
from gesso.train.batch import Batch

MASKED = -1e9
GRAIN = 256
"""The flat encoder batch is filled up to a multiple of this, so that its matmuls meet few shapes."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """What the encoder leaves for the denoiser."""

    hidden_ND: Tensor
    keys: list[Tensor]
    """Per layer, [B, T, G, K]."""
    values: list[Tensor]

    def take(self, rows_B: Tensor) -> "Encoded":
        """The rows `rows_B` (bool), cut from the graph."""
        return Encoded(
            self.hidden_ND.detach(),
            [k.detach()[rows_B] for k in self.keys],
            [v.detach()[rows_B] for v in self.values],
        )


def attend_masked(q_BTHK: Tensor, k_BSGK: Tensor, v_BSGK: Tensor, bias: Tensor) -> Tensor:
    """Grouped attention as two matmuls and a softmax, [B, T, H, K]; `bias` broadcasts over [B, 1, T, S].

    On a CPU this trains twice as fast as the fused kernel with a mask.
    """
    batch, tokens, heads, dim = q_BTHK.shape
    groups = k_BSGK.shape[2]
    q = q_BTHK.view(batch, tokens, groups, heads // groups, dim).permute(0, 2, 3, 1, 4).flatten(2, 3)
    scores = torch.matmul(q, k_BSGK.permute(0, 2, 3, 1)).unflatten(2, (heads // groups, tokens))
    probs = (scores.float() + bias[:, :, None]).softmax(dim=-1).to(v_BSGK.dtype)
    out = torch.matmul(probs.flatten(2, 3), v_BSGK.transpose(1, 2))
    return out.view(batch, heads, tokens, dim).transpose(1, 2)


def encode(model: DiffusionGemma, batch: Batch) -> Encoded:
    """Causal pass over prompt and clean answer."""
    device = model.device
    lengths = torch.tensor(batch.lengths, device=device)
    count, longest = len(batch.lengths), max(batch.lengths)
    rows = torch.arange(count, device=device).repeat_interleave(lengths)
    columns = torch.arange(rows.numel(), device=device) - (lengths.cumsum(0) - lengths)[rows]
    slots = rows * longest + columns
    real = rows.numel()
    fill = -real % GRAIN
    position = torch.arange(longest, device=device)
    causal = position <= position[:, None]
    narrow = causal & (position > position[:, None] - model.config.sliding_window)
    bias = {kind: torch.where(mask, 0.0, MASKED)[None, None] for kind, mask in _kinds(causal, narrow)}
    keys: list[Tensor] = []
    values: list[Tensor] = []

    def pad(x: Tensor) -> Tensor:
        padded = x.new_zeros(count * longest, *x.shape[1:]).index_copy(0, slots, x[:real])
        return padded.view(count, longest, *x.shape[1:])

    def attend_with(mask: Tensor) -> Attend:
        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            k, v = pad(k), pad(v)
            keys.append(k)
            values.append(v)
            return F.pad(attend_masked(pad(q), k, v, mask).flatten(0, 1)[slots], (0, 0, 0, 0, 0, fill))

        return attend

    rope = model.rope(F.pad(columns, (0, fill)), longest)
    x = model.vocabulary.embed(F.pad(batch.tokens_N, (0, fill)))
    for _, kind, block in model.blocks():
        x = block(x, rope[kind], attend_with(bias[kind]), block.encoder_scalar)
    return Encoded(model.norm(x[:real]), keys, values)


def denoise(model: DiffusionGemma, noisy_BC: Tensor, starts_B: Tensor, encoded: Encoded, soft: Tensor | None) -> Tensor:
    """Normed hidden states [B*C, D] of the canvases; `soft` [B*C, D] is the self-conditioning or None."""
    count, width = noisy_BC.shape
    device = model.device
    longest = encoded.keys[0].shape[1]
    key = torch.arange(longest, device=device)
    before = key < starts_B[:, None]
    near = before & (key >= starts_B[:, None] - (model.config.sliding_window - 1))
    own = torch.ones(count, width, dtype=torch.bool, device=device)
    bias = {
        kind: torch.where(torch.cat((mask, own), dim=1), 0.0, MASKED)[:, None, None]
        for kind, mask in _kinds(before, near)
    }
    positions = (starts_B[:, None] + torch.arange(width, device=device)).flatten()
    rope = model.rope(positions, longest + width)

    def attend_with(layer: int, mask: Tensor) -> Attend:
        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            q, k, v = (x.view(count, width, *x.shape[1:]) for x in (q, k, v))
            k = torch.cat((encoded.keys[layer], k.to(encoded.keys[layer].dtype)), dim=1)
            v = torch.cat((encoded.values[layer], v.to(encoded.values[layer].dtype)), dim=1)
            return attend_masked(q, k, v, mask).flatten(0, 1)

        return attend

    x = model.self_conditioning(model.vocabulary.embed(noisy_BC.flatten()), soft)
    for i, kind, block in model.blocks():
        x = block(x, rope[kind], attend_with(i, bias[kind]), block.decoder_scalar)
    out: Tensor = model.norm(x)
    return out


def _kinds(full: Tensor, sliding: Tensor) -> tuple[tuple[str, Tensor], tuple[str, Tensor]]:
    return ("full_attention", full), ("sliding_attention", sliding)


@dataclass(frozen=True, slots=True)
class Losses:
    """Mean cross-entropies in nats a token."""

    denoiser: Tensor
    encoder: Tensor


def losses(model: DiffusionGemma, batch: Batch) -> Losses:
    """The released two-pass loss.

    A pass without self-conditioning and without gradient is run for the examples that drew it; its belief, or
    exact zeros, goes into the pass that is trained, over all tokens of the canvas, corrupted and clean alike.
    """
    encoded = encode(model, batch)
    count, width = batch.noisy_BC.shape
    soft = torch.zeros(count, width, model.config.hidden_size, device=model.device)
    chosen = batch.self_conditioned_B
    if chosen.any():
        with torch.no_grad():
            hidden = denoise(model, batch.noisy_BC[chosen], batch.starts_B[chosen], encoded.take(chosen), None)
            mixed = model.vocabulary.mix(model.vocabulary.logits(hidden))
            soft[chosen] = mixed.view(-1, width, soft.shape[2]).to(soft.dtype)
    hidden = denoise(model, batch.noisy_BC, batch.starts_B, encoded, soft.flatten(0, 1))
    denoiser = F.cross_entropy(model.vocabulary.logits(hidden), batch.canvas_BC.flatten())
    inside = batch.targets_N != -100
    encoder = F.cross_entropy(model.vocabulary.logits(encoded.hidden_ND[inside]), batch.targets_N[inside])
    return Losses(denoiser, encoder)
