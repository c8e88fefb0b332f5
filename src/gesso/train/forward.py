"""Runs the model's training passes: the same weights and layers as `DiffusionGemma`, with gradients.

The encoder runs once over all examples laid flat, without padding; its keys and values, still attached to the
graph, are what the canvases attend to, so the denoiser's gradient reaches the encoder. Only attention is padded,
in groups of rows of like length, and not where a kernel takes rows of any length.

Where sequences lie over several processes (`gesso.train.context_parallel`) each runs the same layers on its own
tokens, and gathers keys and values where a layer attends.

    B canvases (examples where each has one)   T longest encoder row   C canvas length   N encoder tokens
    H heads   G key heads   K head dim   M encoder tokens of this process   W columns of a canvas that it has
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from gesso.config import AttentionKind
from gesso.models.block import Block
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.nn.image_attention import Span
from gesso.nn.norm import autocast_dtype
from gesso.train.attention import attend_causal, attend_flat, attend_masked, has_fused_kernel, takes_flat
from gesso.train.context_parallel import ContextGroup
from gesso.train.encoder_rows import (
    EncoderRows,
    Group,
    flat_ends,
    group_rows,
    lay_out_rows,
    pick_rows,
    soft_places,
)
from gesso.train.head_rows import HeadRows, lays_out
from gesso.train.masks import MASKED, causal_bias

ROW_MULTIPLE = 256
"""The flat encoder batch is padded to a multiple of this, so that its matmuls meet few shapes."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """Holds what the encoder leaves for the denoiser: for every layer and group, keys and values [B', T, G, K], or
    those of this process's tokens; of no group where no canvas will attend to them."""

    hidden_ND: Tensor
    groups: list[Group]
    keys: list[list[Tensor]]
    values: list[list[Tensor]]
    lengths: list[Tensor]
    """Tokens of each row, for every group, [B']."""
    context: ContextGroup | None = None
    """The processes that have the parts of each row; None where this one has whole rows."""

    def repeat(self, times: int) -> "Encoded":
        """Repeats every row `times` times in a row: for so many canvases of each example."""
        if times == 1:
            return self
        groups = [Group(slice(g.rows.start * times, g.rows.stop * times), g.tokens, g.longest) for g in self.groups]
        keys, values = (
            [[rows.repeat_interleave(times, dim=0) for rows in layer] for layer in side]
            for side in (self.keys, self.values)
        )
        lengths = [rows.repeat_interleave(times) for rows in self.lengths]
        return Encoded(self.hidden_ND, groups, keys, values, lengths, self.context)

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
        lengths = [self.lengths[place][pick] for place, pick in picks]
        return Encoded(self.hidden_ND[:0], groups, keys, values, lengths, self.context)

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
            [rows[pick] for rows, pick in zip(self.lengths, picks, strict=True)],
            self.context,
        )


