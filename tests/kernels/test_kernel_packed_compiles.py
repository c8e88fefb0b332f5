"""The kernel for packed weights compiles for GPUs that need not be here, and fits their shared memory."""

from pathlib import Path

import pytest

from kernels.compiling import compiled

pytest.importorskip("triton")

SCRIPT = """
import sys
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from gesso.kernels.packed import COLUMN_TILE, _multiply, blocks

name, kind, capability, rows, groups = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
group = {"int4": 64, "nf4": 64, "nvfp4": 16}.get(name, 1)
tile, depth, stages = blocks(rows, groups, group, 4 if kind == "fp32" else 2)
sizes = dict(
    NAME=name, WIDTH=2816, GROUP=group, GROUPS=groups, TILE=tile, COLUMN_TILE=COLUMN_TILE, DEPTH=depth // 2,
    INTERPRETED=False,
)
types = dict.fromkeys(("x", "out"), "*" + kind) | {"codes": "*i16", "ends": "*i32"}
types |= dict.fromkeys(("rows", "columns", "groups"), "i32") | dict.fromkeys(sizes, "constexpr")
types |= {
    "int4": {"scales": "*bf16", "offsets": "*bf16"},
    "nf4": {"scales": "*bf16", "levels": "*" + kind},
    "nvfp4": {"scales": "*i8", "factors": "*fp32"},
}.get(name, {"factors": "*fp32"})
missing = dict.fromkeys((argument for argument in _multiply.arg_names if argument not in types))
types |= dict.fromkeys(missing, "constexpr")
signature = {argument: types[argument] for argument in _multiply.arg_names}
aligned = {(i,): [["tt.divisibility", 16]] for i, kind in enumerate(signature.values()) if kind != "constexpr"}
source = ASTSource(_multiply, signature, constexprs=sizes | missing, attrs=aligned)
options = {"num_warps": 4, "num_stages": stages}
made = compile(source, target=GPUTarget("cuda", capability, 32), options=options)
print(made.metadata.shared)
print(made.asm["ptx"])
"""


def made(tmp_path: Path, *arguments: object) -> tuple[int, str]:
    """Bytes of shared memory, and the code."""
    shared, _, code = compiled(SCRIPT, tmp_path, *arguments).partition("\n")
    return int(shared), code


@pytest.mark.parametrize("name", ["int8", "fp8", "int4", "nf4", "nvfp4"])
@pytest.mark.parametrize(
    ("kind", "capability", "rows", "groups", "matmul"),
    [
        ("bf16", 90, 2048, 128, "wgmma.mma_async"),  # experts of a canvas
        ("bf16", 86, 4096, 1, "mma.sync"),  # a linear layer and a long prompt
    ],
)
def test_it_compiles(
    name: str, kind: str, capability: int, rows: int, groups: int, matmul: str, tmp_path: Path
) -> None:
    shared, code = made(tmp_path, name, kind, capability, rows, groups)
    assert matmul in code
    assert shared <= 99 << 10


@pytest.mark.parametrize("kind", ["fp16", "fp32"])
def test_it_compiles_for_other_rows(kind: str, tmp_path: Path) -> None:
    shared, _ = made(tmp_path, "int4", kind, 86, 256, 1)
    assert shared <= 99 << 10
