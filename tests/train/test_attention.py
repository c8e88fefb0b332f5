"""Training's attention against a plain softmax under autograd, whole and some rows at a time."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.attention import varlen

from gesso.nn import compiled_training
from gesso.train import attention
from gesso.train.attention import attend_causal, attend_flat, attend_masked, takes_flat
from gesso.train.encoder_rows import flat_ends
from gesso.train.masks import causal_bias


def plain(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    repeat = q.shape[2] // k.shape[2]
    k, v = (x.repeat_interleave(repeat, dim=2) for x in (k, v))
    scores = torch.einsum("bthk,bshk->bhts", q, k)
    return torch.einsum("bhts,bshk->bthk", (scores if bias is None else scores + bias).softmax(dim=-1), v)


@given(
    rows=st.integers(1, 4),
    tokens=st.integers(1, 9),
    keys=st.one_of(st.integers(1, 9), st.integers(16, 50)),
    groups=st.integers(1, 3),
    repeat=st.integers(1, 3),
    mask=st.sampled_from(["none", "rows", "one row", "queries"]),
    numbers=st.sampled_from([1, 60, 1 << 20]),
    kernel=st.sampled_from(["none", "compiled", "fused"]),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=150)
def test_it_is_the_plain_one(
    rows: int, tokens: int, keys: int, groups: int, repeat: int, mask: str, numbers: int, kernel: str, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    shapes = {"rows": (rows, 1, 1, keys), "one row": (1, 1, 1, keys), "queries": (1, 1, tokens, keys)}
    bias = None
    if mask != "none":
        hidden = torch.rand(shapes[mask], generator=generator) < 0.4
        hidden[..., 0] = False  # every query sees a key
        bias = torch.where(hidden, -1e9, 0.0)
    given_ = [draw(rows, tokens, groups * repeat, 8), draw(rows, keys, groups, 8), draw(rows, keys, groups, 8)]
    weight = draw(rows, tokens, groups * repeat, 8)
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "CPU_NUMBERS", numbers)
        patch.setattr(compiled_training, "LEAST", 1 if kernel == "compiled" else 1 << 60)
        patch.setattr(attention, "has_fused_kernel", lambda _: kernel == "fused")
        for function in (attend_masked, plain):
            q, k, v = (x.clone().requires_grad_(True) for x in given_)
            out = function(q, k, v, bias)
            (out * weight).sum().backward()
            found.append((out, q.grad, k.grad, v.grad))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_long_row_is_attended_in_pieces_of_its_windows(monkeypatch: pytest.MonkeyPatch, *, compiled: bool) -> None:
    monkeypatch.setattr(attention, "CPU_NUMBERS", 2 * 2 * 8 * 100)  # eight tokens of four heads
    monkeypatch.setattr(compiled_training, "LEAST", 1 if compiled else 1 << 60)
    sizes, probs = [], attention._probs
    monkeypatch.setattr(attention, "_probs", lambda q, *rest: sizes.append(found := probs(q, *rest)) or found)
    bias = causal_bias(100, 12, torch.device("cpu"))
    generator = torch.Generator().manual_seed(0)
    given_ = [torch.randn(2, 100, heads, 8, generator=generator) for heads in (4, 2, 2)]
    found = []
    for function in (attend_masked, plain):
        q, k, v = (x.clone().requires_grad_(True) for x in given_)
        out = function(q, k, v, bias)
        out.square().sum().backward()
        found.append((out, q.grad, k.grad, v.grad))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)
    assert len(sizes) == 2 * 2 * 13, "forwards and backwards, of each row"
    assert {tuple(x.shape[:2]) for x in sizes} == {(1, 2)}
    assert max(x.shape[3] for x in sizes) == 8 + 12 - 1, "the keys that eight tokens see"


@pytest.mark.parametrize("numbers", [1 << 20, 64])
def test_its_gradient_has_a_gradient(monkeypatch: pytest.MonkeyPatch, numbers: int) -> None:
    monkeypatch.setattr(compiled_training, "LEAST", 1)
    monkeypatch.setattr(attention, "CPU_NUMBERS", numbers)
    found = []
    for function in (attend_masked, plain):
        generator = torch.Generator().manual_seed(0)
        q, k, v = (torch.randn(1, 20, heads, 16, generator=generator).requires_grad_() for heads in (4, 2, 2))
        (first,) = torch.autograd.grad(function(q, k, v, None).square().sum(), q, create_graph=True)
        found.append(torch.autograd.grad(first.square().sum(), (k, v)))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-3)


def test_what_a_mask_hides_weighs_nothing_in_a_kernel_and_what_is_no_number_stays_none() -> None:
    pytest.importorskip("llvmlite")
    from gesso.kernels.host.trained import softmax_, softmax_back_

    scores = 9 * torch.randn(2, 1, 6, 37, generator=torch.Generator().manual_seed(0))
    bias = torch.where(torch.arange(37) % 3 == 0, -1e9, 0.0).expand(2, 1, 6, 37).contiguous()
    probs = softmax_(scores.clone(), bias)
    expected = (scores.double() + bias).softmax(dim=-1)
    assert (probs - expected).abs().max() < 1e-6
    assert (probs[..., ::3] == 0).all()
    grad = torch.randn(probs.shape, generator=torch.Generator().manual_seed(1))
    change = softmax_back_(grad.clone(), probs)
    assert (change - torch._softmax_backward_data(grad.double(), expected, -1, torch.float64)).abs().max() < 1e-6
    scores[1, 0, 3, 36] = float("nan")
    probs = softmax_(scores, bias)
    assert probs[1, 0, 3].isnan().all()
    assert not probs[0].isnan().any()


def test_probabilities_are_not_kept() -> None:
    """What autograd holds is queries, keys, values and the bias: nothing as large as tokens times keys."""
    sizes = []

    def keep(tensor: Tensor) -> Tensor:
        sizes.append(tensor.numel())
        return tensor

    q, k, v = (torch.randn(2, 64, heads, 4, requires_grad=True) for heads in (4, 2, 2))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        attend_masked(q, k, v, torch.zeros(2, 1, 1, 64))
    assert sizes
    assert max(sizes) == q.numel() < 2 * 4 * 64 * 64


def test_under_autocast_it_is_half_precision() -> None:
    q, k, v = (torch.randn(2, 6, heads, 8, requires_grad=True) for heads in (4, 2, 2))
    with torch.autocast("cpu", torch.bfloat16):
        out = attend_masked(q, k, v, None)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), plain(q, k, v, None), atol=3e-2, rtol=3e-2)
    out.sum().backward()
    assert q.grad is not None
    assert q.grad.dtype == torch.float32


@given(
    rows=st.integers(1, 3),
    tokens=st.integers(1, 40),
    groups=st.integers(1, 3),
    repeat=st.integers(1, 3),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=40)
def test_a_causal_row_is_that_of_its_mask(rows: int, tokens: int, groups: int, repeat: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    shapes = [(rows, tokens, heads, 8) for heads in (groups * repeat, groups, groups)]
    given_ = [torch.randn(shape, generator=generator) for shape in shapes]
    weight = torch.randn(shapes[0], generator=generator)
    bias = causal_bias(tokens, None, torch.device("cpu"))
    found = []
    for function in (attend_causal, lambda q, k, v: attend_masked(q, k, v, bias)):
        q, k, v = (x.clone().requires_grad_(True) for x in given_)
        out = function(q, k, v)
        (out * weight).sum().backward()
        found.append((out, q.grad, k.grad, v.grad))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


def plain_flat(
    q: Tensor, k: Tensor, v: Tensor, ends: Tensor, same: Tensor, longest: int, wide: int, **options: Any
) -> Tensor:
    """What flash attention of rows laid flat says it computes, row by row."""
    before, behind = options.pop("window_size")
    assert (options, behind) == ({"scale": 1.0}, 0)
    assert same is ends
    assert ends.dtype == torch.int32
    assert k.shape == v.shape == q.shape
    assert int(ends.diff().max()) == longest == wide
    parts = []
    for own in zip(*(x.split(ends.diff().tolist()) for x in (q, k, v)), strict=True):
        bias = causal_bias(len(own[0]), None if before < 0 else before + 1, q.device)
        parts.append(plain(*(x[None] for x in own), bias)[0])
    return torch.cat(parts)


@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    groups=st.integers(1, 3),
    repeat=st.integers(1, 3),
    window=st.one_of(st.none(), st.integers(1, 14)),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=60)
def test_rows_laid_flat_are_attended_to_as_rows(
    lengths: list[int], groups: int, repeat: int, window: int | None, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    total = sum(lengths)
    q, k, v = (torch.randn(total, heads, 8, generator=generator) for heads in (groups * repeat, groups, groups))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(varlen, "varlen_attn", plain_flat)
        found = attend_flat(q, k, v, flat_ends(lengths, q.device), max(lengths), window)
    for own, *row in zip(*(x.split(lengths) for x in (found, q, k, v)), strict=True):
        expected = attend_masked(*(x[None] for x in row), causal_bias(len(own), window, q.device))[0]
        torch.testing.assert_close(own, expected, atol=1e-5, rtol=1e-4)


def test_flash_attention_takes_nothing_on_a_cpu() -> None:
    assert not takes_flat(torch.zeros(4, 2, 32, dtype=torch.bfloat16))


@given(
    rows=st.integers(1, 3),
    tokens=st.integers(1, 9),
    keys=st.integers(16, 70),
    mask=st.sampled_from(["none", "rows", "queries", "causal"]),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=60)
def test_probabilities_in_bfloat16_are_those_of_double_precision_rounded_once(
    rows: int, tokens: int, keys: int, mask: str, seed: int
) -> None:
    pytest.importorskip("llvmlite")
    from gesso.kernels.host.trained import softmax_, softmax_back_

    generator = torch.Generator().manual_seed(seed)
    scores = (5 * torch.randn(rows, 2, 2 * tokens, keys, generator=generator)).bfloat16()
    bias = None
    if mask != "none":
        hidden = torch.rand(rows if mask == "rows" else 1, 1, 1 if mask == "rows" else tokens, keys) < 0.5
        if mask == "causal":
            hidden = (torch.arange(keys) > torch.arange(tokens)[:, None] * 9)[None, None]
        hidden[..., 0] = False
        bias = torch.where(hidden, -1e9, 0.0)
    wide = scores.double().unflatten(2, (2, tokens))
    expected = (wide if bias is None else wide + bias[:, :, None]).softmax(dim=-1).flatten(2, 3)
    probs = softmax_(scores.clone(), bias)
    assert probs.dtype == torch.bfloat16
    # Half of the last of eight bits, and the error of an exponential in fp32.
    assert ((probs.double() - expected).abs() <= expected * (2**-8 + 1e-5) + 1e-38).all()
    grad = torch.randn(probs.shape, generator=generator).bfloat16()
    wanted = torch._softmax_backward_data(grad.double(), probs.double(), -1, torch.float64)
    found = softmax_back_(grad.clone(), probs)
    size = (probs.double() * (grad.double().abs() + 3)).clamp(min=1e-30)
    assert ((found.double() - wanted).abs() <= 2**-8 * wanted.abs() + 1e-5 * size).all()


def test_what_is_no_number_stays_none_in_bfloat16() -> None:
    pytest.importorskip("llvmlite")
    from gesso.kernels.host.trained import softmax_

    scores = torch.zeros(1, 1, 3, 64, dtype=torch.bfloat16)
    scores[0, 0, 1, 50] = float("nan")
    bias = torch.where(torch.arange(64) > 20, -1e9, 0.0).view(1, 1, 1, 64)
    probs = softmax_(scores, bias)
    assert probs[0, 0, 1].isnan().all()
    assert not probs[0, 0, ::2].isnan().any()
    assert (probs[0, 0, 0, 21:] == 0).all()
