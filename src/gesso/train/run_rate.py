"""Says which learning rate a run takes where none is given: that of the run that it goes on from, or a default by the
model's size."""

from contextlib import suppress
from pathlib import Path

import torch

from gesso.config import ModelConfig
from gesso.errors import CheckpointError
from gesso.json_files import read_json
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.train.checkpoint import RATE, STATE, checkpoints

SMALL = 30_000_000
"""Parameters below which a model takes rates of its own: at the others it learns next to nothing in a short run."""


def is_small(model: ModelConfig) -> bool:
    """Says whether a model takes the rates of small ones."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in DiffusionGemma(model).parameters()) < SMALL


def rate_of_checkpoints(out: Path) -> float | None:
    """Returns the highest learning rate of the run in `out`, as its newest checkpoint that can be read has it; None
    where none says it."""
    for folder in reversed(checkpoints(out)):
        with suppress(CheckpointError):  # a damaged one is passed over
            rate = read_json(folder / STATE).get(RATE)
            return rate if isinstance(rate, float) and rate > 0 else None
    return None


def rate_of_run(out: Path, before: float) -> tuple[float | None, str]:
    """Returns the learning rate that a run takes where none is given, and what it is, for people: that of the
    checkpoint which it goes on from, or None for the default.

    Args:
        before: the default of a time when models of all sizes had one, which checkpoints that name none are of.
    """
    if checkpoints(out):
        if rate := rate_of_checkpoints(out):
            return rate, "that of the run so far"
        return before, "the default when this run began, which does not say its own"
    return None, "the default for a model of this size"
