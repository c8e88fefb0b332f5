"""`mini`, the bundled model: every part of the architecture at a size that trains on two CPU cores."""

import dataclasses
from importlib import resources

from gesso.config import LayerConfig, ModelConfig, RopeConfig
from gesso.generation import GenerationConfig
from gesso.models.hub import resolve
from gesso.tasks.vocabulary import build_tokenizer
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer
from gesso.train.config import CanvasWidth, NewText, Recipe, TrainConfig
from gesso.train.task_data import Stage, TaskData

SLIDING = LayerConfig("sliding_attention", head_dim=32, num_key_value_heads=2)
FULL = LayerConfig("full_attention", head_dim=64, num_key_value_heads=1)

FIRST = Stage(
    0,
    {
        32: {"json": 0.14, "code": 0.22, "arithmetic": 0.20, "ordering": 0.18, "editing": 0.14, "counting": 0.12},
        16: {"json": 0.10, "code": 0.10, "arithmetic": 0.20, "ordering": 0.45, "editing": 0.15},
        8: {"arithmetic": 0.65, "ordering": 0.10, "editing": 0.25},
    },
)
SECOND = Stage(
    2250,
    {
        32: {"json": 0.20, "code": 0.20, "arithmetic": 0.05, "ordering": 0.10, "editing": 0.05, "counting": 0.40},
        16: {"json": 0.05, "code": 0.05, "arithmetic": 0.20, "ordering": 0.30, "editing": 0.10, "counting": 0.30},
        8: {"arithmetic": 0.90, "ordering": 0.05, "editing": 0.05},
    },
)
"""By step 2,250 JSON, code and editing are nearly learned; counting and arithmetic take the longest."""
NARROW = (
    CanvasWidth(canvas_length=8, batch_size=128, share=0.35),
    CanvasWidth(canvas_length=16, batch_size=96, share=0.25),
)

LONGER = Stage(
    0,
    {
        32: {"json": 0.14, "code": 0.12, "arithmetic": 0.04, "ordering": 0.08, "editing": 0.07, "counting": 0.55},
        16: {"json": 0.05, "code": 0.05, "arithmetic": 0.10, "ordering": 0.45, "editing": 0.30, "counting": 0.05},
        8: {"arithmetic": 0.92, "ordering": 0.03, "editing": 0.05},
    },
)
LONGER_2 = Stage(
    1250,
    {
        32: {"json": 0.08, "code": 0.06, "arithmetic": 0.02, "ordering": 0.06, "editing": 0.04, "counting": 0.74},
        16: {"json": 0.04, "code": 0.04, "arithmetic": 0.08, "ordering": 0.54, "editing": 0.22, "counting": 0.08},
        8: {"arithmetic": 0.92, "ordering": 0.03, "editing": 0.05},
    },
)
"""The second run: what the first left unlearned, and in the end mostly counting, which does not yet stop in time."""

ENDS = Stage(
    0,
    {
        32: {"json": 0.20, "code": 0.14, "arithmetic": 0.04, "ordering": 0.08, "editing": 0.08, "counting": 0.46},
        16: {"json": 0.03, "code": 0.03, "arithmetic": 0.04, "ordering": 0.24, "editing": 0.22, "counting": 0.44},
        8: {"arithmetic": 0.94, "ordering": 0.03, "editing": 0.03},
    },
)
"""The third run: where a count ends, differences, duplicates."""

STOPS = Stage(
    0,
    {
        32: {
            "json": 0.10, "code": 0.08, "arithmetic": 0.02, "ordering": 0.06, "editing": 0.07, "counting": 0.52,
            "revision": 0.15,
        },
        16: {
            "json": 0.02, "code": 0.02, "arithmetic": 0.03, "ordering": 0.22, "editing": 0.23, "counting": 0.38,
            "revision": 0.10,
        },
        8: {"arithmetic": 0.95, "ordering": 0.02, "editing": 0.03},
    },
)  # fmt: skip
"""The fourth run: more of the same, still mostly where a count ends, and changes to a given function."""

