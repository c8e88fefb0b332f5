"""The kernel that attends between two places, against plain attention over just those keys."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from gesso.nn.attention import attend_all

pytest.importorskip("triton")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def problem(
    tokens: int, heads: int, groups: int, width: int, room: int, dtype: torch.dtype, layers: int = 1
) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(tokens + room)
    q = torch.randn(tokens, heads, width, generator=generator)
    kv = torch.randn(2, groups, room, width, generator=generator)
    return q.to(DEVICE, dtype), kv.to(DEVICE, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("stretches", [1, 3, None])
@pytest.mark.parametrize(
    ("tokens", "heads", "groups", "width", "room", "begin", "end"),
    [
        (1, 4, 2, 16, 64, 0, 1),
        (1, 4, 1, 32, 200, 3, 190),
        (16, 4, 4, 24, 130, 60, 130),
        (40, 6, 2, 16, 300, 17, 161),
        (8, 2, 2, 64, 90, 0, 90),
        (3, 8, 2, 128, 70, 5, 6),
    ],
)
def test_it_equals_attention_over_those_keys(
    tokens: int,
    heads: int,
    groups: int,
    width: int,
    room: int,
    begin: int,
    end: int,
    stretches: int | None,
    dtype: torch.dtype,
) -> None:
    from gesso.kernels.attention import attend_between

    q, kv = problem(tokens, heads, groups, width, room, dtype)
    q *= width**-0.5
    kv[:, :, :begin] = kv[:, :, end:] = torch.nan  # nothing else is read
    ends = torch.tensor([begin, end], device=DEVICE)
    found = attend_between(q, kv, ends, stretches=stretches)
    expected = attend_all(q.float(), *kv[:, :, begin:end].float().unbind())
    assert found.dtype == dtype
    off = 1e-5 if dtype == torch.float32 else 0.02
    torch.testing.assert_close(found.float(), expected, atol=off, rtol=off)


def test_one_call_serves_every_number_of_keys() -> None:
    """The ends are numbers in memory: what is launched does not depend on them."""
    from gesso.kernels.attention import attend_between

    q, kv = problem(5, 4, 2, 16, 128, torch.float32)
    ends = torch.zeros(2, dtype=torch.int64, device=DEVICE)
    for begin, end in ((0, 2), (7, 128), (30, 31)):
        ends.copy_(torch.tensor([begin, end]))
        expected = attend_all(q, *kv[:, :, begin:end].unbind())
        torch.testing.assert_close(attend_between(q, kv, ends), expected, atol=1e-5, rtol=1e-5)


SCRIPT = """
import sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from gesso.kernels.attention import _attend, _join

kind, width, tile, keys, stretches, warps = sys.argv[1], *map(int, sys.argv[2:])
element = {"bf16": "*bf16", "fp32": "*fp32"}[kind]
sizes = dict(HEADS=16, SHARED=2, WIDTH=width, PADDED=width, TILE=tile, KEYS=keys, STRETCHES=stretches)
sizes["INTERPRETED"] = False
known = dict.fromkeys(("q", "kv"), element) | {"ends": "*i64", "sums": "*fp32", "rows": "i32"}
known |= {"parts": element if stretches == 1 else "*fp32"} | dict.fromkeys(("of_kind", "of_group", "of_key"), "i32")
known |= dict.fromkeys(sizes, "constexpr")
source = ASTSource(_attend, {name: known[name] for name in _attend.arg_names}, constexprs=sizes)
options = {"num_warps": warps, "num_stages": 2, "enable_fp_fusion": True}
made = compile(source, target=GPUTarget("cuda", 90, 32), options=options)
print(made.asm["ptx"])
sizes = dict(WIDTH=width, PADDED=width, STRETCHES=5, ROOM=8)
known = {"parts": "*fp32", "sums": "*fp32", "out": element, "rows": "i32"} | dict.fromkeys(sizes, "constexpr")
source = ASTSource(_join, {name: known[name] for name in _join.arg_names}, constexprs=sizes)
compile(source, target=GPUTarget("cuda", 90, 32), options=options | {"num_warps": 4})
print(made.metadata.shared)
"""


@pytest.mark.parametrize(
    ("kind", "width", "tile", "keys", "stretches", "warps", "matmul"),
    [
        ("bf16", 256, 128, 64, 2, 8, "wgmma.mma_async"),
        ("bf16", 512, 64, 32, 2, 8, "wgmma.mma_async"),
        ("bf16", 512, 16, 32, 32, 4, "mma.sync"),
        ("bf16", 256, 128, 64, 1, 8, "wgmma.mma_async"),
        ("fp32", 512, 32, 16, 2, 8, "fma"),
    ],
)
def test_it_compiles_for_hopper(
    kind: str, width: int, tile: int, keys: int, stretches: int, warps: int, matmul: str, tmp_path: Path
) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    sizes = [str(number) for number in (width, tile, keys, stretches, warps)]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, kind, *sizes], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert matmul in done.stdout
    assert int(done.stdout.split()[-1]) <= 227 << 10, "the shared memory that a program may have"
