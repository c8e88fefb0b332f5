"""A training step's norms, turns, gates and mixtures on a GPU, by Triton's kernels and by PyTorch's operations."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from oracle import Shape, random_model
from torch import Tensor
from torch.nn import functional as F

from gesso.nn import gpu_training
from gesso.nn.experts import Experts, mix_in_training
from gesso.nn.grouped_products import padded_layout
from gesso.train.batch import Conversation, make_batch
from gesso.train.config import TrainConfig
from gesso.train.two_pass import losses
from kernels.compiling import compiled

pytest.importorskip("triton")

from gesso.kernels import trained

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
EPS = 1e-6


def drawn(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape) + seed)
    return torch.randn(*shape, generator=generator).to(DEVICE, dtype).requires_grad_(True)


def compare(found: Callable[..., Tensor], plain: Callable[..., Tensor], *inputs: Tensor | None) -> None:
    """Compares results and the gradients of all inputs that have one, in what they are held in."""
    one, other = found(*inputs), plain(*inputs)
    generator = torch.Generator().manual_seed(1)
    change = torch.randn(one.shape, generator=generator).to(DEVICE)
    leaves = [leaf for leaf in inputs if leaf is not None and leaf.requires_grad]
    mine = torch.autograd.grad(one, leaves, change.to(one.dtype))
    theirs = torch.autograd.grad(other, leaves, change.to(other.dtype))
    exact = one.dtype == torch.float32 and all(leaf.dtype == torch.float32 for leaf in leaves)
    for own, right in zip((one.detach(), *mine), (other.detach(), *theirs), strict=True):
        near = (1e-5 if exact else 0.02) * float(right.float().abs().max())
        torch.testing.assert_close(own.float(), right.float(), rtol=0, atol=near)
    for own, leaf in zip(mine, leaves, strict=True):
        assert own.dtype == leaf.dtype


@pytest.mark.parametrize("shape", [(1, 48), (7, 100), (2, 3, 32), (1100, 16), (3, 2816)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "kinds", [(torch.float32, torch.float32), (torch.float32, torch.bfloat16), (torch.bfloat16,) * 2]
)
def test_norms(shape: tuple[int, ...], weighted: bool, kinds: tuple[torch.dtype, torch.dtype]) -> None:
    held, made = kinds
    x, weight = drawn(*shape, dtype=held), drawn(shape[-1], seed=1) if weighted else None

    def plain(x: Tensor, weight: Tensor | None) -> Tensor:
        return F.rms_norm(x.float(), x.shape[-1:], weight, EPS)

    found = gpu_training.norm(x, weight, EPS, made)
    assert found.dtype == made
    compare(lambda x, weight: gpu_training.norm(x, weight, EPS, made), plain, x, weight)


@pytest.mark.parametrize(("tokens", "heads", "width"), [(1, 2, 16), (9, 3, 32), (5, 2, 48), (300, 4, 64)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_turned_heads(tokens: int, heads: int, width: int, dtype: torch.dtype) -> None:
    angles = drawn(tokens, 1, width // 2).detach()
    cos, sin = (torch.cat((part, part), dim=-1) for part in (angles.cos(), angles.sin()))

    def plain(x: Tensor, weight: Tensor) -> Tensor:
        out = F.rms_norm(x.float(), x.shape[-1:], weight, EPS)
        first, second = out.chunk(2, dim=-1)
        return out * cos + torch.cat((-second, first), dim=-1) * sin

    x, weight = drawn(tokens, heads, width, dtype=dtype), drawn(width, seed=1)
    compare(lambda x, weight: gpu_training.norm(x, weight, EPS, dtype, (cos, sin)), plain, x, weight)


@pytest.mark.parametrize("turned", [False, True])
def test_frozen_weights_get_no_gradient(turned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight, angles = drawn(9, 3, 32), drawn(32, seed=1).detach(), drawn(9, 1, 32).detach()
    turn = (angles.cos(), angles.sin()) if turned else None
    kept, made = trained.norm_back, []

    def norm_back(*given: Any, **settings: Any) -> tuple[Tensor, Tensor | None]:
        made.append(kept(*given, **settings))
        return made[-1]

    monkeypatch.setattr(trained, "norm_back", norm_back)
    plain = partial(gpu_training._plain_norm, cos=None, sin=None, eps=EPS)
    if turn is not None:
        plain = partial(gpu_training._plain_norm, cos=turn[0], sin=turn[1], eps=EPS)
    compare(lambda x, weight: gpu_training.norm(x, weight, EPS, torch.float32, turn), plain, x, weight)
    ((_, to_weight),) = made
    assert to_weight is None


@pytest.mark.parametrize(("rows", "width"), [(1, 16), (37, 100), (5, 2048)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gates(rows: int, width: int, dtype: torch.dtype) -> None:
    def plain(gate: Tensor, up: Tensor) -> Tensor:
        return F.gelu(gate.float(), approximate="tanh") * up.float()

    gate, up = (3.0 * drawn(rows, width, seed=seed) for seed in (0, 1))
    compare(gpu_training.gated_gelu, plain, *(x.detach().to(dtype).requires_grad_(True) for x in (gate, up)))
    both = torch.cat((gate, up), dim=-1).detach().to(dtype).requires_grad_(True)
    compare(gpu_training.gated_gelu_of_halves, lambda x: plain(*x.chunk(2, dim=-1)), both)


@pytest.mark.parametrize("kinds", [(torch.bfloat16, torch.float32), (torch.float32, torch.bfloat16)])
def test_gates_of_unlike_types(kinds: tuple[torch.dtype, torch.dtype]) -> None:
    gate, up = drawn(5, 24, dtype=kinds[0]).detach(), drawn(5, 24, dtype=kinds[1], seed=1).detach()
    gate, up = gate.requires_grad_(True), up.requires_grad_(True)
    assert gpu_training.gated_gelu(gate, up).dtype == gpu_training._plain_gate(gate, up).dtype == torch.float32
    compare(gpu_training.gated_gelu, gpu_training._plain_gate, gate, up)


def parts(x: Tensor) -> tuple[Tensor, Tensor]:
    """Views of one tensor, rows of which are parts of longer ones."""
    first, second = x.chunk(2, dim=-1)
    return first, second


def columns(x: Tensor) -> tuple[Tensor, Tensor]:
    """Views of one tensor whose numbers do not lie side by side."""
    first, second = x.view(-1, 2, len(x)).transpose(0, 2).unbind(1)
    return first, second


@pytest.mark.parametrize("views", [parts, columns])
def test_gates_of_views_of_one_tensor(views: Callable[[Tensor], tuple[Tensor, Tensor]]) -> None:
    x = drawn(6, 40)
    compare(lambda x: gpu_training.gated_gelu(*views(x)), lambda x: gpu_training._plain_gate(*views(x)), x)

    def penalty(gate: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        (first,) = torch.autograd.grad(gate(*views(x)).square().sum(), [x], create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), [x])
        return second

    torch.testing.assert_close(
        penalty(gpu_training.gated_gelu), penalty(gpu_training._plain_gate), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize(("tokens", "top_k", "width"), [(1, 1, 16), (50, 3, 40), (9, 2, 200)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_mixtures(tokens: int, top_k: int, width: int, dtype: torch.dtype) -> None:
    rows = tokens * top_k + 5
    generator = torch.Generator().manual_seed(tokens)
    slots = torch.randperm(rows, generator=generator)[: tokens * top_k].view(tokens, top_k).to(DEVICE)

    def plain(x: Tensor, slots: Tensor, weights: Tensor) -> Tensor:
        return (x.float()[slots] * weights[..., None]).sum(dim=1)

    compare(gpu_training.mix, plain, drawn(rows, width, dtype=dtype), slots, drawn(tokens, top_k, seed=2))
    x, weights = drawn(width, rows, dtype=dtype).detach().T, drawn(top_k, tokens, seed=2).detach().T
    compare(gpu_training.mix, plain, x.requires_grad_(True), slots, weights.requires_grad_(True))


@pytest.mark.parametrize(("tokens", "top_k", "width"), [(1, 1, 16), (50, 3, 40), (9, 2, 200)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tokens_laid_out(tokens: int, top_k: int, width: int, dtype: torch.dtype) -> None:
    """Rows that fill groups up are token 0 once more, and mixtures leave them without a gradient."""
    chosen = drawn(tokens, 5).topk(top_k).indices
    source, flat, _ = padded_layout(chosen, 5)
    slots, weights, x = flat.view(tokens, top_k), drawn(tokens, top_k, seed=2), drawn(tokens, width, dtype=dtype)

    def plain(x: Tensor) -> Tensor:
        return gpu_training.mix(x.index_select(0, source).sin(), slots, weights)

    def found(x: Tensor) -> Tensor:
        return gpu_training.mix(gpu_training.lay_out(x, source, slots).sin(), slots, weights)

    assert torch.equal(gpu_training.lay_out(x, source, slots), x[source])
    compare(found, plain, x)

    def penalty(out: Tensor) -> Tensor:
        (first,) = torch.autograd.grad(out.float().square().sum(), [x], create_graph=True)
        return torch.autograd.grad(first.float().square().sum(), [x])[0].float()

    second = penalty(plain(x))
    near = (1e-5 if dtype == torch.float32 else 0.03) * float(second.abs().max())
    torch.testing.assert_close(penalty(found(x)), second, rtol=0, atol=near)


def test_experts_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    experts, x, weights = Experts(32, 24, 5).to(DEVICE), drawn(40, 32), drawn(40, 2, seed=2)
    with torch.no_grad():
        for seed, matrix in enumerate(experts.parameters()):
            matrix.copy_(0.5 * drawn(*matrix.shape, seed=seed))
    chosen, used, taken = drawn(40, 5).topk(2).indices, [], gpu_training.lay_out

    def lay_out(*given: Tensor) -> Tensor:
        used.append(given)
        return taken(*given)

    def mixed(kernel: bool) -> Callable[..., Tensor]:
        def mix(x: Tensor, weights: Tensor, *_: Tensor) -> Tensor:
            monkeypatch.setattr(gpu_training, "trains_on_gpu", lambda *_: kernel)
            return mix_in_training(x, weights, chosen, 5, *experts.grouped())

        return mix

    monkeypatch.setattr(gpu_training, "lay_out", lay_out)
    compare(mixed(True), mixed(False), x, weights, *experts.parameters())
    assert len(used) == 1


def test_gradients_of_gradients_are_those_of_plain_operations() -> None:
    x, weight = drawn(4, 3, 16), drawn(16, seed=1)

    def penalty(out: Tensor) -> list[Tensor]:
        (first,) = torch.autograd.grad(out.square().sum(), [x], create_graph=True)
        return list(torch.autograd.grad(first.square().sum(), [x, weight]))

    found = penalty(gpu_training.norm(x, weight, EPS, torch.float32))
    for own, right in zip(found, penalty(F.rms_norm(x, (16,), weight, EPS)), strict=True):
        torch.testing.assert_close(own, right, rtol=1e-4, atol=1e-4)


def test_a_training_step_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(Shape(hidden=48)).to(DEVICE).requires_grad_(True)
    conversations = [Conversation(list(range(2, 9 + n)), list(range(20, 26 + n))) for n in range(3)]
    batch = make_batch(
        conversations,
        TrainConfig(steps=1, self_conditioning_probability=1.0),
        canvas_length=8,
        vocab_size=model.config.vocab_size,
        eos_token_id=1,
        generator=torch.Generator().manual_seed(0),
    ).to(DEVICE)
    found, used, taken = [], [], gpu_training.norm

    def norm(*given: object) -> Tensor:
        used.append(given)
        return taken(*given)

    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for kernel in (False, True):
        monkeypatch.setattr(gpu_training, "trains_on_gpu", lambda *_, kernel=kernel: kernel)
        if kernel:
            monkeypatch.setattr(gpu_training, "norm", norm)
        loss = losses(model, batch)
        total = loss.denoiser + loss.encoder
        found.append((total.detach(), *torch.autograd.grad(total, parameters, allow_unused=True)))
    assert used, "norms go through the kernels"
    for expected, own in zip(*found, strict=True):
        assert (expected is None) == (own is None)
        if expected is not None:
            torch.testing.assert_close(own, expected, rtol=1e-3, atol=1e-4)


SCRIPT = """
import sys
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from gesso.kernels.trained import _norm, _norm_back
from gesso.kernels.trained_experts import _gate, _gate_back, _mix, _mix_back

