"""Defines SDAR's model: a dense stack that sees whole blocks behind it and all of its own block.

    T tokens   S visible positions   N = all rows laid flat   D hidden   H query heads   G key heads   K head size

Positions are cut into blocks of `block_size`, counted from the beginning of the prompt. A token sees every position up
to the end of its own block, so keys of a block are final when the block is whole.

Life cycle of a row of the cache: `encode_flat` appends tokens; those of whole blocks go into the layers, and those
behind the last whole block wait in `pending`. Every pass puts the pending tokens before its own ones, so a canvas that
begins in the middle of a block is denoised with what the prompt left there.
"""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gesso.errors import OptionError
from gesso.models.cache import KVCache, SequenceCache
from gesso.models.sdar.config import SdarConfig
from gesso.models.sdar.vocabulary import MaskedHead
from gesso.nn.attention import Attend, attend_all
from gesso.nn.elementwise import silu
from gesso.nn.linear import Linear
from gesso.nn.mlp import MLP
from gesso.nn.norm import RMSNorm
from gesso.nn.rope import RopeTable, apply_rope
from gesso.nn.row_alignment import align_rows


class BlockCache(SequenceCache):
    """Holds keys and values of whole blocks, and the tokens behind them."""

    def __init__(
        self, config: SdarConfig, dtype: torch.dtype, device: torch.device, max_seq_len: int, max_write_len: int
    ) -> None:
        super().__init__(config, dtype, device, max_seq_len, max_write_len + config.block_size)
        self.pending = torch.empty(0, dtype=torch.int64)
        """Token ids of a block that is not whole, on the CPU."""

    def append(self, tokens_T: Tensor, block: int) -> None:
        """Takes in the pending tokens and new ones, whose keys were just written: whole blocks are committed."""
        whole = len(tokens_T) // block * block
        self.length += len(tokens_T) - len(self.pending)
        for layer in self.layers:
            layer.commit(whole)
        self.pending = tokens_T[whole:]


class SdarAttention(nn.Module):
    """Projects q, k and v, norms the heads of q and k, and turns them."""

    def __init__(self, config: SdarConfig) -> None:
        super().__init__()
        size, bias, eps = config.hidden_size, config.attention_bias, config.rms_norm_eps
        self.head_dim = config.head_dim
        queries, keys = config.num_attention_heads * self.head_dim, config.num_key_value_heads * self.head_dim
        self.q_proj = Linear(size, queries, bias=bias)
        self.k_proj = Linear(size, keys, bias=bias)
        self.v_proj = Linear(size, keys, bias=bias)
        self.o_proj = Linear(queries, size, bias=bias)
        self.q_norm = RMSNorm(self.head_dim, eps)
        self.k_norm = RMSNorm(self.head_dim, eps)

    def forward(self, x_ND: Tensor, rope: tuple[Tensor, Tensor], attend: Attend) -> Tensor:
        heads = (len(x_ND), -1, self.head_dim)
        q_NHK = apply_rope(self.q_norm(self.q_proj(x_ND).view(heads)), *rope) * self.head_dim**-0.5
        k_NGK = apply_rope(self.k_norm(self.k_proj(x_ND).view(heads)), *rope)
        out: Tensor = self.o_proj(attend(q_NHK, k_NGK, self.v_proj(x_ND).view(heads)).reshape(len(x_ND), -1))
        return out


class SwiGLU(MLP):
    """Computes `down(silu(gate(x)) * up(x))`, without biases."""

    def forward(self, x_ND: Tensor) -> Tensor:
        out: Tensor = self.down_proj(silu(self.gate_proj(x_ND)) * self.up_proj(x_ND))
        return out


class SdarBlock(nn.Module):
    """Applies attention and the MLP, each behind a norm of its own and added to what came in."""

    def __init__(self, config: SdarConfig) -> None:
        super().__init__()
        self.attention = SdarAttention(config)
        self.mlp = SwiGLU(config.hidden_size, config.intermediate_size)
        self.input_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, x_ND: Tensor, rope: tuple[Tensor, Tensor], attend: Attend) -> Tensor:
        x_ND = x_ND + self.attention(self.input_norm(x_ND), rope, attend)
        out: Tensor = x_ND + self.mlp(self.post_attention_norm(x_ND))
        return out


