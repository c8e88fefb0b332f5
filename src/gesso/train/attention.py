"""Computes attention of the training passes: over padded rows, with gradients, without keeping the probabilities.

Probabilities are the largest thing a layer would keep for its backward pass; they are made again there instead, which
costs one matmul and one exponential more. Some rows are attended at a time, and of a long row some queries, so that
what is made in between stays small.

    B rows   T queries   S keys   H heads   G key heads   K head dim   M queries of one key head, H / G * T
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from gesso.nn.compiled_training import takes
from gesso.nn.norm import autocast_dtype
from gesso.train.masks import MASKED

CPU_NUMBERS, NUMBERS = 1 << 23, 1 << 26
"""Probabilities that are there at a time, on a CPU and elsewhere; at least those of one token."""
FLASH_WIDEST = 256
"""Features of a head that flash attention takes at most."""
FEWEST = 16
"""Keys from which on compiled kernels make the probabilities, on a CPU: as many as they take at a time."""


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q_BGMK: Tensor, k_BGSK: Tensor, v_BGSK: Tensor, bias: Tensor | None, compiled: bool
    ) -> Tensor:
        ctx.save_for_backward(q_BGMK, k_BGSK, v_BGSK, bias)
        ctx.compiled = compiled
        return _joined([_attended(q, k, v, b, compiled) for q, k, v, b in _rows(q_BGMK, k_BGSK, v_BGSK, bias)])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        q_BGMK, k_BGSK, v_BGSK, bias = ctx.saved_tensors
        compiled = ctx.compiled and not torch.is_grad_enabled()  # what is found here may be differentiated once more
        found, begin = [], 0
        for q, k, v, b in _rows(q_BGMK, k_BGSK, v_BGSK, bias):
            found.append(_attended_back(grads[0][begin : begin + len(q)], q, k, v, b, compiled))
            begin += len(q)
        dq, dk, dv = (_joined(parts) for parts in zip(*found, strict=True))
        return dq, dk, dv, None, None


def _joined(parts: Sequence[Tensor]) -> Tensor:
    """Puts results of some rows each together; those of all are no copy."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def _most(x: Tensor) -> int:
    return CPU_NUMBERS if x.device.type == "cpu" else NUMBERS


