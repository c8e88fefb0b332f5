"""Experts chosen and their tokens laid out by Triton's kernels, and by PyTorch's operations."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from gesso import kernels
from gesso.nn import experts as experts_module
from gesso.nn.experts import Router, mix_experts, mix_sorted
from kernels.compiling import compiled

pytest.importorskip("triton")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(autouse=True)
def without_gradient() -> Iterator[None]:
    with torch.inference_mode():
        yield


def drawn(rows: int, experts: int, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(rows + experts)
    return torch.randn(rows, experts, generator=generator).to(DEVICE, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("rows", "experts", "top_k"), [(1, 4, 2), (16, 128, 8), (5, 100, 6), (3, 8, 8)])
def test_the_highest_scores_are_chosen(
    rows: int, experts: int, top_k: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    router = Router(16, experts, top_k, 1e-6).to(DEVICE)
    router.per_expert_scale.copy_(0.5 + drawn(1, experts)[0].abs())
    scores = drawn(rows, experts, dtype)
    scores += torch.arange(experts, device=DEVICE) / 64  # no two alike in bfloat16, whose ties nobody orders
    weights, numbers = router.choose(scores)
    monkeypatch.setattr(kernels, "usable", lambda device: True)
    found, chosen = router.choose(scores)
    order, expected = chosen.argsort(dim=1), numbers.argsort(dim=1)
    assert torch.equal(chosen.gather(1, order), numbers.gather(1, expected))
    torch.testing.assert_close(found.gather(1, order), weights.gather(1, expected), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(("rows", "experts", "top_k"), [(1, 4, 2), (20, 8, 2), (3, 8, 8)])
def test_in_training_experts_are_chosen_by_the_kernel_and_gradients_are_those_of_plain_operations(
    rows: int, experts: int, top_k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[list[Tensor]] = []
    with torch.inference_mode(False), torch.enable_grad():
        router = Router(16, experts, top_k, 1e-6).to(DEVICE)
        router.per_expert_scale.data = 0.5 + drawn(1, experts)[0].abs().clone()
        scores = drawn(rows, experts).clone().requires_grad_(True)
        # Weights by expert, since equal shares may come in either order.
        for by_kernel in (True, False):
            monkeypatch.setattr(experts_module.gpu_training, "trains_on_gpu", lambda *_, by_kernel=by_kernel: by_kernel)
            weights, numbers = router.choose(scores)
            spread = torch.zeros(rows, experts, device=DEVICE).scatter(1, numbers, weights)
            spread.square().sum().backward()
            gradients = [scores.grad, router.per_expert_scale.grad]
            found.append([spread.detach(), *(grad.clone() for grad in gradients if grad is not None)])
            scores.grad = router.per_expert_scale.grad = None
    for own, plain in zip(*found, strict=True):
        torch.testing.assert_close(own, plain, atol=1e-6, rtol=1e-5)


def test_of_equal_scores_the_lower_number_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    router = Router(16, 6, 3, 1e-6).to(DEVICE)
    monkeypatch.setattr(kernels, "usable", lambda device: True)
    weights, numbers = router.choose(torch.zeros(2, 6, device=DEVICE))
    assert numbers.tolist() == [[0, 1, 2]] * 2
    torch.testing.assert_close(weights, torch.full((2, 3), 1 / 3, device=DEVICE))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, in the interpreter
@pytest.mark.parametrize(("experts", "top_k"), [(128, 8), (100, 6), (6, 3)])
def test_scores_that_are_no_numbers_choose_experts_that_there_are(
    experts: int, top_k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has no expert would have no row either, and be read from anywhere."""
    router, scores = Router(16, experts, top_k, 1e-6).to(DEVICE), drawn(5, experts)
    scores[1], scores[2, 3], scores[3, 0] = float("nan"), float("nan"), float("inf")
    monkeypatch.setattr(kernels, "usable", lambda device: True)
    weights, numbers = router.choose(scores)
    assert bool(((numbers >= 0) & (numbers < experts)).all())
    assert weights.isnan().all(dim=1).tolist() == [False, True, True, True, False]
    expected, chosen = router.choose(scores[::4])
    assert torch.equal(numbers[::4], chosen)
    assert torch.equal(weights[::4], expected)


