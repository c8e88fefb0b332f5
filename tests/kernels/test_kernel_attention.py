"""The kernel that attends between two places, against plain attention over just those keys."""

import mmap
from pathlib import Path

import pytest
import torch
from torch import Tensor

from gesso.models import places
from gesso.models.places import Places
from gesso.nn import attention
from gesso.nn.attention import attend_all, attend_causal
from kernels.compiling import compiled

pytest.importorskip("triton")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def problem(tokens: int, heads: int, groups: int, width: int, room: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
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
    kv[:, :, :begin] = kv[:, :, end:] = torch.nan  # nothing else is read
    ends = torch.tensor([begin, end], device=DEVICE)
    found = attend_between(q, kv[0], kv[1], ends, stretches=stretches)
    expected = attend_all(q.float(), *kv[:, :, begin:end].float().unbind())
    check(found, expected, dtype)


def check(found: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
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
        expected = attend_all(q, kv[0, :, begin:end], kv[1, :, begin:end])
        check(attend_between(q, kv[0], kv[1], ends), expected, torch.float32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("window", [None, 1, 9, 40])
@pytest.mark.parametrize(("tokens", "keys"), [(1, 60), (37, 37), (30, 95), (130, 200)])
def test_causal_attention_is_the_plain_one(
    tokens: int, keys: int, window: int | None, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    q, kv = problem(tokens, 6, 2, 32, keys, dtype)
    with torch.no_grad():
        expected = attend_causal(q.float(), *kv.float().unbind(), window)
        monkeypatch.setattr(attention, "usable", lambda device: True)
        found = attend_causal(q, kv[0], kv[1], window)
    check(found, expected, dtype)


def test_keys_and_values_may_lie_as_they_like() -> None:
    from gesso.kernels.attention import attend_between

    q, kv = problem(4, 4, 2, 16, 30, torch.float32)
    ends = torch.tensor([0, 30], device=DEVICE)
    turned = kv[1].transpose(0, 1).contiguous().transpose(0, 1)
    assert turned.stride() != kv[0].stride()
    found = attend_between(q, kv[0], turned, ends)
    assert torch.equal(found, attend_between(q, kv[0], kv[1], ends))


@pytest.mark.parametrize("stretches", [2, 5])
@pytest.mark.parametrize("window", [None, 20])
def test_queries_that_see_nothing_of_a_stretch_are_whole(stretches: int, window: int | None) -> None:
    from gesso.kernels.attention import attend_between

    q, kv = problem(90, 4, 2, 16, 130, torch.float32)
    ends = torch.tensor([0, 130], device=DEVICE)
    found = attend_between(q, kv[0], kv[1], ends, causal=True, window=window, stretches=stretches)
    check(found, attend_causal(q, kv[0], kv[1], window), torch.float32)


@pytest.mark.skipif(DEVICE.type == "cuda", reason="no memory of a device is sparse")
def test_a_prompt_of_more_numbers_than_32_bits_count(tmp_path: Path) -> None:
    """Five tokens whose numbers lie 2 ** 29 apart, as if each had that many heads: the fifth is past 32 bits."""
    from gesso.kernels.attention import _attend

    heads, width, tokens = 1 << 25, 16, 5
    q, kv = problem(tokens, 1, 1, width, 32, torch.float32)
    size, before = (1 << 34) + 4096, 1 << 33  # what a wrong offset meets is there, too
    with (tmp_path / "sparse").open("w+b") as file:  # takes room only where it is written
        file.truncate(size)
        room = mmap.mmap(file.fileno(), size)

    def token(number: int) -> Tensor:
        offset = before + 4 * number * heads * width
        return torch.frombuffer(room, dtype=torch.float32, count=width, offset=offset)

    for number in range(tokens):
        token(number).copy_(q[number, 0])
    _attend[(1, 1, 1)](
        token(0),
        kv[0],
        kv[1],
        torch.tensor([0, 32]),
        token(0),
        token(0),
        tokens,
        0,
        *kv[0].stride()[:2],
        HEADS=heads,
        SHARED=1,
        WIDTH=width,
        PADDED=16,
        TILE=16,
        KEYS=16,
        STRETCHES=1,
        CAUSAL=False,
        WINDOW=0,
        INTERPRETED=True,
    )
    found = torch.stack([token(number) for number in range(tokens)])
    check(found[:, None], attend_all(q, kv[0], kv[1]), torch.float32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("tokens", "groups", "width"), [(1, 2, 16), (7, 3, 24)])
def test_keys_are_written_behind_the_end_and_seen(
    tokens: int, groups: int, width: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the pass does that reads places without a kernel."""
    q, kv = problem(tokens, 2 * groups, groups, width, 40, dtype)
    k, v = torch.randn(2, tokens, groups, width, generator=torch.Generator().manual_seed(1)).to(DEVICE, dtype)
    found = []
    for kernel in (False, True):
        where, own = Places(3, DEVICE), kv.clone()
        where.update(30, [(0, 30), (4, 21), (0, 30)])
        monkeypatch.setattr(places, "usable", lambda device, kernel=kernel: kernel)
        out = where.attend(1, own, q, k, v)
        found.append((own, out.float()))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[1][0][0, :, 21 : 21 + tokens], k.transpose(0, 1))
    assert torch.equal(found[1][0][1, :, 21 + tokens :], kv[1, :, 21 + tokens :]), "what stands behind is untouched"
    check(found[1][1].to(dtype), found[0][1], dtype)


SCRIPT = """
import sys
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from gesso.kernels.appending import _append
from gesso.kernels.attention import _attend, _join, blocks, padded_width

architecture, kind, width, rows, stretches, causal = int(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:])
element, itemsize = {"bf16": ("*bf16", 2), "fp32": ("*fp32", 4)}[kind]
tile, keys, warps = blocks(rows, width, itemsize, roomy=architecture in (80, 90))
shape = dict(WIDTH=width, PADDED=padded_width(width), STRETCHES=stretches)
options = {"num_stages": 2, "enable_fp_fusion": True}
pointers = dict.fromkeys(("q", "k", "v", "kv"), element) | {"ends": "*i64", "sums": "*fp32", "out": element}
pointers |= {"parts": element if stretches == 1 else "*fp32"}

def made(kernel, numbers, sizes, warps):
    known = pointers | dict.fromkeys(numbers, "i32") | dict.fromkeys(sizes, "constexpr")
    aligned = [*pointers, "of_group", "of_key"]  # as at a call, where pointers and strides are multiples of 16
    attributes = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(kernel.arg_names) if name in aligned}
    source = ASTSource(kernel, {name: known[name] for name in kernel.arg_names}, constexprs=sizes, attrs=attributes)
    return compile(source, target=GPUTarget("cuda", architecture, 32), options=options | {"num_warps": warps})

sizes = dict(HEADS=16, SHARED=2, TILE=tile, KEYS=keys, CAUSAL=bool(causal), WINDOW=1024 * causal, INTERPRETED=False)
attend = made(_attend, ("tokens", "behind", "of_group", "of_key"), shape | sizes, warps)
print(attend.asm["ptx"])
made(_join, ("rows",), shape | {"ROOM": 32}, 4)
made(_append, ("of_kind", "of_group", "of_key"), dict(GROUPS=8, WIDTH=width, PADDED=8 * width), 4)
print(attend.metadata.shared)
"""


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize(
    ("architecture", "kind", "width", "rows", "stretches", "matmul"),
    [
        (90, "bf16", 256, 512, 5, "wgmma.mma_async"),
        (90, "bf16", 256, 512, 1, "wgmma.mma_async"),
        (90, "bf16", 512, 2048, 5, "wgmma.mma_async"),
        (90, "bf16", 512, 8, 32, "mma.sync"),
        (90, "fp32", 512, 2048, 2, "fma"),
        (80, "bf16", 512, 2048, 5, "mma.sync"),
        (89, "bf16", 256, 512, 5, "mma.sync"),
        (89, "bf16", 512, 2048, 5, "mma.sync"),
        (89, "fp32", 256, 512, 5, "fma"),
        (120, "bf16", 512, 8, 32, "mma.sync"),
        (120, "fp32", 512, 2048, 2, "fma"),
    ],
)
def test_it_compiles_within_the_shared_memory_of_gpus(
    architecture: int, kind: str, width: int, rows: int, stretches: int, matmul: str, causal: int, tmp_path: Path
) -> None:
    out = compiled(SCRIPT, tmp_path, architecture, kind, width, rows, stretches, causal)
    assert matmul in out
    assert int(out.split()[-1]) <= {90: 227, 80: 163}.get(architecture, 99) << 10
