"""Training along the model's own canvases, against the same canvases denoised one by one as at generation."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from oracle import random_model

from gesso.diffusion.canvas_state import CanvasState
from gesso.diffusion.denoise import finish_step, step_inputs
from gesso.diffusion.step import CanvasShape
from gesso.engine.canvases import denoising_rules
from gesso.errors import OptionError
from gesso.generation import GenerationConfig
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.saving import save_folder
from gesso.train.batch import Batch, make_batch
from gesso.train.config import TrainConfig
from gesso.train.distributed import ProcessGroup
from gesso.train.on_policy import OnPolicyLoss
from gesso.train.recipe import Recipe
from train.runs import SHAPE, Fixed, losses_of, recipe, same_files, train

STEPS = 6
ONE = ProcessGroup(torch.device("cpu"))


def on_policy(**changes: Any) -> Recipe:
    """A random model is never sure: its canvases take nearly the likeliest tokens everywhere, and settle where these
    stay what they are."""
    generation = GenerationConfig(
        max_denoising_steps=3 * STEPS,
        restart_steps=STEPS,
        t_min=0.05,
        t_max=0.05,
        entropy_bound=1e3,
        confidence_threshold=1e3,
    )
    return dataclasses.replace(recipe(on_policy=True, **changes), generation=generation)


def batch_of(*, seeded: bool = True) -> Batch:
    return make_batch(
        Fixed().conversations,
        TrainConfig(steps=1, on_policy=seeded),
        canvas_length=SHAPE.canvas,
        vocab_size=SHAPE.vocab,
        eos_token_id=1,
        generator=torch.Generator().manual_seed(5),
        canvases_per_example=2,
    )


def slow_loss(model: DiffusionGemma, batch: Batch, plan: Recipe) -> tuple[float, list[int]]:
    """The loss with each canvas denoised alone, behind a cache; and the steps of each."""
    assert batch.seeds_B is not None
    rules = denoising_rules(plan.generation).one_attempt()
    rows = batch.tokens_N.split(list(batch.lengths))
    total, steps = 0.0, []
    for i, seed in enumerate(batch.seeds_B.tolist()):
        cache = model.new_cache(1)
        model.encode(rows[i // batch.canvases_per_example][None, : int(batch.starts_B[i])], cache)
        state = CanvasState(rules, CanvasShape(SHAPE.canvas, SHAPE.vocab), torch.Generator().manual_seed(seed))
        while not state.finished:
            given = step_inputs([state])
            hidden_CD = model.denoise_flat(given.canvas_N, given.widths, cache, given.self_conditioning_ND)
            scores_CV = model.vocabulary.logits(hidden_CD).double().log_softmax(-1)
            total -= scores_CV.gather(1, batch.canvas_BC[i][:, None]).mean().item()
            finish_step(model.vocabulary, [state], hidden_CD)
        steps.append(state.steps)
    return total / (STEPS * len(steps)), steps


def test_the_loss_is_that_of_the_steps_of_generation() -> None:
    model, batch, plan = random_model(SHAPE, seed=3), batch_of(), on_policy()
    with torch.no_grad():
        expected, steps = slow_loss(model, batch, plan)
    assert len(set(steps)) > 1
    assert max(steps) <= STEPS
    loss, encoder = OnPolicyLoss(plan, model.train().requires_grad_(True), ONE)(batch)
    assert loss.item() == pytest.approx(expected, rel=1e-4)
    assert encoder.item() > 0
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.self_conditioning.parameters())


def test_parts_of_a_batch_add_up_to_its_loss() -> None:
    model, batch, plan = random_model(SHAPE, seed=3), batch_of(), on_policy()
    objective = OnPolicyLoss(plan, model, ONE)
    with torch.no_grad():
        whole, _ = objective(batch)
        parts = [objective(part)[0] * part.canvas_tokens / batch.canvas_tokens for part in batch.split(3)]
    assert len(parts) == 3
    assert torch.stack(parts).sum().item() == pytest.approx(whole.item(), rel=1e-5)


def test_seeds_change_nothing_else_of_a_batch() -> None:
    plain, seeded = batch_of(seeded=False), batch_of()
    assert plain.seeds_B is None
    assert seeded.seeds_B is not None
    assert len(set(seeded.seeds_B.tolist())) == len(seeded.canvas_BC)
    assert plain.noisy_BC.equal(seeded.noisy_BC)
    assert plain.self_conditioned_B.equal(seeded.self_conditioned_B)


def test_checkpointing_changes_no_gradient() -> None:
    found = []
    for checkpointing in (False, True):
        model = random_model(SHAPE, seed=3).train().requires_grad_(True)
        plan = on_policy(gradient_checkpointing=checkpointing)
        OnPolicyLoss(plan, model, ONE)(batch_of())[0].backward()
        found.append([p.grad for p in model.parameters() if p.grad is not None])
    assert found[0]
    for plain, again in zip(*found, strict=True):
        torch.testing.assert_close(plain, again)


def test_a_run_learns_and_a_resumed_run_is_the_same_run(tmp_path: Path) -> None:
    save_folder(random_model(SHAPE, seed=3), tmp_path / "start")
    plan = dataclasses.replace(
        on_policy(steps=16, learning_rate=2e-2, evaluate_every=8, checkpoint_every=8), start=tmp_path / "start"
    )
    whole = train(plan, tmp_path / "whole", device="cpu")
    found = [losses[0] for losses in losses_of(tmp_path / "whole").values()]
    assert sum(found[-4:]) < 0.8 * sum(found[:4])
    train(plan, tmp_path / "parts", device="cpu", stop_at=6)
    assert same_files(whole, train(plan, tmp_path / "parts", device="cpu"))


def test_causal_steps_stay_what_they_are(tmp_path: Path) -> None:
    train(on_policy(steps=3, causal_steps=2), tmp_path, device="cpu")
    denoiser = [losses[0] for losses in losses_of(tmp_path).values()]
    assert denoiser[:2] == [0, 0]
    assert denoiser[2] > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"own_draft_probability": 0.5}, "own_draft_probability corrupts canvases"),
        ({"prefix_probability": 0.5}, "prefix_probability corrupts canvases"),
        ({"source_probability": 0.5}, "source_probability corrupts canvases"),
        ({"time_exponent": 0.5}, "time_exponent means nothing with on_policy"),
        ({"denoiser_loss_weight": 0.0}, "on_policy trains the denoiser"),
        ({"context_parallel": 2}, "on_policy takes whole canvases"),
    ],
)
def test_what_contradicts_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        on_policy(**changes)


def test_distillation_and_processes_that_share_weights_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="one of them"):
        dataclasses.replace(on_policy(), start=tmp_path, distill=0.5)
    several = ProcessGroup(torch.device("cpu"), 0, 2)
    with pytest.raises(OptionError, match="use muon, or one process"):
        OnPolicyLoss(on_policy(), random_model(SHAPE), several)
    OnPolicyLoss(on_policy(optimizer="muon"), random_model(SHAPE), several)
