"""The recipe of the model that sees: what its steps are made of, and that a step of it learns."""

import dataclasses
import random

import pytest
import torch

from gesso.tasks.registry import default_tasks
from gesso.tasks.sight.talks import Talks
from gesso.train.batch import IGNORED, make_batch
from gesso.train.config import TrainConfig
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
    assert drawn == {*default_tasks("sight"), "sight-talks"}


def test_questions_about_one_picture_are_asked_as_each_would_be_alone(recipe) -> None:
    eyes, tokenizer, end = recipe.data._eyes, recipe.data._tokenizer, recipe.data._end_of_turn
    example = Talks().sample(random.Random(5))
    turns = [*example.history, example.prompt, example.answer]
    talk = eyes.conversation(example, tokenizer, end)
    assert len(talk.earlier) == len(example.history) // 2 > 1
    assert [[*talk.prompt[places.start : places.stop]] for places in talk.earlier] == [
        [*tokenizer.encode(answer), end] for answer in example.history[1::2]
    ]
    ends = [*(places.start for places in talk.earlier), len(talk.prompt)]
    for question, answer, stop in zip(turns[::2], turns[1::2], ends, strict=True):
        alone = dataclasses.replace(example, prompt=question, answer=answer, history=())
        asked = eyes.conversation(alone, tokenizer, end)
        begin = asked.images[0].end + 1
        assert asked.earlier == []
        assert list(asked.prompt[begin:]) == list(talk.prompt[stop - len(asked.prompt) + begin : stop])
    batch = make_batch(
        [talk], TrainConfig(steps=1), canvas_length=SHORT, vocab_size=recipe.model.vocab_size, eos_token_id=1,
        generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    taught = batch.targets_N[batch.targets_N != IGNORED].tolist()
    assert taught == [token for answer in turns[1::2] for token in (*tokenizer.encode(answer), end)]


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
    plan = dataclasses.replace(recipe, train=dataclasses.replace(recipe.train, narrow=few, causal_share=0.0))
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
