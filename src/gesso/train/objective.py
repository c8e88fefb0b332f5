"""Defines what a step minimises, which is all that kinds of training differ in, and the released objective.

The trainer owns what they share: model, optimiser, schedule, checkpoints, records. An objective gives it a step's
batch, adds the batch's gradients to the parameters, and evaluates on what is held out.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.train.batch import Batch
from gesso.train.distill import ConsistencyLoss
from gesso.train.distributed import ProcessGroup
from gesso.train.held_out import held_out_losses
from gesso.train.on_policy import OnPolicyLoss
from gesso.train.prefetch import prefetched_batches
from gesso.train.recipe import Recipe
from gesso.train.records import CausalEvaluationRecord, Evaluation, EvaluationRecord, Record, StepRecord
from gesso.train.retention import RetentionLoss
from gesso.train.step import LossModule, micro_batches
from gesso.train.vision import BatchImages


class Objective(Protocol):
    """Says what a step minimises. What it draws is a function of the seed and the step alone."""

    @property
    def root(self) -> nn.Module:
        """Returns the module that holds all that is trained, which FSDP wraps."""

    def batches(self, first: int, last: int) -> Iterator[Any]:
        """Yields the batches of steps `first` (from 0) to `last`, the end left out."""

    def backward(self, batch: Any) -> tuple[Tensor, int]:
        """Adds the gradients of a batch to those of the parameters; returns what was measured, fp32 [m] on any device,
        and the tokens trained on."""

    def record(self, means: Sequence[float], **pace: Any) -> Record:
        """Makes a record of the means of what `backward` measured; `pace` are the fields that all records have."""

    def evaluate(self) -> Sequence[float]:
        """Evaluates on what is held out; the first number decides what is best, and less is better."""

    def evaluation(self, measures: Sequence[float], *, step: int, best: bool) -> Evaluation:
        """Makes a record of what `evaluate` returned."""


class DenoisingObjective(Objective):
    """Minimises the released two-pass loss, the loss of the model's own steps, or a student's divergence from its
    teacher."""

    def __init__(
        self, recipe: Recipe, model: DiffusionGemma, group: ProcessGroup, images: BatchImages | None = None
    ) -> None:
        self._recipe, self._group = recipe, group
        self._denoises = recipe.train.denoiser_loss_weight > 0
        if recipe.distill is not None:
            self._losses: LossModule = ConsistencyLoss(recipe, model, group)
        elif recipe.teacher is not None:
            self._losses = RetentionLoss(recipe.teacher, model, recipe.train, group)
        elif recipe.train.on_policy:
            self._losses = OnPolicyLoss(recipe, model, group, images)
        else:
            self._losses = LossModule(model, recipe.train, group, images)

    @property
    def root(self) -> nn.Module:
        return self._losses

    def batches(self, first: int, last: int) -> Iterator[Batch]:
        return prefetched_batches(self._recipe, first, last)

    def backward(self, batch: Batch) -> tuple[Tensor, int]:
        config, group = self._recipe.train, self._group
        sums = torch.zeros(2, device=group.device)
        for part, canvas_share, target_share in micro_batches(batch, group, config.micro_batch_size):
            denoiser, encoder = self._losses(part.to(group.device))
            denoiser, encoder = denoiser * canvas_share, encoder * target_share
            # FSDP averages gradients over the processes where the loss is a sum.
            loss = config.denoiser_loss_weight * denoiser + config.encoder_loss_weight * encoder
            (loss * group.size).backward()
            sums = sums + torch.stack((denoiser.detach(), encoder.detach())).float()
        tokens = batch.tokens_N.numel() + (0 if batch.causal else batch.canvas_tokens)
        return group.all_reduce_sum(sums), tokens

    def record(self, means: Sequence[float], **pace: Any) -> StepRecord:
        denoiser, encoder = means
        return StepRecord(denoiser_loss=round(denoiser, 5), encoder_loss=round(encoder, 5), **pace)

    def evaluate(self) -> tuple[float, float]:
        denoiser, encoder = held_out_losses(self._recipe, self._losses, self._group)
        return (denoiser, encoder) if self._denoises else (encoder, denoiser)

    def evaluation(self, measures: Sequence[float], *, step: int, best: bool) -> EvaluationRecord:
        denoiser, encoder = measures if self._denoises else reversed(measures)
        kind = EvaluationRecord if self._denoises else CausalEvaluationRecord
        return kind(step, round(denoiser, 5), round(encoder, 5), best)