def encode(
    model: DiffusionGemma,
    batch: EncoderRows,
    images: Sequence[Tensor] = (),
    *,
    checkpointing: bool = False,
    context: ContextGroup | None = None,
    for_canvases: bool = True,
) -> Encoded:
    """Runs the causal pass over prompt and clean answer.

    Args:
        images: embeddings [n, D] of the batch's images, in order. Within an image sliding layers look both ways.
        for_canvases: False may leave out keys and values.
        context: the processes that have the parts of each row; the hidden states returned are those of this one's.
    """
    device, window = model.device, model.config.sliding_window
    groups = group_rows(batch.lengths)
    here = lay_out_rows(batch.lengths, groups, context, device)
    real = len(here.columns_M)
    fill = -real % ROW_MULTIPLE
    tokens = [group.tokens.stop - group.tokens.start for group in here.groups]
    spans = [[(image.start, image.end) for image in row] for row in batch.images]
    # Made once for all layers of a kind, which keep them for the backward pass.
    asking = list(zip(groups, here.queries, strict=True))
    fused = context is None and has_fused_kernel(device)
    heads = HeadRows(batch.lengths, groups) if context is None and device.type == "cpu" else None
    # What fills the batch up is a row of its own.
    ends = flat_ends([*batch.lengths, *([fill] if fill else [])], device) if fused else None

    def bias_of(group: Group, queries: Tensor | None, seen: int | None, images: list[list[Span]]) -> Tensor | None:
        if fused and (seen is None or (group.longest <= seen and not any(images))):
            return None
        return causal_bias(group.longest, seen, device, images, queries)

    biases: dict[AttentionKind, list[Tensor | None]] = {
        "full_attention": [bias_of(g, q, None, []) for g, q in asking],
        "sliding_attention": [bias_of(g, q, window, spans[g.rows]) for g, q in asking],
    }

    def layer(x: Tensor, kind: AttentionKind, block: Block) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        keys: list[Tensor] = []
        values: list[Tensor] = []

        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            parts = []
            q, k, v = (x.to(autocast_dtype(device.type) or x.dtype) for x in (q, k, v))
            if not for_canvases and ends is not None and not images and takes_flat(q):
                longest = max(fill, batch.lengths[-1])
                return attend_flat(q, k, v, ends, longest, window if kind == "sliding_attention" else None)
            if heads is not None and lays_out(q, k, v):
                out, keys[:], values[:] = heads.attend(q, k, v, biases[kind])
                return out
            seen = here.seen(k[:real], v[:real])
            # Split, not sliced: the gradient is put together once, and not for each group in a tensor of all.
            mine = (x.split([*tokens, len(x) - real])[: len(tokens)] for x in (q, k, v))
            of_groups = zip(here.groups, here.slots, biases[kind], zip(*mine, strict=True), strict=True)
            for number, (group, slot, bias, own) in enumerate(of_groups):
                rows_q, rows_k, rows_v = (group.pad(x, slot) for x in own)
                keys.append(rows_k)
                values.append(rows_v)
                if seen is not None:
                    rows_k, rows_v = seen[number]
                if bias is None:
                    out = attend_causal(rows_q, rows_k, rows_v)
                else:
                    out = attend_masked(rows_q, rows_k, rows_v, bias)
                parts.append(out.flatten(0, 1).index_select(0, slot))
            return F.pad(torch.cat(parts), (0, 0, 0, 0, 0, fill))

        block.side.causal = True
        return block(x, rope[kind], attend, block.encoder_scalar), keys, values

    rope = model.rope(F.pad(here.columns_M, (0, fill)), groups[-1].longest)
    x = model.vocabulary.embed(F.pad(here.own(batch.tokens_N), (0, fill)))
    if images:
        places, embeddings = here.own_images(soft_places(batch).to(device), torch.cat(list(images)).to(x))
        x = x.index_copy(0, places, embeddings)
    keys, values = [], []
    for _, kind, block in model.blocks():
        x, layer_keys, layer_values = _run(layer, checkpointing, x, kind, block)
        keys.append(layer_keys)
        values.append(layer_values)
    lengths = [torch.tensor(batch.lengths[group.rows], device=device) for group in groups]
    return Encoded(model.norm(x[:real]), groups, keys, values, lengths, context)


def _run(function: Callable[..., Any], checkpointing: bool, *args: Any) -> Any:
    """Calls `function`; with `checkpointing` what it computes is not kept but computed again in the backward pass."""
    if checkpointing and torch.is_grad_enabled():
        return checkpoint(function, *args, use_reentrant=False)
    return function(*args)


