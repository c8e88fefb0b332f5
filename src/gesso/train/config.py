"""What a training run is made of. A recipe is a function that returns a complete `Recipe`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import tokenizers

from gesso.config import GenerationConfig, ModelConfig
from gesso.errors import ConfigError
from gesso.train.batch import Conversation


class Data(Protocol):
    """Training examples as a function of the step alone, so that a resumed run sees the same ones."""

    def batch(self, step: int, size: int, canvas_length: int) -> list[Conversation]:
        """The `size` examples of step `step` (from 0), which will be cut into canvases of `canvas_length`."""


@dataclass(frozen=True, slots=True)
class CanvasWidth:
    """A share of the steps whose answers are cut into narrower canvases than the model's.

    A short answer on a wide canvas is mostly end-of-sequence filling; narrow canvases teach the same for a
    fraction of the work, and teach the model to be used with them.
    """

    canvas_length: int
    batch_size: int
    share: float
    canvases_per_example: int = 1


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """Optimisation. Steps are optimiser steps; losses are nats a token."""

    steps: int
    batch_size: int = 64
    narrow: tuple[CanvasWidth, ...] = ()
    """Steps with narrower canvases; the rest of the steps use the model's own width and `batch_size`."""
    canvases_per_example: int = 1
    """Canvases trained on for each example that the encoder reads, of the steps at the model's own width."""
    learning_rate: float = 2e-3
    warmup_steps: int = 200
    """Linear from zero; then cosine to zero at `steps`."""
    beta1: float = 0.9
    beta2: float = 0.98
    weight_decay: float = 0.0
    """Of matrices; norms and scales are never decayed."""
    gradient_clip: float = 1.0
    encoder_loss_weight: float = 1.0
    self_conditioning_probability: float = 0.5
    precision: Literal["float32", "bfloat16"] = "bfloat16"
    """Of the matmuls, by autocast; weights and optimiser stay fp32."""
    seed: int = 0
    checkpoint_every: int = 250
    keep_checkpoints: int = 2
    log_every: int = 10

    def __post_init__(self) -> None:
        for name in (
            "steps",
            "batch_size",
            "canvases_per_example",
            "checkpoint_every",
            "keep_checkpoints",
            "log_every",
        ):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.precision not in ("float32", "bfloat16"):
            raise ConfigError(f"precision {self.precision!r} does not exist; known: float32, bfloat16")
        if sum(width.share for width in self.narrow) > 1:
            raise ConfigError("the shares of narrow canvases sum to more than 1")
        if not 0 <= self.self_conditioning_probability <= 1:
            raise ConfigError(
                f"self_conditioning_probability must be in [0, 1], got {self.self_conditioning_probability}"
            )


@dataclass(frozen=True, slots=True)
class Recipe:
    """A complete training run: model, text, data, optimisation."""

    name: str
    model: ModelConfig
    generation: GenerationConfig
    train: TrainConfig
    tokenizer: Callable[[], tokenizers.Tokenizer]
    chat_template: str
    tokenizer_config: dict[str, str]
    data: Data
    start: Path | None = None
    """Checkpoint folder whose weights the run starts from; None draws random ones."""
