"""Kernels for CPUs: products within the bound of 8-bit activations, bits that depend on nothing but the row."""

import importlib.util
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import gesso
from gesso.nn.quant import base
from gesso.nn.quant.base import Format, dequantize
from gesso.nn.quant.fp8 import FP8
from gesso.nn.quant.integer import Int4, Int8
from gesso.nn.quant.layers import QuantizedExperts, QuantizedLinear
from gesso.nn.quant.nf4 import NF4

if importlib.util.find_spec("llvmlite") is None:
    pytest.skip("llvmlite is not installed", allow_module_level=True)

from gesso.kernels import host
from gesso.kernels.host import library, packed, row_jobs
from gesso.kernels.host.activations import BLOCK, GROUP
from gesso.kernels.host.dots import Dot
from gesso.kernels.host.threads import share_out
from kernels.packed_forms import ROWS, bound, forms, levels, random

pytestmark = pytest.mark.numbers

KINDS: list[Dot] = ["amx", "vnni512", "vnni256", "avx2", "plain"]
WIDTH = 256


def kinds() -> list[Dot]:
    """What this processor can do: each needs what the next one does and more."""
    return KINDS[KINDS.index(library.best_dot()) :]


def test_rows_of_another_width_are_refused() -> None:
    parts = Int4().quantize(random(32, 128))
    for width in (64, 192):
        with pytest.raises(ValueError, match=f"rows have {width} features, the int4 matrices 128"):
            packed.matmul(random(2, width), "int4", parts)


@forms
def test_products_are_those_of_rounded_activations(form: Format) -> None:
    parts, x = form.quantize(random(40, WIDTH) * 0.05), random(ROWS, WIDTH, seed=1)
    weight = levels(form, parts)
    found = packed.matmul(x, form.kernel, parts)
    error = (found.double() - x.double() @ weight.double().T).abs()
    assert (error <= bound(x, weight)).all()
    assert error.max() > 0  # they are rounded, or their sums


def test_fp8_rounds_no_activation_and_reads_every_code_exactly() -> None:
    """A row of x that is one at one feature gives that feature's weights."""
    bits = torch.arange(256, dtype=torch.uint8)
    codes = bits[(bits & 127) != 127].view(torch.float8_e4m3fn)  # but for both that are no number
    weight = torch.cat((codes, codes[:2])).view(4, 64)
    scales = torch.tensor([1.0, 0.5, 2.0, 1.0])
    found = packed.matmul(torch.eye(64), "fp8", (weight, scales))
    assert torch.equal(found, (weight.float() * scales[:, None]).T)
    x, parts = random(ROWS, WIDTH, seed=1), FP8().quantize(random(40, WIDTH) * 0.05)
    exact = x.double() @ dequantize(parts, FP8(), torch.float64).T
    assert (packed.matmul(x, "fp8", parts) - exact).abs().max() < 1e-5


@pytest.mark.parametrize("blocks", [1, 3, 6])
def test_fp32_rounds_nothing_and_has_the_same_bits_by_every_way(blocks: int) -> None:
    x, weight = random(ROWS, 64 * blocks, seed=1), random(43, 64 * blocks)
    found = [packed.matmul(x, "fp32", (weight,), dot=kind) for kind in kinds()]
    assert all(torch.equal(found[0], other) for other in found[1:])
    assert (found[0] - x.double() @ weight.double().T).abs().max() < 1e-4


@forms
def test_whole_numbers_come_out_exactly(form: Format) -> None:
    """Activations that are whole steps lose nothing: what is left is fp32's rounding of sixteen lanes."""
    parts = form.quantize(random(24, WIDTH) * 0.05)
    generator = torch.Generator().manual_seed(2)
    x = torch.randint(-126, 127, (ROWS, WIDTH), generator=generator).float()
    x[:, ::BLOCK] = 127.0
    weight = levels(form, parts).double()
    found = packed.matmul(x, form.kernel, parts)
    magnitude = x.abs().double() @ (weight.abs() + weight.abs().amax(dim=1, keepdim=True)).T
    assert ((found.double() - x.double() @ weight.T).abs() <= 2e-6 * magnitude).all()


