"""A tiny recipe, and what the tests of the training loop ask of its runs."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import tokenizers
import torch
from oracle import Shape, random_model
from safetensors.torch import load_file

from gesso.config import LoraConfig
from gesso.errors import DataError, GessoError
from gesso.generation import GenerationConfig
from gesso.models.saving import save_folder
from gesso.train import trainer
from gesso.train.batch import Conversation
from gesso.train.checkpoint import OPTIMIZER
from gesso.train.config import TrainConfig
from gesso.train.recipe import Recipe
from gesso.train.records import EvaluationRecord, Sample, TrainingCallback
from gesso.train.text_files import NewText


def train(tiny: Recipe, out: Path, **options: Any) -> Path:
    """The newest checkpoint of a run."""
    return trainer.train(tiny, out, **options).last


SHAPE = Shape(layers="sf", vocab=40, hidden=32, mlp=48, window=6, canvas=8, experts=3, top_k=1, expert_size=16)


class Fixed:
    """The same few conversations at every step, in another order each."""

    def __init__(self, examples: int = 8) -> None:
        generator = torch.Generator().manual_seed(0)
        rows = torch.randint(2, SHAPE.vocab, (examples, 14), generator=generator).tolist()
        self.conversations = [Conversation([2 + i, *row[:3]], row[3 : 8 + i % 6]) for i, row in enumerate(rows)]

    fingerprint = "fixed"

    def evaluation(self, limit: int) -> list[Conversation]:
        return self.conversations[:limit]

    def batch(self, step: int, size: int, *_: Any) -> list[Conversation]:
        order = torch.randperm(len(self.conversations), generator=torch.Generator().manual_seed(step))
        return [self.conversations[int(order[i % len(order)])] for i in range(size)]


def tokenizer() -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, unk_token="a"))


def recipe(**changes: Any) -> Recipe:
    config: dict[str, Any] = {
        "steps": 12,
        "batch_size": 6,
        "learning_rate": 5e-3,
        "warmup_steps": 3,
        "precision": "float32",
        "checkpoint_every": 5,
        "log_every": 1,
    }
    return Recipe(
        name="tiny",
        model=SHAPE.config(),
        generation=GenerationConfig(max_denoising_steps=9),
        train=TrainConfig(**(config | changes)),
        text=NewText(tokenizer, "{{ messages }}", {"eos_token": "<eos>"}),
        data=Fixed(),
    )


def wide_recipe(**changes: Any) -> Recipe:
    """With a table of 16,384 numbers: an optimiser in 8 bits leaves tensors of less than 4,096 as they are."""
    return replace(recipe(**changes), model=replace(SHAPE, vocab=512).config())


def adapter_recipe(start: Path, quantize: Any = None, **changes: Any) -> Recipe:
    """A tiny run that trains deltas over the checkpoint in `start`, which is written when it is not there."""
    if not start.exists():
        save_folder(random_model(SHAPE, seed=3), start)
    deltas = LoraConfig(rank=4, alpha=8.0, targets=("*",), dropout=changes.pop("dropout", 0.0))
    return replace(recipe(**changes), start=start, adapter=deltas, quantize=quantize, base="tiny")


def go_on(out: str, make: str, changes: dict[str, Any], stop_at: int | None = None) -> None:
    """Trains, or goes on training, what the function `make` of this module gives; for processes of a run."""
    start = [Path(out).parent / "start"] if make == adapter_recipe.__name__ else []
    train(globals()[make](*start, **changes), Path(out), device="cpu", stop_at=stop_at)


class FailingInOne(Fixed):
    """Cannot be read at a step, in the second process alone."""

    def batch(self, step: int, size: int, *_: Any) -> list[Conversation]:
        if step == 7 and os.environ["RANK"] == "1":
            raise DataError("it has changed")
        return super().batch(step, size)


STEADY: dict[str, Any] = {"learning_rate": 1e-3}
"""A rate at which the order of a sum, which depends on the number of processes, makes no other run."""


def lose_data(out: str) -> None:
    """Trains on data that the second process cannot read at step 7; each process writes beside `out` how its run
    ended."""
    try:
        train(replace(recipe(**STEADY), data=FailingInOne()), Path(out), device="cpu")
    except GessoError as error:
        Path(f"{out}.{os.environ['RANK']}").write_text(str(error), encoding="utf-8")


def metrics(out: Path) -> dict[int, dict[str, float]]:
    lines = (out / "metrics.jsonl").read_text("utf-8").splitlines()
    return {record["step"]: record for record in map(json.loads, lines) if "seconds" in record}


def losses_of(out: Path) -> dict[int, tuple[float, float, float]]:
    return {
        step: (record["denoiser_loss"], record["encoder_loss"], record["gradient_norm"])
        for step, record in metrics(out).items()
    }


def same_files(a: Path, b: Path) -> bool:
    """Weights and optimiser state, bit by bit."""
    for name in ("model.safetensors", OPTIMIZER):
        left, right = load_file(a / name), load_file(b / name)
        if left.keys() != right.keys() or not all(torch.equal(left[key], right[key]) for key in left):
            return False
    return True


class Cut(Exception):
    """A run that is killed."""


class CutAt(TrainingCallback):
    """Kills the run after a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def stepped(self, step: int, record: object) -> None:
        if step == self.step:
            raise Cut


class Told(TrainingCallback):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, bool]] = []
        self.looks: list[EvaluationRecord] = []
        self.samples: list[Sample] = []
        self.warnings: list[str] = []

    def stepped(self, step: int, record: object) -> None:
        self.steps.append((step, record is not None))

    def evaluated(self, record: EvaluationRecord) -> None:
        self.looks.append(record)

    def sampled(self, sample: Sample) -> None:
        self.samples.append(sample)

    def warned(self, message: str) -> None:
        self.warnings.append(message)
