"""Answers the fixed prompts of a run on its way, to watch it learn."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from gesso.engine.engine import Engine
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer
from gesso.train.recipe import Recipe
from gesso.train.records import Sample


def answer_prompts(recipe: Recipe, model: DiffusionGemma, step: int) -> Iterator[Sample]:
    """Answers `sample_prompts` with the model as it is, by seeds that never change; it is left in eval mode.

    Raises:
        UserError: a prompt cannot be answered.
        OSError: the files of the tokenizer cannot be written.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recipe.text.write(folder)
        tokenizer = Tokenizer.from_folder(folder)
        template = ChatTemplate.from_folder(folder)
    engine = Engine(model.eval(), tokenizer, template, recipe.generation)
    for seed, prompt in enumerate(recipe.train.sample_prompts):
        result = engine.generate(prompt, seed=seed, raw=recipe.raw_samples or template is None)
        yield Sample(step, prompt, result.text, tuple(result.denoising_steps))
