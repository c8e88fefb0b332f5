"""Trains `skills`: the next `mini`, which takes any word, name or number in many phrasings, and says what it cannot
do."""

import dataclasses
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

from gesso.config import LayerConfig
from gesso.models.hub import resolve
from gesso.tasks.spelled import Spelling, build_tokenizer
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer
from gesso.train.config import CanvasWidth, TrainConfig
from gesso.train.recipe import Recipe
from gesso.train.recipes import skill_mixtures
from gesso.train.recipes.common import TOKENS, chat_template, small_generation, small_model, text_files
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
    """Trains nineteen skills with open slots, and abstention, from random weights, in some two hours of two cores."""
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
        data=skill_data((skill_mixtures.FIRST, skill_mixtures.ALL), seed=0),
    )


def skills_2() -> Recipe:
    """Goes on from the bundled `skills` for some two hours of two cores: the causal pass alone."""
    return _causal_run(2, skill_mixtures.AGAIN, steps=4000, learning_rate=1.8e-3)


def skills_3() -> Recipe:
    """Goes on from the bundled `skills` once more, as `skills-2` does."""
    return _causal_run(3, skill_mixtures.THIRD, steps=4150, learning_rate=1.8e-3)


def skills_4() -> Recipe:
    """Goes on from the bundled `skills` a third time, as `skills-2` does."""
    return _causal_run(4, skill_mixtures.FOURTH, steps=3950)


def skills_5() -> Recipe:
    """Goes on from the bundled `skills` a fourth time, as `skills-2` does."""
    return _causal_run(5, skill_mixtures.FIFTH, steps=3560)


def skills_6() -> Recipe:
    """Goes on from the bundled `skills` with canvases of any width and the causal pass together."""
    recipe = skills()
    train = dataclasses.replace(
        recipe.train,
        steps=2230,
        causal_steps=0,
        narrow=(CanvasWidth(16, 32, 0.25, 3), CanvasWidth(32, 24, 0.35, 3)),
        learning_rate=2.2e-3,
        warmup_steps=100,
        seed=6,
    )
    data = skill_data((skill_mixtures.SIXTH,), seed=6, narrowest=0)
    return dataclasses.replace(recipe, name="skills-6", train=train, data=data, start=resolve("skills"))


def skills_7() -> Recipe:
    """Goes on from the bundled `skills` as `skills-5` does, for longer."""
    return _causal_run(7, skill_mixtures.SEVENTH, steps=5700)


def skills_8() -> Recipe:
    """Goes on from the bundled `skills` as `skills-7` does, for longer still."""
    return _causal_run(8, skill_mixtures.EIGHTH, steps=10800)


def skills_9() -> Recipe:
    """Goes on from the bundled `skills` for a short while."""
    return _causal_run(9, skill_mixtures.NINTH, steps=2900, learning_rate=1.6e-3)


def skills_10() -> Recipe:
    """Goes on from the bundled `skills` as `skills-9` does, with more of what was worst. Run once; not bundled."""
    return _causal_run(10, skill_mixtures.TENTH, steps=2200, learning_rate=2e-3)


def skills_11() -> Recipe:
    """Goes on from the bundled `skills` as `skills-9` does, in more wordings."""
    return _causal_run(11, skill_mixtures.ELEVENTH, steps=2700, learning_rate=2e-3)


def skills_12() -> Recipe:
    """Goes on from the bundled `skills` for five minutes of one GPU: the causal pass alone, 32 times the examples a
    step."""
    recipe = _causal_run(12, skill_mixtures.TWELFTH, steps=835, learning_rate=5e-3)
    train = dataclasses.replace(recipe.train, causal_batch_size=2048, warmup_steps=150, workers=8, checkpoint_every=500)
    return dataclasses.replace(recipe, train=train)


def skills_13() -> Recipe:
    """Goes on from the bundled `skills` as `skills-9` does, for what was below its goal. Run once, to step 815; not
    bundled."""
    return _causal_run(13, skill_mixtures.THIRTEENTH, steps=1000, learning_rate=8e-4)


def skills_14() -> Recipe:
    """Goes on from the bundled `skills` on one GPU of 40 GB or more: canvases of any width and the causal pass
    together. Not run yet."""
    recipe = skills_12()
    train = dataclasses.replace(
        recipe.train,
        steps=800,
        causal_steps=0,
        causal_share=0.2,
        batch_size=768,
        narrow=(CanvasWidth(16, 1536, 0.2, 3), CanvasWidth(32, 1024, 0.35, 3)),
        learning_rate=4e-3,
        encoder_loss_weight=4.0,
        own_draft_probability=0.3,
        seed=14,
    )
    data = skill_data((Mixture(0, {**skill_mixtures.TWELFTH.weights, "filling": 0.2}),), seed=14, narrowest=0)
    return dataclasses.replace(recipe, name="skills-14", train=train, data=data)


