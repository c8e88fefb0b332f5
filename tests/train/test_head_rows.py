"""Heads laid out for attention by kernels: what padding and moving axes make of them, and back."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gesso.nn import compiled_training
from gesso.train.attention import attend_masked
from gesso.train.encoder_rows import group_rows, lay_out_rows
from gesso.train.head_rows import HeadRows, lays_out
from gesso.train.masks import causal_bias

pytest.importorskip("llvmlite")
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _however_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_training, "LEAST", 1)


def padded(x: Tensor, lengths: list[int]) -> list[Tensor]:
    groups = group_rows(lengths)
    slots = lay_out_rows(lengths, groups, None, CPU).slots
    return [group.pad(x[group.tokens], slot).transpose(1, 2) for group, slot in zip(groups, slots, strict=True)]


@given(
    lengths=st.lists(st.integers(1, 140), min_size=1, max_size=6).map(sorted),
    heads=st.integers(1, 3),
    width=st.sampled_from([32, 64]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
    fill=st.integers(0, 5),
)
@settings(max_examples=30)
def test_rows_are_laid_out_and_put_together_again(
    lengths: list[int], heads: int, width: int, dtype: torch.dtype, fill: int
) -> None:
    x = torch.randn(sum(lengths) + fill, heads, width).to(dtype).requires_grad_()
    assert lays_out(x)
    rows = HeadRows(lengths, group_rows(lengths))
    found, expected = rows.spread(x), padded(x, lengths)
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))
    back = rows.collect(found, len(x))
    assert torch.equal(back[: sum(lengths)], x[: sum(lengths)])
    assert not back[sum(lengths) :].any()
    above = torch.randn(x.shape).to(dtype)
    (grad,) = torch.autograd.grad(back, x, above)
    assert torch.equal(grad[: sum(lengths)], above[: sum(lengths)])
    assert not grad[sum(lengths) :].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("window", [None, 20])
def test_attention_is_that_of_padded_rows(dtype: torch.dtype, window: int | None) -> None:
    lengths = [3, 20, 33, 60, 64, 100]
    groups, generator = group_rows(lengths), torch.Generator().manual_seed(0)
    biases = [causal_bias(group.longest, window, CPU) for group in groups]
    inputs = [torch.randn(sum(lengths) + 4, heads, 32, generator=generator).to(dtype) for heads in (4, 2, 2)]
    above = torch.randn(sum(lengths), 4, 32, generator=generator).to(dtype)
    slots = lay_out_rows(lengths, groups, None, CPU).slots

    def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        parts = []
        for group, slot, bias in zip(groups, slots, biases, strict=True):
            rows = (group.pad(x[group.tokens], slot) for x in (q, k, v))
            parts.append(attend_masked(*rows, bias).flatten(0, 1)[slot])
        return torch.cat(parts)

    found = []
    for attend in (lambda *x: HeadRows(lengths, groups).attend(*x, biases)[0][: len(above)], plain):
        leaves = [x.clone().requires_grad_() for x in inputs]
        out = attend(*leaves)
        found.append([out.detach(), *torch.autograd.grad(out, leaves, above)])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_gradients_of_gradients_are_there() -> None:
    lengths = [2, 40]
    rows = HeadRows(lengths, group_rows(lengths))
    x = torch.randn(42, 1, 32).requires_grad_()
    out = rows.collect([part.square() for part in rows.spread(x)], 42)
    (first,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x)
    torch.testing.assert_close(second, 8 * x.detach())


def test_what_kernels_cannot_move_is_padded() -> None:
    x = torch.zeros(4, 2, 32)
    assert lays_out(x, x.bfloat16())
    assert not lays_out(x, x.to("meta"))
    assert not lays_out(x.double())
    assert not lays_out(x.transpose(0, 1))
    assert not lays_out(torch.zeros(4, 2, 16, dtype=torch.bfloat16))
    with torch.no_grad():
        assert not lays_out(x)