@forms
@pytest.mark.parametrize("blocks", [1, 2, 3, 5, 6, 8, 10, 11, 16, 19, 22, 33])
def test_one_row_has_the_bits_that_it_has_among_others(form: Format, blocks: int) -> None:
    """Scales and offsets are multiplied eight blocks at a time, of which the last may stand in two, or sixteen, and few
    of a last chunk by themselves; 11 rows leave one of four."""
    if blocks % 2 and form == Int4(128):
        pytest.skip("two blocks share a scale")
    parts, x = form.quantize(random(11, 64 * blocks)), random(5, 64 * blocks, seed=1)
    for kind in kinds():
        whole = packed.matmul(x, form.kernel, parts, dot=kind)
        assert all(
            torch.equal(packed.matmul(x[i : i + 1], form.kernel, parts, dot=kind)[0], whole[i]) for i in range(5)
        )
        weight = levels(form, parts)
        assert ((whole.double() - x.double() @ weight.double().T).abs() <= bound(x, weight)).all()


@forms
@pytest.mark.parametrize("width", [WIDTH, 64, 704, 1152])
def test_ways_to_multiply_bytes_give_the_same_bits(form: Format, width: int) -> None:
    """Whatever a processor has, a model says the same; chunks of blocks, and what is left of them, differ by way."""
    if width % 128 and form == Int4(128):
        pytest.skip("two blocks share a scale")
    parts, x = form.quantize(random(37, width)), random(ROWS, width, seed=1)
    results = [packed.matmul(x, form.kernel, parts, dot=kind) for kind in kinds()]
    assert all(torch.equal(results[0], result) for result in results)


@forms
@given(count=st.integers(1, 40), start=st.integers(0, 7), threads=st.integers(1, 3))
def test_a_row_does_not_depend_on_those_beside_it(form: Format, count: int, start: int, threads: int) -> None:
    parts, x = form.quantize(random(70, WIDTH)), random(48, WIDTH, seed=1)
    whole, before = packed.matmul(x, form.kernel, parts), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        part = packed.matmul(x[start : start + count], form.kernel, parts)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(part, whole[start : start + count])


@forms
def test_groups_are_multiplied_by_their_own_matrix(form: Format) -> None:
    made = [form.quantize(random(33, WIDTH, seed=i)) for i in range(5)]
    stacked = tuple(torch.stack(parts) for parts in zip(*made, strict=True))
    counts = (3, 0, 17, 1, 0)
    x = random(sum(counts), WIDTH, seed=9)
    ends = torch.tensor(counts).cumsum(0)
    expected = [packed.matmul(rows, form.kernel, parts) for rows, parts in zip(x.split(counts), made, strict=True)]
    for kind in kinds():
        assert torch.equal(packed.matmul(x, form.kernel, stacked, ends, dot=kind), torch.cat(expected))