architecture = int(sys.argv[1])
numbers = {"rows": "i32", "eps": "fp32", "slots": "*i64"}
fp32 = ("cos", "sin", "inverses", "inverse", "sums", "weight", "weights", "of_weights")
for kernel, sizes in (
    (_norm, dict(HEADS=6, WEIGHTED=True, TURNED=True, WIDTH=32, PADDED=32, ROWS=128)),
    (_norm, dict(HEADS=1, WEIGHTED=True, TURNED=False, WIDTH=2816, PADDED=4096, ROWS=1)),
    (_norm_back, dict(HEADS=6, SUMMED=True, WEIGHTED=True, TURNED=True, WIDTH=32, PADDED=32, ROWS=128)),
    (_norm_back, dict(HEADS=1, SUMMED=True, WEIGHTED=True, TURNED=False, WIDTH=2816, PADDED=4096, ROWS=1)),
    (_norm_back, dict(HEADS=1, SUMMED=False, WEIGHTED=True, TURNED=False, WIDTH=2816, PADDED=4096, ROWS=1)),
    (_gate, dict(WIDTH=128, BLOCK=128, ROWS=16)),
    (_gate_back, dict(WIDTH=128, BLOCK=128, ROWS=16)),
    (_mix, dict(EACH=4, WEIGHTED=True, WIDTH=192, PADDED=256, ROWS=16)),
    (_mix, dict(EACH=4, WEIGHTED=False, weights=None, WIDTH=192, PADDED=256, ROWS=16)),
    (_mix_back, dict(EACH=4, WIDTH=192, PADDED=256, ROWS=16)),
):
    kinds = numbers | dict.fromkeys(fp32, "*fp32")
    if kernel in (_gate, _gate_back):
        kinds |= dict.fromkeys(("of_gate", "of_up", "of_to_gate", "of_to_up"), "i32")
    known = {name: kinds.get(name, "*bf16") for name in kernel.arg_names} | dict.fromkeys(sizes, "constexpr")
    source = ASTSource(kernel, known, constexprs=sizes)
    assert compile(source, target=GPUTarget("cuda", architecture, 32)).asm["ptx"]
"""


@pytest.mark.parametrize("architecture", [80, 90, 120])
def test_they_compile_for_gpus(architecture: int, tmp_path: Path) -> None:
    compiled(SCRIPT, tmp_path, architecture)
