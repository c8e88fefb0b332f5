"""Defines the objective of a run whose tower learns from labelled pictures first."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.vision_tower import VisionModel
from gesso.train.config import Recipe
from gesso.train.objective import Objective
from gesso.train.optimizer import trainable
from gesso.train.picture_labels import LabelBatch, label_loss
from gesso.train.records import Evaluation, LabelRecord, Record


class LabelsFirst(Objective):
    """Teaches the tower by labels in the first steps of a run, and what another objective teaches behind them."""

    def __init__(self, recipe: Recipe, model: DiffusionGemma, vision: VisionModel, then: Objective) -> None:
        assert recipe.labels is not None
        self._labels, self._train = recipe.labels, recipe.train
        self._model, self._vision, self._then = model, vision, then
        self._began = False

    @property
    def root(self) -> nn.Module:
        return self._then.root

    def batches(self, first: int, last: int) -> Iterator[Any]:
        for step in range(first, min(last, self._labels.steps)):
            yield self._labels.batch(step)
        if last > self._labels.steps:
            yield from self._then.batches(max(first, self._labels.steps), last)

    def backward(self, batch: Any) -> tuple[Tensor, int]:
        if not isinstance(batch, LabelBatch):
            return self._then.backward(batch)
        device = self._vision.device
        with torch.autocast(device.type, torch.bfloat16, enabled=self._train.is_half(device.type)):
            loss, right = label_loss(self._model, self._vision, batch.to(device))
        loss.backward()
        self._give_state()
        return torch.stack((loss.detach(), right)).float().cpu(), batch.soft_tokens

    def _give_state(self) -> None:
        """Gives what labels do not reach a gradient of nothing, once: without any it would have no state in the
        optimiser, and a checkpoint without that could not be resumed."""
        if self._began:
            return
        self._began = True
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
