"""Muon: what is made orthogonal, what is left to AdamW, and that a run with it resumes exactly."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import random_model
from safetensors.torch import load_file

from gesso.errors import CheckpointError, OptionError
from gesso.nn import compiled_training
from gesso.train.checkpoint import OPTIMIZER
from gesso.train.config import TrainConfig
from gesso.train.muon import ADAMW_SIZE, Muon, orthogonal, orthogonal_by_shape
from gesso.train.optimizer import make_optimizer, set_rate
from train.runs import SHAPE, adapter_recipe, losses_of, recipe, same_files, train


@given(st.integers(1, 4), st.integers(2, 24), st.integers(2, 24), st.integers(0, 2**16))
def test_singular_values_of_every_matrix_come_near_one(stack: int, rows: int, columns: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    matrices = torch.randn(stack, rows, columns, generator=generator)
    found = orthogonal(matrices)
    for matrix, turned in zip(matrices, found, strict=True):
        values = torch.linalg.svdvals(matrix.double())
        kept = values > 0.05 * values.norm()  # smaller ones are only on their way up
        # The update keeps the singular directions: what it is in their basis is a diagonal.
        left, _, right = torch.linalg.svd(matrix.double(), full_matrices=False)
        inside = left.mT @ turned.double() @ right.mT
        assert ((inside.diagonal()[kept] > 0.6) & (inside.diagonal()[kept] < 1.3)).all()
        assert (inside - inside.diagonal().diag()).abs().max() < 1e-2


def test_a_stack_is_its_matrices_one_by_one() -> None:
    stack = torch.randn(3, 5, 7, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(orthogonal(stack), torch.stack([orthogonal(matrix) for matrix in stack]))


def test_matrices_of_one_shape_at_once_are_the_matrices_one_by_one() -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = ((5, 7), (7, 5), (3, 5, 7), (5, 7), (3, 5, 7), (4, 4))
    matrices = [torch.randn(shape, generator=generator) for shape in shapes]
    found = orthogonal_by_shape(matrices, torch.float32)
    torch.testing.assert_close(found, [orthogonal(matrix) for matrix in matrices])


def test_matrices_take_orthogonal_steps_and_the_rest_adamws() -> None:
    model = random_model(SHAPE).requires_grad_(True)
    alike = random_model(SHAPE).requires_grad_(True)
    muon = make_optimizer(model, TrainConfig(steps=1, optimizer="muon"))
    adamw = make_optimizer(alike, TrainConfig(steps=1))
    generator = torch.Generator().manual_seed(1)
    for mine, theirs in zip(model.parameters(), alike.parameters(), strict=True):
        mine.grad = torch.randn(mine.shape, generator=generator)
        theirs.grad = mine.grad.clone()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    gradients = {name: parameter.grad for name, parameter in alike.named_parameters()}
    for optimizer in (muon, adamw):
        set_rate(optimizer, 0.01)
        optimizer.step()
    turned = set()
    for (name, mine), theirs in zip(model.named_parameters(), alike.parameters(), strict=True):
        if torch.equal(mine, theirs):
            continue
        turned.add(name)
        gradient = gradients[name]
        assert gradient is not None
        # The first step's momentum is a twentieth of the gradient: in the same direction.
        expected = before[name] - 0.01 * ADAMW_SIZE * max(mine.shape[-2:]) ** 0.5 * orthogonal(gradient)
        torch.testing.assert_close(mine.detach(), expected, rtol=1e-3, atol=1e-5)
    assert isinstance(muon, Muon)
    assert {name.rsplit(".", 2)[-2] if name.endswith("weight") else name.rsplit(".", 1)[-1] for name in turned} == {
        "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "gate_up_proj",
    }  # fmt: skip


def test_decay_shrinks_a_matrix() -> None:
    model = random_model(SHAPE).requires_grad_(True)
    optimizer = make_optimizer(model, TrainConfig(steps=1, optimizer="muon", weight_decay=0.5))
    weight = model.layers[0].mlp.up_proj.weight
    weight.grad, before = torch.zeros_like(weight), weight.detach().clone()
    set_rate(optimizer, 0.1)
    optimizer.step()
    torch.testing.assert_close(weight.detach(), before * 0.95)


def test_groups_that_are_alike_take_the_steps_of_each_by_itself() -> None:
    generator = torch.Generator().manual_seed(3)
    shapes: list[tuple[tuple[int, ...], float | None, float]] = [
        ((6, 4), 0.95, 0.1), ((6, 4), 0.8, 0.0), ((2, 4, 4), 0.95, 0.1), ((5,), None, 0.0), ((5, 3), None, 0.1),
        ((5,), None, 0.0),
    ]  # fmt: skip
    drawn = [torch.randn(shape, generator=generator) for shape, _, _ in shapes]
    together = [torch.nn.Parameter(x.clone()) for x in drawn]
    apart = [torch.nn.Parameter(x.clone()) for x in drawn]
    groups = [
        {"params": [p], "momentum": momentum, "weight_decay": decay}
        for p, (_, momentum, decay) in zip(together, shapes, strict=True)
    ]
    one = Muon(groups, (0.9, 0.99), torch.float32)
    many = [
        Muon([{**group, "params": [p]}], (0.9, 0.99), torch.float32) for group, p in zip(groups, apart, strict=True)
    ]
    for _ in range(3):
        for mine, theirs in zip(together, apart, strict=True):
            mine.grad = torch.randn(mine.shape, generator=generator)
            theirs.grad = mine.grad.clone()
        for optimizer in (one, *many):
            set_rate(optimizer, 0.01)
            optimizer.step()
    assert len(one.param_groups) == len(shapes)
    for mine, theirs in zip(together, apart, strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("least", [1, compiled_training.LEAST], ids=["compiled", "array operations"])
def test_a_run_resumes_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least: int) -> None:
    monkeypatch.setattr(compiled_training, "LEAST", least)
    muon = recipe(steps=6, checkpoint_every=3, optimizer="muon")
    whole = train(muon, tmp_path / "whole", device="cpu")
    tensors = load_file(whole / OPTIMIZER)
    assert {name.partition(".")[0] for name in tensors} == {"momentum", "step", "exp_avg", "exp_avg_sq"}
    train(muon, tmp_path / "parts", device="cpu", stop_at=3)
    last = train(muon, tmp_path / "parts", device="cpu")
    assert same_files(whole, last)
    assert losses_of(tmp_path / "parts") == losses_of(tmp_path / "whole")


def test_another_momentum_is_refused_on_the_way(tmp_path: Path) -> None:
    train(recipe(steps=4, checkpoint_every=2, optimizer="muon"), tmp_path, device="cpu", stop_at=2)
    with pytest.raises(CheckpointError, match=r"momentum 0\.95, now 0\.8"):
        train(recipe(steps=4, checkpoint_every=2, optimizer="muon", momentum=0.8), tmp_path, device="cpu")


def test_an_adapter_takes_adamw(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="muon is for whole matrices"):
        adapter_recipe(tmp_path / "start", optimizer="muon")
