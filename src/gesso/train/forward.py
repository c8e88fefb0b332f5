"""Runs the model's training passes: the same weights and layers as `DiffusionGemma`, with gradients.

The encoder runs once over all examples laid flat, without padding; its keys and values, still attached to the
graph, are what the canvases attend to, so the denoiser's gradient reaches the encoder. Only attention is padded,
in groups of rows of like length.

    B canvases (examples where each has one)   T longest encoder row   C canvas length   N encoder tokens
    H heads   G key heads   K head dim
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from gesso.config import AttentionKind
from gesso.models.diffusion_gemma import Block, DiffusionGemma
from gesso.runner.prompt_input import EmbeddingSpan
from gesso.train.attention import attend_masked
from gesso.train.masks import MASKED, causal_bias

ROW_MULTIPLE = 256
"""The flat encoder batch is padded to a multiple of this, so that its matmuls meet few shapes."""
SHORTEST = 32
"""Rows are padded to the next power of two, from this on, and attended group by group of equal padding."""


@dataclass(frozen=True, slots=True)
class Group:
    """Bounds neighbouring rows of a batch that are padded to the same length `longest`."""

    rows: slice
    tokens: slice
    """Tokens of the flat encoder batch."""
    longest: int


@dataclass(frozen=True, slots=True)
class Encoded:
    """Holds what the encoder leaves for the denoiser: for every layer and group, keys and values [B', T, G, K]."""

    hidden_ND: Tensor
    groups: list[Group]
    keys: list[list[Tensor]]
    values: list[list[Tensor]]

    def repeat(self, times: int) -> "Encoded":
        """Repeats every row `times` times in a row: for so many canvases of each example."""
        if times == 1:
            return self
        groups = [Group(slice(g.rows.start * times, g.rows.stop * times), g.tokens, g.longest) for g in self.groups]
        keys, values = (
            [[rows.repeat_interleave(times, dim=0) for rows in layer] for layer in side]
            for side in (self.keys, self.values)
        )
        return Encoded(self.hidden_ND, groups, keys, values)

    def select(self, rows: Sequence[int]) -> "Encoded":
        """Selects rows by number, in ascending order; one may stand several times. Keys and values stay attached to
        their graph; the hidden states are left out."""
        groups: list[Group] = []
        picks: list[tuple[int, Tensor]] = []
        for place, group in enumerate(self.groups):
            mine = [row - group.rows.start for row in rows if group.rows.start <= row < group.rows.stop]
            if mine:
                start = groups[-1].rows.stop if groups else 0
                groups.append(Group(slice(start, start + len(mine)), slice(0, 0), group.longest))
                picks.append((place, torch.tensor(mine, device=self.hidden_ND.device)))
        keys, values = (
            [[layer[place].index_select(0, pick) for place, pick in picks] for layer in side]
            for side in (self.keys, self.values)
        )
        return Encoded(self.hidden_ND[:0], groups, keys, values)

    def take(self, rows_B: Tensor) -> "Encoded":
        """Takes the rows `rows_B` (bool), cut from the graph; the hidden states are left out."""
        picks = [rows_B[group.rows] for group in self.groups]
        groups, start = [], 0
        for group, pick in zip(self.groups, picks, strict=True):
            count = int(pick.sum())
            groups.append(Group(slice(start, start + count), slice(0, 0), group.longest))
            start += count
        return Encoded(
            self.hidden_ND.detach()[:0],
            groups,
            [[k.detach()[pick] for k, pick in zip(layer, picks, strict=True)] for layer in self.keys],
            [[v.detach()[pick] for v, pick in zip(layer, picks, strict=True)] for layer in self.values],
        )


class EncoderRows(Protocol):
    """Describes rows of tokens for the encoder, in order of length."""

    @property
    def tokens_N(self) -> Tensor:
        """Returns the tokens of all rows, laid flat."""

    @property
    def lengths(self) -> tuple[int, ...]:
        """Returns the number of tokens of each row."""

    @property
    def images(self) -> tuple[tuple[EmbeddingSpan, ...], ...]:
        """Returns the images of each row; empty where no row has any."""


def group_rows(lengths: Sequence[int]) -> list[Group]:
    """Groups rows that are in order of length by their padded length."""
    groups: list[Group] = []
    row = token = 0
    for longest, members in itertools.groupby(lengths, lambda n: max(SHORTEST, 1 << (n - 1).bit_length())):
        sizes = list(members)
        groups.append(Group(slice(row, row + len(sizes)), slice(token, token + sum(sizes)), longest))
        row, token = row + len(sizes), token + sum(sizes)
    return groups


def encode(
    model: DiffusionGemma, batch: EncoderRows, images: Sequence[Tensor] = (), *, checkpointing: bool = False
) -> Encoded:
    """Runs the causal pass over prompt and clean answer.

    Args:
        images: embeddings [n, D] of the batch's images, in order. Within an image sliding layers look both ways.
    """
    device, window = model.device, model.config.sliding_window
    lengths = torch.tensor(batch.lengths, device=device)
    rows = torch.arange(len(batch.lengths), device=device).repeat_interleave(lengths, output_size=sum(batch.lengths))
    columns = torch.arange(rows.numel(), device=device) - (lengths.cumsum(0) - lengths)[rows]
    real = rows.numel()
    fill = -real % ROW_MULTIPLE
    groups = group_rows(batch.lengths)
    slots = [(rows[g.tokens] - g.rows.start) * g.longest + columns[g.tokens] for g in groups]
    spans = [[(image.start, image.end) for image in row] for row in batch.images]
    # Made once for all layers of a kind, which keep them for the backward pass.
    biases: dict[AttentionKind, list[Tensor]] = {
        "full_attention": [causal_bias(g.longest, None, device) for g in groups],
        "sliding_attention": [causal_bias(g.longest, window, device, spans[g.rows]) for g in groups],
    }

    def layer(x: Tensor, kind: AttentionKind, block: Block) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        keys: list[Tensor] = []
        values: list[Tensor] = []

        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            parts = []
            for group, slot, bias in zip(groups, slots, biases[kind], strict=True):
                rows_q, rows_k, rows_v = (_pad(x[group.tokens], slot, group) for x in (q, k, v))
                keys.append(rows_k)
                values.append(rows_v)
                parts.append(attend_masked(rows_q, rows_k, rows_v, bias).flatten(0, 1)[slot])
            return F.pad(torch.cat(parts), (0, 0, 0, 0, 0, fill))

        block.side.causal = True
        return block(x, rope[kind], attend, block.encoder_scalar), keys, values

    rope = model.rope(F.pad(columns, (0, fill)), groups[-1].longest)
    x = model.vocabulary.embed(F.pad(batch.tokens_N, (0, fill)))
    if images:
        x = x.index_copy(0, _soft_places(batch).to(device), torch.cat(list(images)).to(x))
    keys, values = [], []
    for _, kind, block in model.blocks():
        x, layer_keys, layer_values = _run(layer, checkpointing, x, kind, block)
        keys.append(layer_keys)
        values.append(layer_values)
    return Encoded(model.norm(x[:real]), groups, keys, values)


def _run(function: Callable[..., Any], checkpointing: bool, *args: Any) -> Any:
    """Calls `function`; with `checkpointing` what it computes is not kept but computed again in the backward pass."""
    if checkpointing and torch.is_grad_enabled():
        return checkpoint(function, *args, use_reentrant=False)
    return function(*args)


def _pad(x: Tensor, slot: Tensor, group: Group) -> Tensor:
    """Scatters tokens [n, ...] to their slots in [rows, longest, ...]."""
    count = group.rows.stop - group.rows.start
    padded = x.new_zeros(count * group.longest, *x.shape[1:]).index_copy(0, slot, x)
    return padded.view(count, group.longest, *x.shape[1:])


def _soft_places(batch: EncoderRows) -> Tensor:
    """Where the soft tokens of all images are in the flat encoder batch."""
    begins = itertools.accumulate(batch.lengths, initial=0)
    places = [
        torch.arange(begin + image.start, begin + image.end)
        for begin, row in zip(begins, batch.images, strict=False)
        for image in row
    ]
    return torch.cat(places)


def denoise(
    model: DiffusionGemma,
    noisy_BC: Tensor,
    starts_B: Tensor,
    encoded: Encoded,
    self_conditioning_ND: Tensor | None,
    *,
    checkpointing: bool = False,
) -> Tensor:
    """Returns normed hidden states [B*C, D] of the canvases.

    Args:
        starts_B: the number of encoder positions that each canvas may see.
        self_conditioning_ND: [B*C, D]; None is the first step's exact zero.
        checkpointing: compute each layer once more in the backward pass instead of keeping its activations.
    """
    count, width = noisy_BC.shape
    device, window = model.device, model.config.sliding_window
    starts = range(count) if starts_B.is_meta else starts_B.tolist()  # of an estimate: all unlike, the larger case

    def layer(x: Tensor, i: int, kind: AttentionKind, block: Block) -> Tensor:
        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            q, k, v = (x.view(count, width, *x.shape[1:]) for x in (q, k, v))
            parts = []
            for g, group in enumerate(encoded.groups):
                past_k, past_v = encoded.keys[i][g], encoded.values[i][g]
                alike = set(starts[group.rows])
                if len(alike) == 1 and (kind == "full_attention" or max(alike) < window):
                    past_k, past_v, bias = past_k[:, : max(alike)], past_v[:, : max(alike)], None
                else:
                    key = torch.arange(group.longest + width, device=device)
                    seen = key < starts_B[group.rows, None]
                    if kind == "sliding_attention":
                        seen &= key >= starts_B[group.rows, None] - (window - 1)
                    bias = torch.where(seen | (key >= group.longest), 0.0, MASKED)[:, None, None]
                keys = torch.cat((past_k, k[group.rows].to(past_k.dtype)), dim=1)
                values = torch.cat((past_v, v[group.rows].to(past_v.dtype)), dim=1)
                parts.append(attend_masked(q[group.rows], keys, values, bias))
            return torch.cat(parts).flatten(0, 1)

        block.side.causal = False
        out: Tensor = block(x, rope[kind], attend, block.decoder_scalar)
        return out

    positions = (starts_B[:, None] + torch.arange(width, device=device)).flatten()
    rope = model.rope(positions, encoded.groups[-1].longest + width)
    x = model.self_conditioning(model.vocabulary.embed(noisy_BC.flatten()), self_conditioning_ND)
    for i, kind, block in model.blocks():
        x = _run(layer, checkpointing, x, i, kind, block)
    out: Tensor = model.norm(x)
    return out
