"""Attends to keys whose number is known on the device alone, without holding scores.

    T tokens   H heads   G key heads   R = H / G query heads that share a key head   S positions that there is room for
    K head size

A captured pass (`gesso.runner.cuda_graphs`) is replayed as it is while what is committed grows. A mask would have it
read every position that there is room for; here each program reads from where the keys begin to where they end, and
those are numbers in memory. And a prompt's pass over heads of 512 numbers, for which PyTorch has no fused kernel, would
hold scores for every head, and the keys once more for every query head.

The R query heads of a key head are rows of one matmul, T R in all. Where tiles of these are too few for a device, the
keys are split: programs for each stretch of them write what they found relative to their own maximum, and a second
kernel brings it together (Flash-Decoding). How many stretches there are follows from shapes alone.

Traffic: keys and values once for every tile of rows that sees them, which mostly finds them in the cache.
"""

import functools
import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from gesso.kernels.placement import on_its_device
from gesso.kernels.rounding import rounded

SMALLEST = 16
"""Rows of the smallest matmul that Triton has."""
ROOMY = 160 << 10
"""Bytes of shared memory from which on a program holds and loads twice as much; the smaller GPUs have 99 KiB."""
HELD = 1 << 14
"""Numbers of the result that a program holds at most."""
LOADED = 1 << 14
"""Bytes of keys that are loaded at a time, and of values."""
PROGRAMS = 2
"""Programs for each multiprocessor, at least."""
MOST_STRETCHES = 32
LOWEST = tl.constexpr(-1e38)
"""A score below all others, and finite: what there is nothing of weighs 0 and not nan."""