@pytest.mark.parametrize(("tokens", "experts", "top_k"), [(1, 4, 2), (16, 128, 8), (40, 5, 3), (300, 16, 8), (7, 3, 1)])
def test_tokens_are_laid_out_as_a_stable_sort_does(
    tokens: int, experts: int, top_k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = drawn(tokens, experts).topk(top_k, dim=1).indices
    chosen[tokens // 2 :] = chosen[0]  # some experts get none
    expected = experts_module._sorted_by_expert(chosen, experts)
    monkeypatch.setattr(kernels, "usable", lambda device: True)
    found = experts_module._sorted_by_expert(chosen, experts)
    for own, other in zip(found, expected, strict=True):
        assert own.dtype == other.dtype
        assert torch.equal(own, other)


@pytest.mark.parametrize(("tokens", "experts", "top_k"), [(1, 4, 2), (16, 64, 8), (40, 1, 3), (300, 8, 4)])
def test_choices_of_experts_elsewhere_are_laid_out_behind_all_others(
    tokens: int, experts: int, top_k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank that has half of the experts says of the others that they stand behind its last one."""
    chosen = drawn(tokens, 2 * experts + 2).topk(top_k, dim=1).indices.clamp(max=experts)
    chosen[0, 0] = experts
    expected = experts_module._sorted_by_expert(chosen, experts)
    monkeypatch.setattr(kernels, "usable", lambda device: True)
    monkeypatch.setattr(torch, "empty", lambda *size, **options: torch.full(size, -1, **options))
    found = experts_module._sorted_by_expert(chosen, experts)
    for own, other in zip(found, expected, strict=True):
        assert torch.equal(own, other)


def test_a_mixture_is_what_it_is_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    gate_up, down = (torch.randn(6, *size, generator=generator).to(DEVICE) for size in ((24, 16), (16, 12)))
    x, scores = drawn(20, 16), drawn(20, 6)
    weights, numbers = scores.softmax(dim=1).topk(2, dim=1)
    linear = torch.nn.functional.linear

    def by_group(rows: Tensor, ends: Tensor, matrices: Tensor) -> Tensor:
        begins = [0, *ends.tolist()[:-1]]
        return torch.cat([linear(rows[b:e], m) for b, e, m in zip(begins, ends.tolist(), matrices, strict=True)])

    projections = (
        (lambda rows, m=one: linear(rows, m), lambda rows, m=other: linear(rows, m))
        for one, other in zip(gate_up, down, strict=True)
    )
    expected = mix_experts(x, weights, numbers, 6, projections)
    monkeypatch.setattr(kernels, "usable", lambda device: True)
    maps = [lambda rows, ends, m=matrices: by_group(rows, ends, m) for matrices in (gate_up, down)]
    torch.testing.assert_close(mix_sorted(x, weights, numbers, 6, *maps), expected, atol=1e-4, rtol=1e-4)


SCRIPT = """
import sys
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from gesso.kernels.routing import _choose, _lay_out

architecture = int(sys.argv[1])
for kernel, kinds, sizes in (
    (
        _choose,
        {"scores": "*bf16", "scale": "*bf16", "weights": "*fp32", "numbers": "*i64"},
        dict(EXPERTS=128, PADDED=128, CHOSEN=8, PLACES=8),
    ),
    (
        _lay_out,
        {"chosen": "*i64", "sources": "*i64", "slots": "*i64", "ends": "*i32", "count": "i32"},
        dict(CHOSEN=8, BLOCK=1024),
    ),
):
    source = ASTSource(kernel, kinds | dict.fromkeys(sizes, "constexpr"), constexprs=sizes)
    made = compile(source, target=GPUTarget("cuda", architecture, 32), options={"enable_fp_fusion": False})
    assert made.asm["ptx"]
"""


@pytest.mark.parametrize("architecture", [80, 90, 120])
def test_they_compile_for_gpus(architecture: int, tmp_path: Path) -> None:
    compiled(SCRIPT, tmp_path, architecture)
