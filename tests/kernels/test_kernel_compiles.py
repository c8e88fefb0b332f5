"""What the interpreter forgives the compiler may refuse: kernels are compiled for a GPU that need not be here."""

from pathlib import Path

import pytest

from kernels.compiling import compiled

pytest.importorskip("triton")

SCRIPT = """
import sys
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from gesso.kernels.vocabulary import _score

kind, tile = sys.argv[1], int(sys.argv[2])
sizes = dict(TILE=tile, VOCAB_TILE=256, WIDTH=176, DEPTH=64, BLOCK=64, INTERPRETED=False)
pointers = dict.fromkeys(("hidden", "table", "shares"), "*" + kind) | {"best": "*i32"}
pointers |= dict.fromkeys(("inverse", "sums", "maxima", "weighted"), "*fp32")
numbers = dict.fromkeys(("rows", "tokens", "count", "vocab_tiles", "first"), "i32") | {"softcap": "fp32"}
known = pointers | numbers | dict.fromkeys(sizes, "constexpr")
source = ASTSource(_score, {name: known[name] for name in _score.arg_names}, constexprs=sizes)
made = compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8, "enable_fp_fusion": True})
print(made.asm["ptx"])
"""


@pytest.mark.parametrize(("kind", "tile", "matmul"), [("bf16", 128, "wgmma.mma_async"), ("bf16", 16, "mma.sync")])
def test_the_softmax_pass_compiles_for_hopper(kind: str, tile: int, matmul: str, tmp_path: Path) -> None:
    assert matmul in compiled(SCRIPT, tmp_path, kind, tile)
