"""The two attentions against an explicit masked softmax, and the projections around them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from gesso.config import LayerConfig, RopeConfig
from gesso.nn.attention import Attention, attend_all, attend_causal
from gesso.nn.norm import rms_norm
from gesso.nn.rope import RopeTable, apply_rope

pytestmark = pytest.mark.numbers


def explicit(q_THK: Tensor, k_GSK: Tensor, v_GSK: Tensor, seen_TS: Tensor) -> Tensor:
    """Head by head, query by query, over the keys it may see. No scaling: there is none in this model."""
    tokens, heads, _ = q_THK.shape
    shared = heads // k_GSK.shape[0]
    out = torch.zeros_like(q_THK)
    for t in range(tokens):
        for h in range(heads):
            keys, values = k_GSK[h // shared][seen_TS[t]], v_GSK[h // shared][seen_TS[t]]
            out[t, h] = (keys @ q_THK[t, h]).softmax(-1) @ values
    return out


@st.composite
def sizes(draw: st.DrawFn) -> tuple[int, int, int, int, int]:
    """T queries, S keys, H heads, G groups, seed."""
    groups = draw(st.integers(1, 4))
    tokens = draw(st.integers(1, 7))
    return tokens, tokens + draw(st.integers(0, 9)), groups * draw(st.integers(1, 3)), groups, draw(st.integers(0, 999))


def qkv(size: tuple[int, int, int, int, int], dim: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    tokens, keys, heads, groups, seed = size
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(tokens, heads, dim, generator=generator)
    # Keys and values are slices of a longer buffer, as a cache hands them out.
    buffer = torch.randn(2, groups, keys + 5, dim, generator=generator)
    return q, buffer[0, :, 2 : keys + 2], buffer[1, :, 2 : keys + 2]


@given(sizes())
def test_attend_all(size: tuple[int, int, int, int, int]) -> None:
    q, k, v = qkv(size)
    seen = torch.ones(size[0], size[1], dtype=torch.bool)
    assert torch.allclose(attend_all(q, k, v), explicit(q, k, v, seen), atol=1e-5)


@given(sizes(), st.none() | st.integers(1, 20))
def test_attend_causal(size: tuple[int, int, int, int, int], window: int | None) -> None:
    q, k, v = qkv(size)
    tokens, keys = size[:2]
    query = torch.arange(keys - tokens, keys)[:, None]
    key = torch.arange(keys)
    seen = (key <= query) & (key > query - (window or keys))
    assert torch.allclose(attend_causal(q, k, v, window), explicit(q, k, v, seen), atol=1e-5)


def test_queries_need_not_be_contiguous() -> None:
    q, k, v = qkv((4, 9, 6, 3, 1))
    strided = torch.randn(4, 6, 12)[:, :, ::2].copy_(q)
    assert not strided.is_contiguous()
    assert torch.allclose(attend_all(strided, k, v), attend_all(q, k, v), atol=1e-6)
    assert torch.allclose(attend_causal(strided, k, v, 3), attend_causal(q, k, v, 3), atol=1e-6)


@pytest.mark.parametrize("kind", ["sliding_attention", "full_attention"])
@pytest.mark.parametrize("bias", [False, True])
def test_the_projections(kind: str, bias: bool) -> None:
    """q and k are normed with a scale and turned, v is normed without one; a full layer takes k's projection as v."""
    layer = LayerConfig(kind, 4, 2)  # type: ignore[arg-type]
    attention = Attention(10, 6, layer, bias, 1e-6)
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.normal_()
    assert (attention.v_proj is None) == (kind == "full_attention")
    assert (attention.q_proj.bias is not None) == bias
    x = torch.randn(5, 10)
    rope = RopeTable(RopeConfig("default", 1e4), 4).lookup(torch.arange(5), 5, torch.float32)
    handed: list[Tensor] = []

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        handed.extend((q, k, v))
        return 2 * q

    out = attention(x, rope, attend)
    q, k, v = handed
    plain_k = attention.k_proj(x).view(5, 2, 4)
    plain_v = plain_k if attention.v_proj is None else attention.v_proj(x).view(5, 2, 4)
    expected_q = apply_rope(rms_norm(attention.q_proj(x).view(5, 6, 4), attention.q_norm.weight, 1e-6), *rope)
    assert torch.allclose(q, expected_q, atol=1e-6)
    assert torch.allclose(k, apply_rope(rms_norm(plain_k, attention.k_norm.weight, 1e-6), *rope), atol=1e-6)
    assert torch.allclose(v, rms_norm(plain_v, None, 1e-6), atol=1e-6)
    assert torch.allclose(out, attention.o_proj(2 * q.reshape(5, 24)), atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("window", [None, 5, 64])
def test_heads_that_share_keys_give_the_bits_of_heads_with_copies(dtype: torch.dtype, window: int | None) -> None:
    for size in ((40, 97, 6, 2, 0), (64, 64, 4, 1, 1), (1, 90, 4, 4, 2)):
        q, k, v = (x.to(dtype) for x in qkv(size, dim=16))
        with torch.enable_grad():  # where there are copies
            expected = attend_causal(q, k, v, window)
        with torch.no_grad():
            assert torch.equal(attend_causal(q, k, v, window), expected)
