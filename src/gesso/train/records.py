"""Defines what a run reports: records, the files they go to, and callbacks."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

METRICS, SAMPLES = "metrics.jsonl", "samples.jsonl"
Reason = Literal["steps", "stop_at", "patience", "minutes", "interrupted"]


@dataclass(frozen=True, slots=True)
class StepRecord:
    """Holds one line of `metrics.jsonl`: means since the line before."""

    step: int
    denoiser_loss: float
    encoder_loss: float
    learning_rate: float
    gradient_norm: float
    tokens_per_second: float
    """Canvas and encoder tokens trained on."""
    seconds: float
    """Since this process started training."""


@dataclass(frozen=True, slots=True)
class EvaluationRecord:
    """Holds the losses on the held-out examples; also a line of `metrics.jsonl`."""

    step: int
    held_out_denoiser_loss: float
    held_out_encoder_loss: float
    best: bool
    """Whether the denoiser's loss is the lowest so far."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Holds an answer to one of the fixed prompts; a line of `samples.jsonl`."""

    step: int
    prompt: str
    text: str
    denoising_steps: tuple[int, ...]


class TrainingCallback:
    """Is called as a run goes on; every method may be overridden. Only the main process of a group calls it."""

    def started(self, step: int, last: int, trainable: int) -> None:
        """Is called before the first step: steps done already, the last step, and how many numbers are trained."""

    def stepped(self, step: int, record: StepRecord | None) -> None:
        """Is called after every step, with a record every `log_every` steps."""

    def evaluated(self, record: EvaluationRecord) -> None:
        """Is called after every evaluation of the held-out examples."""

    def sampled(self, sample: Sample) -> None:
        """Is called for every answer to a fixed prompt."""

    def warned(self, message: str) -> None:
        """Is called where something is wrong that the run survives."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Holds what a run left behind."""

    last: Path
    """The newest checkpoint."""
    best: Path | None
    """The one of the lowest held-out loss, where that is looked at and its checkpoint is kept."""
    reason: Reason
    """Why it ended."""


def truncate_records(path: Path, step: int) -> None:
    """Drops the lines of steps that will be run again."""
    if not path.exists():
        return
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= step]
    if len(kept) < len(lines):
        partial = path.with_suffix(".partial")
        partial.write_text("".join(kept), encoding="utf-8")
        os.replace(partial, path)
