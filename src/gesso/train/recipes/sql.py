"""`sql`: the bundled model taught to write queries for a schema in the prompt; the second task that closes."""

import dataclasses

from gesso.models.hub import resolve
from gesso.train.config import Recipe, TrainConfig
from gesso.train.recipes.mini import mini, task_data
from gesso.train.task_data import Stage


def sql() -> Recipe:
    """SQL from a schema and a request, from the bundled `mini`, all weights."""
    recipe = mini()
    train = TrainConfig(
        steps=1000,
        batch_size=48,
        canvases_per_example=2,
        learning_rate=1.2e-3,
        warmup_steps=50,
        encoder_loss_weight=0.2,
        self_conditioning_probability=0.75,
        own_draft_probability=0.5,
        own_draft_rounds=2,
        precision="bfloat16",
        optimizer="muon",
        checkpoint_every=250,
        evaluate_every=250,
        evaluation_examples=128,
    )
    stage = Stage(0, {recipe.model.canvas_length: {"sql": 1.0}})
    return dataclasses.replace(recipe, name="sql", train=train, data=task_data((stage,), seed=0), start=resolve("mini"))