@forms
@pytest.mark.parametrize("alone", [1 << 17, 0], ids=["one thread", "threads"])
@pytest.mark.parametrize("kind", kinds())
def test_rows_that_groups_share_are_told_and_need_not_be_laid_out(
    form: Format, kind: Dot, alone: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups of all sizes that are cut otherwise: few rows, tiles, and some rows beyond a tile."""
    monkeypatch.setattr(row_jobs, "ALONE", alone)
    x, sizes = random(9, WIDTH), (0, 1, 3, 5, 16, 17, 18, 19, 20, 21, 35, 36)
    matrices = [form.quantize(random(18, WIDTH, seed=i)) for i in range(len(sizes))]
    parts = tuple(torch.stack(part) for part in zip(*matrices, strict=True))
    ends = torch.tensor(sizes).cumsum(0)
    sources = torch.randint(9, (int(ends[-1]),), generator=torch.Generator().manual_seed(2))
    found = packed.matmul(x, form.kernel, parts, ends, sources, dot=kind)
    assert torch.equal(found, packed.matmul(x[sources], form.kernel, parts, ends, dot=kind))
    begin = 0
    for own, end in zip(matrices, ends.tolist(), strict=True):
        for row in range(begin, end):
            assert torch.equal(found[row], packed.matmul(x[sources[row], None], form.kernel, own, dot=kind)[0])
        begin = end


def test_no_rows_give_no_rows() -> None:
    parts = Int8().quantize(random(8, 64))
    assert packed.matmul(random(0, 64), "int8", parts).shape == (0, 8)


@forms
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_stays_so_in_its_row_alone(form: Format, bad: float) -> None:
    parts, x = form.quantize(random(8, WIDTH)), random(5, WIDTH, seed=1)
    clean = packed.matmul(x, form.kernel, parts)
    x[2, 70] = bad
    found = packed.matmul(x, form.kernel, parts)
    assert not found[2].isfinite().any()
    assert torch.equal(found[[0, 1, 3, 4]], clean[[0, 1, 3, 4]])


@forms
def test_zeros_give_zeros(form: Format) -> None:
    parts = form.quantize(random(8, WIDTH))
    assert (packed.matmul(torch.zeros(3, WIDTH), form.kernel, parts) == 0).all()
    nothing = form.quantize(torch.zeros(8, WIDTH))
    assert (packed.matmul(random(3, WIDTH), form.kernel, nothing) == 0).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_activations_are_rounded_once_more_at_the_end(dtype: torch.dtype) -> None:
    parts, x = Int4().quantize(random(16, WIDTH)), random(4, WIDTH).to(dtype)
    assert torch.equal(packed.matmul(x, "int4", parts), packed.matmul(x.float(), "int4", parts).to(dtype))


@pytest.mark.parametrize(
    ("form", "width", "reads"),
    [
        (Int8(), 64, True),
        (Int8(), 96, False),
        (Int4(32), 96, False),
        (Int4(32), 128, True),
        (Int4(128), 384, True),
        (NF4(), 32, False),
    ],
    ids=["int8", "int8-odd", "int4-32-odd", "int4-32", "int4-128", "nf4-odd"],
)
def test_what_no_kernel_reads_is_dequantized(form: Format, width: int, reads: bool) -> None:
    parts, x = form.quantize(random(16, width)), random(3, width, seed=1)
    assert host.reads(form.kernel, parts) is reads
    with torch.no_grad():
        found = base.matmul(x, parts, form)
    exact = x @ dequantize(parts, form, torch.float32).T
    assert torch.allclose(found, exact, atol=1e-4) is not reads


def test_layers_and_experts_use_it_where_no_gradient_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    multiply = packed.multiply

    def counted(*args: Any) -> tuple[torch.Tensor, ...]:
        if args[0].found != "fp32":  # what was dequantized
            calls.append(1)
        return multiply(*args)

    monkeypatch.setattr(packed, "multiply", counted)
    linear, experts = QuantizedLinear(64, 32, form=Int8()), QuantizedExperts(64, 64, 4, Int4())
    for module in (linear, experts):
        for part in module.buffers():
            part.zero_()
    x = random(5, 64)
    chosen = torch.zeros(5, 2, dtype=torch.int64)
    with torch.no_grad():
        linear(x)
        experts(x, torch.ones(5, 2), chosen)
    assert len(calls) == 3  # all experts at once
    linear(x)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        linear(x)
    assert len(calls) == 3


def test_rows_that_fill_a_pass_up_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    multiply = packed.multiply

    def counted(*args: Any) -> tuple[torch.Tensor, ...]:
        out = multiply(*args)
        seen.append(len(out[0]))
        return out

    monkeypatch.setattr(packed, "multiply", counted)
    linear, experts = QuantizedLinear(64, 32, form=Int8()), QuantizedExperts(64, 64, 4, Int4())
    generator = torch.Generator().manual_seed(0)
    for module in (linear, experts):
        for part in module.buffers():
            if part.is_floating_point():
                part.fill_(0.01)
            else:
                part.random_(0, 100, generator=generator)
    x = random(2, 64)
    filled = torch.cat((x, x[-1:], x[-1:]))
    weights, chosen = random(2, 2, seed=1), torch.tensor([[0, 1], [2, 1]])
    with torch.no_grad():
        assert torch.equal(linear(filled), linear(x)[[0, 1, 1, 1]])
        assert seen == [2, 2]
        found = experts(filled, weights[[0, 1, 1, 1]], chosen[[0, 1, 1, 1]])
        assert torch.equal(found, experts(x, weights, chosen)[[0, 1, 1, 1]])
        assert seen == [2, 2, 4, 4, 4, 4]
        linear(random(17, 64)[:1].expand(17, 64).contiguous())
        assert seen[-1] == 17  # more than fills anything up: nobody looks


def test_shares_cover_everything_once_and_errors_come_through() -> None:
    seen: list[tuple[int, int]] = []
    lock = threading.Lock()

    def note(_: int, begin: int, end: int) -> None:
        with lock:
            seen.append((begin, end))

    share_out(note, 10, 4)
    assert sorted(seen) == [(0, 2), (2, 5), (5, 7), (7, 10)]

    def fail(thread: int, begin: int, end: int) -> None:
        if thread == 1:
            raise ValueError("of the second")

    with pytest.raises(ValueError, match="of the second"):
        share_out(fail, 10, 2)


FORKED = """
import ctypes, os, signal
from gesso.kernels.host.threads import Work, products_by, share_out, share_units
from gesso.kernels.host.openmp import take_units

ALL = [0, 1, *sorted([*range(9), *range(9)])]

def shares():
    done, units = [], []
    share_out(lambda thread, *_: done.append(thread), 4, 2)
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)
    kernel = kind(lambda _, thread, begin, end: units.extend(range(begin, end)))
    with products_by(2, 100_000_000):
        share_units(Work(kernel, ctypes.cast(kernel, ctypes.c_void_p).value), 0, 9, 2)
    take_units(Work(kernel, ctypes.cast(kernel, ctypes.c_void_p).value), 0, 9, 2)
    return sorted(done) + sorted(units)

