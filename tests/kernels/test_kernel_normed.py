"""What stands between a layer's products, by Triton's kernels and by PyTorch's operations one by one."""

from pathlib import Path

import pytest
import torch
from oracle import Shape, random_model
from torch import Tensor
from torch.nn import functional as F

from gesso import kernels
from gesso.nn.experts import Router
from gesso.nn.gated_gelu import gated_gelu
from gesso.nn.norm import rms_norm
from gesso.nn.rope import apply_rope
from kernels.compiling import compiled

pytest.importorskip("triton")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
DTYPES = [torch.float32, torch.bfloat16]
SIZES = [(1, 48), (5, 100), (3, 2816)]
EPS = 1e-6


@pytest.fixture(autouse=True)
def without_gradient() -> Tensor:
    with torch.inference_mode():
        yield


def drawn(*shape: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape) + seed)
    return torch.randn(*shape, generator=generator).to(DEVICE, dtype)


def check(found: Tensor, expected: Tensor, *, few: bool = True) -> None:
    """In bfloat16 a sum in another order may round to the neighbour, which what follows makes a little more of; a few
    numbers do."""
    assert found.dtype == expected.dtype
    if expected.dtype == torch.float32:
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    else:
        size = expected.float().abs().amax()
        assert float((found.float() - expected.float()).abs().max() / size) <= 2**-6
        assert not few or float((found != expected).float().mean()) <= 0.02


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "width"), SIZES)
def test_a_residual_sum_and_its_three_norms(rows: int, width: int, dtype: torch.dtype) -> None:
    from gesso.kernels import normed

    x, branch = (drawn(rows, width, dtype=dtype, seed=seed) for seed in (1, 2))
    after, to_mlp, to_experts, scale = (drawn(width, dtype=dtype, seed=seed) for seed in range(3, 7))
    router = Router(width, 4, 2, EPS).to(DEVICE, dtype)
    router.scale = torch.nn.Parameter(scale)
    total = x + rms_norm(branch, after, EPS)
    given: list[Tensor] = []
    router.proj.register_forward_pre_hook(lambda _, inputs: given.append(inputs[0]))
    router(total)
    expected = (total, rms_norm(total, to_mlp, EPS), rms_norm(total, to_experts, EPS), given[0])
    found = normed.add_norm(x, branch, after, (to_mlp, to_experts, scale), EPS, router.root)
    for own, other in zip(found, expected, strict=True):
        check(own, other)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "width"), SIZES)
def test_both_branches_added(rows: int, width: int, dtype: torch.dtype) -> None:
    from gesso.kernels import normed

    x, one, other = (drawn(rows, width, dtype=dtype, seed=seed) for seed in range(3))
    weights = tuple(drawn(width, dtype=dtype, seed=seed) for seed in range(3, 6))
    factor = torch.tensor([0.37], device=DEVICE, dtype=dtype)
    both = rms_norm(one, weights[0], EPS) + rms_norm(other, weights[1], EPS)
    expected = (x + rms_norm(both, weights[2], EPS)) * factor
    check(normed.add_branches(x, (one, other), weights, EPS, factor), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("rows", "heads", "width"), [(1, 2, 16), (7, 3, 48), (4, 2, 256)])
def test_heads_normed_and_turned(rows: int, heads: int, width: int, turned: bool, dtype: torch.dtype) -> None:
    from gesso.kernels import normed

    x = drawn(rows, heads, width, dtype=dtype)
    weight = drawn(width, dtype=dtype) if turned else None
    angles = drawn(rows, 1, width // 2, dtype=torch.float32)
    turn = tuple(torch.cat((part, part), dim=-1).to(dtype) for part in (angles.cos(), angles.sin()))
    expected = rms_norm(x, weight, EPS)
    found = normed.norm_heads(x, weight, turn if turned else None, EPS)
    check(found, apply_rope(expected, *turn) if turned else expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "width"), [(1, 12), (6, 704), (2, 2112)])
def test_a_gate_times_what_it_lets_through(
    rows: int, width: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    halves = 4.0 * drawn(rows, 2 * width, dtype=dtype)
    halves[0, :4] = torch.tensor([-90.0, 90.0, 0.0, -3.0])
    gate, up = halves.chunk(2, dim=-1)
    expected = F.gelu(gate, approximate="tanh") * up
    monkeypatch.setattr(kernels, "usable", lambda device: True)
    check(gated_gelu(gate, up), expected, few=False)  # PyTorch's 1 + tanh has no bits left where it is small


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_rows_of_chosen_experts_are_mixed(dtype: torch.dtype) -> None:
    from gesso.kernels import normed

    out = drawn(24, 100, dtype=dtype)
    slots = torch.randperm(24, generator=torch.Generator().manual_seed(0)).view(6, 4).to(DEVICE)
    weights = torch.rand(6, 4, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    expected = (out[slots.flatten()].view(6, 4, -1) * weights[..., None].to(dtype)).float().sum(dim=1).to(dtype)
    check(normed.mix(out, slots, weights), expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_model_computes_what_it_computes_without(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """The layers take the kernels where these run, and hidden states stay what they are."""
    model = random_model(Shape(hidden=48)).to(DEVICE, dtype)
    tokens, canvas = torch.arange(2, 25), torch.arange(30, 46)
    found = []
    for kernel in (False, True):
        if kernel:
            monkeypatch.setattr(kernels, "usable", lambda device: True)
            monkeypatch.setattr("gesso.nn.attention.usable", lambda device: True)
        cache = model.new_cache(1, 64, 32)
        found.append((model.encode_flat(tokens, [23], cache), model.denoise_flat(canvas, [16], cache)))
    near = 1e-4 if dtype == torch.float32 else 0.1
    for expected, own in zip(*found, strict=True):
        assert float((own.float() - expected.float()).abs().max() / expected.float().abs().max()) <= near


def test_a_gradient_takes_the_plain_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "usable", lambda device: True)
    x = torch.zeros(2, 4)
    assert kernels.serves(x, x, None)
    assert not kernels.serves(x, x.to(torch.bfloat16)), "the kernels round to one type"
    with torch.inference_mode(False), torch.enable_grad():
        assert not kernels.serves(x)
    with torch.autocast("cpu", torch.bfloat16):
        assert not kernels.serves(x)


SCRIPT = """
import sys
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from gesso.kernels.normed import _add_branches, _add_norm, _gate, _mix, _norm_heads

architecture = int(sys.argv[1])
row = dict(WIDTH=2816, PADDED=4096)
heads = dict(HEADS=16, WIDTH=512, PADDED=512, WEIGHTED=True, TURNED=True)
for kernel, sizes in (
    (_add_norm, row),
    (_add_branches, row),
    (_norm_heads, heads),
    (_gate, dict(WIDTH=704, BLOCK=1024)),
    (_mix, row | {"EACH": 8}),
):
    kinds = {"eps": "fp32", "of_gate": "i32", "of_up": "i32", "slots": "*i64", "weights": "*fp32"}
    if kernel is _add_norm:
        kinds["factor"] = "fp32"
    known = {name: kinds.get(name, "*bf16") for name in kernel.arg_names} | dict.fromkeys(sizes, "constexpr")
    source = ASTSource(kernel, known, constexprs=sizes)
    made = compile(source, target=GPUTarget("cuda", architecture, 32), options={"enable_fp_fusion": False})
    assert made.asm["ptx"]
"""


@pytest.mark.parametrize("architecture", [80, 90, 120])
def test_they_compile_for_gpus(architecture: int, tmp_path: Path) -> None:
    compiled(SCRIPT, tmp_path, architecture)
