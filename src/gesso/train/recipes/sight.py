"""Trains `sight`: a small model with eyes, which answers questions about pictures that Pillow drew.

A picture of 96 x 96 pixels is 256 patches, which the tower makes 64 soft tokens of; the encoder reads it once for
several noisy answers. The tower first learns alone what is where, from pictures that say so of every soft token
(`gesso.train.picture_labels`); then text model, tower and projector are trained together on questions. All start from
random weights.
"""

import dataclasses
from functools import partial

from gesso.engine.media import MediaOptions
from gesso.engine.prompt import PromptReader
from gesso.models.vision_config import VisionConfig, write_vision_config
from gesso.tasks.sight.scenes import draw_scene
from gesso.tasks.sight.words import build_sight_tokenizer, word_token
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer
from gesso.train.config import CanvasWidth, Recipe, TrainConfig
from gesso.train.picture_labels import PictureLabels
from gesso.train.recipes.common import FULL, SLIDING, TOKENS, chat_template, small_generation, small_model, text_files
from gesso.train.task_data import Eyes, Stage, TaskData
from gesso.train.vision import vision_input_of

BUDGET = 70
"""Soft tokens of a picture at most: of a square one 8 x 8."""
TOWER = VisionConfig(
    hidden_size=128,
    intermediate_size=256,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=4,
    head_dim=32,
    patch_size=6,
    pooling_kernel_size=2,
    position_embedding_size=160,
    rms_norm_eps=1e-6,
    rope_theta=100.0,
    standardize=False,
    use_clipped_linears=False,
)
CANVAS, SHORT = 32, 8
LABELS = 2700
"""Steps of labelled pictures, of 32 each."""
REST = 2600
"""Steps of questions behind them in which the text model learns alone."""
ONE = Stage(
    0,
    {
        CANVAS: {"sight-tables": 1.0},
        SHORT: {
            "sight-first": 0.05, "sight-colours": 0.13, "sight-counts": 0.15, "sight-positions": 0.13,
            "sight-digits": 0.20, "sight-words": 0.17, "sight-charts": 0.17,
        },
    },
)  # fmt: skip
"""First all that has one picture."""
ALL = Stage(
    LABELS + 800,
    {
        CANVAS: {"sight-tables": 1.0},
        SHORT: {
            "sight-digits": 0.16, "sight-colours": 0.09, "sight-counts": 0.14, "sight-words": 0.18,
            "sight-positions": 0.11, "sight-charts": 0.10, "sight-comparisons": 0.14, "sight-clips": 0.08,
        },
    },
)  # fmt: skip
"""And then several, which cost several times as much."""


def sight() -> Recipe:
    """Trains eyes: digits, words, shapes, charts, tables, two pictures, clips; some two hours on two CPU cores."""
    pieces = build_sight_tokenizer()
    tokenizer = Tokenizer(pieces)
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
        image_budget=BUDGET,
    )
    template = ChatTemplate(chat_template(), TOKENS)
    seen = vision_input_of(model)
    eyes = Eyes(PromptReader(tokenizer, template, model, seen), MediaOptions())
    labels = PictureLabels(
        steps=LABELS,
        draw=draw_scene,
        token_of=partial(word_token, pieces),
        empty=tokenizer.special["<pad>"],
        layout=seen.layout,
        budget=BUDGET,
        size=32,
        seed=0,
        rest=REST,
    )
    train = TrainConfig(
        steps=5_600,
        batch_size=16,
        canvases_per_example=2,
        narrow=(CanvasWidth(SHORT, batch_size=24, share=0.85, canvases_per_example=4),),
        learning_rate=3e-3,
        warmup_steps=50,
        time_exponent=0.5,
        optimizer="muon",
        checkpoint_every=200,
        log_every=20,
    )
    data = TaskData((ONE, ALL), tokenizer, template, tokenizer.special["<turn|>"], seed=0, eyes=eyes)
    return Recipe(
        name="sight",
        model=model,
        generation=small_generation(tokenizer, verify=0),
        train=train,
        text=text_files(build_sight_tokenizer),
        data=data,
        vision="trained",
        labels=labels,
    )