@on_its_device
def attend_between(
    q_THK: Tensor,
    k_GSK: Tensor,
    v_GSK: Tensor,
    ends_2: Tensor,
    *,
    behind: int = 0,
    causal: bool = False,
    window: int | None = None,
    stretches: int | None = None,
) -> Tensor:
    """Attends from every query to the keys at `ends_2[0]` up to, not including, `ends_2[1] + behind`; [T, H, K].

    Scores are plain products, without 1/sqrt(K). There is at least one key.

    Args:
        k_GSK: keys. Nothing is copied where each head's K numbers lie side by side, and values have the same strides.
        ends_2: int64, on the device.
        behind: keys that stand behind the end.
        causal: the queries are the last T of these positions, and see themselves and what came before.
        window: positions that a query then sees at most, itself included; None sees all.
        stretches: that the keys are split into; None for what suits the device.
    """
    tokens, heads, width = q_THK.shape
    groups, device = k_GSK.shape[0], q_THK.device
    if k_GSK.stride() != v_GSK.stride() or k_GSK.stride(2) != 1:
        k_GSK, v_GSK = k_GSK.contiguous(), v_GSK.contiguous()
    tile, keys, warps = blocks(tokens * (heads // groups), width, q_THK.itemsize, roomy=_roomy(device))
    tiles = triton.cdiv(tokens * (heads // groups), tile)
    split = stretches or _stretches(tiles * groups, device)
    out = torch.empty(q_THK.shape, dtype=q_THK.dtype, device=device)
    parts, sums = out, out
    if split > 1:
        parts = torch.empty(split, *q_THK.shape, dtype=torch.float32, device=device)
        sums = torch.empty(2, split, tokens, heads, dtype=torch.float32, device=device)
    padded = padded_width(width)
    _attend[(tiles, groups, split)](
        q_THK.contiguous(),
        k_GSK,
        v_GSK,
        ends_2,
        parts,
        sums,
        tokens,
        behind,
        *k_GSK.stride()[:2],
        HEADS=heads,
        SHARED=heads // groups,
        WIDTH=width,
        PADDED=padded,
        TILE=tile,
        KEYS=keys,
        STRETCHES=split,
        CAUSAL=causal,
        WINDOW=window or 0,
        INTERPRETED=not q_THK.is_cuda,
        num_warps=warps,
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


def padded_width(width: int) -> int:
    """Returns the columns of a program's blocks for heads of so many numbers."""
    return max(SMALLEST, int(triton.next_power_of_2(width)))


def blocks(rows: int, width: int, itemsize: int, *, roomy: bool) -> tuple[int, int, int]:
    """Returns the rows of a tile, the keys that are loaded at a time, and the warps of a program."""
    padded, more = padded_width(width), 2 if roomy else 1
    most = max(SMALLEST, more * HELD // padded // (itemsize // 2))
    tile = min(max(SMALLEST, int(triton.next_power_of_2(rows))), most)
    keys = min(64, max(SMALLEST, more * LOADED // padded // itemsize))
    return tile, keys, 8 if tile * padded >= HELD else 4


@functools.cache
def _roomy(device: torch.device) -> bool:
    if device.type != "cuda":
        return False
    shared: int = getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0)
    return shared >= ROOMY


@functools.cache
def _multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


def _stretches(programs: int, device: torch.device) -> int:
    """Returns into how many stretches keys are split where there are so many programs for each."""
    return min(MOST_STRETCHES, max(1, math.ceil(PROGRAMS * _multiprocessors(device) / programs)))


@triton.jit
def _reach(first, last, tokens, row, TILE: tl.constexpr, SHARED: tl.constexpr, WINDOW: tl.constexpr):
    """Returns where the keys begin and end that a row of a tile sees, whose first row is `row`."""
    begin = last - tokens
    if WINDOW > 0:
        first = tl.maximum(first, begin + row // SHARED - WINDOW + 1)
    return first, tl.minimum(last, begin + (row + TILE - 1) // SHARED + 1)


@triton.jit
def _visible(s, position, WINDOW: tl.constexpr):
    """Says which keys at `s` queries at `position` see."""
    seen = s[None, :] <= position[:, None]
    if WINDOW > 0:
        seen = seen & (s[None, :] > position[:, None] - WINDOW)
    return seen


@triton.jit
def _attend(
    q,
    k,
    v,
    ends,
    parts,
    sums,
    tokens,
    behind,
    of_group,
    of_key,
    HEADS: tl.constexpr,
    SHARED: tl.constexpr,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    TILE: tl.constexpr,
    KEYS: tl.constexpr,
    STRETCHES: tl.constexpr,
    CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """One tile of a key head's rows over one stretch of the keys that it sees.

    Row i is token i / SHARED, and query head i % SHARED of the key head. `of_group` and `of_key` are the strides of `k`
    and `v`. Without a window `WINDOW` is 0. With one stretch `parts` is the result. Triton's interpreter
    (`INTERPRETED`) cannot multiply bfloat16.
    """
    group, stretch = tl.program_id(1), tl.program_id(2)
    i, d = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.arange(0, PADDED)
    known, within = i < tokens * SHARED, d < WIDTH
    token, head = i // SHARED, group * SHARED + i % SHARED
    place = (token * HEADS + head).to(tl.int64)  # a long prompt has more numbers than 32 bits count
    mine = known[:, None] & within[None, :]
    x = tl.load(q + place[:, None] * WIDTH + d[None, :], mask=mine, other=0.0)
    if INTERPRETED:
        x = x.to(tl.float32)
    first, last = tl.load(ends).to(tl.int32), tl.load(ends + 1).to(tl.int32) + behind
    position = last - tokens + token
    if CAUSAL:
        first, last = _reach(first, last, tokens, tl.program_id(0) * TILE, TILE, SHARED, WINDOW)
    each = tl.cdiv(tl.cdiv(last - first, STRETCHES), KEYS) * KEYS
    begin = first + stretch * each
    end = tl.minimum(begin + each, last)
    k += group.to(tl.int64) * of_group
    v += group.to(tl.int64) * of_group
    top = tl.full((TILE,), LOWEST, tl.float32)
    total = tl.zeros((TILE,), tl.float32)
    found = tl.zeros((TILE, PADDED), tl.float32)
    for at in range(begin, end, KEYS):
        s = at + tl.arange(0, KEYS)
        there = s < end
        here = s.to(tl.int64) * of_key
        w = tl.load(k + here[None, :] + d[:, None], mask=there[None, :] & within[:, None], other=0.0)
        u = tl.load(v + here[:, None] + d[None, :], mask=there[:, None] & within[None, :], other=0.0)
        if INTERPRETED:
            w, u = w.to(tl.float32), u.to(tl.float32)
        seen = there[None, :]
        if CAUSAL:
            seen = seen & _visible(s, position, WINDOW)
        scores = tl.where(seen, tl.dot(x, w, input_precision="ieee"), LOWEST)
        risen = tl.maximum(top, tl.max(scores, axis=1))
        p = tl.where(seen, tl.exp(scores - risen[:, None]), 0.0)
        shrink = tl.exp(top - risen)
        total = total * shrink + tl.sum(p, axis=1)
        p = rounded(p, v.dtype.element_ty)
        if not INTERPRETED:
            p = p.to(v.dtype.element_ty)
        found = tl.dot(p, u, found * shrink[:, None], input_precision="ieee")
        top = risen
    if STRETCHES == 1:
        total = tl.where(known, total, 1.0)
        found = rounded(found / total[:, None], parts.dtype.element_ty).to(parts.dtype.element_ty)
        tl.store(parts + place[:, None] * WIDTH + d[None, :], found, mask=mine)
    else:
        row = stretch * tokens * HEADS + place
        tl.store(parts + row[:, None] * WIDTH + d[None, :], found, mask=mine)
        _write_sums(sums, row, STRETCHES * tokens * HEADS, top, total, known)


@triton.jit
def _write_sums(sums, row, count, top, total, known):
    """Writes the maxima of a stretch's rows, and behind all `count` of them the totals."""
    tl.store(sums + row, top, mask=known)
    tl.store(sums + count + row, total, mask=known)


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
    row = tl.program_id(0).to(tl.int64)
    s, d = tl.arange(0, ROOM), tl.arange(0, PADDED)
    at, inside = s * rows + row, s < STRETCHES
    tops = tl.load(sums + at, mask=inside, other=LOWEST)
    totals = tl.load(sums + STRETCHES * rows + at, mask=inside, other=0.0)
    shares = tl.exp(tops - tl.max(tops, axis=0))
    there = inside[:, None] & (d < WIDTH)[None, :]
    found = tl.load(parts + at[:, None] * WIDTH + d[None, :], mask=there, other=0.0)
    joined = tl.sum(found * shares[:, None], axis=0) / tl.sum(totals * shares, axis=0)
    joined = rounded(joined, out.dtype.element_ty).to(out.dtype.element_ty)
    tl.store(out + row * WIDTH + d, joined, mask=d < WIDTH)
