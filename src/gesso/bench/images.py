"""Measures what images cost: pre-processing and the vision tower; and puts them before the prompts of every cell."""

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gesso.bench.cells import Cell
from gesso.bench.floor import Rates
from gesso.bench.machine import synchronise
from gesso.bench.spread import Spread
from gesso.engine.engine import Engine
from gesso.engine.media import Media, MediaOptions, Source
from gesso.errors import OptionError
from gesso.models.vision_config import VisionConfig
from gesso.runner.model_runner import ModelRunner
from gesso.vision import NO_VISION
from gesso.vision.preprocess import PreparedImage

AROUND = 2
"""Tokens before and after an image."""


class BenchImages:
    """Holds the images of a benchmark, which every request shows before its text."""

    def __init__(self, engine: Engine, files: Sequence[str | Path], budget: int | None) -> None:
        """
        Raises:
            OptionError: the model has no eyes, or a budget that does not exist.
            ImageError: a file cannot be read.
        """
        self._engine = engine
        self._files, self._options = files, MediaOptions(image_budget=budget)
        self._shown = 0
        vision = engine.runner.vision
        self._budget = budget if vision is None else budget or vision.budget
        if files and vision is None:
            raise OptionError(f"--image: {NO_VISION}", option="image")
        self._images = self._prepare()

    def _prepare(self) -> list[PreparedImage]:
        images, _ = Media(images=[Source(file) for file in self._files]).prepare(
            self._engine.runner.vision, self._options
        )
        return images

    @property
    def tokens(self) -> int:
        """Returns the tokens of a prompt that its images take, those around them among them."""
        return sum(image.soft_tokens + AROUND for image in self._images)

    def check(self, cells: Sequence[Cell]) -> None:
        """Refuses prompts that are no longer than their images.

        Raises:
            OptionError: one is not.
        """
        least = min(cell.prompt for cell in cells)
        if self._images and least <= self.tokens:
            raise OptionError(
                f"--prompt {least} counts the images' tokens, too, and they are {self.tokens}: give more",
                option="prompt",
            )

    def before(self, text: Sequence[int]) -> list[int]:
        """Returns the ids of a prompt of as many tokens as `text`: a marker for each image, then as much of the text as
        there is room for."""
        if not self._images:
            return list(text)
        marker = self._engine.runner.config.image_token_ids[1]
        return [marker] * len(self._images) + list(text[: len(text) - self.tokens])

    def fresh(self) -> list[PreparedImage]:
        """Returns the images under names of their own, so that what the tower made of them before is not found."""
        self._shown += 1
        return [dataclasses.replace(image, digest=f"{image.digest}/{self._shown}") for image in self._images]

    def report(self, rates: Rates, repeats: int, warmup: int) -> dict[str, Any] | None:
        """Measures pre-processing and tower by themselves, all images of a prompt; None where there are none."""
        runner = self._engine.runner
        if not self._images or not isinstance(runner, ModelRunner) or runner.tower is None:
            return None
        prepared, encoded = [], []
        for number in range(warmup + repeats):
            started = time.perf_counter()
            images = self._prepare()
            made = time.perf_counter()
            runner.tower.embed(images)
            synchronise(runner.device)
            ended = time.perf_counter()
            if number >= warmup:
                prepared.append(1e3 * (made - started))
                encoded.append(1e3 * (ended - made))
        patches = [image.rows * image.columns for image in self._images]
        floor_ms = 1e3 * sum(tower_operations(runner.tower.config, count) for count in patches) / rates.operations
        tower_ms = dataclasses.asdict(Spread.of(encoded))
        return {
            "images": len(self._images),
            "budget": self._budget,
            "soft_tokens": [image.soft_tokens for image in self._images],
            "prepare_ms": dataclasses.asdict(Spread.of(prepared)),
            "tower_ms": tower_ms,
            "tower_floor_ms": floor_ms,
            "times_floor": tower_ms["median"] / floor_ms,
        }


def tower_operations(config: VisionConfig, patches: int) -> float:
    """Counts the multiplications and additions of a tower over one image: those of its matrices and of attention."""
    heads = (config.num_attention_heads + config.num_key_value_heads) * 2 * config.head_dim
    weights = config.hidden_size * (heads + 3 * config.intermediate_size)
    attention = 2 * patches * config.num_attention_heads * config.head_dim
    return 2.0 * patches * (config.num_hidden_layers * (weights + attention) + config.pixels * config.hidden_size)