class Sdar(nn.Module):
    """Implements the model; satisfies `gesso.models.family.BlockDiffusionModel`."""

    offload = None
    """Nothing of it streams from host memory."""

    def __init__(self, config: SdarConfig) -> None:
        super().__init__()
        self.config = config
        self.vocabulary = MaskedHead(config.vocab_size, config.hidden_size, config.mask_token_id)
        self.embedding = None
        if not config.tie_word_embeddings:
            self.embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(SdarBlock(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self._rope = RopeTable(config.rope, config.head_dim)

    @property
    def device(self) -> torch.device:
        return self.vocabulary.weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.vocabulary.weight.dtype

    def new_cache(self, batch_size: int = 1, max_seq_len: int = 0, max_write_len: int = 0) -> KVCache:
        """Makes an empty cache; see `DiffusionGemma.new_cache`."""
        rows: list[SequenceCache] = [
            BlockCache(self.config, self.dtype, self.device, max_seq_len, max_write_len) for _ in range(batch_size)
        ]
        return KVCache(rows)

    def fix_positions(self, positions: int) -> None:
        """Makes the table of positions below `positions` at once."""
        self._rope.fix(positions, self.device, self.dtype)

    @torch.no_grad()
    def encode_flat(
        self, tokens_N: Tensor, counts: Sequence[int], cache: KVCache, images: Sequence[Sequence[object]] = ()
    ) -> Tensor:
        """Appends the next `counts[b]` of the flat tokens to row b; returns normed hidden states [N, D].

        Raises:
            OptionError: images, or more tokens than there are positions.
        """
        if any(images):
            raise OptionError("this model reads text only", option="images")
        rows = _block_rows(cache)
        whole = _behind_pending(rows, tokens_N, counts)
        hidden_ND = self._layers(rows, whole)
        for row, tokens_T in zip(rows, whole, strict=True):
            row.append(tokens_T, self.config.block_size)
        return _newest(hidden_ND, whole, counts)

    @torch.no_grad()
    def denoise_flat(
        self,
        canvas_N: Tensor,
        widths: Sequence[int],
        cache: KVCache,
        self_conditioning_ND: Tensor | None = None,  # noqa: ARG002 - there is none in this family
    ) -> Tensor:
        """Runs one denoising pass of canvases of any widths, laid flat; returns normed hidden states [N, D] and leaves
        the cache as it is."""
        rows = _block_rows(cache)
        whole = _behind_pending(rows, canvas_N, widths)
        return _newest(self._layers(rows, whole), whole, widths)

    def _layers(self, rows: Sequence[BlockCache], whole: Sequence[Tensor]) -> Tensor:
        """Runs all layers over each row's tokens, of which the first begins a block; returns them flat, without rows of
        alignment."""
        counts = [len(tokens) for tokens in whole]
        starts = [row.length - len(row.pending) for row in rows]
        longest = max(start + count for start, count in zip(starts, counts, strict=True))
        if longest > self.config.max_position_embeddings:
            raise OptionError(f"{longest} tokens are past the model's {self.config.max_position_embeddings}")
        positions = torch.cat([torch.arange(n, n + c) for n, c in zip(starts, counts, strict=True)]).to(self.device)
        rope = self._rope.lookup(align_rows(positions), longest, self.dtype)
        tokens_N = align_rows(torch.cat(list(whole)).to(self.device))
        x = self.vocabulary.embed(tokens_N) if self.embedding is None else self.embedding(tokens_N)
        for i, block in enumerate(self.layers):
            x = block(x, rope, _by_row(rows, i, counts, self.config.block_size))
        out: Tensor = self.norm(x)
        return out[: sum(counts)]


def _block_rows(cache: KVCache) -> list[BlockCache]:
    return cast("list[BlockCache]", cache.rows)


def _behind_pending(rows: Sequence[BlockCache], tokens_N: Tensor, counts: Sequence[int]) -> list[Tensor]:
    """Returns each row's pending tokens and its new ones behind them."""
    parts = tokens_N.cpu().split(list(counts))
    return [torch.cat((row.pending, part)) for row, part in zip(rows, parts, strict=True)]


def _newest(hidden_ND: Tensor, whole: Sequence[Tensor], counts: Sequence[int]) -> Tensor:
    """Leaves out the hidden states of what was pending."""
    parts = hidden_ND.split([len(tokens) for tokens in whole])
    return torch.cat([part[len(part) - count :] for part, count in zip(parts, counts, strict=True)])


def _by_row(rows: Sequence[BlockCache], layer: int, counts: Sequence[int], block: int) -> Attend:
    """Returns the attention of flat rows, each over its own cache; alignment rows get the last one's result."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        split = [*counts, len(q) - sum(counts)]
        outs = []
        for row, *qkv in zip(rows, q.split(split), k.split(split), v.split(split), strict=False):
            q_THK, k_TGK, v_TGK = qkv
            keys, values = row.layers[layer].write(k_TGK, v_TGK, row.max_seq_len, row.max_write_len)
            outs.append(attend_blocks(q_THK, keys, values, block))
        return align_rows(torch.cat(outs))

    return attend


def attend_blocks(q_THK: Tensor, k_GSK: Tensor, v_GSK: Tensor, block: int) -> Tensor:
    """Attends from every query to all positions up to the end of its block, [T, H, K].

    Args:
        q_THK: scaled queries of the last T of S positions, of which the first begins a block.
    """
    tokens, heads, _ = q_THK.shape
    groups, seen, _ = k_GSK.shape
    if tokens <= block:
        return attend_all(q_THK, k_GSK, v_GSK)
    ends_T = seen - tokens + (torch.arange(tokens, device=q_THK.device) // block + 1) * block
    mask_TS = torch.arange(seen, device=q_THK.device) < ends_T[:, None]
    k, v = (x[:, None].expand(-1, heads // groups, -1, -1).reshape(1, heads, seen, -1) for x in (k_GSK, v_GSK))
    out = F.scaled_dot_product_attention(q_THK.transpose(0, 1)[None], k, v, attn_mask=mask_TS, scale=1.0)
    return out[0].transpose(0, 1)
