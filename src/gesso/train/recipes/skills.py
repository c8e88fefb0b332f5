"""Trains `skills`: the next `mini`, which takes any word, name or number in many phrasings, and says what it cannot
do."""

import dataclasses
from functools import cache
from typing import Any

from gesso.config import LayerConfig
from gesso.models.hub import resolve
from gesso.tasks.spelled import Spelling, build_tokenizer
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer
from gesso.train.config import CanvasWidth, TrainConfig
from gesso.train.recipe import Recipe
from gesso.train.recipes.common import TOKENS, chat_template, small_generation, small_model, text_files
from gesso.train.skill_data import Mixture, SkillData

CANVAS, NARROWEST = 64, 8
SLIDING = LayerConfig("sliding_attention", head_dim=32, num_key_value_heads=4)
FULL = LayerConfig("full_attention", head_dim=64, num_key_value_heads=2)
"""Twice the key heads of `mini`: letters are copied by keys."""
THREE = (SLIDING, SLIDING, FULL)
SHAPE: dict[str, Any] = {"sliding_window": 256, "canvas_length": CANVAS}
SMALL = {**SHAPE, "layers": THREE * 4, "hidden_size": 192, "intermediate_size": 256, "moe_intermediate_size": 128}
"""10.7 million parameters: `mini` with twice as many layers. A run that goes on from weights of nine layers begins with
copies of the first three behind them (`gesso.train.deepen`)."""
LARGE = {**SHAPE, "layers": THREE * 2, "hidden_size": 256, "intermediate_size": 512, "moe_intermediate_size": 192}
"""12 million parameters, for who has a GPU."""

NARROW = (
    CanvasWidth(8, batch_size=64, share=0.10, canvases_per_example=3),
    CanvasWidth(16, batch_size=48, share=0.25, canvases_per_example=3),
    CanvasWidth(32, batch_size=24, share=0.45, canvases_per_example=3),
)


