"""Makes what recipes of the bundled model's family share: text files, data, and how one run goes on from another."""

import dataclasses
from collections.abc import Callable
from importlib import resources
from typing import Any

from gesso.models.hub import resolve
from gesso.tasks.vocabulary import build_tokenizer
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer
from gesso.train.config import NewText, Recipe
from gesso.train.task_data import Stage, TaskData

TOKENS = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>"}


def continued(
    base: Callable[[], Recipe],
    name: str,
    about: str,
    *stages: Stage,
    start: str | None = None,
    model: dict[str, Any] | None = None,
    generation: dict[str, Any] | None = None,
    seed: int = 0,
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
        )

    recipe.__doc__ = about
    return recipe


def chat_template() -> str:
    """Returns the source of the bundled models' chat template."""
    return resources.files("gesso.tasks").joinpath("chat_template.jinja").read_text("utf-8")


def text_files() -> NewText:
    """Returns the tokenizer and the template that a model trained from scratch is saved with."""
    return NewText(build_tokenizer, chat_template(), {"tokenizer_class": "PreTrainedTokenizerFast", **TOKENS})


def task_data(stages: tuple[Stage, ...], seed: int) -> TaskData:
    """Returns conversations from the task generators, through mini's tokenizer and template."""
    tokenizer = Tokenizer(build_tokenizer())
    template = ChatTemplate(chat_template(), TOKENS)
    return TaskData(stages, tokenizer, template, tokenizer.special["<turn|>"], seed)
