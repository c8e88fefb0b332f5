"""Makes what recipes of the bundled model's family share: text files, data, and how one run goes on from another."""

import dataclasses
from collections.abc import Callable
from importlib import resources
from typing import Any

import tokenizers

from gesso.config import LayerConfig, ModelConfig, RopeConfig
from gesso.generation import GenerationConfig
from gesso.models.hub import resolve
from gesso.tasks.vocabulary import build_tokenizer
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer
from gesso.train.recipe import Recipe
from gesso.train.task_data import Stage, TaskData
from gesso.train.text_files import NewText

TOKENS = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>"}

SLIDING = LayerConfig("sliding_attention", head_dim=32, num_key_value_heads=2)
FULL = LayerConfig("full_attention", head_dim=64, num_key_value_heads=1)
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
"""The format wants a vision tower described; these models have none, and this one is too small to matter."""


def small_model(
    tokenizer: Tokenizer, layers: tuple[LayerConfig, ...] = (SLIDING, SLIDING, FULL) * 2, **shape: Any
) -> ModelConfig:
    """Returns the shape of a model of the family: six layers, eight experts of which two work on a token.

    Args:
        layers: of attention.
        shape: the fields of `ModelConfig` that differ within the family.
    """
    special = tokenizer.special
    return ModelConfig(
        vocab_size=tokenizer.size,
        num_attention_heads=4,
        layers=layers,
        num_experts=8,
        top_k_experts=2,
        sliding_rope=RopeConfig("default", 10_000.0),
        full_rope=RopeConfig("proportional", 1_000_000.0, 0.25),
        max_position_embeddings=4096,
        image_token_ids=(special["<|image>"], special["<|image|>"], special["<image|>"]),
        vision_config=VISION,
        **shape,
    )


def small_generation(tokenizer: Tokenizer, **options: Any) -> GenerationConfig:
    """Returns the defaults of a model of the family: answers end with its stop tokens."""
    special = tokenizer.special
    stops = (special["<eos>"], special["<turn|>"], special["<|tool_response>"])
    return GenerationConfig(eos_token_ids=stops, pad_token_id=special["<pad>"], **options)


def continued(
    base: Callable[[], Recipe],
    name: str,
    about: str,
    *stages: Stage,
    start: str | None = None,
    model: dict[str, Any] | None = None,
    generation: dict[str, Any] | None = None,
    seed: int = 0,
    distill: float | None = None,
    **train: Any,
) -> Callable[[], Recipe]:
    """Returns a recipe that is `base` but for what is named.

    Args:
        about: one line, shown where recipes are listed.
        stages: tasks of the run, drawn with `seed`.
        start: name of the bundled model whose weights the run starts from; None for those that `base` starts from.
        model: fields of `ModelConfig` that change.
        generation: fields of `GenerationConfig` that change.
        seed: of the data and of the training.
        distill: how much earlier in time the start is listened to, which is then the teacher.
        train: fields of `TrainConfig` that change.
    """

    def recipe() -> Recipe:
        own = base()
        return dataclasses.replace(
            own,
            name=name,
            model=dataclasses.replace(own.model, **(model or {})),
            generation=dataclasses.replace(own.generation, **(generation or {})),
            train=dataclasses.replace(own.train, seed=seed, **train),
            data=task_data(stages, seed),
            start=own.start if start is None else resolve(start),
            distill=distill,
        )

    recipe.__doc__ = about
    return recipe


def chat_template() -> str:
    """Returns the source of the bundled models' chat template."""
    return resources.files("gesso.tasks").joinpath("chat_template.jinja").read_text("utf-8")


def text_files(tokenizer: Callable[[], tokenizers.Tokenizer] = build_tokenizer) -> NewText:
    """Returns the tokenizer and the template that a model trained from scratch is saved with."""
    return NewText(tokenizer, chat_template(), {"tokenizer_class": "PreTrainedTokenizerFast", **TOKENS})


def task_data(stages: tuple[Stage, ...], seed: int) -> TaskData:
    """Returns conversations from the task generators, through mini's tokenizer and template."""
    tokenizer = Tokenizer(build_tokenizer())
    template = ChatTemplate(chat_template(), TOKENS)
    return TaskData(stages, tokenizer, template, tokenizer.special["<turn|>"], seed)
