"""Distillation: the pairs have the law of the paper's, the loss is its formula, and a run brings the student closer."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from oracle import random_model
from torch import Tensor

from gesso.config import LoraConfig
from gesso.diffusion.corruption import corrupt, corrupt_path
from gesso.errors import OptionError
from gesso.models.adapter_files import adapter_config_of, save_adapter
from gesso.models.adapters import adapter_parameters, attach
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.saving import save_folder
from gesso.train.batch import Batch, make_batch
from gesso.train.config import TrainConfig
from gesso.train.distill import ConsistencyLoss, Teacher
from gesso.train.distributed import ProcessGroup
from gesso.train.plan import Plan
from gesso.train.recipe import Recipe
from gesso.train.reinforce.config import PolicyConfig
from gesso.train.step import start_model
from train.runs import SHAPE, Fixed, losses_of, recipe, same_files, train

# The pairs -----------------------------------------------------------------------------------------------------


def alpha_of(gaussian: float, size: int) -> float:
    """The diffusion transformation operator of arXiv 2506.10892, which gives the clean share of arg max of a Gaussian
    latent: K / (K - 1) * (integral of phi(z - a / sqrt(1 - a^2)) Phi(z)^(K - 1) - 1 / K)."""
    z = torch.linspace(-12, 12, 40_001, dtype=torch.float64)
    shift = gaussian / math.sqrt(1 - gaussian**2)
    density = torch.exp(-0.5 * (z - shift) ** 2) / math.sqrt(2 * math.pi)
    below = 0.5 * (1 + torch.erf(z / math.sqrt(2)))
    kept = torch.trapezoid(density * below ** (size - 1), z).item()
    return size / (size - 1) * (kept - 1 / size)


def shares(near: Tensor, far: Tensor, clean: Tensor) -> Tensor:
    """How often each of the two is clean, both are, and they are equal."""
    found = (near == clean, far == clean, (near == clean) & (far == clean), near == far)
    return torch.stack([flags.float().mean() for flags in found])


def test_pairs_have_the_joint_law_of_gaussian_latents_that_share_their_noise() -> None:
    size, count, near, far = 5, 200_000, 0.85, 0.5
    generator = torch.Generator().manual_seed(0)
    clean = torch.randint(size, (count,), generator=generator)
    noise = torch.randn(count, size, generator=generator)
    one_hot = torch.nn.functional.one_hot(clean, size).float()
    latent = [(a * one_hot + math.sqrt(1 - a**2) * noise).argmax(dim=1) for a in (near, far)]
    times = torch.tensor([[1 - alpha_of(near, size)], [1 - alpha_of(far, size)]])
    path = corrupt_path(clean[None], times, size, generator)
    torch.testing.assert_close(shares(path[0, 0], path[1, 0], clean), shares(*latent, clean), atol=5e-3, rtol=0)
    # Both are noise, and then the same.
    assert path[0, 0][path[0, 0] != clean].equal(path[1, 0][path[0, 0] != clean])


def test_each_time_of_a_path_is_the_corruption_that_it_always_was() -> None:
    clean, times = torch.arange(60).view(3, 20), torch.tensor([0.2, 0.6, 0.9])
    alone = corrupt(clean, times, 60, torch.Generator().manual_seed(1))
    path = corrupt_path(clean, torch.stack((times, times - 0.1)), 60, torch.Generator().manual_seed(1))
    assert path[0].equal(alone)
    assert (path[1] == clean).sum() > (path[0] == clean).sum()


# The loss ------------------------------------------------------------------------------------------------------


def batch_of(jump: float | None = 0.3, seed: int = 5) -> Batch:
    return make_batch(
        Fixed(4).conversations,
        TrainConfig(steps=1),
        canvas_length=SHAPE.canvas,
        vocab_size=SHAPE.vocab,
        eos_token_id=1,
        generator=torch.Generator().manual_seed(seed),
        canvases_per_example=2,
        jump=jump,
    )


def test_a_jump_changes_nothing_else_of_a_batch() -> None:
    plain, jumped = batch_of(None), batch_of()
    assert plain.ahead_BC is None
    assert jumped.ahead_BC is not None
    assert plain.noisy_BC.equal(jumped.noisy_BC)
    assert plain.self_conditioned_B.equal(jumped.self_conditioned_B)
    parts = jumped.split(3)
    assert sum(len(part.ahead_BC) for part in parts if part.ahead_BC is not None) == len(jumped.ahead_BC)


def step(model: DiffusionGemma, prefix: Tensor, canvas_C: Tensor, soft: Tensor | None) -> Tensor:
    """The logits [1, C, V] of one pass by inference."""
    cache = model.new_cache(1)
    model.encode(prefix[None], cache)
    return model.denoise(canvas_C[None], cache, soft)


def slow_divergence(student: DiffusionGemma, teacher: DiffusionGemma, batch: Batch) -> float:
    assert batch.ahead_BC is not None
    found = []
    rows = batch.tokens_N.split(list(batch.lengths))
    for i, canvas_C in enumerate(batch.noisy_BC):
        prefix = rows[i // batch.canvases_per_example][: int(batch.starts_B[i])]
        said = {}
        for name, model in (("student", student), ("teacher", teacher)):
            soft = None
            if batch.self_conditioned_B[i]:
                soft = model.self_conditioning_embeddings(step(model, prefix, canvas_C, None))
            said[name] = step(model, prefix, canvas_C, soft)
        ahead = step(teacher, prefix, batch.ahead_BC[i], teacher.self_conditioning_embeddings(said["teacher"]))
        p, q = ahead[0].double().log_softmax(-1), said["student"][0].double().log_softmax(-1)
        found.append((p.exp() * (p - q)).sum(-1))
    return torch.cat(found).mean().item()


@pytest.fixture
def start(tmp_path: Path) -> Path:
    save_folder(random_model(SHAPE, seed=3), tmp_path / "start")
    return tmp_path / "start"


def distilled(start: Path, adapter: LoraConfig | None = None, **changes: Any) -> Recipe:
    return dataclasses.replace(recipe(**changes), start=start, adapter=adapter, base="tiny", distill=0.3)


@pytest.mark.parametrize("adapter", [None, LoraConfig(rank=4)])
def test_the_loss_is_the_divergence_from_the_teacher_further_on(start: Path, adapter: LoraConfig | None) -> None:
    teacher = random_model(SHAPE, seed=3)
    plan = distilled(start, adapter)
    group = ProcessGroup(torch.device("cpu"))
    student = start_model(plan, group.device)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in student.parameters():
            if parameter.requires_grad:
                parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
    batch = batch_of()
    loss, encoder = ConsistencyLoss(plan, student, group)(batch)
    with torch.no_grad():
        expected = slow_divergence(student.eval(), teacher, batch)
    assert expected > 0.1
    assert loss.item() == pytest.approx(expected, rel=1e-3)
    assert encoder.item() > 0
    loss.backward()
    assert all(parameter.grad is None for parameter in teacher.parameters())
    assert any(parameter.grad is not None and parameter.grad.any() for parameter in student.parameters())


@pytest.mark.parametrize("both", [False, True])
def test_the_teacher_of_a_run_from_an_adapter_has_that_adapter(start: Path, tmp_path: Path, both: bool) -> None:
    deltas = LoraConfig(rank=4, dropout=0.5, separate=both)
    teacher = random_model(SHAPE, seed=3)
    attach(teacher, deltas)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in adapter_parameters(teacher).values():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    save_adapter(teacher, deltas, tmp_path / "adapter", "tiny")
    found = adapter_config_of(SHAPE.config(), tmp_path / "adapter")
    plan = dataclasses.replace(distilled(start, found), adapter_start=tmp_path / "adapter")
    group = ProcessGroup(torch.device("cpu"))
    loss = ConsistencyLoss(plan, start_model(plan, group.device), group)
    assert not any(parameter.requires_grad for parameter in loss.teacher.model.parameters())
    batch = batch_of()
    expected = Teacher(teacher.eval(), shares_weights=False).targets(batch)
    torch.testing.assert_close(loss.teacher.targets(batch), expected)
    bare = Teacher(random_model(SHAPE, seed=3), shares_weights=False).targets(batch)
    assert not torch.allclose(bare, expected, atol=1e-2)


def test_a_student_comes_closer_and_a_resumed_run_is_the_same_run(start: Path, tmp_path: Path) -> None:
    plan = distilled(start, steps=10, learning_rate=2e-2, checkpoint_every=8, encoder_loss_weight=0.0)
    whole = train(plan, tmp_path / "whole", device="cpu")
    found = [losses[0] for losses in losses_of(tmp_path / "whole").values()]
    assert sum(found[-3:]) < 0.8 * sum(found[:3])
    train(plan, tmp_path / "parts", device="cpu", stop_at=4)
    assert same_files(whole, train(plan, tmp_path / "parts", device="cpu"))


def test_what_contradicts_is_refused(start: Path) -> None:
    with pytest.raises(OptionError, match="above 0 and at most 1"):
        dataclasses.replace(distilled(start), distill=1.5)
    with pytest.raises(OptionError, match="its teacher"):
        dataclasses.replace(recipe(), distill=0.5)
    with pytest.raises(OptionError, match="own drafts have none"):
        distilled(start, own_draft_probability=0.5)
    with pytest.raises(OptionError, match="one of them"):
        dataclasses.replace(distilled(start), policy=PolicyConfig())
    with pytest.raises(OptionError, match="distill must be above 0"):
        Plan(distill=0.0)
    with pytest.raises(OptionError, match="in one process"):
        ConsistencyLoss(distilled(start), random_model(SHAPE), ProcessGroup(torch.device("cpu"), 0, 2))
