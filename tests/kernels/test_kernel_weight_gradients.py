"""The gradients of groups' matrices, by whole groups and by parts of them, and who makes them in training."""

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gesso.nn import grouped_products
from gesso.nn.grouped_products import multiply_groups
from kernels.compiling import compiled
from kernels.test_kernel_grouped import BOUNDS, DEVICE, dtypes, random

pytest.importorskip("triton")

from gesso.kernels import grouped


def check(counts: list[int], columns: int, width: int, dtype: torch.dtype) -> None:
    grad = random(sum(counts), columns).to(DEVICE, dtype)
    x = random(sum(counts), width, seed=1).to(DEVICE, dtype)
    ends = torch.tensor(counts).cumsum(0).to(DEVICE, torch.int32)
    found = grouped.weight_gradient(grad, x, ends)
    assert found.dtype == dtype
    assert found.shape == (len(counts), columns, width)
    for own, (begin, end) in zip(found.double(), pairwise([0, *ends.tolist()]), strict=True):
        left, right = grad[begin:end].double(), x[begin:end].double()
        off = (own - left.T @ right).abs()
        assert bool((off <= BOUNDS[dtype] * (left.abs().T @ right.abs()) + 1e-7).all())
    assert torch.equal(grouped.weight_gradient(grad, x, ends), found)


@dtypes
@pytest.mark.parametrize(
    ("counts", "columns", "width"),
    [([0, 3, 33, 0, 70], 37, 51), ([5], 65, 130), ([16, 16, 16], 8, 64), ([0, 0], 4, 4), ([1200, 1], 150, 40)],
)
def test_they_are_sums_over_rows(counts: list[int], columns: int, width: int, dtype: torch.dtype) -> None:
    check(counts, columns, width, dtype)


@settings(max_examples=20, deadline=None)
@given(
    counts=st.lists(st.integers(0, 200), min_size=1, max_size=5).filter(any),
    columns=st.integers(1, 140),
    width=st.integers(1, 140),
    dtype=st.sampled_from(list(BOUNDS)),
    programs=st.integers(1, 40),
)
def test_parts_of_groups_of_any_size(
    counts: list[int], columns: int, width: int, dtype: torch.dtype, programs: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouped, "LEAST", 4)
        patch.setattr(grouped, "PROGRAMS", programs)
        check(counts, columns, width, dtype)