def skills_15() -> Recipe:
    """Goes on from the bundled `skills` as `skills-13` does, three quarters of it for what is below its goal. Run once,
    to step 1,031; not bundled."""
    return _causal_run(15, skill_mixtures.FIFTEENTH, steps=1150, learning_rate=8e-4)


def skills_16() -> Recipe:
    """Goes on from the bundled `skills` on one GPU as `skills-12` does, half of it for what was below its goal."""
    recipe = skills_12()
    train = dataclasses.replace(
        recipe.train, steps=833, causal_steps=833, learning_rate=4e-3, warmup_steps=100, workers=13, seed=16
    )
    data = skill_data((skill_mixtures.SIXTEENTH,), seed=16)
    return dataclasses.replace(recipe, name="skills-16", train=train, data=data)


def skills_17() -> Recipe:
    """Goes on from the bundled `skills` as `skills-13` does, most of it for the last skill below its goal. Run once;
    not bundled."""
    return _causal_run(17, skill_mixtures.SEVENTEENTH, steps=2000, learning_rate=1e-3)


def skills_18() -> Recipe:
    """Goes on from the mean of where `skills-17` began and ended, in `runs/skills-17/mean`, with more of what had
    become worse. Run once; not bundled."""
    recipe = _causal_run(18, skill_mixtures.EIGHTEENTH, steps=1697, learning_rate=1e-3)
    train = dataclasses.replace(recipe.train, warmup_steps=60)
    return dataclasses.replace(recipe, train=train, start=Path("runs/skills-17/mean"))


def skills_19() -> Recipe:
    """Goes on from the mean of where `skills-18` began and ended, in `runs/skills-18/mean`, for skills that became
    wider; of the others it learns what the bundled `skills` says."""
    recipe = _causal_run(19, skill_mixtures.NINETEENTH, steps=2390, learning_rate=1.8e-3)
    train = dataclasses.replace(recipe.train, warmup_steps=60)
    data = skill_data((skill_mixtures.NINETEENTH,), seed=19, retained=skill_mixtures.RETAINED)
    return dataclasses.replace(
        recipe, train=train, data=data, start=Path("runs/skills-18/mean"), teacher=resolve("skills")
    )


def skills_20() -> Recipe:
    """Goes on from the bundled `skills` on one GPU as `skills-16` does, for the skills that became wider."""
    recipe = skills_16()
    train = dataclasses.replace(
        recipe.train, steps=1011, causal_steps=1011, learning_rate=5e-3, checkpoint_every=100_000, seed=20
    )
    data = skill_data((skill_mixtures.TWENTIETH,), seed=20)
    return dataclasses.replace(recipe, name="skills-20", train=train, data=data)


def skills_21() -> Recipe:
    """Goes on from the end of `skills-20`, in `runs/skills-20/step-001011`, for requests of still more kinds."""
    recipe = skills_20()
    train = dataclasses.replace(recipe.train, causal_batch_size=2304, seed=21)
    data = skill_data((skill_mixtures.TWENTYFIRST,), seed=21)
    start = Path("runs/skills-20/step-001011")
    return dataclasses.replace(recipe, name="skills-21", train=train, data=data, start=start)


def skills_22() -> Recipe:
    """Goes on from the end of `skills-21`, in `runs/skills-21/step-001008`, for skills that became wider once more."""
    recipe = skills_21()
    train = dataclasses.replace(recipe.train, steps=1280, causal_steps=1280, learning_rate=4.5e-3, seed=22)
    data = skill_data((skill_mixtures.TWENTYSECOND,), seed=22)
    start = Path("runs/skills-21/step-001008")
    return dataclasses.replace(recipe, name="skills-22", train=train, data=data, start=start)


def _causal_run(number: int, mixture: Mixture, *, steps: int, learning_rate: float = 2.5e-3) -> Recipe:
    """A later run from the bundled weights: the causal pass alone, on other examples by its number as seed."""
    recipe = skills()
    train = dataclasses.replace(
        recipe.train, steps=steps, causal_steps=steps, learning_rate=learning_rate, warmup_steps=100, seed=number
    )
    data = skill_data((mixture,), seed=number)
    return dataclasses.replace(recipe, name=f"skills-{number}", train=train, data=data, start=resolve("skills"))


def skills_gpu() -> Recipe:
    """Trains nineteen skills and abstention from random weights, on one GPU of 40 GB or more and 16 cores."""
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
    data = skill_data((skill_mixtures.FIRST, skill_mixtures.ALL), seed=1, narrowest=0)
    return dataclasses.replace(recipe, name="skills-gpu", model=model, train=train, data=data, start=None)


def skill_data(
    mixtures: tuple[Mixture, ...], seed: int, narrowest: int = NARROWEST, retained: Collection[str] = ()
) -> SkillData:
    """Returns conversations of the skills, through their tokenizer and mini's template; see `SkillData`."""
    template = ChatTemplate(chat_template(), TOKENS)
    return SkillData(
        mixtures,
        _tokenizer(),
        template,
        Spelling(build_tokenizer()),
        seed=seed,
        narrowest=narrowest,
        widest=CANVAS,
        retained=retained,
    )
