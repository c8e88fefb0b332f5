"""The kernel's matmuls of groups of rows against multiplying each group by itself."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gesso.nn import grouped_products
from gesso.nn.experts import Experts, mix_experts
from gesso.nn.grouped_products import can_group, multiply_groups
from kernels.compiling import compiled

pytest.importorskip("triton")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
BOUNDS = {torch.float32: 2.0**-20, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}
"""Of the difference, in what the magnitudes of a sum's terms add up to: results are rounded once."""
dtypes = pytest.mark.parametrize("dtype", BOUNDS, ids=str)
SCRIPT = """
import sys
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from gesso.kernels.grouped import _multiply, program

kind, capability, rows, groups = sys.argv[1], *map(int, sys.argv[2:5])
size = program(rows, groups, 4 if kind == "fp32" else 2)
sizes = dict(
    WIDTH=2816, GROUPS=groups, TILE=size.rows, COLUMN_TILE=size.columns, DEPTH=size.depth, INTERPRETED=False
)
types = dict.fromkeys(("x", "matrix", "out"), "*" + kind) | {"ends": "*i32"}
turned = len(sys.argv) > 5
types |= dict.fromkeys(("rows", "columns", "groups", "of_group", "of_row", "of_column"), "i32")
one = {"of_row" if turned else "of_column": 1}
sizes |= one
types |= dict.fromkeys(sizes, "constexpr")
signature = {argument: types[argument] for argument in _multiply.arg_names}
aligned = {(i,): [["tt.divisibility", 16]] for i, kind in enumerate(signature.values()) if kind != "constexpr"}
source = ASTSource(_multiply, signature, constexprs=sizes, attrs=aligned)
options = {"num_warps": size.warps, "num_stages": size.stages}
made = compile(source, target=GPUTarget("cuda", capability, 32), options=options)
print(made.metadata.shared)
print(made.asm["ptx"])
"""


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def check(counts: list[int], columns: int, width: int, dtype: torch.dtype) -> None:
    from gesso.kernels import grouped

    matrices = random(len(counts), columns, width).to(DEVICE, dtype)
    x = random(sum(counts), width, seed=1).to(DEVICE, dtype)
    ends = torch.tensor(counts).cumsum(0).to(DEVICE, torch.int32)
    found = grouped.matmul(x, ends, matrices)
    assert found.dtype == dtype
    assert found.shape == (sum(counts), columns)
    for matrix, (begin, end) in zip(matrices.double(), pairwise([0, *ends.tolist()]), strict=True):
        own = x[begin:end].double()
        off = (found[begin:end].double() - own @ matrix.T).abs()
        assert bool((off <= BOUNDS[dtype] * (own.abs() @ matrix.T.abs()) + 1e-7).all())


@dtypes
@pytest.mark.parametrize(
    ("counts", "columns", "width"),
    [
        ([0, 3, 17, 0, 20], 37, 51),
        ([0, 1], 65, 64),
        ([0, 0, 70, 0], 64, 130),
        ([1, 1, 1, 1, 1, 1, 1], 7, 5),
        ([300, 20], 140, 96),
        ([9], 40, 16),
    ],
)
def test_every_group_is_multiplied_by_its_matrix(
    counts: list[int], columns: int, width: int, dtype: torch.dtype
) -> None:
    check(counts, columns, width, dtype)


@settings(max_examples=20, deadline=None)
@given(
    counts=st.lists(st.integers(0, 40), min_size=1, max_size=9).filter(any),
    columns=st.integers(1, 80),
    width=st.integers(1, 150),
    dtype=st.sampled_from(list(BOUNDS)),
)
def test_groups_of_any_size(counts: list[int], columns: int, width: int, dtype: torch.dtype) -> None:
    check(counts, columns, width, dtype)


def test_matrices_that_do_not_lie_one_behind_the_other() -> None:
    from gesso.kernels import grouped

    matrices, x = random(3, 20, 8).to(DEVICE), random(8, 6, seed=1).T.to(DEVICE)
    ends = torch.tensor([2, 2, 6], dtype=torch.int32, device=DEVICE)
    expected = torch.cat([x[:2] @ matrices[0].T, x[2:] @ matrices[2].T])
    torch.testing.assert_close(grouped.matmul(x, ends, matrices.mT.contiguous().mT), expected)


@pytest.fixture
def by_kernel() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouped_products, "_by_own_kernel", lambda *_: True)
        patch.setattr(grouped_products, "_by_torch", lambda *_: False)
        yield


@dtypes
@pytest.mark.usefixtures("by_kernel")
def test_experts_of_plain_weights_are_one_call(dtype: torch.dtype) -> None:
    experts = Experts(24, 10, 6).to(DEVICE, dtype)
    with torch.no_grad():
        for seed, matrix in enumerate(experts.parameters()):
            matrix.copy_(0.2 * random(*matrix.shape, seed=seed))
        x = random(13, 24, seed=5).to(DEVICE, dtype)
        weights = random(13, 2, seed=6).softmax(-1).to(DEVICE)
        chosen = random(13, 5, seed=7).topk(2).indices.to(DEVICE)
        expected = mix_experts(x.double(), weights.double(), chosen, 6, experts.double().projections())
        found = experts.to(dtype)(x, weights, chosen)
    torch.testing.assert_close(found.double(), expected, rtol=0.0, atol=2e-5 if dtype == torch.float32 else 0.03)


