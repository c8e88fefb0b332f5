"""The optimiser: what is decayed, and 8-bit moments that survive a checkpoint."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from oracle import random_model
from safetensors.torch import load_file

from gesso.errors import OptionError
from gesso.train.checkpoint import OPTIMIZER
from gesso.train.config import TrainConfig
from gesso.train.optimizer import make_optimizer, set_rate
from gesso.train.recipe import Recipe
from train.runs import SHAPE, losses_of, recipe, same_files, train


def test_decay_leaves_norms_alone() -> None:
    model = random_model(SHAPE).requires_grad_(True)
    optimizer = make_optimizer(model, TrainConfig(steps=1, weight_decay=0.1))
    for (name, parameter), group in zip(model.named_parameters(), optimizer.param_groups, strict=True):
        assert group["params"][0] is parameter
        assert group["weight_decay"] == (0.1 if parameter.dim() > 1 else 0.0), name


def test_the_rate_is_every_groups() -> None:
    optimizer = make_optimizer(random_model(SHAPE).requires_grad_(True), TrainConfig(steps=1))
    set_rate(optimizer, 0.25)
    assert {group["lr"] for group in optimizer.param_groups} == {0.25}


def test_another_optimizer_is_refused() -> None:
    with pytest.raises(OptionError, match="optimizer must be one of adamw, adamw8bit, muon, got 'sgd'"):
        TrainConfig(steps=1, optimizer="sgd")  # type: ignore[arg-type]


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """torchao compiles its step, which takes longer here than the steps."""
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("eager")
def test_eight_bit_moments_learn_alike_and_resume_exactly(tmp_path: Path) -> None:
    def tiny(**changes: Any) -> Recipe:
        wide = replace(SHAPE, vocab=256).config()  # a table of 8,192 numbers; smaller tensors keep fp32 moments
        return replace(recipe(steps=8, checkpoint_every=4, **changes), model=wide)

    eight = tiny(optimizer="adamw8bit")
    whole = train(eight, tmp_path / "whole", device="cpu")
    tensors = load_file(whole / OPTIMIZER)
    large = {name for name in tensors if ":codes." in name}
    assert large
    assert all(tensors[name].dtype == torch.uint8 and tensors[name].numel() >= 4096 for name in large)
    train(eight, tmp_path / "parts", device="cpu", stop_at=4)
    last = train(eight, tmp_path / "parts", device="cpu")
    assert same_files(whole, last)
    assert losses_of(tmp_path / "parts") == losses_of(tmp_path / "whole")
    train(tiny(), tmp_path / "plain", device="cpu")
    assert losses_of(tmp_path / "whole")[8][0] == pytest.approx(losses_of(tmp_path / "plain")[8][0], rel=0.05)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("eager")
def test_eight_bit_moments_resume_where_some_parameters_have_none_yet(tmp_path: Path) -> None:
    """What canvases alone go through has none while the causal pass learns alone."""
    causal = recipe(steps=4, checkpoint_every=2, causal_steps=4, optimizer="adamw8bit")
    train(causal, tmp_path / "parts", device="cpu", stop_at=2)
    last = train(causal, tmp_path / "parts", device="cpu")
    assert not any("self_conditioning" in name for name in load_file(last / OPTIMIZER))
    assert same_files(train(causal, tmp_path / "whole", device="cpu"), last)
