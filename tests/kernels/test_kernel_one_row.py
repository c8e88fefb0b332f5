"""What stands between packed products on a CPU: a single query's attention, the choice of experts, gated units."""

import importlib.util
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

if importlib.util.find_spec("llvmlite") is None:
    pytest.skip("llvmlite is not installed", allow_module_level=True)

from llvmlite import ir

from gesso.kernels.host import normed
from gesso.kernels.host.dots import sum_lanes
from gesso.kernels.host.llvm_ir import F32, VOID, Writer, vector, zeros
from gesso.kernels.host.threads import products_by
from gesso.nn.attention import attend_all
from gesso.nn.experts import Router
from gesso.nn.gated_gelu import gated_gelu
from gesso.nn.pass_threads import host_pass

pytestmark = pytest.mark.numbers


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def cached(groups: int, keys: int, width: int, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values as a cache hands them out, with room before and behind that is no number."""
    kv = torch.full((2, groups, keys + 7, width), math.nan)
    kv[:, :, 3 : 3 + keys] = random(2, groups, keys, width, seed=seed)
    found_keys, found_values = kv[:, :, 3 : 3 + keys].unbind()
    return found_keys, found_values


@given(
    groups=st.integers(1, 3),
    shared=st.integers(1, 9),
    keys=st.integers(1, 70),
    width=st.sampled_from((16, 32, 48, 256)),
)
def test_a_query_attends_to_every_key_and_to_nothing_else(groups: int, shared: int, keys: int, width: int) -> None:
    q, (k, v) = random(groups * shared, width), cached(groups, keys, width)
    assert normed.attends(q, k, v)
    found = normed.attend(q, k, v)
    scores = torch.einsum("gjk,gsk->gjs", q.double().view(groups, shared, width), k.double())
    expected = torch.einsum("gjs,gsk->gjk", scores.softmax(-1), v.double()).reshape(found.shape)
    assert (found - expected).abs().max() < 2e-5


def test_scores_far_apart_neither_overflow_nor_lose_the_largest() -> None:
    q, (k, v) = torch.full((1, 16), 40.0), cached(1, 33, 16)
    k[0, 20] = 40.0
    assert torch.allclose(normed.attend(q, k, v), v[:, 20], atol=1e-6)
    q[0] = -40.0
    assert normed.attend(q, k, v).isfinite().all()


def test_scores_below_all_others_are_weighed() -> None:
    q, (k, v) = torch.full((1, 16), -1e16), cached(1, 3, 16)
    k[:] = 1e16  # scores of -1.6e33
    assert torch.allclose(normed.attend(q, k, v), v.mean(1), atol=1e-6)


def test_a_head_has_its_bits_whoever_computes_it() -> None:
    q, (k, v) = random(16, 256), cached(8, 200, 256)  # more numbers than one thread would take alone
    alone = normed.attend(q, k, v)
    for threads in (2, 3):
        with products_by(threads, 0):
            assert torch.equal(normed.attend(q, k, v), alone)
    assert torch.equal(normed.attend(q[4:6], k[2:3], v[2:3]), alone[4:6])


@pytest.mark.parametrize("case", ["half", "turned", "odd", "many"])
def test_what_the_kernel_does_not_take_is_attended_to_as_ever(case: str) -> None:
    q, (k, v) = random(1, 4, 32), cached(2, 9, 32)
    if case == "half":
        q, k, v = q.bfloat16(), k.bfloat16(), v.bfloat16()
    elif case == "turned":
        k = k.transpose(1, 2).contiguous().transpose(1, 2)
    elif case == "odd":
        q, k, v = q[..., :20].contiguous(), k[..., :20].contiguous(), v[..., :20].contiguous()
    else:
        q, (k, v) = random(1, 65, 32), cached(1, 9, 32)
    with torch.inference_mode(), host_pass(1):
        assert not normed.attends(q[0], k, v)
        found = attend_all(q, k, v)
    with torch.inference_mode():
        assert torch.equal(found, attend_all(q, k, v))


def test_a_query_attends_by_the_kernel_in_a_host_pass_alone() -> None:
    q, (k, v) = random(1, 4, 32), cached(2, 9, 32)
    with torch.inference_mode():
        for rows in (1, 100):
            with host_pass(rows):
                assert torch.equal(attend_all(q, k, v)[0], normed.attend(q[0], k, v))
        plain = F.scaled_dot_product_attention(q.view(1, 2, 2, 32), k[None], v[None], scale=1.0).view(1, 4, 32)
        assert torch.equal(attend_all(q, k, v), plain)


@given(rows=st.integers(1, 20), experts=st.integers(1, 40), seed=st.integers(0, 9))
def test_the_experts_with_the_largest_scores_are_chosen(rows: int, experts: int, seed: int) -> None:
    count = min(experts, 1 + seed)
    router = Router(16, experts, count, 1e-6)
    router.per_expert_scale.data = random(experts, seed=2).abs() + 0.1
    scores = random(rows, experts, seed=seed) * 3
    before = scores.clone()
    with torch.no_grad():
        expected_weights, expected = router.choose(scores)
        with host_pass(rows):
            weights, chosen = router.choose(scores)
            assert torch.equal(router.choose(scores[-1:])[0], weights[-1:])
    assert torch.equal(chosen, expected)
    assert torch.allclose(weights, expected_weights, rtol=1e-5)
    assert torch.equal(scores, before)


def test_of_equal_scores_the_first_is_chosen_and_what_is_no_number_last() -> None:
    scores = torch.tensor([[1.0, 2.0, 2.0, math.nan, 1.0], [-200.0, 0.0, 200.0, 0.0, 0.0]])
    weights, chosen = normed.choose(scores, torch.ones(5), 4)
    assert chosen.tolist() == [[1, 2, 0, 4], [2, 1, 3, 4]]
    assert torch.allclose(weights.sum(dim=1), torch.ones(2))
    assert weights[1, 0] == 1


@given(rows=st.integers(1, 12), width=st.sampled_from((16, 64, 704)))
def test_gates_are_those_of_fp64_in_halves_or_apart(rows: int, width: int) -> None:
    whole = random(rows, 2 * width) * 4
    gate, up = whole.chunk(2, dim=-1)
    expected = F.gelu(gate.double(), approximate="tanh") * up.double()
    with torch.no_grad(), host_pass(rows):
        found = gated_gelu(gate, up)
        assert torch.equal(gated_gelu(gate.contiguous(), up.contiguous()), found)
        assert torch.equal(gated_gelu(gate[-1:], up[-1:]), found[-1:])
    assert (found - expected).abs().max() < 2e-5


@pytest.mark.parametrize("rows", [1, 2, 4, 8])
def test_sums_of_lanes_are_as_many_as_there_are_vectors(rows: int) -> None:
    build = Writer(ir.Module(), "sums", VOID, [])
    assert sum_lanes(build, [zeros(vector(F32, 16))] * rows).type.count == rows  # others would be undefined
