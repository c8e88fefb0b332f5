"""The kernel's matmuls of groups of rows against multiplying each group by itself."""

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gesso.nn import grouped_products
from gesso.nn.experts import Experts, mix_experts
from gesso.nn.grouped_products import can_group
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

kind, capability, rows, groups = sys.argv[1], *map(int, sys.argv[2:])
size = program(rows, groups, 4 if kind == "fp32" else 2)
sizes = dict(
    WIDTH=2816, GROUPS=groups, TILE=size.rows, COLUMN_TILE=size.columns, DEPTH=size.depth, INTERPRETED=False
)
types = dict.fromkeys(("x", "matrix", "out"), "*" + kind) | {"ends": "*i32"}
types |= dict.fromkeys(("rows", "columns", "groups"), "i32") | dict.fromkeys(sizes, "constexpr")
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


@dtypes
def test_experts_of_plain_weights_are_one_call(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouped_products, "_own_kernel", lambda *_: True)
    monkeypatch.setattr(grouped_products, "_torch_groups", lambda *_: False)
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
def test_it_compiles_within_the_shared_memory_of_gpus(
    kind: str, capability: int, rows: int, groups: int, matmul: str, tmp_path: Path
) -> None:
    shared, _, code = compiled(SCRIPT, tmp_path, kind, capability, rows, groups).partition("\n")
    assert matmul in code
    assert int(shared) <= 99 << 10
