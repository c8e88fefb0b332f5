"""Runs the fused online-softmax pass over the vocabulary: scores, and what a sampler and the next step need of them.

    N positions   V vocabulary   D hidden   S tiles of tokens   B blocks of tokens, whole ones in a tile

A step has few positions and a table of hundreds of thousands of rows, so the vocabulary is what is split up: a program
scores one tile of `VOCAB_TILE` tokens for `ROWS` positions, and programs know nothing of each other. What a program
finds is relative to the maximum of its own tile; a small reduction afterwards brings all tiles to the row's.

A program cannot mix as well: a row of the mixed embedding is as wide as the model, far more than registers hold beside
the scores. So it writes exp(z - tile's maximum) in the table's dtype, and mixing is a plain matmul of those shares with
the table, whose own kernels are better than ours. Both matmuls together are 4 N V D operations: at 256 positions they
take an H200 longer than reading the table twice, so keeping the tile on the chip between them would win nothing.

Traffic: the table twice. For every `CHUNK` tokens the shares, N x CHUNK in the table's dtype, are written, scaled and
read: 32 MiB at 256 positions in bfloat16, which mostly stays in the cache. 4 N V / `block` bytes of partial sums are
written and read. Logits are never stored.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from gesso.kernels import SoftmaxPass
from gesso.kernels.placement import on_its_device
from gesso.kernels.rounding import rounded

VOCAB_TILE = 256
"""Tokens that a program scores."""
CHUNK = 1 << 16
"""Tokens whose shares are held at a time: whole tiles."""
ROWS = 128
"""Positions that a program scores at most; all that score one tile run side by side and share its rows in the cache."""
DEPTH_BYTES = 128
"""Bytes of a table's row that are loaded at a time: a cache line."""
SMALLEST = 16
"""Rows of the smallest matmul that Triton has."""
LOWEST = tl.constexpr(-1e38)
"""A score below all others, and finite: what there is nothing of weighs 0 and not nan."""


