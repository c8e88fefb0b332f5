"""Trains a model on new examples and holds it to what a teacher says on others: learning without forgetting
(arXiv 1606.09282), token by token.

The loss is the mean over the answers' tokens of KL(teacher || student) in examples that are marked as retained, and of
the cross-entropy in the others. Where the student still is the teacher a retained example has no gradient, so a small
batch of it adds no noise, as its answer's own tokens would.

    N encoder tokens of all examples laid flat   n some of them   D hidden   V vocabulary
"""

from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.loading import load_folder
from gesso.train.batch import IGNORED, Batch
from gesso.train.config import TrainConfig
from gesso.train.distributed import ProcessGroup
from gesso.train.encoder_rows import TokenRows
from gesso.train.forward import encode
from gesso.train.step import LossModule


@torch.no_grad()
def log_probabilities(teacher: DiffusionGemma, rows: TokenRows, inside_N: Tensor) -> Tensor:
    """Returns what a model says behind the tokens `inside_N` (bool), [n, V]."""
    hidden_ND = encode(teacher, rows).hidden_ND
    return teacher.vocabulary.logits(hidden_ND[inside_N]).float().log_softmax(dim=-1)


class RetentionLoss(LossModule):
    """Computes the causal pass's loss, of retained examples the divergence from a teacher."""

    def __init__(self, teacher: Path, model: DiffusionGemma, config: TrainConfig, group: ProcessGroup) -> None:
        super().__init__(model, config, group)
        loaded = load_folder(teacher, str(group.device), "float32").eval().requires_grad_(False)
        # In a function, no module of this one: it is not trained, and not saved.
        self.taught = partial(log_probabilities, loaded)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Returns zero, for there is no denoiser's loss, and the mean over the targets, nats a token."""
        if not self.training or not any(batch.retained):
            return super().forward(batch)
        config, model, device = self.config, self.model, batch.tokens_N.device.type
        targets_N = batch.targets_N
        inside_N = targets_N != IGNORED
        retained_N = torch.tensor(batch.retained).repeat_interleave(torch.tensor(batch.lengths)).to(inside_N.device)
        rows = zip(batch.tokens_N.split(batch.lengths), batch.retained, strict=True)
        lengths = zip(batch.lengths, batch.retained, strict=True)
        tokens_N = torch.cat([row for row, kept in rows if kept])
        heard = TokenRows(tokens_N, tuple(length for length, kept in lengths if kept))
        with torch.autocast(device, torch.bfloat16, enabled=config.is_half(device)):
            taught_nV = self.taught(heard, inside_N[retained_N])
            # Copies of weights that autocast made without a gradient must not serve the pass that has one.
            torch.clear_autocast_cache()
            hidden_ND = encode(model, batch, checkpointing=config.gradient_checkpointing).hidden_ND
            said_nV = model.vocabulary.logits(hidden_ND[inside_N & retained_N]).float().log_softmax(dim=-1)
            loss = F.kl_div(said_nV, taught_nV, reduction="sum", log_target=True)
            new_N = inside_N & ~retained_N
            if new_N.any():
                loss = loss + model.vocabulary.cross_entropy(hidden_ND[new_N], targets_N[new_N]) * new_N.sum()
        return torch.zeros((), device=loss.device), loss / inside_N.sum()
