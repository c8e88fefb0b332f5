"""Attends to keys whose number is known on the device alone, so that a pass at any length is the same kernels.

    T tokens   H heads   G key heads   R = H / G query heads that share a key head   S positions that there is room for
    K head size

A captured pass (`gesso.runner.cuda_graphs`) is replayed as it is while what is committed grows. A mask would have it
read every position that there is room for; here each program reads from where the keys begin to where they end, and
those are numbers in memory.

The R query heads of a key head are rows of one matmul, T R in all. Where tiles of these are too few for a device, the
keys are split: programs for each stretch of them write what they found relative to their own maximum, and a second
kernel brings it together (Flash-Decoding). How many stretches there are follows from shapes alone.

Traffic: keys and values once for every tile of rows, which mostly finds them in the cache.
"""

import functools
import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from gesso.kernels.rounding import rounded

SMALLEST = 16
"""Rows of the smallest matmul that Triton has."""
HELD = 1 << 15
"""Numbers of the result that a program holds, in 8 warps' registers, at most."""
LOADED = 1 << 15
"""Bytes of keys that are loaded at a time, and of values."""
PROGRAMS = 2
"""For each multiprocessor, as many as there should be at least."""
MOST_STRETCHES = 32
LOWEST = tl.constexpr(-1e38)
"""Below every score, and finite: what there is nothing of weighs 0 and not nan."""


