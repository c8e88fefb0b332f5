"""Trains `skills`: the next `mini`, which takes any word, name or number in many phrasings, and says what it cannot
do."""

import dataclasses
from collections.abc import Collection
from functools import cache
from typing import Any

from gesso.config import LayerConfig
from gesso.tasks.spelled import Spelling, build_tokenizer
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer
from gesso.train.config import CanvasWidth, TrainConfig
from gesso.train.recipe import Recipe
from gesso.train.recipes.common import TOKENS, chat_template, small_generation, small_model, text_files
from gesso.train.recipes.skill_mixtures import mixtures
from gesso.train.skill_data import Mixture, SkillData

CANVAS, NARROWEST = 64, 8
SLIDING = LayerConfig("sliding_attention", head_dim=32, num_key_value_heads=4)
FULL = LayerConfig("full_attention", head_dim=64, num_key_value_heads=2)
"""Twice the key heads of `mini`: letters are copied by keys."""
THREE = (SLIDING, SLIDING, FULL)
SHAPE: dict[str, Any] = {"sliding_window": 256, "canvas_length": CANVAS}
SMALL = {**SHAPE, "layers": THREE * 4, "hidden_size": 192, "intermediate_size": 256, "moe_intermediate_size": 128}
"""10.6 million parameters: `mini` with twice as many layers. A run that goes on from weights of nine layers begins with
copies of the first three behind them (`gesso.train.deepen`)."""
LARGE = {**SHAPE, "layers": THREE * 2, "hidden_size": 256, "intermediate_size": 512, "moe_intermediate_size": 192}
"""12 million parameters, for who has a GPU."""

NARROW = (
    CanvasWidth(8, batch_size=64, share=0.10, canvases_per_example=3),
    CanvasWidth(16, batch_size=48, share=0.25, canvases_per_example=3),
    CanvasWidth(32, batch_size=24, share=0.45, canvases_per_example=3),
)
GPU_TIMES = 24
"""A GPU's batches over a core's: some 800 examples, 100,000 tokens a step."""


@cache
def _tokenizer() -> Tokenizer:
    return Tokenizer(build_tokenizer())


def skills() -> Recipe:
    """Trains the skills with open slots, and abstention, from random weights, in some two hours of two cores."""
    tokenizer = _tokenizer()
    model = small_model(tokenizer, **SMALL)
    train = TrainConfig(
        steps=7800,
        causal_steps=5700,
        batch_size=16,
        canvases_per_example=2,
        narrow=NARROW,
        learning_rate=2.5e-3,
        warmup_steps=150,
        encoder_loss_weight=2.0,
        optimizer="muon",
        source_probability=0.3,
        prefix_probability=0.4,
        checkpoint_every=200,
    )
    return Recipe(
        name="skills",
        model=model,
        generation=small_generation(tokenizer, mode="ar", temperature=0.0),
        train=train,
        text=text_files(build_tokenizer),
        data=skill_data(mixtures("skills"), seed=0),
    )


def skills_gpu() -> Recipe:
    """Trains the skills and abstention from random weights, on one GPU of 40 GB or more and 16 cores."""
    recipe = skills()
    model = small_model(_tokenizer(), **LARGE)
    # More of the whole width, which is what answers are written in where nobody asks for less.
    narrow = tuple(
        dataclasses.replace(width, batch_size=width.batch_size * GPU_TIMES, share=share)
        for width, share in zip(recipe.train.narrow, (0.08, 0.3, 0.34), strict=True)
    )
    train = dataclasses.replace(
        recipe.train,
        steps=8000,
        causal_steps=3000,
        batch_size=recipe.train.batch_size * GPU_TIMES,
        causal_batch_size=recipe.train.causal_batch_size * GPU_TIMES,
        micro_batch_size=64 * GPU_TIMES,
        narrow=narrow,
        warmup_steps=300,
        self_conditioning_probability=0.6,
        own_draft_probability=0.3,
        workers=15,
        seed=1,
        checkpoint_every=500,
        log_every=25,
    )
    # Answers of any length in canvases of any width: where only what fits is taken, long answers hardly ever come.
    data = skill_data(mixtures("skills"), seed=1, narrowest=0)
    return dataclasses.replace(recipe, name="skills-gpu", model=model, train=train, data=data, start=None)


def skill_data(
    stages: tuple[Mixture, ...], seed: int, narrowest: int = NARROWEST, retained: Collection[str] = ()
) -> SkillData:
    """Returns conversations of the skills, through their tokenizer and mini's template; see `SkillData`."""
    template = ChatTemplate(chat_template(), TOKENS)
    return SkillData(
        stages,
        _tokenizer(),
        template,
        Spelling(build_tokenizer()),
        seed=seed,
        narrowest=narrowest,
        widest=CANVAS,
        retained=retained,
    )