def denoise(
    model: DiffusionGemma,
    noisy_BC: Tensor,
    starts_B: Tensor,
    encoded: Encoded,
    self_conditioning_ND: Tensor | None,
    *,
    checkpointing: bool = False,
) -> Tensor:
    """Returns normed hidden states [B*C, D] of the canvases; [B*W, D] where canvases lie over several processes.

    Args:
        starts_B: the number of encoder positions that each canvas may see.
        self_conditioning_ND: as what is returned; None is the first step's exact zero.
        checkpointing: compute each layer once more in the backward pass instead of keeping its activations.
    """
    (count, width), context = noisy_BC.shape, encoded.context
    device, window = model.device, model.config.sliding_window
    starts = range(count) if starts_B.is_meta else starts_B.tolist()  # of an estimate: all unlike, the larger case
    columns = torch.arange(width, device=device) if context is None else context.own_columns(width, device)[0]
    sizes = [group.rows.stop - group.rows.start for group in encoded.groups]
    places = [] if context is None else _key_places(context, encoded, count, width)

    def layer(x: Tensor, i: int, kind: AttentionKind, block: Block) -> Tensor:
        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            past = encoded.keys[i], encoded.values[i]
            whole = None if context is None else _gather_keys(context, *past, k, v)
            q, k, v = (x.view(count, len(columns), *x.shape[1:]) for x in (q, k, v))
            parts = []
            of_groups = zip(*(x.split(sizes) for x in (q, k, v)), strict=True)
            for g, (group, (own_q, own_k, own_v)) in enumerate(zip(encoded.groups, of_groups, strict=True)):
                cut, bias = group.longest, None
                alike = set(starts[group.rows])
                if len(alike) == 1 and (kind == "full_attention" or max(alike) < window):
                    cut = max(alike)
                else:
                    key = torch.arange(group.longest + width, device=device)
                    seen = key < starts_B[group.rows, None]
                    if kind == "sliding_attention":
                        seen &= key >= starts_B[group.rows, None] - (window - 1)
                    bias = torch.where(seen | (key >= group.longest), 0.0, MASKED)[:, None, None]
                if whole is None:
                    keys, values = (
                        torch.cat((kept[g][:, :cut], new.to(kept[g].dtype)), dim=1)
                        for kept, new in zip(past, (own_k, own_v), strict=True)
                    )
                else:
                    at = torch.cat((places[g][:, :cut], places[g][:, group.longest :]), dim=1)
                    keys, values = pick_rows(whole[0], at), pick_rows(whole[1], at)
                parts.append(attend_masked(own_q, keys, values, bias))
            return torch.cat(parts).flatten(0, 1)

        block.side.causal = False
        out: Tensor = block(x, rope[kind], attend, block.decoder_scalar)
        return out

    positions = (starts_B[:, None] + columns).flatten()
    rope = model.rope(positions, encoded.groups[-1].longest + width)
    noisy_BC = noisy_BC if context is None else noisy_BC[:, columns]
    x = model.self_conditioning(model.vocabulary.embed(noisy_BC.flatten()), self_conditioning_ND)
    for i, kind, block in model.blocks():
        x = _run(layer, checkpointing, x, i, kind, block)
    out: Tensor = model.norm(x)
    return out


def _gather_keys(
    context: ContextGroup, past_k: list[Tensor], past_v: list[Tensor], k: Tensor, v: Tensor
) -> tuple[Tensor, Tensor]:
    """Gathers a layer's keys and values, of the encoder and of canvases [n, G, K], from all processes; of both what
    `_key_places` counts from."""
    parts = [
        torch.cat((*(rows.flatten(0, 1) for rows in past), new.to(past[0].dtype)))
        for past, new in ((past_k, k), (past_v, v))
    ]
    whole = context.gather(torch.cat(parts))
    return whole, whole[len(parts[0]) :]


def _key_places(context: ContextGroup, encoded: Encoded, count: int, width: int) -> list[Tensor]:
    """Where the keys are among those gathered that the canvases of each group may see: [B', T + C], those of the
    encoder and then those of the canvas."""
    sizes = [rows.shape[:2].numel() for rows in encoded.keys[0]]
    begins = list(itertools.accumulate(sizes, initial=0))
    each = -(-width // context.size)
    stride = 2 * (begins[-1] + count * each)
    column = torch.arange(width, device=encoded.hidden_ND.device)
    found = []
    for group, rows, lengths_B, begin in zip(encoded.groups, encoded.keys[0], encoded.lengths, begins, strict=False):
        owner_BT, nth_BT = context.locate(lengths_B, group.longest)
        row_B1 = torch.arange(len(rows), device=column.device)[:, None]
        past_BT = owner_BT * stride + begin + row_B1 * rows.shape[1] + nth_BT
        canvas_B1 = begins[-1] + (row_B1 + group.rows.start) * each
        found.append(torch.cat((past_BT, column // each * stride + canvas_B1 + column % each), dim=1))
    return found