def test_groups_are_shared_where_they_are_few_and_long() -> None:
    assert grouped.program_of_sums(390_000, 8, 256, 192, 2).parts == 11, "six tiles of eight matrices"
    assert grouped.program_of_sums(390_000, 8, 192, 128, 2)[:2] == (64, 128), "three tiles, and not four"
    assert grouped.program_of_sums(390_000, 128, 1408, 2816, 2).parts == 1, "there are tiles enough"
    assert grouped.program_of_sums(4000, 8, 256, 192, 2).parts == 1, "rows are few"


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Has PyTorch multiply and our kernel add up few rows in parts; lists the gradients that it made."""
    for name in ("_by_own_kernel", "_by_torch"):
        monkeypatch.setattr(grouped_products, name, lambda *_: True)
    monkeypatch.setattr(grouped, "LEAST", 4)
    made, taken = [], grouped.weight_gradient

    def weight_gradient(*given: Tensor) -> Tensor:
        made.append(taken(*given))
        return made[-1]

    monkeypatch.setattr(grouped, "weight_gradient", weight_gradient)
    monkeypatch.setattr(grouped, "matmul", None)
    return made


def pair(kind: torch.dtype = torch.bfloat16) -> tuple[Tensor, Tensor, Tensor]:
    x, matrix = random(48, 24).to(DEVICE, kind), random(3, 16, 24, seed=1).to(DEVICE, kind)
    return x.requires_grad_(), torch.tensor([16, 16, 48], dtype=torch.int32, device=DEVICE), matrix.requires_grad_()


def one_by_one(x: Tensor, matrix: Tensor) -> Tensor:
    return torch.cat([x[:16] @ matrix[0].T, x[16:] @ matrix[2].T])


def near(found: Tensor, expected: Tensor) -> None:
    expected = expected.detach().float()
    torch.testing.assert_close(found.detach().float(), expected, rtol=0, atol=0.02 * float(expected.abs().max()))


def test_rows_and_their_gradients_are_multiplied_by_pytorch(shared: list[Tensor]) -> None:
    x, ends, matrix = pair()
    there = random(48, 16, seed=2).to(DEVICE).bfloat16()
    found, expected = multiply_groups(x, ends, matrix), one_by_one(x, matrix)
    near(found, expected)
    changes = torch.autograd.grad(found, (x, matrix), there)
    for change, right in zip(changes, torch.autograd.grad(expected, (x, matrix), there), strict=True):
        near(change, right)
    assert [made.data_ptr() for made in shared] == [changes[1].data_ptr()]
    multiply_groups(x, ends, matrix).sum().backward()
    assert len(shared) == 2, "of a change without memory of its own, too"


def test_it_is_made_by_pytorch_where_no_group_is_shared(shared: list[Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    x, ends, matrix = pair()
    multiply_groups(x, ends, matrix.detach()).backward(torch.ones(48, 16, device=DEVICE, dtype=x.dtype))
    monkeypatch.setattr(grouped, "LEAST", 16)
    multiply_groups(x, ends, matrix).backward(torch.ones(48, 16, device=DEVICE, dtype=x.dtype))
    assert not shared


@pytest.mark.usefixtures("shared")
def test_gradients_have_gradients() -> None:
    # PyTorch multiplies groups in no type that a check by differences could be made in.
    x, ends, matrix = pair(torch.float32 if DEVICE.type == "cpu" else torch.bfloat16)

    def penalty(out: Tensor) -> tuple[Tensor, ...]:
        changes = torch.autograd.grad(out.float().sin().sum(), (x, matrix), create_graph=True)
        return torch.autograd.grad(sum(change.float().square().sum() for change in changes), (x, matrix))

    for change, right in zip(penalty(multiply_groups(x, ends, matrix)), penalty(one_by_one(x, matrix)), strict=True):
        near(change, right)


SCRIPT = """
import sys
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from gesso.kernels.grouped import _add_up, program_of_sums

columns, width, groups, capability = map(int, sys.argv[2:])
kind = sys.argv[1]
size = program_of_sums(400_000, groups, columns, width, 4 if kind == "fp32" else 2)
sizes = dict(
    COLUMNS=columns, WIDTH=width, TILE=size.tile, ACROSS=size.across, ROWS=size.added, INTERPRETED=False
)
types = dict.fromkeys(("grad", "x"), "*" + kind) | {"ends": "*i32", "parts": "i32"}
types |= {"out": "*" + kind if size.parts == 1 else "*fp32"}
if size.parts == 1:
    sizes |= {"parts": 1}
types |= dict.fromkeys(sizes, "constexpr")
signature = {argument: types[argument] for argument in _add_up.arg_names}
aligned = {(i,): [["tt.divisibility", 16]] for i, kind in enumerate(signature.values()) if kind.startswith("*")}
source = ASTSource(_add_up, signature, constexprs=sizes, attrs=aligned)
made = compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": 4, "num_stages": 3})
print(made.metadata.shared)
print(made.asm["ptx"])
"""


@pytest.mark.parametrize(
    ("kind", "columns", "width", "groups", "capability", "matmul"),
    [
        ("bf16", 1408, 2816, 128, 86, "mma.sync"),
        ("bf16", 16, 2816, 128, 120, "mma.sync"),
        ("bf16", 1408, 2816, 128, 90, "wgmma.mma_async"),
        ("bf16", 256, 192, 8, 90, "wgmma.mma_async"),
        ("bf16", 192, 128, 8, 90, "wgmma.mma_async"),
        ("fp16", 192, 128, 8, 86, "mma.sync"),
        ("bf16", 256, 192, 8, 120, "mma.sync"),
        ("fp32", 256, 192, 8, 86, "fma.rn.f32"),
    ],
)
def test_they_compile(
    kind: str, columns: int, width: int, groups: int, capability: int, matmul: str, tmp_path: Path
) -> None:
    shared, _, code = compiled(SCRIPT, tmp_path, kind, columns, width, groups, capability).partition("\n")
    assert matmul in code
    assert int(shared) <= 99 << 10