FIRST = Mixture(
    0,
    {
        "sorting": 0.06, "duplicates": 0.05, "reversing": 0.06, "casing": 0.06, "replacing": 0.07, "extraction": 0.09,
        "functions": 0.08, "changes": 0.05, "conversion": 0.05, "dates": 0.03, "units": 0.03, "sums": 0.06,
        "ranges": 0.04, "filling": 0.02, "calls": 0.04, "sentiment": 0.01, "topics": 0.015, "dialogues": 0.04,
        "abstention": 0.05,
        "json": 0.03, "code": 0.03, "arithmetic": 0.05, "ordering": 0.02, "editing": 0.04, "counting": 0.03,
        "revision": 0.015, "revision-in-file": 0.01,
    },
)  # fmt: skip
"""All skills, and the six tasks in the words of the model before."""
ALL = Mixture(
    1200,
    {
        **FIRST.weights,
        "sorting": 0.075, "reversing": 0.075, "casing": 0.05, "replacing": 0.08, "extraction": 0.08, "functions": 0.06,
        "changes": 0.045, "conversion": 0.055, "sums": 0.12, "ranges": 0.045, "filling": 0.03, "calls": 0.035,
        "topics": 0.02, "abstention": 0.04,
        "code": 0.015, "arithmetic": 0.06, "ordering": 0.03, "editing": 0.05, "counting": 0.015,
    },
)  # fmt: skip
"""The same with more of what is learned late."""
AGAIN = Mixture(
    0,
    {
        **ALL.weights,
        "sorting": 0.09, "duplicates": 0.07, "reversing": 0.06, "replacing": 0.10, "extraction": 0.10,
        "functions": 0.04, "changes": 0.05, "conversion": 0.07, "units": 0.04, "sums": 0.10, "ranges": 0.05,
        "filling": 0.02, "calls": 0.05, "sentiment": 0.02, "topics": 0.01, "dialogues": 0.06, "abstention": 0.03,
        "json": 0.01, "code": 0.01, "arithmetic": 0.03, "ordering": 0.01, "editing": 0.03, "counting": 0.01,
    },
)  # fmt: skip
"""The same with more of what was worst after the first run, and little of what was all right."""
THIRD = Mixture(
    0,
    {
        **AGAIN.weights,
        "sorting": 0.11, "duplicates": 0.08, "casing": 0.03, "replacing": 0.12, "extraction": 0.09, "functions": 0.02,
        "changes": 0.045, "dates": 0.03, "ranges": 0.05, "filling": 0.01, "calls": 0.04, "sentiment": 0.03,
        "dialogues": 0.075, "json": 0.005, "code": 0.005, "arithmetic": 0.04, "ordering": 0.025, "editing": 0.05,
        "revision": 0.005, "revision-in-file": 0.005,
    },
)  # fmt: skip
"""The same with more of what was worst after the second run."""
FOURTH = Mixture(
    0,
    {
        **THIRD.weights,
        "sorting": 0.12, "reversing": 0.07, "casing": 0.04, "replacing": 0.13, "extraction": 0.10, "sums": 0.11,
        "dates": 0.025, "units": 0.025, "ranges": 0.055, "calls": 0.035, "sentiment": 0.02,
    },
)  # fmt: skip
"""The same with more of what was worst after the third run."""
FIFTH = Mixture(
    0,
    {
        **FOURTH.weights,
        "sorting": 0.13, "reversing": 0.08, "casing": 0.045, "replacing": 0.14, "conversion": 0.04, "changes": 0.035,
        "dates": 0.035, "units": 0.045, "sums": 0.19, "ranges": 0.06, "sentiment": 0.015, "topics": 0.02,
        "dialogues": 0.07, "abstention": 0.035, "arithmetic": 0.05, "ordering": 0.015,
    },
)  # fmt: skip
"""The same with more of what was worst after the fourth run, and of answers so short that they count little."""
SIXTH = Mixture(
    0, {**FIFTH.weights, "ranges": 0.075, "filling": 0.04, "changes": 0.045, "ordering": 0.02, "counting": 0.015}
)
"""The same with more of what only a canvas is asked for, and of what was lost in the fifth run."""
SEVENTH = Mixture(
    0,
    {
        **SIXTH.weights,
        "sorting": 0.14, "duplicates": 0.09, "reversing": 0.085, "casing": 0.055, "replacing": 0.16,
        "extraction": 0.12, "topics": 0.03, "dialogues": 0.09, "filling": 0.01,
    },
)  # fmt: skip
"""The same with more of what was worst in what was bundled, in six layers."""
EIGHTH = Mixture(
    0,
    {
        **SEVENTH.weights,
        "reversing": 0.11, "casing": 0.06, "replacing": 0.20, "extraction": 0.15, "units": 0.055, "sums": 0.26,
        "topics": 0.035, "dialogues": 0.10, "editing": 0.06,
    },
)  # fmt: skip
"""The same with more of what was worst after the seventh run."""
NINTH = Mixture(
    0,
    {
        **EIGHTH.weights,
        "sorting": 0.16, "reversing": 0.15, "casing": 0.09, "duplicates": 0.10, "ranges": 0.09, "sums": 0.30,
        "sentiment": 0.10, "topics": 0.12, "dialogues": 0.12, "abstention": 0.045,
    },
)  # fmt: skip
"""The same with more of what was worst after the eighth run."""
TENTH = Mixture(
    0,
    {
        **NINTH.weights,
        "sorting": 0.24, "duplicates": 0.13, "reversing": 0.17, "replacing": 0.30, "extraction": 0.22,
        "changes": 0.085, "dialogues": 0.15, "topics": 0.13, "sums": 0.32,
    },
)  # fmt: skip
"""The same with more of what was worst after the ninth run."""
ELEVENTH = Mixture(
    0,
    {
        **TENTH.weights,
        "sorting": 0.27, "replacing": 0.32, "reversing": 0.18, "extraction": 0.42, "conversion": 0.03, "sums": 0.55,
        "functions": 0.02, "changes": 0.13, "sentiment": 0.11, "topics": 0.14, "dialogues": 0.19, "abstention": 0.07,
        "editing": 0.04, "arithmetic": 0.04,
    },
)  # fmt: skip
"""The same with still more of what was worst, in some 7,400 more patterns."""
TWELFTH = Mixture(
    0,
    {
        **ELEVENTH.weights,
        "duplicates": 0.16, "reversing": 0.20, "casing": 0.15, "replacing": 0.36, "extraction": 0.46, "dates": 0.07,
        "units": 0.06, "ranges": 0.14, "calls": 0.05, "functions": 0.045, "conversion": 0.045, "changes": 0.12,
        "arithmetic": 0.12, "ordering": 0.07, "editing": 0.09, "counting": 0.02,
    },
)  # fmt: skip
"""The same with more of what was below its goal, in steps that are large enough for some of everything."""
THIRTEENTH = Mixture(
    0,
    {
        **TWELFTH.weights,
        "extraction": 1.0, "replacing": 0.55, "sorting": 0.42, "sums": 0.45, "casing": 0.12, "duplicates": 0.12,
        "reversing": 0.16, "ordering": 0.09, "arithmetic": 0.14, "editing": 0.10, "dates": 0.06, "changes": 0.08,
        "dialogues": 0.14, "topics": 0.10, "sentiment": 0.08, "ranges": 0.12,
    },
)  # fmt: skip
"""The same with more of the three skills that were below their goals."""
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
        data=skill_data((FIRST, ALL), seed=0),
    )