def test_it_serves_neither_other_types_nor_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gesso.kernels.usable", lambda device: True)
    x, matrix = random(4, 8), random(2, 6, 8)
    assert not can_group(x, matrix), "a gradient may be wanted"
    with torch.no_grad():
        assert can_group(x, matrix)
        assert not can_group(x, matrix.bfloat16())
        assert not can_group(x.double(), matrix.double())


@pytest.mark.usefixtures("by_kernel")
def test_gradients_are_those_of_one_by_one() -> None:
    ends = torch.tensor([16, 16, 48], dtype=torch.int32, device=DEVICE)
    x, matrix = (tensor.to(DEVICE).requires_grad_() for tensor in (random(48, 24), random(3, 20, 24, seed=1)))
    there = random(48, 20, seed=2).to(DEVICE)
    expected = torch.cat([x[:16] @ matrix[0].T, x[16:] @ matrix[2].T])
    found = multiply_groups(x, ends, matrix)
    torch.testing.assert_close(found, expected)
    changes = torch.autograd.grad(found, (x, matrix), there, retain_graph=True)
    for change, right in zip(changes, torch.autograd.grad(expected, (x, matrix), there), strict=True):
        torch.testing.assert_close(change, right)
    (alone,) = torch.autograd.grad(multiply_groups(x, ends, matrix.detach()), x, there)
    assert torch.equal(alone, changes[0])


@pytest.mark.usefixtures("by_kernel")
@pytest.mark.parametrize("learns", ["rows", "matrices", "both"])
def test_only_what_gradients_need_is_kept(learns: str) -> None:
    """Rows, which are many, are for the gradient of matrices, and those often are frozen."""
    ends = torch.tensor([16, 48], dtype=torch.int32, device=DEVICE)
    x, matrix = random(48, 24).to(DEVICE), random(2, 20, 24, seed=1).to(DEVICE)
    x.requires_grad_(learns != "matrices")
    matrix.requires_grad_(learns != "rows")
    shapes = []

    def keep(tensor: Tensor) -> Tensor:
        shapes.append(tensor.shape)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        multiply_groups(x, ends, matrix).sum().backward()
    assert (x.shape in shapes) == (learns != "rows")
    assert (matrix.shape in shapes) == (learns != "matrices")


@pytest.mark.usefixtures("by_kernel")
def test_gradients_have_gradients() -> None:
    ends = torch.tensor([3, 3, 5], dtype=torch.int32, device=DEVICE)
    x, matrix = (tensor.to(DEVICE).double().requires_grad_() for tensor in (random(5, 4), random(3, 6, 4, seed=1)))

    def matmul(x: Tensor, ends: Tensor, matrix: Tensor) -> Tensor:
        groups = x.split(ends.diff(prepend=ends.new_zeros(1)).tolist())
        return torch.cat([own @ weights.T for own, weights in zip(groups, matrix, strict=True)])

    with pytest.MonkeyPatch.context() as patch:  # the kernels' own numbers are too coarse for a check by differences
        patch.setattr("gesso.kernels.grouped.matmul", matmul)
        patch.setattr("gesso.kernels.grouped.weight_gradient", grouped_products._sums_of_products)
        assert torch.autograd.gradgradcheck(lambda x, matrix: multiply_groups(x, ends, matrix), (x, matrix))
        assert torch.autograd.gradgradcheck(lambda x: multiply_groups(x, ends, matrix.detach()).sin(), (x,))
        assert torch.autograd.gradgradcheck(lambda matrix: multiply_groups(x.detach(), ends, matrix).sin(), (matrix,))


@pytest.mark.parametrize(
    ("kind", "capability", "rows", "groups", "matmul"),
    [
        ("bf16", 90, 2048, 128, "wgmma.mma_async"),  # experts of a canvas
        ("bf16", 90, 16384, 128, "wgmma.mma_async"),  # of a long prompt
        ("bf16", 86, 16384, 128, "mma.sync"),
        ("fp16", 120, 2048, 128, "mma.sync"),
        ("fp32", 86, 16384, 128, "fma.rn.f32"),
    ],
)
@pytest.mark.parametrize("turned", [[], ["turned"]], ids=["", "turned"])
def test_it_compiles_within_the_shared_memory_of_gpus(
    kind: str, capability: int, rows: int, groups: int, matmul: str, turned: list[str], tmp_path: Path
) -> None:
    shared, _, code = compiled(SCRIPT, tmp_path, kind, capability, rows, groups, *turned).partition("\n")
    assert matmul in code
    assert int(shared) <= 99 << 10


@pytest.mark.parametrize(("rows", "learns", "own"), [(96, False, True), (99, False, False), (96, True, False)])
def test_few_rows_without_gradients_are_ours_where_pytorch_multiplies_too(
    rows: int, learns: bool, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gesso.kernels import grouped

    for name in ("_by_own_kernel", "_by_torch"):
        monkeypatch.setattr(grouped_products, name, lambda *_: True)
    x, matrix = random(rows, 16).to(DEVICE).bfloat16(), random(3, 8, 16).to(DEVICE).bfloat16().requires_grad_(learns)
    ends = torch.tensor([32, 64, rows], dtype=torch.int32, device=DEVICE)
    used, taken = [], grouped.matmul

    def matmul(*given: Tensor) -> Tensor:
        used.append(given)
        return taken(*given)

    monkeypatch.setattr(grouped, "matmul", matmul)
    found = multiply_groups(x, ends, matrix)
    assert bool(used) == own
    expected = torch.cat([part @ each.T for part, each in zip(x.split([32, 32, rows - 64]), matrix, strict=True)])
    torch.testing.assert_close(found, expected)