def attend_between(q_THK: Tensor, kv_2GSK: Tensor, ends_2: Tensor, *, stretches: int | None = None) -> Tensor:
    """Attends from every query to the keys at `ends_2[0]` up to, not including, `ends_2[1]`; [T, H, K].

    Scores are plain products, without 1/sqrt(K). There is at least one key.

    Args:
        kv_2GSK: keys, then values; each head's K numbers lie side by side.
        ends_2: int64, on the device.
        stretches: that the keys are split into; None for what suits the device.
    """
    tokens, heads, width = q_THK.shape
    groups = kv_2GSK.shape[1]
    rows, itemsize = tokens * (heads // groups), q_THK.itemsize
    padded = max(SMALLEST, triton.next_power_of_2(width))
    tile = min(max(SMALLEST, triton.next_power_of_2(rows)), max(SMALLEST, HELD // padded // (itemsize // 2)))
    tiles = triton.cdiv(rows, tile)
    split = stretches or _stretches(tiles * groups, q_THK.device)
    out = torch.empty(q_THK.shape, dtype=q_THK.dtype, device=q_THK.device)
    parts, sums = out, out
    if split > 1:
        parts = torch.empty(split, *q_THK.shape, dtype=torch.float32, device=q_THK.device)
        sums = torch.empty(2, split, tokens, heads, dtype=torch.float32, device=q_THK.device)
    _attend[(tiles, groups, split)](
        q_THK.contiguous(),
        kv_2GSK,
        ends_2,
        parts,
        sums,
        rows,
        *kv_2GSK.stride()[:3],
        HEADS=heads,
        SHARED=heads // groups,
        WIDTH=width,
        PADDED=padded,
        TILE=tile,
        KEYS=min(64, max(SMALLEST, LOADED // padded // itemsize)),
        STRETCHES=split,
        INTERPRETED=not q_THK.is_cuda,
        num_warps=8 if tile * padded >= HELD // 2 else 4,
        num_stages=2,
        enable_fp_fusion=True,
    )
    if split > 1:
        _join[(tokens * heads,)](
            parts,
            sums,
            out,
            tokens * heads,
            WIDTH=width,
            PADDED=padded,
            STRETCHES=split,
            ROOM=triton.next_power_of_2(split),
            num_warps=4,
            enable_fp_fusion=True,
        )
    return out


@functools.cache
def _multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


def _stretches(programs: int, device: torch.device) -> int:
    """Returns into how many stretches keys are split where there are so many programs for each."""
    return min(MOST_STRETCHES, max(1, math.ceil(PROGRAMS * _multiprocessors(device) / programs)))


@triton.jit
def _attend(
    q,
    kv,
    ends,
    parts,
    sums,
    rows,
    of_kind,
    of_group,
    of_key,
    HEADS: tl.constexpr,
    SHARED: tl.constexpr,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    TILE: tl.constexpr,
    KEYS: tl.constexpr,
    STRETCHES: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """One tile of a key head's rows over one stretch of its keys.

    Row i is token i / SHARED, and query head i % SHARED of the key head. `of_kind`, `of_group` and `of_key` are the
    strides of `kv`. With one stretch `parts` is the result. Triton's interpreter (`INTERPRETED`) cannot multiply
    bfloat16.
    """
    group, stretch = tl.program_id(1), tl.program_id(2)
    i = tl.program_id(0) * TILE + tl.arange(0, TILE)
    d = tl.arange(0, PADDED)
    known, within = i < rows, d < WIDTH
    token, head = i // SHARED, group * SHARED + i % SHARED
    place = token * HEADS + head
    mine = known[:, None] & within[None, :]
    x = tl.load(q + place[:, None] * WIDTH + d[None, :], mask=mine, other=0.0)
    if INTERPRETED:
        x = x.to(tl.float32)
    first, last = tl.load(ends), tl.load(ends + 1)
    each = tl.cdiv(tl.cdiv(last - first, STRETCHES), KEYS) * KEYS
    begin = first + stretch * each
    end = tl.minimum(begin + each, last)
    keys = kv + group.to(tl.int64) * of_group
    top = tl.full((TILE,), LOWEST, tl.float32)
    total = tl.zeros((TILE,), tl.float32)
    found = tl.zeros((TILE, PADDED), tl.float32)
    for at in range(begin, end, KEYS):
        s = at + tl.arange(0, KEYS)
        there = s < end
        here = s.to(tl.int64) * of_key
        k = tl.load(keys + here[None, :] + d[:, None], mask=there[None, :] & within[:, None], other=0.0)
        v = tl.load(keys + of_kind + here[:, None] + d[None, :], mask=there[:, None] & within[None, :], other=0.0)
        if INTERPRETED:
            k, v = k.to(tl.float32), v.to(tl.float32)
        scores = tl.dot(x, k, input_precision="ieee")
        scores = tl.where(there[None, :], scores, LOWEST)
        risen = tl.maximum(top, tl.max(scores, axis=1))
        p = tl.exp(scores - risen[:, None])
        p = tl.where(there[None, :], p, 0.0)
        shrink = tl.exp(top - risen)
        total = total * shrink + tl.sum(p, axis=1)
        p = rounded(p, kv.dtype.element_ty)
        if not INTERPRETED:
            p = p.to(kv.dtype.element_ty)
        found = tl.dot(p, v, found * shrink[:, None], input_precision="ieee")
        top = risen
    if STRETCHES == 1:
        found = rounded(found / total[:, None], parts.dtype.element_ty).to(parts.dtype.element_ty)
        tl.store(parts + place[:, None] * WIDTH + d[None, :], found, mask=mine)
    else:
        all_rows = rows // SHARED * HEADS
        row = stretch * all_rows + place
        tl.store(parts + row.to(tl.int64)[:, None] * WIDTH + d[None, :], found, mask=mine)
        tl.store(sums + row, top, mask=known)
        tl.store(sums + STRETCHES * all_rows + row, total, mask=known)


@triton.jit
def _join(
    parts,
    sums,
    out,
    rows,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    STRETCHES: tl.constexpr,
    ROOM: tl.constexpr,
):
    """Brings together what the stretches of keys gave one row; a stretch without keys has a total of 0."""
    row = tl.program_id(0)
    s, d = tl.arange(0, ROOM), tl.arange(0, PADDED)
    at, inside = s * rows + row, s < STRETCHES
    tops = tl.load(sums + at, mask=inside, other=LOWEST)
    totals = tl.load(sums + STRETCHES * rows + at, mask=inside, other=0.0)
    shares = tl.exp(tops - tl.max(tops, axis=0))
    there = inside[:, None] & (d < WIDTH)[None, :]
    found = tl.load(parts + at.to(tl.int64)[:, None] * WIDTH + d[None, :], mask=there, other=0.0)
    joined = tl.sum(found * shares[:, None], axis=0) / tl.sum(totals * shares, axis=0)
    joined = rounded(joined, out.dtype.element_ty).to(out.dtype.element_ty)
    tl.store(out + row * WIDTH + d, joined, mask=d < WIDTH)
