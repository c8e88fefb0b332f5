"""The recipe of the model that sees: what its steps are made of, and that a step of it learns."""

import dataclasses

import pytest
import torch

from gesso.tasks.registry import default_tasks
from gesso.train.distributed import ProcessGroup
from gesso.train.optimizer import make_optimizer, set_rate, trainable
from gesso.train.recipes import load_recipe
from gesso.train.recipes.sight import CANVAS, SHORT
from gesso.train.step import LossModule, start_model, step_batch
from gesso.train.vision import start_vision


@pytest.fixture(scope="module")
def recipe():
    return load_recipe("sight")


def test_every_task_of_the_model_is_drawn() -> None:
    drawn = set().union(*load_recipe("sight-2").data._stages[-1].mixtures.values())
    assert drawn == set(default_tasks("sight"))


def test_prompts_hold_their_pictures() -> None:
    recipe = load_recipe("sight-2")
    last = recipe.train.steps - 1
    tables, short = (recipe.data.batch(last, 40, width) for width in (CANVAS, SHORT))
    assert {len(conversation.images) for conversation in tables} == {1}
    assert {len(conversation.images) for conversation in short} == {1, 2, 3}
    for conversation in (*tables, *short):
        assert len(conversation.answer) <= (CANVAS if conversation in tables else SHORT)
        soft = recipe.model.image_token_ids[1]
        for image in conversation.images:
            assert image.length == 64
            assert set(conversation.prompt[image.start : image.end]) == {soft}
            before, after = recipe.model.image_token_ids[0], recipe.model.image_token_ids[2]
            assert (conversation.prompt[image.start - 1], conversation.prompt[image.end]) == (before, after)
    assert recipe.data.batch(last, 4, SHORT) == recipe.data.batch(last, 4, SHORT)


def test_a_step_takes_the_loss_of_its_batch_down(recipe) -> None:
    few = tuple(dataclasses.replace(width, batch_size=4, share=1.0) for width in recipe.train.narrow)
    plan = dataclasses.replace(recipe, train=dataclasses.replace(recipe.train, narrow=few))
    group = ProcessGroup(torch.device("cpu"))
    model, images = start_model(plan, group.device), start_vision(plan, group)
    assert images is not None
    losses = LossModule(model, plan.train, group, images)
    optimizer, batch = make_optimizer(model, plan.train, images.trained_vision), step_batch(plan, 0)
    found = []
    for _ in range(4):
        set_rate(optimizer, 2e-3)
        denoiser, encoder = losses(batch)
        found.append((denoiser + encoder).item())
        (denoiser + encoder).backward()
        assert all(p.grad is not None for name, p in trainable(model, images.trained_vision) if "experts" not in name)
        optimizer.step()
        optimizer.zero_grad()
    assert found[-1] < 0.9 * found[0]
