"""Trains a model to say at a noise level what its teacher says further on: discrete consistency distillation for
uniform noise (Duo, arXiv 2506.10892), so that it needs fewer steps.

A clean canvas x is corrupted twice, to time t and to an earlier time s = t - jump, on one path: whoever is noise at s
is the same noise at t. That is the joint law of Duo's pairs, the arg max of a Gaussian path that keeps its noise
(test_distill.py compares the two). The loss is the mean over positions of

    KL(teacher(z_s) || student(z_t))

where the teacher is the model that the run starts from. Ours condition on their last prediction: the teacher takes the
step from z_t to z_s itself, so what it says at z_s is conditioned on what it said at z_t. A further run from the
result, with twice the jump, is Duo's next round.

    B canvases   C canvas length   N = B C   V vocabulary
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from gesso.errors import OptionError
from gesso.models.adapters import without_adapter
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.train.batch import Batch
from gesso.train.distributed import ProcessGroup
from gesso.train.forward import Encoded, denoise, encode
from gesso.train.recipe import Recipe
from gesso.train.step import LossModule, start_model
from gesso.train.two_pass import first_passes, logit_rows, mixed_embeddings


@dataclass(frozen=True, slots=True)
class Teacher:
    """Holds the model that a run starts from; with fresh deltas it is the student without them."""

    model: DiffusionGemma
    shares_weights: bool

    @torch.no_grad()
    def targets(self, batch: Batch) -> Tensor:
        """Returns the hidden states [N, D] whose prediction the student is trained on."""
        if self.shares_weights:
            with without_adapter(self.model):
                return self._targets(batch)
        return self._targets(batch)

    def _targets(self, batch: Batch) -> Tensor:
        assert batch.ahead_BC is not None
        encoded = encode(self.model, batch).repeat(batch.canvases_per_example)
        noisy_BC, before_BCD = first_passes(self.model, batch, encoded, uniform=False)
        hidden_ND = denoise(self.model, noisy_BC, batch.starts_B, encoded, before_BCD.flatten(0, 1))
        said_ND = mixed_embeddings(self.model, hidden_ND).to(hidden_ND.dtype)
        return denoise(self.model, batch.ahead_BC, batch.starts_B, encoded, said_ND)


class ConsistencyLoss(LossModule):
    """Computes the divergence of a student from its teacher in the place of the denoiser's cross-entropy."""

    def __init__(self, recipe: Recipe, model: DiffusionGemma, group: ProcessGroup) -> None:
        """
        Raises:
            OptionError: several processes.
        """
        if group.size > 1:
            raise OptionError("distillation holds a whole teacher and runs in one process: start it without torchrun")
        super().__init__(model, recipe.train, group)
        if recipe.adapter is None or recipe.adapter_start is not None:
            start = start_model(recipe, group.device).eval().requires_grad_(False)
            teacher = Teacher(start, shares_weights=False)
        else:
            teacher = Teacher(model, shares_weights=True)
        # No module of this one: it is not trained, and not saved.
        self.teacher = teacher

    def canvas_loss(self, batch: Batch, encoded: Encoded) -> Tensor:
        """Returns the mean divergence, nats a token."""
        model = self.model
        # Before the first passes, which let go the copies of weights that autocast made without a gradient.
        taught_ND = self.teacher.targets(batch)
        noisy_BC, before_BCD = first_passes(model, batch, encoded, uniform=False)
        hidden_ND = denoise(
            model,
            noisy_BC,
            batch.starts_B,
            encoded,
            before_BCD.flatten(0, 1),
            checkpointing=self.config.gradient_checkpointing,
        )
        rows = logit_rows(model.config)
        pieces = zip(taught_ND.split(rows), hidden_ND.split(rows), strict=True)
        parts = [checkpoint(divergence, self.teacher.model, model, *piece, use_reentrant=False) for piece in pieces]
        return torch.stack(parts).sum() / len(hidden_ND)


def divergence(teacher: DiffusionGemma, student: DiffusionGemma, taught_nD: Tensor, hidden_nD: Tensor) -> Tensor:
    """Returns the sum over positions of KL(teacher || student), nats, of hidden states of both."""
    with torch.no_grad():
        target_nV = teacher.vocabulary.logits(taught_nD).log_softmax(dim=-1)
    found_nV = student.vocabulary.logits(hidden_nD).log_softmax(dim=-1)
    return F.kl_div(found_nV, target_nV, reduction="sum", log_target=True)