WIDER = Stage(
    0,
    {
        32: {
            "json": 0.08, "code": 0.07, "arithmetic": 0.02, "ordering": 0.07, "editing": 0.08, "counting": 0.56,
            "revision": 0.12,
        },
        16: {
            "json": 0.02, "code": 0.02, "arithmetic": 0.04, "ordering": 0.28, "editing": 0.28, "counting": 0.28,
            "revision": 0.08,
        },
        8: {"arithmetic": 0.95, "ordering": 0.02, "editing": 0.03},
    },
)  # fmt: skip
"""The fifth run: the same skills with a window in which a whole count sees where it is to end."""

LAST = Stage(
    0,
    {
        32: {
            "json": 0.08, "code": 0.07, "arithmetic": 0.10, "ordering": 0.08, "editing": 0.15, "counting": 0.36,
            "revision": 0.16,
        },
        16: {
            "json": 0.02, "code": 0.02, "arithmetic": 0.04, "ordering": 0.26, "editing": 0.44, "counting": 0.15,
            "revision": 0.07,
        },
        8: {"arithmetic": 0.96, "ordering": 0.02, "editing": 0.02},
    },
)  # fmt: skip
"""The sixth run: duplicates and arithmetic, which were short of their goals, and changes that start from the text."""

AROUND = Stage(
    0,
    {
        32: {
            "json": 0.08, "code": 0.07, "arithmetic": 0.08, "ordering": 0.08, "editing": 0.14, "counting": 0.28,
            "revision": 0.09, "revision-in-file": 0.18,
        },
        16: {
            "json": 0.02, "code": 0.02, "arithmetic": 0.04, "ordering": 0.24, "editing": 0.40, "counting": 0.10,
            "revision": 0.05, "revision-in-file": 0.13,
        },
        8: {"arithmetic": 0.96, "ordering": 0.02, "editing": 0.02},
    },
)  # fmt: skip
"""The seventh run: changes to a part of a file, with the rest of it in the prompt."""
AROUND_2 = Stage(
    1200,
    {
        32: {
            "json": 0.06, "code": 0.05, "arithmetic": 0.06, "ordering": 0.06, "editing": 0.12, "counting": 0.44,
            "revision": 0.07, "revision-in-file": 0.14,
        },
        16: {
            "json": 0.02, "code": 0.02, "arithmetic": 0.03, "ordering": 0.20, "editing": 0.34, "counting": 0.25,
            "revision": 0.04, "revision-in-file": 0.10,
        },
        8: {"arithmetic": 0.96, "ordering": 0.02, "editing": 0.02},
    },
)  # fmt: skip
"""Counting again, which had lost a little."""

VISION = {
    "model_type": "gemma4_vision",
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "position_embedding_size": 16,
}
"""The format wants a vision tower described; mini has none, and this one is too small to matter."""


TOKENS = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>"}


def mini() -> Recipe:
    """Six skills from generators, 5.5 million parameters."""
    tokenizer = Tokenizer(build_tokenizer())
    special = tokenizer.special
    model = ModelConfig(
        vocab_size=tokenizer.size,
        hidden_size=192,
        intermediate_size=256,
        num_attention_heads=4,
        layers=(SLIDING, SLIDING, FULL) * 2,
        num_experts=8,
        top_k_experts=2,
        moe_intermediate_size=128,
        sliding_window=64,
        sliding_rope=RopeConfig("default", 10_000.0),
        full_rope=RopeConfig("proportional", 1_000_000.0, 0.25),
        canvas_length=32,
        max_position_embeddings=4096,
        image_token_ids=(special["<|image>"], special["<|image|>"], special["<image|>"]),
        vision_config=VISION,
    )
    stops = (special["<eos>"], special["<turn|>"], special["<|tool_response>"])
    return Recipe(
        name="mini",
        model=model,
        generation=GenerationConfig(eos_token_ids=stops, pad_token_id=special["<pad>"], verify="auto"),
        train=TrainConfig(steps=3250, encoder_loss_weight=0.2, narrow=NARROW),
        text=NewText(build_tokenizer, _chat_template(), {"tokenizer_class": "PreTrainedTokenizerFast", **TOKENS}),
        data=task_data((FIRST, SECOND), seed=0),
    )


