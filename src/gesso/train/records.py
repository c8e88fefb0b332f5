"""Defines what a run reports: records, the files they go to, and callbacks."""

import dataclasses
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gesso.errors import OptionError, TrainingError

METRICS, SAMPLES = "metrics.jsonl", "samples.jsonl"
Reason = Literal["steps", "within", "stop_at", "patience", "minutes", "interrupted"]


@dataclass(frozen=True, slots=True)
class Progress:
    """Says how far a run is."""

    step: int = 0
    """Steps done."""
    best_step: int | None = None
    """When the held-out loss was lowest."""
    best_loss: float | None = None
    worse: int = 0
    """Looks at the held-out loss since then."""
    seconds: float = 0.0
    """Seconds of training so far, of a run that has so many; else 0, so that its files tell nothing of the machine."""

    def looked_at(self, loss: float) -> "Progress":
        """Returns what comes of a look at the held-out loss."""
        if self.best_loss is None or loss < self.best_loss:
            return dataclasses.replace(self, best_loss=loss, best_step=self.step, worse=0)
        return dataclasses.replace(self, worse=self.worse + 1)

    def out_of(self, patience: int) -> bool:
        """Says whether as many looks as `patience` were no better than the best, if it is not 0."""
        return bool(patience) and self.worse >= patience


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
    """Seconds since this process started training."""

    @property
    def summary(self) -> str:
        """Returns a few words for people."""
        return f"loss {self.denoiser_loss or self.encoder_loss:.4f} {self.tokens_per_second:,.0f} tok/s"


@dataclass(frozen=True, slots=True)
class LabelRecord:
    """Holds one line of `metrics.jsonl` while a tower learns what is where in pictures: means since the line before."""

    step: int
    label_loss: float
    """Nats a word."""
    right: float
    """Share of the soft tokens whose likeliest word is right, of those where something stands."""
    learning_rate: float
    gradient_norm: float
    tokens_per_second: float
    """Soft tokens trained on."""
    seconds: float
    """Seconds since this process started training."""

    @property
    def summary(self) -> str:
        """Returns a few words for people."""
        return f"labels {self.label_loss:.4f} right {self.right:.1%}"


@dataclass(frozen=True, slots=True)
class PolicyRecord:
    """Holds one line of `metrics.jsonl` of a reinforcement run: means since the line before."""

    step: int
    reward: float
    """Reward of an answer."""
    right: float
    """Share of the answers whose reward is 1 or more."""
    mixed: float
    """Share of the groups whose answers got unlike rewards: the others teach nothing."""
    kl: float
    """Nats a drawn token by which the policy left the start, estimated over the answers that were replayed."""
    replay_error: float
    """Nats by which a draw's log-probability is another when it is replayed, on average: rounding."""
    denoising_steps: float
    """Steps that a canvas took."""
    learning_rate: float
    gradient_norm: float
    tokens_per_second: float
    """Tokens of canvases, counted at every step of theirs that was replayed."""
    seconds: float
    """Seconds since this process started training."""

    @property
    def summary(self) -> str:
        """Returns a few words for people."""
        return (
            f"reward {self.reward:.3f} right {self.right:.0%} mixed {self.mixed:.0%} {self.denoising_steps:.1f} steps"
        )


@dataclass(frozen=True, slots=True)
class EvaluationRecord:
    """Holds the losses on the held-out examples; also a line of `metrics.jsonl`."""

    step: int
    held_out_denoiser_loss: float
    held_out_encoder_loss: float
    best: bool
    """Whether the denoiser's loss is the lowest so far; where the causal pass learns alone, the encoder's."""

    @property
    def summary(self) -> str:
        """Returns a few words for people."""
        return f"held-out loss {self.held_out_denoiser_loss:.4f}, of the causal pass {self.held_out_encoder_loss:.4f}"


@dataclass(frozen=True, slots=True)
class CausalEvaluationRecord(EvaluationRecord):
    """Holds the same losses where the causal pass learns alone."""

    @property
    def summary(self) -> str:
        """Returns a few words for people."""
        return (
            f"held-out loss {self.held_out_encoder_loss:.4f}"
            f" (of the canvases, which do not learn: {self.held_out_denoiser_loss:.4f})"
        )


@dataclass(frozen=True, slots=True)
class PolicyEvaluation:
    """Holds the rewards of answers to the held-out prompts; also a line of `metrics.jsonl`."""

    step: int
    held_out_reward: float
    held_out_right: float
    held_out_denoising_steps: float
    """Steps that a canvas took."""
    best: bool
    """Whether the reward is the highest so far."""

    @property
    def summary(self) -> str:
        """Returns a few words for people."""
        return f"held-out reward {self.held_out_reward:.4f}, right {self.held_out_right:.1%}"


Record = StepRecord | LabelRecord | PolicyRecord
Evaluation = EvaluationRecord | PolicyEvaluation
_NO_SCALARS = ("step", "seconds", "best")


def scalars(record: Record | Evaluation) -> dict[str, float]:
    """Returns what of a record is worth a curve, by name."""
    return {name: value for name, value in dataclasses.asdict(record).items() if name not in _NO_SCALARS}


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

    def stepped(self, step: int, record: Record | None) -> None:
        """Is called after every step, with a record every `log_every` steps and at the end."""

    def evaluated(self, record: Evaluation) -> None:
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


def append_record(path: Path, record: Record | Evaluation | Sample) -> None:
    """Appends a line to a file of records.

    Raises:
        TrainingError: it cannot be written.
    """
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(dataclasses.asdict(record)) + "\n")
    except OSError as error:
        raise TrainingError(f"{path} cannot be written: {error}") from error


def truncate_records(path: Path, step: int) -> None:
    """Drops the lines of steps that will be run again.

    Raises:
        TrainingError: the file cannot be written anew.
    """
    if not path.exists():
        return
    lines = path.read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if _is_until(line, step)]
    if len(kept) < len(lines):
        partial = path.with_suffix(".partial")
        try:
            partial.write_bytes(b"".join(kept))
            os.replace(partial, path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise TrainingError(f"{path} cannot be written: {error}") from error


def check_records(path: Path) -> None:
    """Refuses a file in a run's place that no run wrote, before anything of it is dropped.

    Raises:
        OptionError: its first line is whole, and no record.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        first = file.readline()
    if first.endswith(b"\n") and not _is_until(first, sys.maxsize):
        message = f"{path} is there already, and is not of a run: name another folder"
        raise OptionError(message, option="out")


def _is_until(line: bytes, step: int) -> bool:
    """Says whether a line is whole and of a step up to `step`; a crash may leave half a line, or bytes of nothing."""
    try:
        number = json.loads(line)["step"]
    except (ValueError, TypeError, KeyError):
        return False
    return line.endswith(b"\n") and isinstance(number, int) and number <= step