def skills_2() -> Recipe:
    """Goes on from the bundled `skills` for some two hours of two cores: the causal pass alone."""
    return _causal_run(2, AGAIN, steps=4000, learning_rate=1.8e-3)


def skills_3() -> Recipe:
    """Goes on from the bundled `skills` once more, as `skills_2` does."""
    return _causal_run(3, THIRD, steps=4150, learning_rate=1.8e-3)


def skills_4() -> Recipe:
    """Goes on from the bundled `skills` a third time, as `skills_2` does."""
    return _causal_run(4, FOURTH, steps=3950)


def skills_5() -> Recipe:
    """Goes on from the bundled `skills` a fourth time, as `skills_2` does."""
    return _causal_run(5, FIFTH, steps=3560)


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
    data = skill_data((SIXTH,), seed=6, narrowest=0)
    return dataclasses.replace(recipe, name="skills-6", train=train, data=data, start=resolve("skills"))


def skills_7() -> Recipe:
    """Goes on from the bundled `skills` as `skills_5` does, for longer."""
    return _causal_run(7, SEVENTH, steps=5700)


def skills_8() -> Recipe:
    """Goes on from the bundled `skills` as `skills_7` does, for longer still."""
    return _causal_run(8, EIGHTH, steps=10800)


def skills_9() -> Recipe:
    """Goes on from the bundled `skills` for a short while; see `gesso.train.mean_weights`."""
    return _causal_run(9, NINTH, steps=2900, learning_rate=1.6e-3)


def skills_10() -> Recipe:
    """Goes on from the bundled `skills` as `skills_9` does, with more of what was worst. Run once; not bundled."""
    return _causal_run(10, TENTH, steps=2200, learning_rate=2e-3)


def skills_11() -> Recipe:
    """Goes on from the bundled `skills` as `skills_9` does, in more wordings; see `gesso.train.mean_weights`."""
    return _causal_run(11, ELEVENTH, steps=2700, learning_rate=2e-3)


def skills_12() -> Recipe:
    """Goes on from the bundled `skills` for five minutes of one GPU: the causal pass alone, 32 times the examples a
    step."""
    recipe = _causal_run(12, TWELFTH, steps=835, learning_rate=5e-3)
    train = dataclasses.replace(recipe.train, causal_batch_size=2048, warmup_steps=150, workers=8, checkpoint_every=500)
    return dataclasses.replace(recipe, train=train)


def skills_13() -> Recipe:
    """Goes on from the bundled `skills` as `skills_9` does, on two cores, for what was below its goal."""
    return _causal_run(13, THIRTEENTH, steps=1400, learning_rate=1.2e-3)


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
    data = skill_data((FIRST, ALL), seed=1, narrowest=0)
    return dataclasses.replace(recipe, name="skills-gpu", model=model, train=train, data=data, start=None)


def skill_data(mixtures: tuple[Mixture, ...], seed: int, narrowest: int = NARROWEST) -> SkillData:
    """Returns conversations of the skills, through their tokenizer and mini's template; see `SkillData`."""
    template = ChatTemplate(chat_template(), TOKENS)
    return SkillData(
        mixtures, _tokenizer(), template, Spelling(build_tokenizer()), seed=seed, narrowest=narrowest, widest=CANVAS
    )
