"""Layers of the vision tower by themselves: slices, rotary positions of a grid, clamps."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from gesso.nn.axial_rope import AxialRope, apply_axial_rope
from gesso.nn.clipped_linear import ClippedLinear
from gesso.nn.vision_attention import attend_patches


def qkv(batch: int, patches: int, heads: int, groups: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((batch, patches, heads, 12), (batch, patches, groups, 12), (batch, patches, groups, 12))
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


@pytest.mark.parametrize("score_bytes", [1, 4 * 2 * 4 * 45 * 7, 10**9])
@pytest.mark.parametrize("groups", [4, 2, 1])
def test_slices_of_queries_give_what_all_at_once_give(score_bytes: int, groups: int) -> None:
    q, k, v = qkv(2, 45, 4, groups)
    keys, values = (x.repeat_interleave(4 // groups, dim=2) for x in (k, v))
    weights = torch.einsum("bqhk,bshk->bhqs", q, keys).softmax(-1)
    expected = torch.einsum("bhqs,bshk->bqhk", weights, values)
    torch.testing.assert_close(attend_patches(q, k, v, score_bytes), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(attend_patches(q, k, v), expected, rtol=1e-5, atol=1e-5)


def test_slices_hold_no_more_scores_than_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    whole = F.scaled_dot_product_attention

    def attention(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        asked.append(4 * q.shape[:3].numel() * k.shape[2])
        return whole(q, k, v, scale=scale)

    monkeypatch.setattr(F, "scaled_dot_product_attention", attention)
    attend_patches(*qkv(1, 100, 4, 4), score_bytes=20_000)
    assert len(asked) > 5
    assert max(asked) <= 20_000
    asked.clear()
    monkeypatch.setattr("gesso.nn.vision_attention.SCORE_BYTES", 50_000)
    attend_patches(*qkv(1, 100, 4, 4, torch.float64))  # which has no fused kernel
    assert max(asked) <= 50_000
    assert len(asked) == 4


def test_the_first_half_of_a_head_turns_by_the_column_and_the_second_by_the_row() -> None:
    rope = AxialRope(100.0, 8)
    cos, sin = rope.grid(3, 5, torch.device("cpu"), torch.float32)
    x = torch.randn(15, 2, 8, generator=torch.Generator().manual_seed(0))
    turned = apply_axial_rope(x, cos, sin)
    for row in range(3):
        for column in range(5):
            for half, place in enumerate((column, row)):
                for pair in range(2):
                    angle = place * 100.0 ** (-2 * pair / 4)
                    one, other = (x[row * 5 + column, :, 4 * half + pair + 2 * i] for i in range(2))
                    c, s = torch.tensor(angle).cos(), torch.tensor(angle).sin()
                    found = turned[row * 5 + column, :, 4 * half :]
                    torch.testing.assert_close(found[:, pair], one * c - other * s)
                    torch.testing.assert_close(found[:, pair + 2], other * c + one * s)


def test_a_clipped_linear_clamps_before_and_after() -> None:
    layer = ClippedLinear(3, 2)
    x = torch.tensor([[-9.0, 0.5, 9.0]])
    assert torch.equal(layer(x), F.linear(x, layer.weight))  # it bounds nothing until bounds are loaded
    layer.input_min.fill_(-1.0)
    layer.input_max.fill_(2.0)
    layer.output_max.fill_(0.1)
    expected = F.linear(torch.tensor([[-1.0, 0.5, 2.0]]), layer.weight).clamp(max=0.1)
    torch.testing.assert_close(layer(x), expected)
    assert set(layer.state_dict()) == {"weight", "input_min", "input_max", "output_min", "output_max"}
