"""A layer whose norms are compiled in training: values and gradients of one whose norms are not."""

import importlib.util

import pytest
import torch
from oracle import Shape, random_model
from torch import Tensor

from gesso.models import block
from gesso.models.block import Block
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.nn import compiled_training
from gesso.nn.attention import attend_causal

if importlib.util.find_spec("llvmlite") is None:
    pytest.skip("llvmlite is not installed", allow_module_level=True)

pytestmark = pytest.mark.numbers
SHAPE = Shape(
    layers="sf", hidden=64, mlp=64, head_dim=32, full_head_dim=64, experts=4, expert_size=32, canvas=8, kv_heads=2
)
TOKENS = 70


def gradients(model: DiffusionGemma) -> list[Tensor]:
    """The layers' output of random rows, and the gradients of the rows and of all that the layers hold."""
    x = torch.randn(TOKENS, SHAPE.hidden, generator=torch.Generator().manual_seed(1)).requires_grad_()
    turns = model.rope(torch.arange(TOKENS), TOKENS)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend_causal(q, *(rows.transpose(0, 1) for rows in (k, v)), None)

    out = x
    for _, kind, layer in model.blocks():
        out = layer(out, turns[kind], attend, layer.decoder_scalar)
    held = list(model.layers.parameters())
    return [out.detach(), *torch.autograd.grad(out.cos().sum(), [x, *held])]


@pytest.fixture
def model() -> DiffusionGemma:
    made = random_model(SHAPE).requires_grad_(True)
    for _, _, layer in made.blocks():
        layer.decoder_scalar.fill_(0.8)
    return made


def test_compiled_layers_are_those_of_array_operations(model: DiffusionGemma, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[bool] = []
    monkeypatch.setattr(
        Block, "_forward_training", lambda *args, own=Block._forward_training: (taken.append(True), own(*args))[1]
    )
    found = []
    for least in (1, 1 << 60):
        monkeypatch.setattr(compiled_training, "LEAST", least)
        found.append(gradients(model))
    assert taken == [True, True]  # both layers, once
    for ours, theirs in zip(*found, strict=True):
        assert (ours - theirs).abs().max() <= 1e-5 * theirs.abs().max().clamp(min=1e-3)


def test_under_autocast_products_alone_are_narrow(model: DiffusionGemma, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_training, "LEAST", 1)
    exact = gradients(model)
    with torch.autocast("cpu", torch.bfloat16):
        found = gradients(model)
    for half, wanted in zip(found, exact, strict=True):
        assert half.dtype == torch.float32
        assert 1e-5 < (half - wanted).norm() / wanted.norm() < 0.15


def test_a_norm_that_somebody_observes_is_called_itself(model: DiffusionGemma, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_training, "LEAST", 1)
    monkeypatch.setattr(block, "add_attended", lambda *_: pytest.fail("the norms are computed together"))
    seen: list[Tensor] = []
    for _, _, layer in model.blocks():
        layer.pre_mlp_norm.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    gradients(model)
    assert len(seen) == 2