def mini_2() -> Recipe:
    """`mini` trained on, from its bundled weights, with three canvases of each example that is encoded."""
    recipe = mini()
    train = TrainConfig(
        steps=2300,
        batch_size=40,
        canvases_per_example=3,
        narrow=(CanvasWidth(8, 96, share=0.45, canvases_per_example=3), CanvasWidth(16, 64, 0.25, 3)),
        learning_rate=1.5e-3,
        warmup_steps=100,
        encoder_loss_weight=0.2,
        seed=1,
    )
    return dataclasses.replace(
        recipe, name="mini-2", train=train, data=task_data((LONGER, LONGER_2), seed=1), start=resolve("mini")
    )


def mini_3() -> Recipe:
    """`mini` trained on once more, from the weights that `mini-2` left in the package."""
    recipe = mini_2()
    train = dataclasses.replace(
        recipe.train,
        steps=2000,
        narrow=(CanvasWidth(8, 96, share=0.40, canvases_per_example=3), CanvasWidth(16, 64, 0.35, 3)),
        encoder_loss_weight=0.3,
        seed=2,
    )
    return dataclasses.replace(recipe, name="mini-3", train=train, data=task_data((ENDS,), seed=2))


def mini_4() -> Recipe:
    """`mini` trained on once more, from the weights that `mini-3` left in the package."""
    recipe = mini_3()
    train = dataclasses.replace(
        recipe.train,
        steps=2500,
        narrow=(CanvasWidth(8, 96, share=0.35, canvases_per_example=3), CanvasWidth(16, 64, 0.35, 3)),
        learning_rate=1.3e-3,
        precision="bfloat16",
        seed=3,
    )
    return dataclasses.replace(recipe, name="mini-4", train=train, data=task_data((STOPS,), seed=3))


def mini_5() -> Recipe:
    """`mini` trained on, from the weights that `mini-4` left in the package, with a sliding window of 256."""
    recipe = mini_4()
    train = dataclasses.replace(recipe.train, learning_rate=1.2e-3, optimizer="muon", seed=4)
    model = dataclasses.replace(recipe.model, sliding_window=256)
    return dataclasses.replace(recipe, name="mini-5", model=model, train=train, data=task_data((WIDER,), seed=4))


def mini_6() -> Recipe:
    """`mini` trained on from the weights of `mini-5`, also on drafts of its own and on texts that are to change."""
    recipe = mini_5()
    train = dataclasses.replace(
        recipe.train,
        steps=1500,
        narrow=(CanvasWidth(8, 96, share=0.40, canvases_per_example=3), CanvasWidth(16, 64, 0.35, 3)),
        self_conditioning_probability=0.6,
        own_draft_probability=0.5,
        source_probability=0.5,
        seed=5,
    )
    return dataclasses.replace(recipe, name="mini-6", train=train, data=task_data((LAST,), seed=5))


def mini_7() -> Recipe:
    """`mini` trained on from the weights of `mini-6`, also on changes to a part of a file."""
    recipe = mini_6()
    train = dataclasses.replace(recipe.train, steps=1650, learning_rate=1e-3, seed=6)
    return dataclasses.replace(recipe, name="mini-7", train=train, data=task_data((AROUND, AROUND_2), seed=6))


def _chat_template() -> str:
    return resources.files("gesso.tasks").joinpath("chat_template.jinja").read_text("utf-8")


def task_data(stages: tuple[Stage, ...], seed: int) -> TaskData:
    """Conversations from the task generators, through mini's tokenizer and template."""
    tokenizer = Tokenizer(build_tokenizer())
    template = ChatTemplate(_chat_template(), TOKENS)
    return TaskData(stages, tokenizer, template, tokenizer.special["<turn|>"], seed)