@on_its_device
def softmax_pass(
    hidden_ND: Tensor, table_VD: Tensor, inverse_N1: Tensor, softcap: float, block: int, *, mix: bool = True
) -> SoftmaxPass:
    """Sums up soft-capped scores times `inverse`, as `SoftmaxPass` says; scores are rounded to the table's dtype.

    Args:
        hidden_ND: contiguous, in the table's dtype.
        inverse_N1: one over the temperature, fp32.
        block: tokens of a partial sum; a tile is whole blocks.
        mix: False leaves the mixed rows without columns.
    """
    rows, (vocab, width) = hidden_ND.shape[0], table_VD.shape
    device = hidden_ND.device
    assert hidden_ND.is_contiguous()
    assert table_VD.is_contiguous()
    assert VOCAB_TILE % block == 0
    assert CHUNK % VOCAB_TILE == 0
    vocab_tiles = triton.cdiv(vocab, VOCAB_TILE)
    sums_NB = torch.empty(rows, vocab_tiles * VOCAB_TILE // block, dtype=torch.float32, device=device)
    maxima_NS, weighted_NS = torch.empty(2, rows, vocab_tiles, dtype=torch.float32, device=device)
    best_NS = torch.empty(rows, vocab_tiles, dtype=torch.int32, device=device)
    maximum_N1 = torch.full((rows, 1), torch.finfo(torch.float32).min / 2, dtype=torch.float32, device=device)
    mixed_ND = torch.zeros(rows, width if mix else 0, dtype=torch.float32, device=device)
    tile = min(ROWS, max(SMALLEST, triton.next_power_of_2(rows)))
    for start in range(0, vocab, CHUNK):
        table = table_VD[start : start + CHUNK]
        first, count = start // VOCAB_TILE, triton.cdiv(len(table), VOCAB_TILE)
        shares = torch.empty(rows, count, VOCAB_TILE, dtype=table.dtype, device=device)
        _score[(count * triton.cdiv(rows, tile),)](
            hidden_ND,
            table,
            inverse_N1,
            shares,
            sums_NB,
            maxima_NS,
            weighted_NS,
            best_NS,
            rows,
            len(table),
            count,
            vocab_tiles,
            first,
            softcap,
            TILE=tile,
            VOCAB_TILE=VOCAB_TILE,
            WIDTH=width,
            DEPTH=DEPTH_BYTES // table.itemsize,
            BLOCK=block,
            INTERPRETED=not hidden_ND.is_cuda,
            num_warps=8,
            num_stages=3,
            enable_fp_fusion=True,
        )
        tops = maxima_NS[:, first : first + count]
        risen_N1 = torch.maximum(maximum_N1, tops.amax(dim=1, keepdim=True))
        if mix:
            shares.mul_((tops - risen_N1).exp()[..., None])
            mixed = shares.flatten(1)[:, : len(table)] @ table
            mixed_ND.mul_((maximum_N1 - risen_N1).exp()).add_(mixed)
        maximum_N1 = risen_N1
    # A tile's sums are relative to its own maximum m: with d = m - maximum, exp(z - maximum) is exp(z - m) exp(d), and
    # (z - maximum) is (z - m) + d.
    shift_NS = maxima_NS - maximum_N1
    shrink_NS = shift_NS.exp()
    mass_NS = sums_NB.unflatten(1, (vocab_tiles, -1)).mul_(shrink_NS[..., None]).sum(dim=-1)
    weighted_N1 = (weighted_NS * shrink_NS + shift_NS * mass_NS).sum(dim=1, keepdim=True)
    argmax_N1 = best_NS.gather(1, maxima_NS.max(dim=1, keepdim=True).indices).long()
    mass_NB = sums_NB[:, : triton.cdiv(vocab, block)]
    return SoftmaxPass(mass_NB, maximum_N1, mass_NS.sum(dim=1, keepdim=True), weighted_N1, argmax_N1, mixed_ND)


@triton.jit
def _score(
    hidden,
    table,
    inverse,
    shares,
    sums,
    maxima,
    weighted,
    best,
    rows,
    tokens,
    count,
    vocab_tiles,
    first,
    softcap,
    TILE: tl.constexpr,
    VOCAB_TILE: tl.constexpr,
    WIDTH: tl.constexpr,
    DEPTH: tl.constexpr,
    BLOCK: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """One tile of a chunk of the table for one tile of rows.

    `table` is the chunk, of `tokens` rows in `count` tiles; `first` of all `vocab_tiles` is its first. Triton's
    interpreter (`INTERPRETED`) cannot multiply bfloat16.
    """
    tiles = tl.cdiv(rows, TILE)
    vocab_tile = tl.program_id(0) // tiles
    n = (tl.program_id(0) % tiles) * TILE + tl.arange(0, TILE)
    v = vocab_tile * VOCAB_TILE + tl.arange(0, VOCAB_TILE)
    d = tl.arange(0, DEPTH)
    known, inside = n < rows, v < tokens
    hidden += n[:, None] * WIDTH + d[None, :]
    table += v.to(tl.int64)[None, :] * WIDTH + d[:, None]
    scores = tl.zeros((TILE, VOCAB_TILE), tl.float32)
    for done in range(0, WIDTH, DEPTH):
        within = d < WIDTH - done
        x = tl.load(hidden, mask=known[:, None] & within[None, :], other=0.0)
        w = tl.load(table, mask=within[:, None] & inside[None, :], other=0.0)
        if INTERPRETED:
            x, w = x.to(tl.float32), w.to(tl.float32)
        scores = tl.dot(x, w, scores, input_precision="ieee")
        hidden += DEPTH
        table += DEPTH
    scores = rounded(scores, table.dtype.element_ty)
    # tanh of |x| is (1 - e) / (1 + e) with e = exp(-2 |x|), which is never too large.
    e = tl.exp(tl.abs(scores) * (-2.0 / softcap))
    bent = (1.0 - e) / (1.0 + e) * softcap
    z = tl.where(scores < 0, -bent, bent) * tl.load(inverse + n, mask=known, other=1.0)[:, None]
    z = tl.where(inside[None, :], z, LOWEST)
    top, place = tl.max(z, axis=1, return_indices=True)
    z -= top[:, None]
    p = tl.exp(z)
    row = n.to(tl.int64)
    at = row * vocab_tiles + first + vocab_tile
    tl.store(maxima + at, top, mask=known)
    tl.store(best + at, (first + vocab_tile) * VOCAB_TILE + place, mask=known)
    tl.store(weighted + at, tl.sum(z * p, axis=1), mask=known)
    blocks = tl.arange(0, VOCAB_TILE // BLOCK)
    parts = tl.sum(tl.reshape(p, (TILE, VOCAB_TILE // BLOCK, BLOCK)), axis=2)
    tl.store(sums + at[:, None] * (VOCAB_TILE // BLOCK) + blocks[None, :], parts, mask=known[:, None])
    share = shares + (row * count + vocab_tile)[:, None] * VOCAB_TILE + tl.arange(0, VOCAB_TILE)[None, :]
    tl.store(share, rounded(p, shares.dtype.element_ty).to(shares.dtype.element_ty), mask=known[:, None])
