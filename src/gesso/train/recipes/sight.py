"""Trains `sight`: a small model with eyes, which answers questions about pictures that Pillow drew.

A picture of 96 x 96 pixels is 256 patches, which the tower makes 64 soft tokens of; the encoder reads it once for
several noisy answers. The tower first learns alone what is where, from pictures that say so of every soft token
(`gesso.train.picture_labels`); then it rests, and the text model learns to answer questions about what it says, mostly
many about one picture. In the end both learn together. All start from random weights.
"""

import dataclasses
from functools import partial
from pathlib import Path

from gesso.engine.media import MediaOptions
from gesso.engine.prompt import PromptReader
from gesso.models.hub import resolve
from gesso.models.vision_config import VisionConfig, write_vision_config
from gesso.tasks.sight.scenes import draw_scene
from gesso.tasks.sight.words import build_sight_tokenizer, word_tokens
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer
from gesso.train.config import CanvasWidth, TrainConfig
from gesso.train.picture_labels import PictureLabels
from gesso.train.recipe import Recipe
from gesso.train.recipes.common import FULL, SLIDING, TOKENS, chat_template, small_generation, small_model, text_files
from gesso.train.task_data import WHOLE, Eyes, Stage, TaskData
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
LABELS = 2000
"""Steps of labelled pictures, of 32 each."""
CAUSAL_SHARE = 0.8
"""Share of the steps of questions in which the causal pass learns alone, which the model answers by: of eight questions
on a picture, where canvases learn one."""
ONE = Stage(
    0,
    {
        WHOLE: {
            "sight-talks": 0.40, "sight-colours": 0.02, "sight-counts": 0.12, "sight-positions": 0.02,
            "sight-digits": 0.06, "sight-words": 0.20, "sight-charts": 0.06, "sight-tables": 0.12,
        },
        CANVAS: {"sight-tables": 1.0},
        SHORT: {
            "sight-colours": 0.26, "sight-counts": 0.22, "sight-positions": 0.28, "sight-digits": 0.06,
            "sight-words": 0.12, "sight-charts": 0.06,
        },
    },
)  # fmt: skip
"""All that has one picture."""
ALL = Stage(
    0,
    {
        WHOLE: {
            "sight-talks": 0.45, "sight-colours": 0.01, "sight-counts": 0.20, "sight-positions": 0.01,
            "sight-digits": 0.04, "sight-words": 0.09, "sight-charts": 0.03, "sight-tables": 0.05,
            "sight-comparisons": 0.10, "sight-clips": 0.02,
        },
        CANVAS: {"sight-tables": 1.0},
        SHORT: {
            "sight-colours": 0.12, "sight-counts": 0.14, "sight-positions": 0.14, "sight-digits": 0.08,
            "sight-words": 0.14, "sight-charts": 0.10, "sight-comparisons": 0.18, "sight-clips": 0.10,
        },
    },
)  # fmt: skip
"""And several, which cost several times as much; counts, which take longest to learn, in half of the pictures."""


def sight() -> Recipe:
    """Trains eyes on single pictures: digits, words, shapes, charts, tables; some three hours on two CPU cores."""
    return _recipe("sight", ONE, steps=11_000, label_steps=LABELS)


def sight_2() -> Recipe:
    """Trains the bundled sight further, on two pictures and clips too, counts above all; an hour on one CPU core."""
    return _recipe("sight-2", ALL, steps=6_000, awake=1_800, seed=4, start=resolve("sight"))


def _recipe(
    name: str,
    stage: Stage,
    *,
    steps: int,
    label_steps: int = 0,
    awake: int = 0,
    seed: int = 0,
    start: Path | None = None,
) -> Recipe:
    """Returns the recipe whose tower learns in the first `label_steps` and the last `awake` steps."""
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
        steps=label_steps,
        draw=draw_scene,
        tokens_of=partial(word_tokens, pieces),
        empty=tokenizer.special["<pad>"],
        layout=seen.layout,
        budget=BUDGET,
        size=32,
        seed=seed,
        rest=steps - label_steps - awake,
    )
    train = TrainConfig(
        steps=steps,
        seed=seed,
        batch_size=16,
        canvases_per_example=2,
        narrow=(CanvasWidth(SHORT, batch_size=24, share=0.85, canvases_per_example=4),),
        causal_share=CAUSAL_SHARE,
        causal_batch_size=16,
        learning_rate=3e-3,
        warmup_steps=50,
        time_exponent=0.5,
        optimizer="muon",
        checkpoint_every=200,
        log_every=20,
    )
    data = TaskData((stage,), tokenizer, template, tokenizer.special["<turn|>"], seed=seed, eyes=eyes)
    return Recipe(
        name=name,
        model=model,
        generation=small_generation(tokenizer, mode="ar", temperature=0.0),
        train=train,
        text=text_files(build_sight_tokenizer),
        data=data,
        vision="trained",
        labels=labels,
        start=start,
    )