def _rows(
    q_BGMK: Tensor, k_BGSK: Tensor, v_BGSK: Tensor, bias: Tensor | None
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor | None]]:
    """So many rows at a time as `NUMBERS` allows."""
    each = q_BGMK.shape[1] * q_BGMK.shape[2] * k_BGSK.shape[2]
    step = max(1, _most(q_BGMK) // max(1, each))
    for begin in range(0, max(1, len(q_BGMK)), step):
        rows = slice(begin, begin + step)
        yield q_BGMK[rows], k_BGSK[rows], v_BGSK[rows], bias if bias is None or len(bias) == 1 else bias[rows]


def _attended(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, compiled: bool) -> Tensor:
    """[B, G, M, K], of some rows."""
    pieces = _pieces(q, k, bias)
    if pieces is None:
        return _probs(q, k, bias, compiled) @ v
    split, tokens = _of_tokens(q, bias), []
    for queries, keys in pieces:
        probs = _probs(split[:, :, :, queries].flatten(2, 3), k[:, :, keys], _cut(bias, queries, keys), compiled)
        tokens.append((probs @ v[:, :, keys]).unflatten(2, (split.shape[2], -1)))
    return torch.cat(tokens, dim=3).flatten(2, 3)


def _attended_back(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, compiled: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of queries, keys and values, of some rows."""
    pieces = _pieces(q, k, bias)
    if pieces is None:
        probs = _probs(q, k, bias, compiled)
        change = _scores_back(grad @ v.mT, probs, compiled)
        return change @ k, change.mT @ q, probs.mT @ grad
    split, grads, found = _of_tokens(q, bias), _of_tokens(grad, bias), []
    dk, dv = (torch.zeros(x.shape, dtype=torch.float32, device=x.device) for x in (k, v))
    for queries, keys in pieces:
        asked, above = (x[:, :, :, queries].flatten(2, 3) for x in (split, grads))
        probs = _probs(asked, k[:, :, keys], _cut(bias, queries, keys), compiled)
        dv[:, :, keys] += probs.mT @ above
        change = _scores_back(above @ v[:, :, keys].mT, probs, compiled)
        dk[:, :, keys] += change.mT @ asked
        found.append((change @ k[:, :, keys]).unflatten(2, (split.shape[2], -1)))
    return torch.cat(found, dim=3).flatten(2, 3), dk.to(k.dtype), dv.to(v.dtype)


def _of_tokens(x_BGMK: Tensor, bias: Tensor | None) -> Tensor:
    """[B, G, H / G, T, K]: queries of a key head, by heads and by tokens, where a bias says how many these are."""
    queries = x_BGMK.shape[2]
    tokens = queries if bias is None or bias.shape[2] == 1 else bias.shape[2]
    split: Tensor = x_BGMK.unflatten(2, (queries // tokens, tokens))
    return split


def _pieces(q: Tensor, k: Tensor, bias: Tensor | None) -> list[tuple[slice, slice]] | None:
    """Queries of a row too long for `NUMBERS`, by their tokens, and the keys between the first and the last that any of
    them sees: of a sliding layer its window. None where the rows are not too long."""
    split, keys = _of_tokens(q, bias), k.shape[2]
    each, tokens = q.shape[0] * q.shape[1] * split.shape[2] * keys, split.shape[3]
    if each * tokens <= _most(q):
        return None
    step = max(1, _most(q) // each)
    cuts = [slice(begin, min(begin + step, tokens)) for begin in range(0, tokens, step)]
    if bias is None or bias.shape[2] == 1 or bias.is_meta:
        return [(cut, slice(0, keys)) for cut in cuts]
    seen = torch.stack([(bias[:, :, cut] > MASKED).any(2).flatten(0, 1).any(0) for cut in cuts]).int()
    begins, ends = seen.argmax(1).tolist(), (keys - seen.flip(1).argmax(1)).tolist()
    ends = [min(keys, max(end, FEWEST)) for end in ends]  # compiled kernels take so many at a time
    return [(cut, slice(max(0, min(a, b - FEWEST)), b)) for cut, a, b in zip(cuts, begins, ends, strict=True)]


def _cut(bias: Tensor | None, queries: slice, keys: slice) -> Tensor | None:
    if bias is None:
        return None
    return (bias[..., keys] if bias.shape[2] == 1 else bias[:, :, queries, keys]).contiguous()


def _probs(q_BGMK: Tensor, k_BGSK: Tensor, bias: Tensor | None, compiled: bool) -> Tensor:
    """[B, G, M, S], in the queries' dtype; a bias is added in fp32."""
    scores = q_BGMK @ k_BGSK.mT
    if compiled:
        from gesso.kernels.host import trained

        return trained.softmax_(scores, bias)
    if bias is None:
        return torch._softmax(scores, -1, False)
    tokens = bias.shape[2] if bias.shape[2] > 1 else scores.shape[2]
    biased = scores.float().unflatten(2, (scores.shape[2] // tokens, tokens)) + bias[:, :, None]
    return torch._softmax(biased, -1, False).to(scores.dtype).flatten(2, 3)


def _scores_back(grad: Tensor, probs: Tensor, compiled: bool) -> Tensor:
    """Returns the gradient of scores [B, G, M, S], given that of the probabilities, which may be overwritten."""
    if compiled:
        from gesso.kernels.host import trained

        return trained.softmax_back_(grad, probs)
    return torch._softmax_backward_data(grad, probs, -1, probs.dtype)


def attend_masked(q_BTHK: Tensor, k_BSGK: Tensor, v_BSGK: Tensor, bias: Tensor | None) -> Tensor:
    """Attends with grouped heads, [B, T, H, K]; `bias` broadcasts over [B, 1, T, S], and None lets every query see
    every key.

    The query heads that share a key head become further queries of it. On a CPU this trains twice as fast as the fused
    kernel with a mask; elsewhere that kernel serves where all queries see the same keys.
    """
    batch, tokens, heads, dim = q_BTHK.shape
    groups, dtype = k_BSGK.shape[2], autocast_dtype(q_BTHK.device.type) or v_BSGK.dtype
    q_BGMK = q_BTHK.unflatten(2, (groups, heads // groups)).permute(0, 2, 3, 1, 4).flatten(2, 3)
    q_BGMK, k_BGSK, v_BGSK = (x.to(dtype) for x in (q_BGMK, k_BSGK.transpose(1, 2), v_BSGK.transpose(1, 2)))
    if has_fused_kernel(q_BTHK.device) and (bias is None or bias.shape[2] == 1):
        mask = None if bias is None else bias.to(dtype)
        fused = F.scaled_dot_product_attention(q_BGMK, k_BGSK, v_BGSK, attn_mask=mask, scale=1.0)
        return fused.reshape(batch, heads, tokens, dim).transpose(1, 2)
    out = _attend(q_BGMK, k_BGSK, v_BGSK, bias)
    return out.view(batch, heads, tokens, dim).transpose(1, 2)


def _attend(q_BGMK: Tensor, k_BGSK: Tensor, v_BGSK: Tensor, bias: Tensor | None) -> Tensor:
    """Attends as `attend_masked` does, of tensors that lie as they are multiplied, [B, G, M, K]."""
    compiled = (
        k_BGSK.shape[2] >= FEWEST
        and (bias is None or bias.is_contiguous())
        and takes(q_BGMK, bias)
        and type(k_BGSK) is type(v_BGSK) is Tensor
        and q_BGMK.dtype == k_BGSK.dtype == v_BGSK.dtype
    )
    out: Tensor = _Attention.apply(q_BGMK, k_BGSK, v_BGSK, bias, compiled)  # type: ignore[no-untyped-call]
    return out


def attend_heads(q_BHTK: Tensor, k_BGSK: Tensor, v_BGSK: Tensor, bias: Tensor | None) -> Tensor:
    """Attends as `attend_masked` does, of tensors that lie head by head, [B, H, T, K]."""
    groups = k_BGSK.shape[1]
    q_BGMK = q_BHTK.unflatten(1, (groups, -1)).flatten(2, 3)
    return _attend(q_BGMK, k_BGSK, v_BGSK, bias).view(q_BHTK.shape)


def has_fused_kernel(device: torch.device) -> bool:
    """Says whether PyTorch's attention is a kernel there that makes no probabilities in memory."""
    return device.type == "cuda"


def attend_causal(q_BTHK: Tensor, k_BTGK: Tensor, v_BTGK: Tensor) -> Tensor:
    """Attends with grouped heads, [B, T, H, K]: every query sees itself and what came before, in a row that may be
    filled up behind its end."""
    shared, dtype = q_BTHK.shape[2] // k_BTGK.shape[2], autocast_dtype(q_BTHK.device.type) or v_BTGK.dtype
    q, k, v = (x.to(dtype).transpose(1, 2) for x in (q_BTHK, k_BTGK, v_BTGK))
    k, v = (x if shared == 1 else x.repeat_interleave(shared, dim=1) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0).transpose(1, 2)


def takes_flat(x_NHK: Tensor) -> bool:
    """Says whether `attend_flat` serves rows of this type and width: flash attention does, in half precision."""
    return (
        x_NHK.is_cuda
        and type(x_NHK) is Tensor
        and x_NHK.dtype in (torch.bfloat16, torch.float16)
        and x_NHK.shape[-1] <= FLASH_WIDEST
        and x_NHK.shape[-1] % 8 == 0
        and torch.cuda.get_device_capability(x_NHK.device) >= (8, 0)
        and torch.backends.cuda.is_flash_attention_available()
    )


def attend_flat(
    q_NHK: Tensor, k_NGK: Tensor, v_NGK: Tensor, ends_B: Tensor, longest: int, window: int | None
) -> Tensor:
    """Attends with grouped heads in rows laid flat, [N, H, K]: every query sees itself and what came before it in its
    row, within the window.

    Args:
        ends_B: 0, and where each row ends, int32.
        longest: tokens of the longest row.
        window: keys that a query sees at most; None for all.
    """
    from torch.nn.attention.varlen import varlen_attn

    shared = q_NHK.shape[1] // k_NGK.shape[1]
    k_NHK, v_NHK = (x if shared == 1 else x.repeat_interleave(shared, dim=1) for x in (k_NGK, v_NGK))
    before = -1 if window is None or window > longest else window - 1
    rows = ends_B, ends_B, longest, longest
    out = varlen_attn(q_NHK, k_NHK, v_NHK, *rows, scale=1.0, window_size=(before, 0))
    assert isinstance(out, Tensor)  # nothing beside it is asked for
    return out