assert shares() == ALL
child = os.fork()
if not child:
    signal.alarm(20)  # a child that waits for a thread that it has not ends
    os._exit(0 if shares() == ALL else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_threads_of_its_own() -> None:
    """In a process of its own, because a fork takes over whatever locks the threads of this one hold."""
    paths = os.pathsep.join(filter(None, (str(Path(gesso.__file__).parents[1]), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-W", "ignore", "-c", FORKED]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, timeout=120, check=False)
    assert done.returncode == 0


def rounded_rows(x: torch.Tensor, kind: Dot) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes [M, G, 64] and scales [M, G, 1] of rounded rows, however they are laid out."""
    rounded, (rows, width) = packed.round_rows(x, "int8", kind), x.shape
    groups = -(-rows // GROUP)
    size = groups * GROUP * width
    straight = rounded.held[:size].view(-1, width).flip(0)[:rows]
    turned = rounded.held[size : 2 * size].view(groups, -1, GROUP, 4)
    assert torch.equal(
        straight.view(rows, -1, BLOCK),
        turned.transpose(1, 2).reshape(groups * GROUP, -1, BLOCK)[:rows],
    )
    scales = rounded.held[2 * size :].view(torch.float32)
    scales = scales[: size // BLOCK].view(groups, -1, GROUP).transpose(1, 2).flatten(0, 1)
    return turned.transpose(1, 2).reshape(groups * GROUP, -1, BLOCK)[:rows], scales[:rows, :, None]


@pytest.mark.parametrize("kind", kinds())
def test_activations_are_rounded_to_the_nearest_code_and_tiny_blocks_to_zero(kind: Dot) -> None:
    x = random(6, WIDTH) * torch.tensor([[1.0], [1e30], [1e-30], [1.0], [1e-40], [0.0]])
    x[3] = torch.arange(WIDTH) % 255 - 127.0
    x[3, 1::2] += 0.5  # ties, which go to the even one
    x[3, ::BLOCK] = 127.0
    codes, scales = rounded_rows(x, kind)
    blocks = x.unflatten(1, (-1, BLOCK))
    most = blocks.abs().amax(dim=2, keepdim=True)
    assert torch.equal(scales, most / 127)
    inverse = torch.where(most < 2.0**-120, 0.0, 127 / most)
    assert torch.equal(codes.float(), (blocks * inverse).round())


def test_tiles_and_pytorchs_own_products_leave_one_another_alone() -> None:
    """Both may configure the same registers (AMX); where a processor has none, nothing is shared."""
    parts, x = Int8().quantize(random(40, WIDTH)), random(ROWS, WIDTH, seed=1)
    left, right = random(70, 96).bfloat16(), random(50, 96, seed=1).bfloat16()
    own, others = packed.matmul(x, "int8", parts), left @ right.T
    for _ in range(3):
        assert torch.equal(packed.matmul(x, "int8", parts), own)
        assert torch.equal(left @ right.T, others)
        assert torch.equal(packed.matmul(x[:1], "int8", parts), own[:1])
        assert torch.equal(left @ right.T, others)
