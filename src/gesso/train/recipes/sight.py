"""Trains `sight`: a small model with eyes, which answers questions about pictures that Pillow drew.

A picture of 96 x 96 pixels is 256 patches, which the tower makes 64 soft tokens of; the encoder reads it once for
several noisy answers. Text model, tower and projector are trained together, from random weights.
"""

import dataclasses

from gesso.engine.media import MediaOptions
from gesso.engine.prompt import PromptReader
from gesso.models.vision_config import VisionConfig, write_vision_config
from gesso.tasks.sight.words import build_sight_tokenizer
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer
from gesso.train.config import CanvasWidth, Recipe, TrainConfig
from gesso.train.recipes.common import FULL, SLIDING, TOKENS, chat_template, small_generation, small_model, text_files
from gesso.train.task_data import Eyes, Stage, TaskData
from gesso.train.vision import vision_input_of

BUDGET = 70
"""Soft tokens of a picture at most: of a square one 8 x 8."""
TOWER = VisionConfig(
    hidden_size=96,
    intermediate_size=256,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=4,
    head_dim=24,
    patch_size=6,
    pooling_kernel_size=2,
    position_embedding_size=160,
    rms_norm_eps=1e-6,
    rope_theta=100.0,
    standardize=False,
    use_clipped_linears=False,
)
CANVAS, SHORT = 32, 8
FIRST = Stage(0, {CANVAS: {"sight-first": 1.0}, SHORT: {"sight-first": 1.0}})
"""One thing in a picture: with everything at once, nothing is learned for a long time."""
SHAPES = Stage(
    300,
    {
        CANVAS: {"sight-first": 1.0},
        SHORT: {
            "sight-first": 0.20, "sight-colours": 0.20, "sight-counts": 0.20, "sight-positions": 0.20,
            "sight-digits": 0.20,
        },
    },
)  # fmt: skip
"""Then several shapes, and numbers."""
SIMPLE = Stage(
    900,
    {
        CANVAS: {"sight-tables": 1.0},
        SHORT: {
            "sight-first": 0.05, "sight-colours": 0.13, "sight-counts": 0.15, "sight-positions": 0.13,
            "sight-digits": 0.20, "sight-words": 0.17, "sight-charts": 0.17,
        },
    },
)  # fmt: skip
"""Then all that has one picture."""
ALL = Stage(
    2000,
    {
        CANVAS: {"sight-tables": 1.0},
        SHORT: {
            "sight-digits": 0.16, "sight-colours": 0.09, "sight-counts": 0.14, "sight-words": 0.18,
            "sight-positions": 0.11, "sight-charts": 0.14, "sight-comparisons": 0.12, "sight-clips": 0.06,
        },
    },
)  # fmt: skip
"""And at last several, which cost several times as much."""


def sight() -> Recipe:
    """Trains eyes: digits, words, shapes, charts, tables, two pictures, clips; some hours on one CPU core."""
    tokenizer = Tokenizer(build_sight_tokenizer())
    shape = small_model(
        tokenizer,
        hidden_size=128,
        intermediate_size=192,
        moe_intermediate_size=128,
        sliding_window=512,
        canvas_length=CANVAS,
    )
    model = dataclasses.replace(
        shape,
        layers=(SLIDING, FULL, SLIDING, FULL),
        num_experts=4,
        top_k_experts=1,
        vision_config=write_vision_config(TOWER),
    )
    template = ChatTemplate(chat_template(), TOKENS)
    eyes = Eyes(PromptReader(tokenizer, template, model, vision_input_of(model)), MediaOptions(image_budget=BUDGET))
    train = TrainConfig(
        steps=10_000,
        batch_size=16,
        canvases_per_example=2,
        narrow=(CanvasWidth(SHORT, batch_size=24, share=0.85, canvases_per_example=2),),
        learning_rate=2e-3,
        warmup_steps=50,
        time_exponent=0.5,
        optimizer="muon",
        checkpoint_every=200,
        log_every=20,
    )
    data = TaskData((FIRST, SHAPES, SIMPLE, ALL), tokenizer, template, tokenizer.special["<turn|>"], seed=0, eyes=eyes)
    return Recipe(
        name="sight",
        model=model,
        generation=small_generation(tokenizer, verify=0),
        train=train,
        text=text_files(build_sight_tokenizer),
        data=data,
        vision="trained",
    )
