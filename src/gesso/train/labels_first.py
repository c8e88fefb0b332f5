"""Defines the objective of a run whose tower learns from labelled pictures first."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.train.objective import Objective
from gesso.train.optimizer import trainable
from gesso.train.picture_labels import LabelBatch, label_loss
from gesso.train.recipe import Recipe
from gesso.train.records import Evaluation, LabelRecord, Record
from gesso.train.vision import BatchImages


class LabelsFirst(Objective):
    """Teaches the tower by labels in the first steps of a run, and what another objective teaches behind them.

    In the first of those the tower rests, which takes a third of the work: what reads it learns first.
    """

    def __init__(self, recipe: Recipe, model: DiffusionGemma, images: BatchImages, then: Objective) -> None:
        assert recipe.labels is not None
        self._labels, self._train = recipe.labels, recipe.train
        self._model, self._images, self._vision, self._then = model, images, images.vision, then
        self._stateless = False

    @property
    def root(self) -> nn.Module:
        return self._then.root

    def batches(self, first: int, last: int) -> Iterator[Any]:
        self._stateless = first == 0
        for step in range(first, min(last, self._labels.steps)):
            yield self._labels.batch(step)
        begin, woken = max(first, self._labels.steps), self._labels.steps + self._labels.rest
        if last > begin:
            for step, batch in enumerate(self._then.batches(begin, last), start=begin):
                self._images.rests = step < woken
                yield batch

    def backward(self, batch: Any) -> tuple[Tensor, int]:
        measured = self._labels_backward(batch) if isinstance(batch, LabelBatch) else self._then.backward(batch)
        self._give_state()
        return measured

    def _labels_backward(self, batch: LabelBatch) -> tuple[Tensor, int]:
        device = self._vision.device
        with torch.autocast(device.type, torch.bfloat16, enabled=self._train.is_half(device.type)):
            loss, right = label_loss(self._model, self._vision, batch.to(device))
        loss.backward()
        return torch.stack((loss.detach(), right)).float().cpu(), batch.soft_tokens

    def _give_state(self) -> None:
        """Gives what a run's first step does not reach a gradient of nothing: without any it would have no state in the
        optimiser, and a checkpoint without that could not be resumed."""
        if not self._stateless:
            return
        self._stateless = False
        for _, parameter in trainable(self._model, self._vision):
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)

    def record(self, means: Sequence[float], **pace: Any) -> Record:
        if pace["step"] > self._labels.steps:
            return self._then.record(means, **pace)
        loss, right = means
        return LabelRecord(label_loss=round(loss, 5), right=round(right, 5), **pace)

    def evaluate(self) -> Sequence[float]:
        return self._then.evaluate()

    def evaluation(self, measures: Sequence[float], *, step: int, best: bool) -> Evaluation:
        return self._then.evaluation(measures, step=step, best=best)
